"""Requests that devices protect themselves (OSCORE, RFC 8613), without a socket."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from aiocoap.numbers.codes import Code
from hypothesis import given, settings
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.blocks import DEFAULT_LIMITS
from coap_engine.engine import Engine
from coap_engine.message import CoapRequest, CoapResponse, RequestReceived
from gateway.base import replaced_file
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import COPY, STEP, SenderNumbers
from tests.unit.gateway.oscore_world import OSCORE, PEER, SALT, SECRET, THERMOMETER, World


def refused(response: CoapResponse) -> tuple[int, bytes]:
    assert (option_numbers.MAX_AGE, b"") in response.options  # RFC 8613, section 8.2
    return response.code, response.payload


def test_rfc8613_c4_and_c7_the_vectors_of_a_request_and_its_response() -> None:
    """The vectors go through the engine as datagrams: a request without Echo, and its answer."""
    keys = OscoreKeys("c1", SECRET, b"\x01", b"", SALT)
    world = World(keys)
    world.context.recipient_replay_window.initialize_empty()
    engine = Engine(secrets.token_bytes)
    request = "44025d1f00003974396c6f63616c686f7374620914ff612f1092f1776f1c1668b3825e"
    engine.receive_datagram(bytes.fromhex(request), PEER, 0.0)
    (asked,) = engine.events()
    assert isinstance(asked, RequestReceived)
    answer = world.answers.asked(asked, 0.0, lambda *_: None, lambda *_: None)
    assert answer is not None
    engine.respond(asked.exchange, *answer[:1], 0.0, is_last=True)
    ((datagram, _),) = engine.datagrams_to_send()
    assert datagram.hex() == ("64445d1f0000397490ffdbaad1e9a7e7b2a813d3c31524378303cdafae119106")
    ((principal, inner),) = world.resource.asked_for
    assert principal == "oscore:c1"
    assert (inner.code, inner.options) == (codes.GET, ((option_numbers.URI_PATH, b"tv1"),))


def test_after_a_start_a_device_shows_that_its_first_request_is_new() -> None:
    world = World()
    first = world.ask(uri_path=("tv1",))
    assert (first.code, world.resource.asked_for) == (Code.UNAUTHORIZED, [])
    assert world.ask(uri_path=("tv1",), echo=first.opt.echo).payload == b"Hello World!"
    assert world.ask(uri_path=("tv1",)).payload == b"Hello World!"
    ((principal, request), _) = world.resource.asked_for
    assert principal == "oscore:thermometer"
    assert request.is_fresh


def test_what_was_sent_before_a_start_is_not_taken_after_it() -> None:
    world = World()
    world.begin()
    request, _ = world.protect(Code.PUT, uri_path=("valve",), payload=b"1")
    assert world.send(request).code == codes.CHANGED
    again = World()  # the gateway has started anew
    assert again.send(request).code == codes.CHANGED  # protected: the Echo that it asks for
    assert again.resource.asked_for == []


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_each_request_is_served_once_in_whatever_order_copies_come(data: st.DataObject) -> None:
    world = World()
    world.begin()
    requests = [world.protect(Code.PUT, payload=bytes([n]))[0] for n in range(6)]
    for index in data.draw(st.lists(st.integers(0, 5), max_size=20)):
        world.send(requests[index])
    served = [request.payload for _, request in world.resource.asked_for]
    assert len(served) == len(set(served))


def test_a_copy_is_refused_by_name_of_what_it_is() -> None:
    world = World()
    world.begin()
    request, _ = world.protect()
    world.send(request)
    assert refused(world.send(request)) == (codes.UNAUTHORIZED, b"Replay detected")


def test_an_unknown_kid_is_told_so() -> None:
    world = World()
    option = b"\x09\x00" + b"\x77"
    request = CoapRequest(codes.POST, ((OSCORE, option),), b"x" * 20)
    assert refused(world.send(request)) == (codes.UNAUTHORIZED, b"Security context not found")


@pytest.mark.parametrize("length", [0, 6, 7])
def test_a_number_that_is_missing_or_of_a_reserved_length_is_no_cose(length: int) -> None:
    world = World()
    world.begin()
    request, _ = world.protect()
    ((_, value),) = request.options
    # RFC 8613 section 6.1: the lowest three bits say how long the Partial IV is, of 1 to 5 bytes.
    kid = value[1 + (value[0] & 7) :]
    option = bytes((value[0] & ~7 | length,)) + bytes(length) + kid
    found = world.send(CoapRequest(codes.POST, ((OSCORE, option),), request.payload))
    assert refused(found) == (codes.BAD_OPTION, b"Failed to decode COSE")


@pytest.mark.parametrize(
    ("flags", "code", "why"),
    [
        (0x20, codes.BAD_OPTION, b"Failed to decode COSE"),  # of a group
        (0x40, codes.BAD_OPTION, b"Failed to decode COSE"),
        (0x80, codes.BAD_OPTION, b"Failed to decode COSE"),
        (0x10, codes.UNAUTHORIZED, b"Security context not found"),  # with a context of its own
    ],
)
def test_flags_that_a_device_s_context_does_not_have_are_refused(
    flags: int, code: int, why: bytes
) -> None:
    world = World()
    world.begin()
    request, _ = world.protect()
    ((_, value),) = request.options
    flagged = bytes((value[0] | flags,)) + value[1:2] + b"\x00" * (flags == 0x10) + value[2:]
    refusal = world.send(CoapRequest(request.code, ((OSCORE, flagged),), request.payload))
    assert refused(refusal) == (code, why)
    assert world.resource.asked_for == []
    assert world.send(request).code == codes.CHANGED, "its number is not used up"


def test_another_key_and_changed_bytes_do_not_open() -> None:
    world, other = World(), World(OscoreKeys("t", b"z" * 16, b"\x01", b"\x02", SALT))
    request, _ = other.protect()
    assert refused(world.send(request)) == (codes.BAD_REQUEST, b"Decryption failed")
    request, _ = world.protect()
    for at in range(len(request.payload)):
        changed = bytearray(request.payload)
        changed[at] ^= 1
        broken = CoapRequest(request.code, request.options, bytes(changed))
        assert refused(world.send(broken)) == (codes.BAD_REQUEST, b"Decryption failed")
    assert world.resource.asked_for == []


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=30), st.binary(max_size=40), st.sampled_from([1, 2, 3, 4, 5]))
def test_any_bytes_are_refused_and_nothing_is_raised(
    option: bytes, payload: bytes, code: int
) -> None:
    world = World()
    response = world.send(CoapRequest(code, ((OSCORE, option),), payload))
    assert response.code >= 0x80
    assert world.resource.asked_for == []


def test_a_long_answer_and_a_long_request_travel_in_blocks_inside() -> None:
    world = World(answer=b"0123456789" * 130)
    world.begin()
    got, number = b"", 0
    while True:
        answer = world.ask(uri_path=("long",), block2=(number, False, 5))
        got += answer.payload
        if not answer.opt.block2.more:
            break
        number += 1
    assert got == b"0123456789" * 130
    world.resource.asked_for.clear()
    assert (
        world.ask(Code.PUT, uri_path=("p",), payload=b"a" * 16, block1=(0, True, 0)).code
        == Code.CONTINUE
    )
    last = world.ask(Code.PUT, uri_path=("p",), payload=b"b" * 4, block1=(1, False, 0))
    assert last.opt.block1.block_number == 1
    again = world.ask(Code.PUT, uri_path=("p",), payload=b"b" * 4, block1=(1, False, 0))
    assert (again.code, again.opt.block1) == (last.code, last.opt.block1)
    ((_, request),) = world.resource.asked_for
    assert request.payload == b"a" * 16 + b"b" * 4


@pytest.mark.parametrize(
    ("inside", "number"),
    [(b"\x34gw-b", 3), (b"\x72\x16\x33", 7), (b"\xd4\x16coap", 35), (b"\xd4\x1acoap", 39)],
)
def test_what_says_who_is_to_answer_is_not_taken_from_inside(inside: bytes, number: int) -> None:
    """RFC 8613, section 4.1.3.2: Uri-Host, Uri-Port, Proxy-Uri and Proxy-Scheme are outside."""
    world = World()
    world.begin()
    split = world.device._split_message
    world.device._split_message = lambda *asked: (split(*asked)[0], b"\x03" + inside)
    request, request_id = world.protect(Code.PUT)
    answer = world.open(world.send(request), request_id)
    said = f"option {number} can't be protected".encode()
    assert (answer.code, answer.payload) == (Code.BAD_OPTION, said)
    assert world.resource.asked_for == []


@pytest.mark.parametrize("code", [Code.PUT, Code.POST, Code.DELETE])
def test_a_write_is_observed_by_nobody(code: Code) -> None:
    """RFC 7641, section 2: else it would be carried out again at each change."""
    world = World()
    world.begin()
    plain, observed = world.protect(code, uri_path=("valve",)), world.protect(code, observe=0)
    for request, request_id in (plain, observed):
        answer = world.open(world.send(request), request_id)
        assert answer.opt.observe is None
    assert [request.observe for _, request in world.resource.asked_for] == [False, False]


def test_notifications_have_numbers_of_their_own_and_only_the_device_reads_them() -> None:
    world = World()
    world.begin()
    request, request_id = world.protect(observe=0)
    assert request.observe
    first = world.open(world.send(request), request_id)
    assert (first.payload, first.opt.observe) == (b"Hello World!", 0)
    assert world.resource.tell is not None
    for value in (b"1", b"2"):
        world.resource.tell(1, CoapResponse(codes.CONTENT, (), value), False)
    assert [world.open(response, request_id).payload for response in world.told] == [b"1", b"2"]
    assert len({value for response in world.told for _, value in response.options}) == 2


def test_the_blocks_of_a_long_notification_are_there_when_they_are_asked_for() -> None:
    world = World(answer=b"short")
    world.begin()
    request, request_id = world.protect(observe=0, uri_path=("long",))
    world.send(request)
    world.clock.now_s = 1_000.0
    assert world.resource.tell is not None
    world.resource.tell(2, CoapResponse(codes.CONTENT, (), b"x" * 600), False)
    (told,) = world.told
    first = world.open(told, request_id)
    assert first.opt.block2.more
    second = world.ask(uri_path=("long",), block2=(1, False, 5))
    assert (second.opt.block2.more, len(second.payload)) == (False, 88)


def test_a_number_is_on_the_disk_before_it_is_used_and_none_comes_again(tmp_path: Path) -> None:
    path, used = tmp_path / "numbers", set[int]()
    for _ in range(5):  # each start ends with a kill
        numbers = SenderNumbers(path, ["t"], lambda _: 0)
        context = OscoreContext(THERMOMETER.__class__("t", SECRET, b"\x01", b"\x02"), numbers, b"e")
        for _ in range(5_000):
            number = context.new_sequence_number()
            assert number not in used
            used.add(number)


def test_a_device_that_was_taken_out_and_comes_back_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    first = SenderNumbers(path, ["t"], lambda _: 7).first("t")
    SenderNumbers(path, [], lambda _: 7)
    assert SenderNumbers(path, ["t"], lambda _: 7).first("t") > first + 4_000


def test_numbers_that_can_not_be_read_are_not_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text('{"t": "many"}')
    with pytest.raises(ValueError, match="no sequence numbers"):
        SenderNumbers(path, ["t"], lambda _: 0)


def test_secrets_are_not_shown() -> None:
    world = World()
    assert SECRET.hex() not in repr(world.context) + repr(THERMOMETER)
    assert str(SECRET) not in repr(THERMOMETER)


def test_what_is_open_of_a_device_that_is_taken_out_ends_and_it_is_unknown() -> None:
    world = World()
    world.begin()
    request, _ = world.protect(observe=0)
    world.send(request)
    world.answers.follow({THERMOMETER.known_by: world.context})
    assert world.told == []
    world.answers.follow({})
    (told,) = world.told
    unknown = (codes.UNAUTHORIZED, b"Security context not found")
    assert refused(told) == refused(world.send(world.protect()[0])) == unknown


def other(name: str, secret: bytes = SECRET, recipient_id: bytes = b"\x02") -> OscoreKeys:
    return OscoreKeys(name, secret, b"\x01", recipient_id, SALT)


def test_a_context_whose_keys_stay_goes_on_and_one_that_comes_back_uses_no_number_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)  # no luck helps
    devices = OscoreDevices(tmp_path)
    devices.contexts = devices.contexts_of([THERMOMETER])
    (first,) = devices.contexts.values()
    devices.contexts = devices.contexts_of([THERMOMETER, other("valve", bytes(16), b"\x03")])
    assert devices.contexts[THERMOMETER.known_by] is first
    used = first.sender_sequence_number + 3 * STEP
    while first.sender_sequence_number < used:
        first.new_sequence_number()
    devices.contexts = devices.contexts_of([])
    assert not devices.contexts
    devices.contexts = devices.contexts_of([THERMOMETER])
    (again,) = devices.contexts.values()
    assert again is not first and again.sender_sequence_number >= used
    devices.contexts = devices.contexts_of([other("renamed")])  # the same keys
    (renamed,) = devices.contexts.values()
    assert renamed.sender_sequence_number >= again.sender_sequence_number + STEP


def test_numbers_that_cannot_be_kept_leave_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = OscoreDevices(tmp_path)
    devices.contexts = devices.contexts_of([THERMOMETER])
    before = devices.contexts

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replaced_file, "replace", full)
    with pytest.raises(OSError, match="No space"):
        devices.contexts = devices.contexts_of([other("valve", recipient_id=b"\x03")])
    assert devices.contexts is before


def test_a_body_that_a_device_leaves_unfinished_is_given_back_without_another_request() -> None:
    world = World(answer=b"x" * 2_000)
    world.begin()
    begun = world.ask(Code.PUT, uri_path=("p",), payload=b"a" * 16, block1=(0, True, 0))
    assert begun.code == Code.CONTINUE
    assert world.ask(uri_path=("long",)).opt.block2.more
    assert world.shares.held_bytes.held > 0
    for _ in range(2):  # the timer rings for the first that is due, and is set anew
        world.clock.pass_s(DEFAULT_LIMITS.assembly_s)
    assert world.shares.held_bytes.held == 0


@pytest.mark.parametrize("kept", ["numbers", "numbers.copy"])
def test_one_of_both_files_is_enough_to_go_on_and_that_the_other_is_missing_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: str
) -> None:
    path = tmp_path / "numbers"
    names = {each.name for each in (path, path.with_name(path.name + COPY))}
    first = SenderNumbers(path, ["t"], lambda _: 0).first("t")
    if kept != "numbers":
        kept = path.name + COPY
    (gone,) = names - {kept}
    (tmp_path / gone).unlink()
    assert SenderNumbers(path, ["t"], lambda _: 0).first("t") > first
    assert f"{tmp_path / gone}: missing, and it was there" in caplog.text
    assert {each.name for each in tmp_path.iterdir()} == names


def test_what_nobody_foresaw_is_answered_as_a_failure_inside() -> None:
    world = World()
    world.begin()

    def fails(*_: object) -> tuple[CoapResponse, bool]:
        raise ZeroDivisionError("no resource")

    world.resource.asked = fails  # type: ignore[method-assign]  # what answers may raise
    assert world.ask().code == Code.INTERNAL_SERVER_ERROR

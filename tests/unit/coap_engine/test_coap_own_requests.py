"""Requests of the engine itself, as the peer that is asked sees them."""

from __future__ import annotations

import dataclasses

import pytest

from coap_engine import codes
from coap_engine.codec import ACK, CON, NON, RST, CoapMessage
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    CoapPeer,
    CoapRequest,
    RequestFailed,
    ResponseReceived,
)
from coap_engine.option_numbers import OSCORE
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits
from tests.unit.coap_engine.coap_world import (
    PUMP,
    STRANGER,
    TEMPERATURE,
    World,
    seen,
)


def test_a_request_of_our_own_gets_all_blocks_of_its_answer() -> None:
    world = World()
    world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    for number, (part, more) in enumerate([(b"a" * 1_024, 1), (b"b" * 10, 0)]):
        (asked,) = world.sent()
        assert asked.type == CON
        block = (number << 4 | more << 3 | 6).to_bytes(1, "big")
        answer = CoapMessage(
            ACK, codes.CONTENT, asked.message_id, asked.token, ((23, block),), part
        )
        world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (responded,) = world.engine.events()
    assert isinstance(responded, ResponseReceived)
    assert responded.response.payload == b"a" * 1_024 + b"b" * 10


def test_a_separate_answer_to_a_request_of_ours_is_acknowledged() -> None:
    world = World()
    world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    world.receive(CoapMessage(ACK, 0, asked.message_id))
    world.engine.receive_datagram(
        CoapMessage(CON, codes.CONTENT, 77, asked.token, (), b"x").encode(), PUMP, world.now
    )
    assert [type(event) for event in world.engine.events()] == [ResponseReceived]
    assert seen(world.sent()) == [(ACK, 0, 77, b"", b"")]


@pytest.mark.parametrize("answer", [None, RST, ACK])
def test_a_request_of_ours_without_answer_fails(answer: int | None) -> None:
    world = World()
    number = world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    if answer is not None:
        world.engine.receive_datagram(
            CoapMessage(answer, 0, asked.message_id).encode(), PUMP, world.now
        )
    world.wait(200.0)
    (failed,) = world.engine.events()
    assert isinstance(failed, RequestFailed)
    assert failed.exchange == number


def test_rfc_7252_section_4_7_a_peer_is_asked_one_thing_after_another() -> None:
    world = World()
    for _ in range(3):
        world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (first,) = world.sent()
    answer = CoapMessage(ACK, codes.CONTENT, first.message_id, first.token, (), b"1")
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (second,) = world.sent()
    world.receive(CoapMessage(ACK, 0, second.message_id))
    (third,) = world.sent()
    world.receive(CoapMessage(RST, 0, third.message_id))
    world.wait(200.0)
    assert world.engine.open_exchanges == 0
    assert len({m.token for m in (first, second, third)}) == 3


def test_what_waits_to_be_asked_is_given_up_like_what_was_asked() -> None:
    world = World()
    numbers = [world.engine.request(PUMP, CoapRequest(codes.GET), world.now) for _ in range(3)]
    world.wait(200.0)
    assert [e.exchange for e in world.engine.events() if isinstance(e, RequestFailed)] == numbers
    numbers = [world.engine.request(PUMP, CoapRequest(codes.GET), world.now) for _ in range(3)]
    world.sent()
    world.engine.forget_peer(PUMP)
    assert [e.exchange for e in world.engine.events() if isinstance(e, RequestFailed)] == numbers
    assert world.sent() == []
    assert world.engine.open_exchanges == world.engine.shares.own_requests.held == 0


def test_a_stranger_that_is_asked_and_never_answers_does_not_keep_others_from_being_asked() -> None:
    own = Quota(host=2, strangers=3, principal=4, everybody=6, retry_s=93)
    world = World(EngineLimits(shares=dataclasses.replace(ShareLimits(), own_requests=own)))
    other = CoapPeer(("192.0.2.2", 5683), "192.0.2.2")
    for peer in (STRANGER, STRANGER, STRANGER, other, other, PUMP):
        world.engine.request(peer, CoapRequest(codes.GET), world.now)
    assert [e.exchange for e in world.engine.events() if isinstance(e, RequestFailed)] == [3, 5]
    assert len(world.sent()) == 3


@pytest.mark.parametrize("message_type", [ACK, CON, NON])
def test_rfc_7252_section_5_4_1_a_response_with_a_critical_option_not_known_is_rejected(
    message_type: int,
) -> None:
    world = World()
    number = world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    message_id = asked.message_id if message_type == ACK else 77
    answer = CoapMessage(
        message_type, codes.CONTENT, message_id, asked.token, ((2_053, b""),), b"x"
    )
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (failed,) = world.engine.events()
    assert isinstance(failed, RequestFailed)
    assert failed.exchange == number
    assert seen(world.sent()) == ([(RST, 0, 77, b"", b"")] if message_type == CON else [])


@pytest.mark.parametrize("is_protected", [False, True])
def test_only_a_request_that_was_protected_may_have_a_protected_answer(is_protected: bool) -> None:
    world = World()
    options = ((OSCORE, b"\x09"),) if is_protected else TEMPERATURE
    world.engine.request(PUMP, CoapRequest(codes.POST, options), world.now)
    (asked,) = world.sent()
    answer = CoapMessage(ACK, codes.CHANGED, asked.message_id, asked.token, ((OSCORE, b""),), b"x")
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (event,) = world.engine.events()
    assert isinstance(event, ResponseReceived if is_protected else RequestFailed)


@pytest.mark.parametrize(
    ("block2", "payload", "why"),
    [
        (b"\x1e", bytes(1_024), "block at 1024 in place of 0"),
        (b"\x0e", bytes(1_023), "1023 bytes in a block of 1024"),
        (b"\x06", bytes(1_025), "1025 bytes in a block of 1024"),
    ],
)
def test_an_answer_whose_blocks_make_no_body_fails_and_says_why(
    block2: bytes, payload: bytes, why: str
) -> None:
    world = World()
    number = world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    answer = CoapMessage(CON, codes.CONTENT, 77, asked.token, ((23, block2),), payload)
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    assert world.engine.events() == [RequestFailed(number, why)]
    assert seen(world.sent()) == [(ACK, 0, 77, b"", b"")]
    assert world.engine.shares.held_bytes.held == world.engine.shares.own_requests.held == 0


def test_a_request_whose_next_block_waits_behind_another_one_is_given_up_in_its_time() -> None:
    world = World()
    first = world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    world.receive(CoapMessage(ACK, 0, asked.message_id))
    world.wait(90.0)
    second = world.engine.request(PUMP, CoapRequest(codes.GET), world.now)
    world.sent()
    answer = CoapMessage(NON, codes.CONTENT, 77, asked.token, ((23, b"\x0e"),), bytes(1_024))
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    assert world.sent() == [], "the second one is outstanding (NSTART is 1)"
    world.wait(4.0)
    assert world.engine.events() == [RequestFailed(first, "no response")]
    repeated = world.sent()
    assert repeated
    world.receive(CoapMessage(ACK, codes.CONTENT, repeated[0].message_id, repeated[0].token))
    assert world.sent() == []
    assert world.engine.open_exchanges == world.engine.shares.held_bytes.held == 0
    assert second == first + 1

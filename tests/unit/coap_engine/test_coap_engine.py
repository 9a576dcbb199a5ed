"""The CoAP engine as a peer sees it, message by message."""

from __future__ import annotations

import dataclasses

import pytest

from coap_engine import codes
from coap_engine.codec import ACK, CON, NON, RST, CoapMessage
from coap_engine.errors import UnknownExchangeError
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    CoapRequest,
    CoapResponse,
)
from coap_engine.option_numbers import BLOCK2, ECHO, URI_PATH, URI_QUERY
from coap_engine.rates import Rates
from coap_engine.shares import ShareLimits
from tests.unit.coap_engine.coap_world import (
    PUMP,
    STRANGER,
    TEMPERATURE,
    World,
    get,
    observe,
    seen,
)


def test_rfc_7252_figure_17_an_answer_at_hand_is_piggybacked() -> None:
    world = World()
    asked = world.ask(get())
    assert asked.request == CoapRequest(codes.GET, TEMPERATURE, is_fresh=True)
    world.respond(asked)
    assert seen(world.sent()) == [(ACK, codes.CONTENT, 0x7D34, b"\x20", b"22.3 C")]
    assert world.engine.open_exchanges == 0


def test_rfc_7252_figure_19_a_repeated_request_gets_the_same_answer_and_is_not_carried_out() -> (
    None
):
    world = World()
    world.respond(world.ask(get()))
    (first,) = world.engine.datagrams_to_send()
    assert world.receive(get()) == []
    assert world.engine.datagrams_to_send() == [first]
    assert world.engine.counters.repeated == 1


def test_rfc_7252_figure_20_an_answer_that_takes_longer_comes_by_itself() -> None:
    world = World()
    asked = world.ask(get())
    world.wait(0.2)
    assert seen(world.sent()) == [(ACK, 0, 0x7D34, b"", b"")]
    assert world.receive(get()) == []  # repeated meanwhile
    assert seen(world.sent()) == [(ACK, 0, 0x7D34, b"", b"")]
    world.respond(asked)
    (separate,) = world.sent()
    assert (separate.type, separate.token, separate.payload) == (CON, b"\x20", b"22.3 C")
    world.wait(3.0)
    assert seen(world.sent()) == seen([separate])
    world.receive(CoapMessage(ACK, 0, separate.message_id))
    world.wait(300.0)
    assert world.sent() == []


def test_rfc_7252_figure_22_a_non_confirmable_request_gets_such_an_answer() -> None:
    world = World()
    world.respond(world.ask(CoapMessage(NON, codes.GET, 0x7D40, b"\x75", TEMPERATURE)))
    (answer,) = world.sent()
    assert (answer.type, answer.token, answer.payload) == (NON, b"\x75", b"22.3 C")


@pytest.mark.parametrize("request_", [get(), observe()], ids=["once", "observed"])
def test_an_answer_that_makes_no_message_is_told_as_an_error_and_leaves_nothing(
    request_: CoapMessage,
) -> None:
    world = World()
    asked = world.ask(request_)
    beyond_what_a_delta_says = (1 << 17, b"")
    with pytest.raises(OverflowError):
        world.respond(asked, CoapResponse(codes.CONTENT, (beyond_what_a_delta_says,)))
    ((kind, code, _, token, payload),) = seen(world.sent())
    assert (kind, code, token) == (ACK, codes.INTERNAL_SERVER_ERROR, request_.token)
    assert payload == b""
    assert world.engine.open_exchanges == 0


def test_a_separate_answer_that_nobody_acknowledges_is_given_up_after_four_repetitions() -> None:
    world = World()
    asked = world.ask(get())
    world.wait(0.2)
    world.respond(asked)
    world.sent()
    world.wait(300.0)
    assert len(world.sent()) == 4
    assert world.engine.counters.unacknowledged == 1


def test_a_ping_is_answered_with_a_reset() -> None:
    world = World()
    world.receive(CoapMessage(CON, 0, 9))
    assert seen(world.sent()) == [(RST, 0, 9, b"", b"")]


@pytest.mark.parametrize("message_type", [ACK, RST])
def test_a_request_in_an_ack_or_reset_is_ignored(message_type: int) -> None:
    world = World()
    assert world.receive(CoapMessage(message_type, codes.GET, 9, b"", TEMPERATURE)) == []
    assert world.sent() == []


def test_a_response_to_nothing_is_reset_if_it_is_confirmable() -> None:
    world = World()
    world.receive(CoapMessage(CON, codes.CONTENT, 9, b"\x01"))
    world.receive(CoapMessage(NON, codes.CONTENT, 10, b"\x01"))
    assert seen(world.sent()) == [(RST, 0, 9, b"", b"")]


def test_rfc_7252_section_5_4_1_a_critical_option_that_is_not_known_is_refused() -> None:
    world = World()
    assert world.receive(get(1, b"", (9_999, b""))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_OPTION]
    assert world.receive(CoapMessage(NON, codes.GET, 2, b"", ((9_999, b""),))) == []
    assert world.sent() == []


def test_rfc_7252_section_5_4_1_an_elective_option_that_is_not_known_is_ignored() -> None:
    assert World().ask(get(1, b"", (9_998, b""))).request.options == TEMPERATURE


def test_rfc_7252_section_5_4_5_a_critical_option_that_stands_too_often_is_refused() -> None:
    world = World()
    assert world.receive(get(1, b"", (17, b""), (17, b"\x32"))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_OPTION]


def test_who_is_to_answer_and_how_far_away_stands_apart_from_what_is_asked() -> None:
    route = ((3, b"gw-b"), (7, b"\x16"), (16, b"\x09"), (39, b"coap"))
    request = World().ask(get(1, b"", *route)).request
    assert (request.options, request.route) == (TEMPERATURE, route)


def test_rfc_8768_section_3_a_hop_limit_of_zero_is_refused() -> None:
    world = World()
    assert world.receive(get(1, b"", (16, b"\0"))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_REQUEST]


@pytest.mark.parametrize(("mask", "is_sent"), [(0, True), (2, False), (8, True), (26, False)])
def test_rfc_7967_answers_of_a_class_that_is_not_wanted_are_not_sent(
    mask: int, is_sent: bool
) -> None:
    world = World()
    put = CoapMessage(NON, codes.PUT, 1, b"", (*TEMPERATURE, (258, bytes([mask]))), b"1")
    world.respond(world.ask(put), CoapResponse(codes.CHANGED))
    assert bool(world.sent()) is is_sent
    put.type, put.message_id = CON, 2
    world.respond(world.ask(put), CoapResponse(codes.CHANGED))
    assert [m.code for m in world.sent()] == [codes.CHANGED if is_sent else 0]


def test_rfc_8768_a_hop_limit_of_zero_is_a_bad_request() -> None:
    world = World()
    assert world.receive(get(1, b"", (16, b"\0"))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_REQUEST]
    assert world.ask(get(2, b"", (16, b"\x05"))).request.options == TEMPERATURE


def test_an_answer_that_is_not_wanted_is_not_acknowledged_twice() -> None:
    world = World()
    put = CoapMessage(CON, codes.PUT, 1, b"", (*TEMPERATURE, (258, b"\x02")), b"1")
    asked = world.ask(put)
    world.wait(2.0)
    assert seen(world.sent()) == [(ACK, codes.EMPTY, 1, b"", b"")]
    world.respond(asked, CoapResponse(codes.CHANGED))
    assert world.sent() == []
    assert world.receive(put) == []
    assert seen(world.sent()) == [(ACK, codes.EMPTY, 1, b"", b"")]


def test_an_answer_to_what_is_over_is_refused() -> None:
    world = World()
    asked = world.ask(get())
    world.respond(asked)
    with pytest.raises(UnknownExchangeError):
        world.respond(asked)


def test_a_body_in_blocks_comes_whole_and_its_answer_names_the_last_block() -> None:
    world = World()
    first, last = b"a" * 16, b"b" * 3
    put = CoapMessage(CON, codes.PUT, 1, b"", ((URI_PATH, b"x"), (27, b"\x08")), first)
    assert world.receive(put) == []
    assert [m.code for m in world.sent()] == [codes.CONTINUE]
    put = CoapMessage(CON, codes.PUT, 2, b"", ((URI_PATH, b"x"), (27, b"\x10")), last)
    asked = world.ask(put)
    assert asked.request == CoapRequest(codes.PUT, ((URI_PATH, b"x"),), first + last, False, True)
    world.respond(asked, CoapResponse(codes.CHANGED))
    assert [(m.code, m.options) for m in world.sent()] == [(codes.CHANGED, ((27, b"\x10"),))]


def test_a_long_answer_goes_in_blocks_and_the_resource_is_asked_once() -> None:
    world = World()
    body = bytes(range(256)) * 10
    world.respond(world.ask(get(1)), CoapResponse(codes.CONTENT, (), body))
    got = world.sent()[0].payload
    for number in (1, 2):
        block = (23, (number << 4 | 6).to_bytes(1, "big"))
        assert world.receive(get(1 + number, b"\x20", block)) == []
        got += world.sent()[0].payload
    assert got == body


def test_rfc_9175_a_long_answer_to_a_stranger_waits_for_an_echo() -> None:
    world = World()
    asked = world.ask(get(), STRANGER)
    world.respond(asked, CoapResponse(codes.CONTENT, (), bytes(200)))
    (challenge,) = world.sent()
    assert (challenge.code, challenge.payload) == (codes.UNAUTHORIZED, b"")
    echo = dict(challenge.options)[ECHO]
    world.respond(
        world.ask(get(2, b"", (ECHO, echo)), STRANGER), CoapResponse(codes.CONTENT, (), bytes(200))
    )
    assert [m.code for m in world.sent()] == [codes.CONTENT]


def test_rfc_9175_a_write_of_a_stranger_waits_for_an_echo() -> None:
    world = World()
    put = CoapMessage(CON, codes.PUT, 1, b"", TEMPERATURE, b"1")
    assert world.receive(put, STRANGER) == []
    (challenge,) = world.sent()
    put.message_id, put.options = 2, (*TEMPERATURE, (ECHO, dict(challenge.options)[ECHO]))
    assert world.ask(put, STRANGER).request.is_fresh


def test_of_a_peer_that_is_gone_nothing_is_left() -> None:
    world = World()
    world.respond(world.ask(observe()))
    world.ask(get(2))
    number = world.engine.request(PUMP, CoapRequest(codes.GET), world.now)
    world.engine.forget_peer(PUMP)
    assert sorted(type(event).__name__ for event in world.engine.events()) == [
        *("ExchangeEnded", "ExchangeEnded", "RequestFailed")
    ]
    assert world.engine.open_exchanges == 0
    assert number not in (1, 2)
    world.sent()
    world.wait(500.0)
    assert world.sent() == []


@pytest.mark.parametrize(
    ("takes_longer", "more_bytes", "is_sent"),
    [(False, 0, True), (False, 1, False), (True, 0, False), (True, -400, True)],
)
def test_rfc_9175_an_answer_without_echo_is_three_times_as_long_with_all_its_repetitions(
    takes_longer: bool, more_bytes: int, is_sent: bool
) -> None:
    """Headers of Ethernet, IP and UDP count with 62 bytes."""
    world = World()
    question = get(1, b"", (URI_QUERY, b"x" * 100))
    most = 3 * (len(question.encode()) + 62) - 62
    asked = world.ask(question, STRANGER)
    if takes_longer:
        world.wait(1.9)
        world.sent()
    payload = bytes(most - 5 + more_bytes)  # behind 4 bytes and the mark 0xFF
    world.respond(asked, CoapResponse(codes.CONTENT, (), payload))
    (answer,) = world.sent()
    assert answer.code == (codes.CONTENT if is_sent else codes.UNAUTHORIZED)
    if is_sent:
        assert answer.type == (CON if takes_longer else ACK)


def test_what_comes_and_goes_is_counted_by_what_became_of_it() -> None:
    datagrams = Rates(host=1, strangers=100)
    shares = dataclasses.replace(ShareLimits(), datagrams=datagrams)
    world = World(EngineLimits(shares=shares))
    seen_of = world.engine.counters
    asked = world.ask(observe(1))
    world.receive(observe(1))
    world.respond(asked)
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"1"))
    told = world.sent()[-1]
    world.receive(b"\xff")
    world.receive(CoapMessage(ACK, 0, 99))
    world.receive(CoapMessage(RST, 0, 98))
    world.receive(CoapMessage(NON, codes.CONTENT, 97, b"none"))
    world.receive(CoapMessage(RST, 0, told.message_id))
    slow = world.ask(get(2))
    world.wait(5.0)
    world.respond(slow)
    world.wait(200.0)
    for message_id in (3, 4, 5):
        world.receive(get(message_id), STRANGER)
    assert dataclasses.asdict(seen_of) == {
        "received": 11,
        "dropped": 2,
        "malformed": 1,
        "ignored": 3,
        "requests": 3,
        "repeated": 1,
        "notifications": 1,
        "retransmitted": 4,
        "unacknowledged": 1,
        "resets": 2,
    }


def test_a_short_answer_leaves_no_longer_one_of_before_to_go_on_with() -> None:
    world = World()
    world.respond(world.ask(get(1)), CoapResponse(codes.CONTENT, (), bytes(3_000)))
    world.respond(world.ask(get(2)), CoapResponse(codes.CONTENT, (), b"short"))
    world.sent()
    again = world.ask(get(3, b"", (BLOCK2, b"\x16")))
    world.respond(again, CoapResponse(codes.CONTENT, (), b"short"))
    assert [m.code for m in world.sent()] == [codes.BAD_REQUEST]

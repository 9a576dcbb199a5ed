"""Requests to a group (RFC 7252, section 8): what is answered, when, and what never is."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coap_engine import codes
from coap_engine.blocks import Block
from coap_engine.codec import ACK, CON, NON, RST, CoapMessage, decode
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.multicast import MulticastRequests, MulticastRules
from coap_engine.option_numbers import (
    BLOCK2,
    ETAG,
    NO_RESPONSE,
    PROXY_URI,
    URI_HOST,
    URI_PATH,
    URI_QUERY,
)
from coap_engine.rates import Rates
from coap_engine.response_bodies import ResponseBodies
from coap_engine.shares import Shares
from tests.held_objects import held_objects

CORE: tuple[Option, ...] = ((URI_PATH, b".well-known"), (URI_PATH, b"core"))
FOUND = CoapResponse(codes.CONTENT, ((12, b"\x28"),), b'</rd>;rt="core.rd"')
PEER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")


class Group:
    """A server of a group, whose answer a test chooses."""

    def __init__(self, answer: CoapResponse | None = FOUND, **rules: Any) -> None:
        numbers = itertools.count(1)
        self.answer = answer
        self.asked: list[CoapRequest] = []
        self.core = MulticastRequests(
            self._answered,
            lambda size: (next(numbers) * 0x3DA7_1C95 & (1 << 8 * size) - 1).to_bytes(size, "big"),
            MulticastRules(**rules),
        )

    def _answered(self, request: CoapRequest, _peer: CoapPeer, _now: float) -> CoapResponse | None:
        self.asked.append(request)
        return self.answer

    def sends(self, message: CoapMessage, peer: CoapPeer = PEER) -> list[CoapMessage]:
        """Send a message to the group, and return the answers that are sent in the end."""
        self.core.receive_datagram(message.encode(), peer, 100.0)
        return self.sent()

    def sent(self, now: float = 1e9) -> list[CoapMessage]:
        self.core.handle_timer(now)
        return [decode(datagram) for datagram, _ in self.core.datagrams_to_send()]


def get(*options: Option, message_id: int = 7, type_: int = NON) -> CoapMessage:
    given_ = tuple(sorted((*CORE, *options), key=lambda option: option[0]))
    return CoapMessage(type_, codes.GET, message_id, b"\x4a", given_)


def test_a_get_is_answered_as_non_confirmable_with_its_token() -> None:
    group = Group()
    (answer,) = group.sends(get((URI_QUERY, b"rt=core.rd*"), (URI_HOST, b"224.0.1.187")))
    assert (answer.type, answer.code, answer.token) == (NON, codes.CONTENT, b"\x4a")
    assert answer.payload == FOUND.payload
    (asked,) = group.asked
    assert asked.options == (*CORE, (URI_QUERY, b"rt=core.rd*"))


@pytest.mark.parametrize(
    "message",
    [
        get(type_=CON),
        get(type_=ACK),
        CoapMessage(RST, 0, 7),
        CoapMessage(CON, 0, 7),
        CoapMessage(NON, codes.POST, 7, b"", CORE),
        CoapMessage(NON, codes.PUT, 7, b"", CORE, b"1"),
        CoapMessage(NON, codes.CONTENT, 7, b"", (), b"x"),
        get((9_999, b"")),
        get((PROXY_URI, b"coap://h/")),
        get((NO_RESPONSE, b"\x02")),
        get((BLOCK2, Block(1, False, 6).encode())),
        get((BLOCK2, b"\x07")),
    ],
    ids=str,
)
def test_what_is_wrong_or_no_question_is_passed_over_without_a_word(message: CoapMessage) -> None:
    assert Group().sends(message) == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        CoapResponse(codes.NOT_FOUND),
        CoapResponse(codes.UNAUTHORIZED, (), b"reading this needs a key"),
        CoapResponse(codes.CONTENT, (), b""),
        CoapResponse(codes.INTERNAL_SERVER_ERROR),
    ],
)
def test_neither_errors_nor_empty_answers_are_sent(answer: CoapResponse | None) -> None:
    group = Group(answer)
    assert group.sends(get()) == []
    assert len(group.asked) == 1
    assert group.core.next_timer() is None


@given(st.binary(max_size=80))
def test_any_bytes_are_passed_over_or_answered_with_content(datagram: bytes) -> None:
    group = Group()
    group.core.receive_datagram(datagram, PEER, 0.0)
    assert {answer.code for answer in group.sent()} <= {codes.CONTENT}


def test_answers_are_spread_over_the_leisure() -> None:
    group = Group(rates=Rates(host=1e6, strangers=1e6), waiting=1_000)
    for number in range(200):
        group.core.receive_datagram(get(message_id=number).encode(), PEER, 100.0)
    moments = []
    while (due := group.core.next_timer()) is not None:
        moments.append(due)
        assert group.sent(due)
    assert len(moments) == 200
    assert 100.0 <= min(moments) < 101.0 and 104.0 < max(moments) < 105.0


def test_a_request_that_comes_twice_is_answered_once_until_it_may_be_another_one() -> None:
    group = Group(rates=Rates(host=100.0, strangers=100.0))
    assert len(group.sends(get())) == 1
    assert group.sends(get()) == []
    assert len(group.sends(get(message_id=8))) == 1
    group.core.receive_datagram(get().encode(), PEER, 100.0 + 145.0)
    assert len(group.sent()) == 1


@pytest.mark.parametrize("size_bytes", [100, 300, 1_000, 5_000])
@pytest.mark.parametrize("asked", [None, 2, 6])
def test_no_answer_is_longer_than_three_times_the_request_and_the_rest_is_had_by_unicast(
    size_bytes: int, asked: int | None
) -> None:
    whole = CoapResponse(codes.CONTENT, (), bytes(range(250)) * (size_bytes // 250 + 1))
    options = [] if asked is None else [(BLOCK2, Block(0, False, asked).encode())]
    message = get(*options)
    group = Group(whole)
    (answer,) = group.sends(message)
    assert len(answer.encode()) + 62 <= 3 * (len(message.encode()) + 62)
    block = Block.decode(dict(answer.options)[BLOCK2])
    assert (block.number, block.more) == (0, True)
    assert answer.payload == whole.payload[: block.size_bytes]
    next_ = (*CORE, (BLOCK2, Block(1, False, block.size_exponent).encode()))
    rest = ResponseBodies(Shares()).cut(PEER, codes.GET, next_, b"", whole, 0.0)
    assert dict(rest.options)[ETAG] == dict(answer.options)[ETAG]


def test_a_host_that_asks_much_has_no_more_answers_and_others_have_theirs() -> None:
    group = Group()
    for number in range(1_000):
        group.core.receive_datagram(get(message_id=number).encode(), PEER, 100.0)
    other = CoapPeer(("192.0.2.2", 5683), "192.0.2.2")
    group.core.receive_datagram(get().encode(), other, 100.0)
    assert len(group.sent()) == 10 + 1


def test_what_waits_and_what_is_remembered_is_bounded_whoever_asks() -> None:
    group = Group(rates=Rates(host=1e6, strangers=1e6))
    held = 0
    for number in range(5_000):
        peer = CoapPeer(("192.0.2.1", number), "192.0.2.1")
        group.core.receive_datagram(get(message_id=number).encode(), peer, 100.0)
        held = held or (held_objects(group.core) if number == 1_024 else 0)
    assert held_objects(group.core) < 1.1 * held
    assert len(group.sent()) == 128

"""A last block that comes again in another message is answered as before (RFC 7959, 2.5)."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.blocks import Block, BodyLimits
from coap_engine.codec import CON, CoapMessage
from coap_engine.finished_bodies import FinishedBodies
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.option_numbers import BLOCK1, CONTENT_FORMAT, LOCATION_PATH, REQUEST_TAG, URI_PATH
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits, Shares
from tests.unit.coap_engine.coap_world import PUMP, STRANGER, World

MADE = CoapResponse(codes.CREATED, ((LOCATION_PATH, b"1"),), b"made")


class Sender:
    """Sends a body in blocks of 16 bytes, each in a message of its own."""

    def __init__(self, peer: CoapPeer = PUMP) -> None:
        self.world = World()
        self.peer = peer
        self.message_id = 0

    def put(self, number: int, payload: bytes, *more: Option, last: bool = False) -> int:
        """Send a block, and return the number of requests that are handed out."""
        self.message_id += 1
        block1 = (BLOCK1, Block(number, not last, 0).encode())
        options = tuple(sorted(((URI_PATH, b"r"), block1, *more)))
        message = CoapMessage(
            CON, codes.POST, self.message_id, bytes([self.message_id]), options, payload
        )
        asked = self.world.receive(message, self.peer)
        self.asked = asked[0] if asked else None
        return len(asked)

    def codes(self) -> list[int]:
        """Return the codes of the answers since the last call."""
        return [message.code for message in self.world.sent()]

    def whole(self) -> None:
        """Send a body of two blocks, which is handed out."""
        assert self.put(0, b"a" * 16) == 0
        assert self.put(1, b"b", last=True) == 1
        assert self.codes() == [codes.CONTINUE]

    def answer(self, response: CoapResponse = MADE) -> None:
        assert self.asked is not None
        self.world.respond(self.asked, response)


def test_the_request_is_carried_out_once_and_answered_each_time() -> None:
    sender = Sender()
    sender.whole()
    sender.answer()
    (first,) = sender.world.sent()
    for _ in range(2):
        assert sender.put(1, b"b", last=True) == 0
        (again,) = sender.world.sent()
        assert (again.code, again.options, again.payload) == (
            first.code,
            first.options,
            first.payload,
        )
        assert again.message_id == sender.message_id
        assert (BLOCK1, b"\x10") in again.options


def test_while_it_is_carried_out_the_sender_is_told_to_ask_again() -> None:
    sender = Sender()
    sender.whole()
    under_way = sender.asked
    assert sender.put(1, b"b", last=True) == 0
    assert sender.codes() == [codes.SERVICE_UNAVAILABLE]
    sender.asked = under_way
    sender.answer()
    assert sender.codes() == [codes.CREATED]
    assert sender.put(1, b"b", last=True) == 0
    assert sender.codes() == [codes.CREATED]


@pytest.mark.parametrize(
    ("number", "payload", "more"),
    [
        (1, b"c", ()),
        (2, b"b", ()),
        (1, b"b", ((CONTENT_FORMAT, b""),)),
        (1, b"b", ((REQUEST_TAG, b"2"),)),
    ],
)
def test_another_block_is_not_that_one(
    number: int, payload: bytes, more: tuple[Option, ...]
) -> None:
    sender = Sender()
    sender.whole()
    sender.answer()
    sender.world.sent()
    assert sender.put(number, payload, *more, last=True) == 0
    assert sender.codes() == [codes.REQUEST_ENTITY_INCOMPLETE]


def test_a_body_that_begins_anew_is_another_one() -> None:
    sender = Sender()
    sender.whole()
    sender.answer()
    sender.world.sent()
    sender.whole()
    sender.answer(CoapResponse(codes.CHANGED))
    assert sender.codes() == [codes.CHANGED]
    assert sender.put(1, b"b", last=True) == 0
    assert sender.codes() == [codes.CHANGED]


@pytest.mark.parametrize("code", [codes.SERVICE_UNAVAILABLE, codes.TOO_MANY_REQUESTS])
def test_what_was_not_carried_out_is_begun_anew(code: int) -> None:
    sender = Sender()
    sender.whole()
    sender.answer(CoapResponse(code))
    sender.world.sent()
    assert sender.put(1, b"b", last=True) == 0
    assert sender.codes() == [codes.REQUEST_ENTITY_INCOMPLETE]
    sender.whole()


def test_a_long_answer_comes_in_blocks_again() -> None:
    sender = Sender()
    sender.whole()
    sender.answer(CoapResponse(codes.CHANGED, (), b"0123456789abcdef" * 100))
    (first,) = sender.world.sent()
    assert sender.put(1, b"b", last=True) == 0
    (again,) = sender.world.sent()
    assert (again.payload, again.options) == (first.payload, first.options)


def test_it_is_forgotten_with_its_time_and_its_peer() -> None:
    sender = Sender()
    held = sender.world.engine.shares.held_bytes
    sender.whole()
    sender.answer()
    assert held.held > 0
    sender.world.sent()
    sender.world.engine.forget_peer(PUMP)
    assert held.held == 0
    sender.whole()
    sender.answer()
    sender.world.wait(BodyLimits().assembly_s + 1)
    assert held.held == 0
    assert sender.world.engine.next_timer() is None
    sender.world.sent()
    assert sender.put(1, b"b", last=True) == 0
    assert sender.codes() == [codes.REQUEST_ENTITY_INCOMPLETE]


def test_no_host_has_more_of_them_than_its_share_of_bytes() -> None:
    shares = Shares(ShareLimits(held_bytes=Quota(6_000, 40_000, 40_000, 80_000, 30)))
    bodies = FinishedBodies(shares, BodyLimits())
    for number in range(100):
        options = ((BLOCK1, Block(1, False, 0).encode()), (REQUEST_TAG, bytes([number])))
        finished = bodies.add(STRANGER, codes.PUT, options, b"b", b"\x10", float(number))
        if finished is not None:
            finished.answered(MADE, float(number))
    assert 1 < len(bodies) < 7
    assert shares.held_bytes.held <= 6_000


def test_what_a_request_was_answered_with_first_is_what_its_last_block_gets() -> None:
    bodies = FinishedBodies(Shares(), BodyLimits())
    options = ((BLOCK1, Block(1, False, 0).encode()),)
    finished = bodies.add(PUMP, codes.PUT, options, b"b", b"\x10", 0.0)
    assert finished is not None
    assert finished.response.code == codes.SERVICE_UNAVAILABLE
    finished.answered(MADE, 1.0)
    finished.answered(CoapResponse(codes.CHANGED), 2.0)
    assert bodies.again(PUMP, codes.PUT, options, b"b") is finished
    assert finished.response is MADE


@pytest.mark.parametrize("block1", [None, b"", b"\x00", b"\x17", b"1234"])
def test_a_request_of_one_block_or_of_none_is_not_remembered(block1: bytes | None) -> None:
    """Its message alone tells that it is repeated (RFC 7252, section 4.5)."""
    bodies = FinishedBodies(Shares(), BodyLimits())
    options = () if block1 is None else ((BLOCK1, block1),)
    assert bodies.add(PUMP, codes.PUT, options, b"b", b"", 0.0) is None
    assert len(bodies) == 0
    assert bodies.again(PUMP, codes.PUT, options, b"b") is None

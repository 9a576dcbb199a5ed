"""Bodies of requests in blocks (RFC 7959, sections 2.5 and 3.2; RFC 9175, section 3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.blocks import BadBlockError, Block, BodyLimits
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.rates import Rates
from coap_engine.request_bodies import RequestBodies, WholeBody
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits, Shares

PEER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")
OTHER = CoapPeer(("192.0.2.1", 5684), "192.0.2.1")
PATH: Option = (11, b"options")


def block(text: str) -> bytes:
    """The value of an option written as the RFC writes it: number/more/size."""
    number, more, size = map(int, text.split("/"))
    return Block(number, bool(more), size.bit_length() - 5).encode()


def spelled(value: bytes) -> str:
    read = Block.decode(value)
    return f"{read.number}/{read.more:d}/{read.size_bytes}"


def shares_of(held_bytes: Quota) -> Shares:
    one = Quota(1, 1, 1, 1, 1)
    return Shares(ShareLimits(one, one, held_bytes, Rates()))


class Server:
    """A port that takes one body after the other."""

    def __init__(self, limits: BodyLimits, shares: Shares | None = None) -> None:
        self.shares = shares or Shares()
        self.bodies = RequestBodies(self.shares, limits)

    def put(
        self, block1: str, payload: bytes, *more: Option, peer: CoapPeer = PEER, now: float = 0.0
    ) -> WholeBody | CoapResponse:
        options = (PATH, *more, (option_numbers.BLOCK1, block(block1)))
        return self.bodies.take(peer, codes.PUT, options, payload, now)

    def says(self, block1: str, payload: bytes, *more: Option) -> str:
        """Put a block, and return the answer as the RFC writes it.

        The resource answers a whole body with 2.04.
        """
        answer = self.put(block1, payload, *more)
        if isinstance(answer, WholeBody):
            assert answer.block1 is not None
            return f"2.04 1:{spelled(answer.block1)}"
        said = f"{answer.code >> 5}.{answer.code & 31:02}"
        return " ".join(
            [said, *(f"1:{spelled(v)}" for n, v in answer.options if n == option_numbers.BLOCK1)]
        )


def test_rfc_7959_section_3_2_simple_atomic_block_wise_put() -> None:
    server = Server(BodyLimits())
    assert server.says("0/1/128", b"a" * 128) == "2.31 1:0/1/128"
    assert server.says("1/1/128", b"b" * 128) == "2.31 1:1/1/128"
    whole = server.put("2/0/128", b"c" * 100)
    assert whole == WholeBody(b"a" * 128 + b"b" * 128 + b"c" * 100, block("2/0/128"))
    assert (server.bodies.in_assembly, server.shares.held_bytes.held) == (0, 0)


def test_rfc_7959_section_3_2_block_wise_put_with_negotiation() -> None:
    server = Server(BodyLimits(size_exponent=1))
    assert server.says("0/1/128", b"a" * 128) == "2.31 1:0/1/32"
    assert server.says("4/1/32", b"b" * 32) == "2.31 1:4/1/32"
    assert server.says("5/1/32", b"c" * 32) == "2.31 1:5/1/32"
    whole = server.put("6/0/32", b"d" * 32)
    assert whole == WholeBody(b"a" * 128 + b"b" * 32 + b"c" * 32 + b"d" * 32, block("6/0/32"))


def test_a_request_without_block1_is_whole() -> None:
    bodies = RequestBodies(Shares())
    assert bodies.take(PEER, codes.PUT, (PATH,), b"all", 0.0) == WholeBody(b"all", None)


def test_a_single_block_is_whole() -> None:
    assert Server(BodyLimits()).put("0/0/64", b"all") == WholeBody(b"all", block("0/0/64"))


def test_a_missing_block_makes_the_body_incomplete() -> None:
    server = Server(BodyLimits())
    assert server.says("1/1/16", b"b" * 16) == "4.08"
    assert server.says("0/1/16", b"a" * 16) == "2.31 1:0/1/16"
    assert server.says("2/0/16", b"c") == "4.08"


def test_a_body_over_the_limit_is_refused_with_the_limit() -> None:
    server = Server(BodyLimits(body_bytes=40))
    assert server.says("0/1/16", b"a" * 16) == "2.31 1:0/1/16"
    assert server.says("1/1/16", b"a" * 16) == "2.31 1:1/1/16"
    refused = CoapResponse(codes.REQUEST_ENTITY_TOO_LARGE, ((option_numbers.SIZE1, bytes([40])),))
    assert server.put("2/0/16", b"a" * 16) == refused
    assert server.shares.held_bytes.held == 0
    assert server.put("0/1/16", b"a" * 16, (option_numbers.SIZE1, b"\x01\x00")) == refused
    assert server.bodies.in_assembly == 0


@pytest.mark.parametrize("payload", [b"a" * 15, b"a" * 17])
def test_a_block_with_others_after_it_is_full(payload: bytes) -> None:
    assert Server(BodyLimits()).says("0/1/16", payload) == "4.00"


def test_the_reserved_size_is_a_bad_request_and_a_long_value_a_bad_option() -> None:
    bodies = RequestBodies(Shares())
    for value, code in ((b"\x07", codes.BAD_REQUEST), (b"\x01\x02\x03\x04", codes.BAD_OPTION)):
        options = ((option_numbers.BLOCK1, value),)
        assert bodies.take(PEER, codes.PUT, options, b"", 0.0) == CoapResponse(code)
        with pytest.raises(BadBlockError):
            Block.decode(value)


def test_bodies_of_two_request_tags_do_not_mix() -> None:
    server = Server(BodyLimits())
    one, two = (option_numbers.REQUEST_TAG, b"1"), (option_numbers.REQUEST_TAG, b"2")
    server.put("0/1/16", b"a" * 16, one)
    server.put("0/1/16", b"b" * 16, two)
    assert server.says("1/0/16", b"c") == "4.08"
    assert server.put("1/0/16", b"A", one) == WholeBody(b"a" * 16 + b"A", block("1/0/16"))
    assert server.put("1/0/16", b"B", two) == WholeBody(b"b" * 16 + b"B", block("1/0/16"))


def test_an_echo_in_one_block_only_does_not_tell_it_from_the_others() -> None:
    server = Server(BodyLimits())
    server.put("0/1/16", b"a" * 16, (option_numbers.ECHO, b"12345678"))
    assert server.says("1/0/16", b"b") == "2.04 1:1/0/16"


def test_another_content_format_is_another_body() -> None:
    server = Server(BodyLimits())
    server.put("0/1/16", b"a" * 16, (option_numbers.CONTENT_FORMAT, b"\x28"))
    assert server.says("1/0/16", b"b", (option_numbers.CONTENT_FORMAT, b"\x32")) == "4.08"


def test_a_new_first_block_begins_anew() -> None:
    server = Server(BodyLimits())
    server.put("0/1/16", b"a" * 16)
    server.put("1/1/16", b"a" * 16)
    server.put("0/1/16", b"b" * 16)
    assert server.says("2/0/16", b"a") == "4.08"
    assert server.put("1/0/16", b"b") == WholeBody(b"b" * 17, block("1/0/16"))


def test_a_block_that_comes_twice_counts_once() -> None:
    server = Server(BodyLimits())
    server.put("0/1/16", b"a" * 16)
    assert server.says("1/1/16", b"b" * 16) == "2.31 1:1/1/16"
    assert server.says("1/1/16", b"b" * 16) == "2.31 1:1/1/16"
    assert server.says("1/1/16", b"x" * 16) == "4.08"
    whole = server.put("2/0/16", b"c")
    assert whole == WholeBody(b"a" * 16 + b"b" * 16 + b"c", block("2/0/16"))
    assert server.says("2/0/16", b"c") == "4.08"


def test_a_body_whose_rest_does_not_come_is_forgotten() -> None:
    server = Server(BodyLimits())
    server.put("0/1/16", b"a" * 16, now=100.0)
    server.put("1/1/16", b"a" * 16, now=150.0)
    assert server.bodies.next_timer() == 150.0 + 247.0
    server.bodies.handle_timer(396.0)
    assert server.bodies.in_assembly == 1
    server.bodies.handle_timer(397.0)
    assert (server.bodies.in_assembly, server.shares.held_bytes.held) == (0, 0)
    assert server.bodies.next_timer() is None


def test_six_bodies_that_come_side_by_side_all_become_whole() -> None:
    server = Server(BodyLimits())
    tags: list[Option] = [(option_numbers.REQUEST_TAG, bytes([n])) for n in range(6)]
    for number in range(3):
        for tag in tags:
            block1 = f"{number}/{number < 2:d}/16"
            said = "2.31" if number < 2 else "2.04"
            assert server.says(block1, b"a" * 16, tag) == f"{said} 1:{block1}"


def test_what_is_idle_makes_room_for_a_body_of_the_same_peer_and_what_goes_on_does_not() -> None:
    quota = Quota(host=3_000, strangers=10_000, principal=1, everybody=10_000, retry_s=30)
    server = Server(BodyLimits(), shares_of(quota))
    first, second, third = ((option_numbers.REQUEST_TAG, bytes([n])) for n in range(3))
    server.put("0/1/16", b"a" * 16, first)
    server.put("0/1/16", b"a" * 16, second, now=5.0)
    refused = server.put("0/1/16", b"a" * 16, third, now=9.0)
    assert refused == CoapResponse(codes.TOO_MANY_REQUESTS, ((option_numbers.MAX_AGE, b"\x1e"),))
    begun = server.put("0/1/16", b"a" * 16, third, now=12.0)
    assert isinstance(begun, CoapResponse)
    assert begun.code == codes.CONTINUE
    assert server.says("1/0/16", b"b", first) == "4.08"
    assert server.says("1/0/16", b"b", second) == "2.04 1:1/0/16"


def test_what_a_peer_whose_session_is_gone_has_sent_is_forgotten() -> None:
    server = Server(BodyLimits())
    server.put("0/1/16", b"a" * 16)
    server.put("0/1/16", b"a" * 16, peer=OTHER)
    server.bodies.forget_peer(PEER)
    assert server.bodies.in_assembly == 1


def test_a_host_without_room_is_told_to_wait_and_its_body_is_given_up() -> None:
    quota = Quota(host=1_200, strangers=10_000, principal=1, everybody=10_000, retry_s=30)
    server = Server(BodyLimits(), shares_of(quota))
    server.put("0/1/16", b"a" * 16)
    server.put("1/1/16", b"a" * 16)
    answer = server.put("2/1/16", b"a" * 16)
    assert answer == CoapResponse(codes.TOO_MANY_REQUESTS, ((option_numbers.MAX_AGE, b"\x1e"),))
    assert (server.bodies.in_assembly, server.shares.held_bytes.held) == (0, 0)


@given(st.data())
@settings(max_examples=150)
def test_a_body_arrives_whole_or_not_at_all_whatever_happens_to_blocks(data: st.DataObject) -> None:
    """Blocks of several bodies are lost, late, repeated; then each is sent as a client would."""
    limits = BodyLimits(size_exponent=data.draw(st.integers(0, 2)))
    server = Server(limits)
    bodies = data.draw(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=3))
    tags: list[Option] = [(option_numbers.REQUEST_TAG, bytes([n])) for n in range(len(bodies))]

    def send(which: int, number: int, exponent: int) -> WholeBody | CoapResponse:
        size = 16 << exponent
        part = bodies[which][number * size : (number + 1) * size]
        more = (number + 1) * size < len(bodies[which])
        answer = server.put(f"{number}/{more:d}/{size}", part, tags[which])
        if isinstance(answer, WholeBody):
            assert answer.payload == bodies[which]
        return answer

    for _ in range(data.draw(st.integers(0, 25))):
        which = data.draw(st.integers(0, len(bodies) - 1))
        exponent = data.draw(st.integers(0, 3))
        number = data.draw(st.integers(0, (len(bodies[which]) - 1) >> (exponent + 4)))
        send(which, number, exponent)
    for which, body in enumerate(bodies):
        exponent, offset = 3, 0
        while True:
            answer = send(which, offset >> (exponent + 4), exponent)
            if isinstance(answer, WholeBody):
                break
            assert answer.code == codes.CONTINUE
            offset += 16 << exponent
            assert offset < len(body)
            exponent = Block.decode(answer.options[0][1]).size_exponent
    server.bodies.handle_timer(1e9)
    assert server.shares.held_bytes.held == 0


@given(st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=4), st.binary(max_size=40))))
@settings(max_examples=100)
def test_any_options_and_payloads_are_answered(messages: list[tuple[int, bytes, bytes]]) -> None:
    bodies = RequestBodies(Shares(), BodyLimits(body_bytes=500))
    for number, value, payload in messages:
        options = tuple(sorted([(number, value), (option_numbers.BLOCK1, value)]))
        answer = bodies.take(PEER, codes.PUT, options, payload, 0.0)
        assert isinstance(answer, WholeBody) or answer.code >> 5 in {2, 4}

"""The messages of routed mode on the wire."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.batch import MAX_NUMBER
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.routing.wire import MAX_HOPS, Ack, Ask, Carry, Claim, Tell, decode

IDS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,9}", fullmatch=True)
NUMBERS = st.integers(0, MAX_NUMBER)
STREAMS = st.tuples(IDS, st.integers(1, (1 << 32) - 1))
PAIRS = st.lists(st.tuples(IDS, NUMBERS), min_size=1, max_size=5).map(tuple)
CLAIMED = st.lists(st.tuples(IDS, NUMBERS, NUMBERS), min_size=1, max_size=5).map(tuple)
RANGES = st.lists(st.tuples(st.integers(1, 99), st.integers(0, 9)), max_size=5).map(
    lambda rows: Intervals((first, first + more) for first, more in rows)
)
MESSAGES = st.one_of(
    st.builds(Carry, PAIRS, st.binary(max_size=40), st.booleans(), st.binary(max_size=8)),
    st.builds(Claim, STREAMS, NUMBERS, CLAIMED),
    st.builds(Tell, IDS, STREAMS, NUMBERS, NUMBERS, RANGES, RANGES, NUMBERS),
    st.builds(Ask, STREAMS, IDS, RANGES, NUMBERS),
    st.builds(Ack, STREAMS, IDS, NUMBERS),
)


@given(MESSAGES, st.integers(0, MAX_HOPS))
def test_a_message_survives_the_wire_with_the_bytes_of_its_batch(
    message: Carry | Claim | Tell | Ask | Ack, hops: int
) -> None:
    assert decode(message.encode(hops)) == (message, hops)


@given(
    st.one_of(
        st.binary(max_size=60), st.lists(st.integers(-99, 1 << 63), max_size=8).map(msgpack.packb)
    )
)
def test_other_bytes_are_refused_and_nothing_else_is_raised(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


@pytest.mark.parametrize(
    "row",
    [
        (0, 256, b"", False, (("a", 1),)),
        (0, 1, b"", 0, (("a", 1),)),
        (0, 1, b"", False, ()),
        (0, 1, b"", False, (("A", 1),)),
        (1, 1, "a", 0, 1, (("a", 1, 0),)),
        (1, 1, "a", 1, 1, (("a", 1),)),
        (1, 1, "a", 1, 1, (("a", 1, -1),)),
        (1, 1, "a", 1, MAX_NUMBER + 1, (("a", 1, 0),)),
        (3, 1, "a", 1, "b", ((1, MAX_NUMBER + 1),), 1),
        (3, 1, "a", 1, "b", ((2, 1),), 1),
        (3, 1, "a", 1, "b", ((0, 1),), 1),
        (3, 1, "a", 1, "b", ((1, 1),), -1),
        (4, 1, "$a", 1, "b", 1),
        (4, 1, "a", 1, "b", -1),
        (9, 1, "a", 1, "b", 1),
    ],
)
def test_a_field_out_of_range_is_refused(row: tuple[object, ...]) -> None:
    with pytest.raises(ProtocolError, match="routed"):
        decode(msgpack.packb(row))


def test_a_seal_of_a_word_is_as_long_as_a_signature_may_be_and_no_longer() -> None:
    def claim(seal_bytes: int) -> bytes:
        return Claim(("gw-a", 1), 2, (("gw-b", 2, 0),), bytes(seal_bytes)).encode()

    word, _ = decode(claim(255))
    assert isinstance(word, Claim)
    assert word.seal == bytes(255)
    with pytest.raises(ProtocolError, match="routed seal"):
        decode(claim(256))

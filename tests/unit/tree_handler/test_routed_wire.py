"""The messages of routed mode on the wire."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.batch import MAX_NUMBER
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.routing.wire import (
    MAX_HOPS,
    Ack,
    Ask,
    Carry,
    Claim,
    Tell,
    before_in,
    decode,
    first_of,
    pack_pairs,
    signed_part,
)

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


FOR_B = (("gw-b", 1),)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ((0,), "routed message"),
        (("0", 1, b"", False, FOR_B), "routed message"),
        ((0, 1, b"", False), "routed message"),
        ((0, 1, b"", False, FOR_B, b"", 0), "routed message"),
        ((0, -1, b"", False, FOR_B), "routed hops"),
        ((0, "1", b"", False, FOR_B), "routed hops"),
        ((0, 1, "", False, FOR_B), "routed overlay"),
        ((0, 1, bytes(65), False, FOR_B), "routed overlay"),
        ((0, 1, b"", False, FOR_B, ""), "routed list"),
        ((0, 1, b"", False, {}), "routed destinations"),
        ((0, 1, b"", False, (("gw-b",),)), "routed destination"),
        ((1, 1, "a", 1, 1, (("gw-b", 1),)), "routed destination"),
        ((1, 1, "a", 0, 1, (("gw-b", 1, 0),)), "routed epoch"),
        ((1, 1, "a", True, 1, (("gw-b", 1, 0),)), "routed epoch"),
        ((1, 1, "a", MAX_BOOT_EPOCH + 1, 1, (("gw-b", 1, 0),)), "routed epoch"),
        ((1, 1, "a", 1, True, (("gw-b", 1, 0),)), "routed number"),
        ((3, 1, "a", 1, "b", "", 1), "routed ranges"),
        ((3, 1, "a", 1, "b", ("",), 1), "routed range"),
        ((3, 1, "a", 1, "b", ((1,),), 1), "routed range"),
        ((3, 1, "a", 1, "b", ((1, 2, 3),), 1), "routed range"),
        ((3, 1, "a", 1, "b", ((0, 1),), 1), "routed range"),
        ((3, 1, "a", 1, "b", ((2, 1),), 1), "routed range"),
        ((4, 1, "a", 1, "b", 1, ""), "routed seal"),
    ],
)
def test_what_is_wrong_in_a_message_is_told(row: tuple[object, ...], named: str) -> None:
    with pytest.raises(ProtocolError, match=rf"^{named}: "):
        decode(msgpack.packb(row))


def test_nothing_stands_behind_a_word_and_a_batch_does_behind_its_list() -> None:
    word = Ack(("gw-a", 1), "gw-b", 1).encode()
    with pytest.raises(ProtocolError, match=f"followed by other bytes: {len(word) + 1}$"):
        decode(word + b"\0")
    assert decode(Carry(FOR_B, b"batch").encode(7)) == (Carry(FOR_B, b"batch"), 7)


def test_a_message_has_256_ranges_and_an_overlays_name_64_bytes() -> None:
    ranges = [(number, number) for number in range(1, 515, 2)]
    asked = Ask(("gw-a", 1), "gw-b", Intervals(ranges[:256]))
    assert decode(asked.encode())[0] == asked
    more = Intervals(ranges)
    with pytest.raises(ProtocolError, match="routed ranges"):
        decode(Ask(("gw-a", 1), "gw-b", more).encode())
    assert first_of(more) == asked.ranges
    carried = Carry(FOR_B, b"", overlay=bytes(64))
    assert decode(carried.encode(0)) == (carried, 0)


def test_the_largest_numbers_that_there_can_be_are_read() -> None:
    last = ("gw-a", MAX_BOOT_EPOCH)
    for word in (
        Claim(last, MAX_NUMBER, (("gw-b", MAX_NUMBER, MAX_NUMBER),)),
        Ask(last, "gw-b", Intervals([(MAX_NUMBER, MAX_NUMBER)]), MAX_NUMBER),
        Ack(last, "gw-b", 0),
    ):
        assert decode(word.encode(255)) == (word, 255)


def test_a_batch_has_a_number_for_each_gateway_of_its_list_and_none_for_others() -> None:
    listed = pack_pairs((("gw-b", 3), ("gw-c", 0)))
    assert [before_in(listed, name) for name in ("gw-b", "gw-c", "gw-d")] == [3, 0, None]
    for wrong in (b"", b"\xc1", msgpack.packb((("gw-b", -1),)), msgpack.packb(("gw-b",))):
        assert before_in(wrong, "gw-b") is None


def test_who_says_a_word_signs_it_and_its_way_is_no_part_of_that() -> None:
    none = Intervals()
    stream = ("gw-a", 1)
    words: list[tuple[Claim | Tell | Ask | Ack, str]] = [
        (Claim(stream, 1, (("gw-b", 1, 0),)), "gw-a"),
        (Tell("gw-b", stream, 1, 1, none, none), "gw-a"),
        (Ask(stream, "gw-b", none), "gw-b"),
        (Ack(stream, "gw-b", 1), "gw-b"),
    ]
    for word, sayer in words:
        assert word.sayer == sayer
        sealed, hops = decode(replace(word, seal=b"seal").encode(9))
        assert (hops, sealed) == (9, replace(word, seal=b"seal"))
        assert signed_part(replace(word, seal=b"seal")) == word.encode(0)

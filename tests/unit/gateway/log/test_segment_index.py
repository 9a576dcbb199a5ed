"""The index of a segment says what it said, and nothing that can't be."""

from __future__ import annotations

import zlib
from typing import Any

import msgpack
import pytest

from gateway.log.index import SegmentIndex
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers

STREAM, OTHER = ("gw-a", 1), ("gw-b", 7)
HOLDS = {STREAM: Intervals([(5, 9), (12, 12)])}
EVER = {STREAM: Intervals([(1, 12)]), OTHER: Intervals([(3, 3)])}
NOTHING = pack_numbers({})


def index(**fields: Any) -> SegmentIndex:
    told = {"start": 100, "length": 50, "control": [], "holds": HOLDS, "ever": EVER, **fields}
    return SegmentIndex(**told)


def as_a_file(*fields: Any) -> bytes:
    packed = msgpack.packb(fields)
    return zlib.crc32(packed).to_bytes(4, "big") + packed


@pytest.mark.parametrize("control", [[], [0], [0, 20, 49]])
@pytest.mark.parametrize("lost", [{}, {OTHER: Intervals([(2, 2)])}])
def test_it_says_again_what_it_said(control: list[int], lost: dict[Any, Intervals]) -> None:
    told = index(control=control, lost=lost)
    assert SegmentIndex.unpack(told.pack()) == told


@pytest.mark.parametrize("control", [[-1], [50], [0, 51]])
def test_a_batch_that_would_start_outside_of_the_segment_is_refused(control: list[int]) -> None:
    with pytest.raises(ValueError, match="index"):
        SegmentIndex.unpack(index(control=control).pack())


def test_numbers_that_a_log_holds_it_has_had() -> None:
    assert SegmentIndex.unpack(index(holds=EVER).pack())
    for holds in ({STREAM: Intervals([(5, 13)])}, {("gw-c", 1): Intervals([(1, 1)])}):
        with pytest.raises(ValueError, match="index"):
            SegmentIndex.unpack(index(holds=holds).pack())


def test_one_of_an_earlier_release_tells_of_nothing_lost() -> None:
    assert SegmentIndex.unpack(as_a_file(100, 50, [], NOTHING, NOTHING)).lost == {}


def test_damage_anywhere_is_seen() -> None:
    data = index(control=[0]).pack()
    for at in range(len(data)):
        with pytest.raises(ValueError, match="index"):
            SegmentIndex.unpack(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for wrong in (
        b"",
        data[:4],
        as_a_file(),
        as_a_file(100, 50),
        as_a_file(100, 50, [b""], [], []),
    ):
        with pytest.raises(ValueError, match=r"index|values to unpack"):
            SegmentIndex.unpack(wrong)

"""The walk over the batches of a segment: what is whole, what is damaged, what a cut left."""

from __future__ import annotations

import pytest

from tree_handler import batch
from tree_handler.batch import FRAME, MAX_FRAME_BYTES, Entry, Flags
from tree_handler.batch_walk import (
    BLOCK_BYTES,
    START,
    claimed,
    is_any_behind,
    is_batch,
    is_beginning,
    is_unwritten,
)


def frame(payload: bytes = b"x") -> bytes:
    entries = [Entry("t", payload, 1)]
    return batch.encode("gw", 1, 1, entries, flags=Flags.LOGGED, origin_time_us=0)


ONE = frame()
TOO_LONG = FRAME.pack(batch.MAGIC, batch.VERSION, 0, MAX_FRAME_BYTES, 0) + bytes(8)


def test_a_check_goes_through_the_bytes_that_a_head_claims_if_they_are_there() -> None:
    data = b"-" + ONE + b"-"
    assert claimed(data, 1) == len(ONE)
    assert claimed(data[:-1], 1) == len(ONE)
    assert claimed(data[:-2], 1) == 0
    assert claimed(data, 0) == 0
    assert claimed(TOO_LONG, 0) == 0
    assert claimed(ONE[: FRAME.size - 1], 0) == 0
    damaged = bytearray(ONE)
    damaged[-1] ^= 1
    assert claimed(damaged, 0) == len(ONE)
    assert (is_batch(data, 1), is_batch(data, 0), is_batch(damaged, 0)) == (True, False, False)


def test_a_batch_is_found_wherever_it_stands_behind_a_place_and_not_at_it() -> None:
    assert is_any_behind(b"-" + ONE, 0)
    assert is_any_behind(START + ONE, 0)
    assert is_any_behind(TOO_LONG + START + ONE, 0)
    assert not is_any_behind(ONE, 0)
    assert not is_any_behind(b"-" + ONE[:-1], 0)
    assert is_any_behind(frame(ONE), 0)  # one that a client made up


@pytest.mark.parametrize("kept", range(len(ONE)))
def test_whatever_a_kill_leaves_of_one_batch_is_its_beginning(kept: int) -> None:
    assert is_beginning(b"-" + ONE[:kept], 1)


def test_what_is_whole_or_another_thing_is_no_beginning_of_a_batch() -> None:
    assert not is_beginning(ONE, 0)
    assert not is_beginning(ONE + b"-", 0)
    assert not is_beginning(b"xx", 0)
    assert not is_beginning(TOO_LONG, 0)
    assert not is_beginning(TOO_LONG[: FRAME.size], 0)  # a head alone, and no batch is so long
    longer = bytearray(ONE)
    longer[4:8] = (len(ONE) - FRAME.size + 1).to_bytes(4, "big")
    assert not is_beginning(bytes(longer), 0)  # whole, and its length is what is damaged


def test_zeros_from_a_block_on_are_what_a_power_cut_leaves_and_other_zeros_are_not() -> None:
    long = frame(b"x" * 2 * BLOCK_BYTES)
    for written in (0, BLOCK_BYTES, 2 * BLOCK_BYTES):
        assert is_unwritten(long[:written] + bytes(len(long) - written), 0)
    assert is_unwritten(long[:BLOCK_BYTES] + bytes(BLOCK_BYTES), 0)
    assert is_unwritten(ONE + bytes(9), len(ONE))
    torn = long[: BLOCK_BYTES + 1]
    assert is_unwritten(torn + bytes(len(long) - len(torn)), 0)  # zeros of its own, perhaps
    assert not is_unwritten(long[:-5] + bytes(5), 0)  # no block of its own ends before its end
    assert not is_unwritten(TOO_LONG + bytes(BLOCK_BYTES), 0)
    assert not is_unwritten(ONE, 0)

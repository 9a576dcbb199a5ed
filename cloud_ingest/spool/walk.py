"""Walks the batches of a stretch of spool, and goes on behind what is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.batch_walk import SEARCH_BYTES, START, DamagedBytes, claimed, is_batch
from tree_handler.errors import BatchError

__all__ = ["SEARCH_BYTES", "DamagedBytes", "walk"]


def walk(
    data: bytes | memoryview, start: int, end: int
) -> Iterator[tuple[int, Header] | DamagedBytes]:
    """Give position and header of each batch between two positions, CRC checked.

    A damaged batch whose length is right is passed over by that length: its payload may hold what
    looks like a batch, and is none.

    Args:
        data: a segment.
        start: where a batch starts.
        end: where the last one ends.

    """
    view = memoryview(data)[:end]
    at = start
    while at < end:
        try:
            header = batch.check(view, at)
        except BatchError as error:
            behind = _behind(view, at)
            yield DamagedBytes(at, behind, str(error))
            at = behind
            continue
        yield at, header
        at += header.end


def _behind(view: memoryview, at: int) -> int:
    """Where a batch starts again, or the end."""
    end = len(view)
    try:
        length = batch.frame_length(view, at)
    except BatchError:
        length = None
    if length is not None and (at + length == end or is_batch(view, at + length)):
        return at + length
    data, left = bytes(view[at + 1 :]), SEARCH_BYTES
    found = data.find(START)
    while found >= 0:
        candidate = at + 1 + found
        if is_batch(view, candidate):
            return candidate
        left -= claimed(view, candidate)
        if left < 0:
            break
        found = data.find(START, found + 1)
    return end

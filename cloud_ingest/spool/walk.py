"""Walks the batches of a stretch of spool, and goes on behind what is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.batch_walk import SEARCH_BYTES, START, DamagedBytes, claimed, is_batch, next_start
from tree_handler.errors import BatchError
from tree_handler.noted_batches import NotedBatches

__all__ = ["SEARCH_BYTES", "DamagedBytes", "walk"]


def walk(
    data: bytes | memoryview,
    start: int,
    end: int,
    position: int = 0,
    notes: NotedBatches | None = None,
) -> Iterator[tuple[int, Header] | DamagedBytes]:
    """Give position and header of each batch between two positions, CRC checked.

    Where the collector's notes are complete, what its batches hold that looks like a batch is never
    taken for one (`tree_handler.batch_walk`). Else a damaged batch whose length is right is passed
    over by that length.

    Args:
        data: a segment.
        start: where a batch starts.
        end: where the last one ends.
        position: of the segment's first byte, over all segments.
        notes: what stands beside the segments, if anything.

    """
    view = memoryview(data)[:end]
    at = start
    while at < end:
        try:
            header = batch.check(view, at)
        except BatchError as error:
            behind = _behind(view, at, position, notes)
            yield DamagedBytes(at, behind, str(error))
            at = behind
            continue
        yield at, header
        at += header.end


def _behind(view: memoryview, at: int, position: int, notes: NotedBatches | None) -> int:
    """Return where a batch starts again, or the end."""
    if notes is not None and notes.are_complete(position + at):
        return at + next_start(bytes(view[at:]), position + at, notes, 0)
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

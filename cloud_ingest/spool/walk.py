"""Walks the batches of a stretch of spool, and goes on behind what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.errors import BatchError

SEARCH_BYTES = 64 << 20
"""Bytes whose CRC is made to find the next batch behind damaged ones. What is then left of the
stretch counts as damaged too: who fills it with beginnings of batches can't keep a reader busy."""

_START = batch.MAGIC + bytes((batch.VERSION,))


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Bytes that hold no whole batch.

    Attributes:
        at: the first of them, in the segment.
        end: behind the last.
        why: what is wrong at ``at``.

    """

    at: int
    end: int
    why: str


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
    if length is not None and (at + length == end or _is_batch(view, at + length)):
        return at + length
    data, left = bytes(view[at + 1 :]), SEARCH_BYTES
    found = data.find(_START)
    while found >= 0:
        candidate = at + 1 + found
        if _is_batch(view, candidate):
            return candidate
        left -= _claimed(view, candidate)
        if left < 0:
            break
        found = data.find(_START, found + 1)
    return end


def _is_batch(view: memoryview, at: int) -> bool:
    try:
        batch.check(view, at)
    except BatchError:
        return False
    return True


def _claimed(view: memoryview, at: int) -> int:
    """How many bytes a check of this beginning went through."""
    try:
        length = batch.frame_length(view, at) or 0
    except BatchError:
        return 0
    return length if at + length <= len(view) else 0

"""Walks the batches of a segment and goes on behind what is damaged.

Behind damage the next start is looked for whose check passes. A client may have made a batch up
and sent it as a payload; where the head of the true one around it is damaged, that would be taken
for it. So who appends notes each batch that has the bytes of a start anywhere inside, and none is
looked for within those. Where the notes are not complete, a damaged batch is passed over by the
length that its head tells, and only if a whole batch or the end follows there. Else nothing behind
it is read.

That no old blocks of deleted files come back as a part of a segment is the file system's part:
ext4 in its default mode sees to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.errors import BatchError
from tree_handler.noted_batches import NotedBatches

START: Final = batch.MAGIC + bytes((batch.VERSION,))
"""The bytes that every batch begins with."""
SEARCH_BYTES: Final = 64 << 20
"""Bytes whose CRC is made to find the next batch; what is then left counts as damaged too."""
BLOCK_BYTES: Final = 4_096
"""The bytes that a file system writes at once."""


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Bytes that hold no whole batch.

    Attributes:
        at: the first of them.
        end: behind the last.
        why: what is wrong at ``at``.

    """

    at: int
    end: int
    why: str


def walk(
    data: bytes, position: int, notes: NotedBatches, at: int = 0
) -> Iterator[tuple[int, Header] | DamagedBytes]:
    """Give where in some bytes each batch starts, with its header, and what holds none.

    Args:
        data: a segment, or a part of one.
        position: of its first byte, over all segments.
        notes: of the log.
        at: where a batch starts in it.

    """
    end = len(data)
    while at < end:
        found = _whole(data, at)
        if isinstance(found, Header):
            yield at, found
            at += found.end
        else:
            behind = _behind(data, position, notes, at)
            yield DamagedBytes(at, behind, str(found))
            at = behind


def _whole(data: bytes, at: int) -> Header | BatchError:
    """Return the header of a whole batch, or why there is none."""
    try:
        return batch.check(data, at)
    except BatchError as error:
        return error


def _behind(data: bytes, position: int, notes: NotedBatches, at: int) -> int:
    if notes.are_complete(position + at):
        return next_start(data, position, notes, at)
    try:
        length = batch.frame_length(data, at)
    except BatchError:
        length = None
    end = len(data)
    if length is not None and (at + length == end or is_batch(data, at + length)):
        return at + length
    return end


def next_start(data: bytes, position: int, notes: NotedBatches, at: int) -> int:
    """Return where the next whole batch starts behind this, or the end; see `walk`."""
    end, left = len(data), SEARCH_BYTES
    found = data.find(START, at + 1)
    while found >= 0 and left >= 0:
        behind = notes.behind(position + found)
        if behind:
            found = data.find(START, behind - position)
            continue
        if is_batch(data, found):
            return found
        left -= claimed(data, found)
        found = data.find(START, found + 1)
    return end


def is_batch(data: bytes | memoryview, at: int) -> bool:
    """Return whether a whole batch starts there."""
    try:
        batch.check(data, at)
    except BatchError:
        return False
    return True


def is_any_behind(data: bytes, at: int) -> bool:
    """Return whether a whole batch starts anywhere behind this, be it made up or not."""
    left = SEARCH_BYTES
    found = data.find(START, at + 1)
    while found >= 0 and left >= 0:
        if is_batch(data, found):
            return True
        left -= claimed(data, found)
        found = data.find(START, found + 1)
    return False


def claimed(data: bytes | memoryview, at: int) -> int:
    """Return how many bytes a check of this beginning went through."""
    try:
        length = batch.frame_length(data, at) or 0
    except BatchError:
        return 0
    return length if at + length <= len(data) else 0


def is_beginning(data: bytes, at: int) -> bool:
    """Return whether the beginning of one batch stands from here to the end: a kill leaves that.

    Args:
        data: a whole segment.
        at: where a batch should start in it.

    """
    end = len(data)
    if end - at < batch.FRAME.size:
        return START.startswith(data[at : at + len(START)])
    try:
        length = batch.frame_length(data, at) or 0
    except BatchError:
        return False
    if at + length <= end:
        return False
    flags, crc = data[at + 3], int.from_bytes(data[at + 8 : at + 12], "big")
    rest = memoryview(data)[at + batch.FRAME.size :]
    # Else it is a whole one whose length is what is damaged.
    return zlib.crc32(rest, zlib.crc32(bytes((flags,)))) != crc


def is_unwritten(data: bytes, at: int) -> bool:
    """Return whether zeros stand to the end, as a power cut leaves where the last blocks of a file
    were not written yet: from here on, or from a block's end within the batch that starts here.

    Args:
        data: a whole segment.
        at: where a batch should start in it.

    """
    end = len(data)
    written = at + len(data[at:].rstrip(b"\0"))
    if written == at:
        return True
    try:
        length = batch.frame_length(data, at) or 0
    except BatchError:
        return False
    return -(-written // BLOCK_BYTES) * BLOCK_BYTES < min(end, at + length)

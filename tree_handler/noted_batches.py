"""Batches of a log that hold what looks like the start of another: see `tree_handler.batch_walk`.

The file beside the segments is a record for each: ``position u64 | length u32 | crc u32``, where
positions are over all segments. The first has the position from which the notes are complete, and
the length 0. Each is there before its batch is appended.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from typing import Final

FILE_NAME: Final = "inner"
NOWHERE: Final = (1 << 63) - 1
_RECORD: Final = struct.Struct(">QI")
_CRC: Final = struct.Struct(">I")
RECORD_BYTES: Final = _RECORD.size + _CRC.size


class NotedBatches:
    """The starts and ends of noted batches in the log, in their order.

    Attributes:
        complete_from: the position from which the notes are complete.
        spans: where each noted batch, or run of batches, starts and ends. Threads read it: nothing
            is taken out of a list, but another list takes its place.

    """

    def __init__(self) -> None:
        self.complete_from = NOWHERE
        self.spans: list[tuple[int, int]] = []

    def take(self, data: bytes) -> int:
        """Read a file, and return how many bytes of it are whole records.

        A batch whose record is torn was not written.

        Raises:
            ValueError: it is empty or damaged; nothing is known then.

        """
        whole = len(data) - len(data) % RECORD_BYTES
        if not whole:
            raise ValueError("empty")
        spans: list[tuple[int, int]] = []
        for at in range(0, whole, RECORD_BYTES):
            position, length = _RECORD.unpack_from(data, at)
            (crc,) = _CRC.unpack_from(data, at + _RECORD.size)
            if zlib.crc32(data[at : at + _RECORD.size]) != crc:
                raise ValueError(f"damaged at byte {at}")
            spans.append((position, position + length))
        self.complete_from, self.spans = spans[0][0], spans[1:]
        return whole

    def are_complete(self, position: int) -> bool:
        """Return whether the notes of what stands from this position on are complete."""
        return position >= self.complete_from

    def behind(self, position: int) -> int:
        """Return where the noted batch ends inside which this position is; 0 if in none."""
        spans = self.spans
        at = bisect_left(spans, (position, 0)) - 1
        return spans[at][1] if at >= 0 and position < spans[at][1] else 0


def record(position: int, length: int) -> bytes:
    """Make a record."""
    packed: bytes = _RECORD.pack(position, length)
    return packed + _CRC.pack(zlib.crc32(packed))

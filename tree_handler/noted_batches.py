"""Which batches of a log hold what looks like the start of another: see `tree_handler.batch_walk`.

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
    """Positions and ends of such batches, in their order.

    Attributes:
        complete_from: the position from which the notes are complete.
        starts: where each noted batch, or run of batches, starts.
        ends: where it ends.

    """

    def __init__(self) -> None:
        self.complete_from = NOWHERE
        self.starts: list[int] = []
        self.ends: list[int] = []

    def take(self, data: bytes) -> int:
        """Read a file; how many bytes of it are whole records. A batch whose record is torn was
        not written.

        Raises:
            ValueError: it is empty or damaged; nothing is known then.

        """
        whole = len(data) - len(data) % RECORD_BYTES
        if not whole:
            raise ValueError("empty")
        starts, ends = list[int](), list[int]()
        for at in range(0, whole, RECORD_BYTES):
            position, length = _RECORD.unpack_from(data, at)
            (crc,) = _CRC.unpack_from(data, at + _RECORD.size)
            if zlib.crc32(data[at : at + _RECORD.size]) != crc:
                raise ValueError(f"damaged at byte {at}")
            starts.append(position)
            ends.append(position + length)
        self.complete_from, self.starts, self.ends = starts[0], starts[1:], ends[1:]
        return whole

    def are_complete(self, position: int) -> bool:
        """Return whether the notes of what stands from this position on are complete."""
        return position >= self.complete_from

    def behind(self, position: int) -> int:
        """Return where the noted batch ends inside which this position is; 0 if in none."""
        at = bisect_left(self.starts, position) - 1
        return self.ends[at] if at >= 0 and position < self.ends[at] else 0


def record(position: int, length: int) -> bytes:
    """Make a record."""
    packed: bytes = _RECORD.pack(position, length)
    return packed + _CRC.pack(zlib.crc32(packed))

"""When the collector had what of a segment on disk: a small file beside it.

``<segment>.times`` is the plain concatenation of pairs ``end u64 | time_us u64``, big-endian, one
for each sync: what stands before ``end`` and behind the pair before was safe at that time. It is a
note and no promise: where it is missing or torn, the time of the segment's last change serves.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

PAIR = struct.Struct(">QQ")
SUFFIX = ".times"
MAX_BYTES = 64 << 20


class Receipts:
    """The times of one segment.

    Args:
        segment: its file.

    """

    def __init__(self, segment: Path) -> None:
        try:
            with segment.with_suffix(SUFFIX).open("rb") as file:
                data = file.read(MAX_BYTES)
        except OSError:
            data = b""
        pairs = list(PAIR.iter_unpack(data[: len(data) // PAIR.size * PAIR.size]))
        self._ends = [end for end, _ in pairs]
        self._times_us = [time_us for _, time_us in pairs]
        try:
            self._changed_us = segment.stat().st_mtime_ns // 1_000
        except OSError:
            self._changed_us = 0

    def time_us(self, at: int) -> int:
        """When the batch that starts at ``at`` was on disk, microseconds since 1970."""
        i = bisect_right(self._ends, at)
        return self._times_us[i] if i < len(self._ends) else self._changed_us

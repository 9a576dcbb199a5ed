"""Times when the collector had what of a segment on disk: a small file beside it.

``<segment>.times`` is the plain concatenation of pairs ``end u64 | time_us u64``, big-endian, one
for each sync: what stands before ``end`` and behind the pair before was safe at that time. It is a
note and no promise: where it is missing or torn, the time of the segment's last change serves.
"""

from __future__ import annotations

import contextlib
import struct
import time
from bisect import bisect_right
from pathlib import Path

PAIR = struct.Struct(">QQ")
SUFFIX = ".times"
MAX_BYTES = 64 << 20
MAX_TIME_US = 253_402_300_799_000_000
"""The last second of the year 9999."""


def note(segment: Path, end: int) -> None:
    """Note that a segment is on disk up to ``end`` since now; a disk that fails is not told here.

    Args:
        segment: its file.
        end: behind its last byte that is safe.

    """
    with contextlib.suppress(OSError), segment.with_suffix(SUFFIX).open("ab", 0) as file:
        file.write(PAIR.pack(end, time.time_ns() // 1_000))


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
        # A torn pair leaves nonsense behind it: what does not go on is not used.
        self._ends: list[int] = []
        self._times_us: list[int] = []
        for end, time_us in pairs:
            if time_us > MAX_TIME_US or (self._ends and end < self._ends[-1]):
                break
            self._ends.append(end)
            self._times_us.append(time_us)
        try:
            self._changed_us = segment.stat().st_mtime_ns // 1_000
        except OSError:
            self._changed_us = 0

    def time_us(self, at: int) -> int:
        """Return when the batch that starts at ``at`` was on disk, microseconds since 1970."""
        i = bisect_right(self._ends, at)
        return self._times_us[i] if i < len(self._ends) else self._changed_us

"""Wear of a disk: what is written to it in a day. Pure."""

from __future__ import annotations

import msgspec


class Wear(msgspec.Struct, array_like=True):
    """A count of the bytes written to a disk, which goes on over restarts of its machine.

    Attributes:
        raw: what the machine last said; it begins at 0 with each start.
        total: over all starts that were seen.
        marks: time and total of two earlier looks, the second within the window.

    """

    raw: int = 0
    total: int = 0
    marks: list[tuple[int, int]] = []

    def look(self, raw: int, at_us: int, window_us: int) -> float | None:
        """Return bytes written in a day at the pace of the last window or two; None before there is
        one.

        Args:
            raw: what the machine says.
            at_us: when, by one clock.
            window_us: over so long at least.

        """
        if self.marks:  # what was written before is not known to be of late
            self.total += raw - self.raw if raw >= self.raw else raw
        self.raw = raw
        if not self.marks or at_us - self.marks[-1][0] >= window_us:
            self.marks = [*self.marks[-1:], (at_us, self.total)]
        since_us, before = self.marks[0]
        if at_us - since_us < window_us:
            return None
        return (self.total - before) * 86_400e6 / (at_us - since_us)

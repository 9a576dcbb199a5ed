"""Times when the collector heard everybody, so that nobody is silent because it was away.

All that is known of it is when it took something, from whomever. Where nothing came for long,
either the collector was away or all were silent: such a stretch counts for no more than a gateway's
own pause is long. So a collector that comes back finds nobody silent, and a gateway that is gone is
found out, only later, although few others are there.

What is forgotten after a time is forgotten after so long of listening: a clock that leaps over
years takes nothing away.

Times are microseconds of the watch's time.
"""

from __future__ import annotations

import bisect
from typing import Final

import msgspec

LEAST_US: Final = 5_000_000
"""A shorter stretch without anything is none."""
MAX_STRETCHES: Final = 4_096
"""Stretches that are remembered."""
MOST_STEP_US: Final = 3_600_000_000
"""Of a longer stretch without anything so much counts as listened."""
MARK_US: Final = 86_400_000_000
"""The time listened is noted each time that it has grown by so much."""
MAX_MARKS: Final = 1_100
"""Notes of it that are kept: three years."""


class Listening(msgspec.Struct):
    """The stretches of time in which the collector took messages.

    Attributes:
        progress_us: when it last took something; None before.
        stretches: begin and end of those in which it took nothing, in order.
        total_us: how long it has listened.
        marks: times, and how long it had listened by then, in order.

    """

    progress_us: int | None = None
    stretches: list[tuple[int, int]] = []
    total_us: int = 0
    marks: list[tuple[int, int]] = []

    def took(self, at_us: int) -> None:
        """It took something, or says that it had nothing to take; not always in order."""
        if self.progress_us is None:
            self.progress_us = at_us
        elif at_us > self.progress_us:
            if at_us - self.progress_us > LEAST_US:
                self.stretches.append((self.progress_us, at_us))
                del self.stretches[:-MAX_STRETCHES]
            self._count(at_us, min(at_us - self.progress_us, MOST_STEP_US))
            self.progress_us = at_us
        else:
            self._split(at_us)

    def listened_us(self, since_us: int, until_us: int, pause_us: int) -> int:
        """Return how long it was there between two times.

        Args:
            since_us: the earlier one.
            until_us: the later one.
            pause_us: how much a stretch without anything counts at most.

        """
        total = until_us - since_us
        at = max(0, bisect.bisect_left(self.stretches, (since_us, 0)) - 1)
        for begin, end in self.stretches[at:]:
            if begin >= until_us:
                break
            within = min(end, until_us) - max(begin, since_us)
            if within > pause_us:
                total -= within - pause_us
        return total

    def ago(self, span_us: int) -> int:
        """Return a time since which it has listened for so long, or somewhat longer.

        Before it has, there is none: then it is before all times.
        """
        wanted_us = self.total_us - span_us
        at = bisect.bisect_right(self.marks, wanted_us, key=lambda mark: mark[1]) - 1
        if wanted_us < 0 or at < 0:
            return -(2**63)
        mark_us, total_us = self.marks[at]
        return mark_us + wanted_us - total_us

    def _count(self, at_us: int, more_us: int) -> None:
        if not self.marks:
            self.marks.append((at_us - more_us, self.total_us))
        self.total_us += more_us
        if self.total_us - self.marks[-1][1] >= MARK_US:
            self.marks.append((at_us, self.total_us))
            del self.marks[:-MAX_MARKS]

    def _split(self, at_us: int) -> None:
        at = bisect.bisect_left(self.stretches, (at_us, 0)) - 1
        if at >= 0 and self.stretches[at][0] < at_us < self.stretches[at][1]:
            begin, end = self.stretches[at]
            parts = [(begin, at_us), (at_us, end)]
            self.stretches[at : at + 1] = [p for p in parts if p[1] - p[0] > LEAST_US]

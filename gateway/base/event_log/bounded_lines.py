"""Lines in the log that strangers cause: bounded, and what goes beyond that is told as numbers.

Each of those who cause them has a few lines and all together have some, so that no flood fills a
disk and nobody hides another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gateway.base.timers import Alarm, Timers
from light_dataclasses import dataclass
from tree_handler.rate_limit import MAX_SOURCES, RateLimit

SUM_UP_S = 10.0
"""So long after a line was left out all that were are told as numbers."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many lines at once, and then so many a second."""

    at_once: int
    per_s: float


class LineShares:
    """The numbers of log lines that all sources, and each of them, may still write.

    Args:
        everybody: what all have together.
        each: what one of them has.
        sources_max: so many of them are remembered.

    """

    def __init__(
        self, everybody: Allowance, each: Allowance, sources_max: int = MAX_SOURCES
    ) -> None:
        self._everybody = RateLimit(everybody.per_s, everybody.at_once)
        self._each = RateLimit(each.per_s, each.at_once, sources_max)

    def has_one(self, who: str, now_s: float) -> bool:
        """Return whether there is a line for somebody, which is then taken."""
        if self._each.is_over(who, now_s) or self._everybody.is_over("", now_s):
            return False
        self._each.count(who, now_s)
        self._everybody.count("", now_s)
        return True


class LeftOut:
    """A count of the lines that were left out, which is told in one line later.

    Args:
        timers: the event loop.
        tell: writes the line that sums it up; takes words such as "3 connected, 2 disconnected".

    """

    def __init__(self, timers: Timers, tell: Callable[[str], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._counts: Counter[str] = Counter()
        self._summary: Alarm | None = None

    def count(self, what: str) -> None:
        """A line of a kind is left out."""
        self._counts[what] += 1
        if self._summary is None:
            self._summary = self._timers.call_later(SUM_UP_S, self._sum_up)

    def close(self) -> None:
        """Tell what was left out until now."""
        if self._summary is not None:
            self._summary.cancel()
            self._sum_up()

    def _sum_up(self) -> None:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._counts.items()))
        self._counts.clear()
        self._summary = None
        self._tell(counts)

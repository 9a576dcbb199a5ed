"""Limits on how often each of many sources may do something: a token bucket for each.

The table of sources is bounded too, so that a flood of forged sources costs neither memory nor
more work than the table allows. The source quiet longest stands first in it.
"""

from __future__ import annotations

MAX_SOURCES = 1_024


class RateLimit:
    """Allows each source a steady rate and a burst.

    Times are in seconds, of a clock that never goes back.

    Args:
        per_second: steady rate of a source.
        burst: how many at once.
        max_sources: sources remembered.

    """

    def __init__(self, per_second: float, burst: int, max_sources: int = MAX_SOURCES) -> None:
        self._per_second = per_second
        self._burst = burst
        self._max_sources = max_sources
        # By source: what was left of its burst, and when.
        self._left: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Return how many sources are remembered."""
        return len(self._left)

    def allow(self, source: str, now: float) -> bool:
        """Return whether the source may do it once more, which is then counted.

        When the table is full, a source that has its whole burst again is forgotten, which changes
        nothing for it; if there is none, newcomers are refused.
        """
        if self.is_over(source, now) or not (source in self._left or self._room(now)):
            return False
        self._take(source, now)
        return True

    def is_over(self, source: str, now: float) -> bool:
        """Return whether the source has done it too often to do it once more."""
        return self._refilled(source, now) < 1.0

    def wait_s(self, source: str, now: float, least: float = 1.0) -> float:
        """Return for how long the source is to wait until so much of its burst is left."""
        return max(0.0, (least - self._refilled(source, now)) / self._per_second)

    def count(self, source: str, now: float, size: float = 1.0) -> None:
        """Count what the source has done, allowed or not; something large counts as several.

        When the table is full, the source quiet longest is forgotten, so that nobody is refused
        for what others do.
        """
        self._take(source, now, size)
        if len(self._left) > self._max_sources:
            del self._left[next(iter(self._left))]

    def forget_rested(self, now: float) -> None:
        """Forget the sources that have their whole burst again, which changes nothing for them.

        Of those, the ones that stand in the table before all others: one that was quiet longer and
        has further to go keeps the rest.
        """
        rested = []
        for source in self._left:
            if self._refilled(source, now) < self._burst:
                break
            rested.append(source)
        for source in rested:
            del self._left[source]

    def _take(self, source: str, now: float, size: float = 1.0) -> None:
        left = self._refilled(source, now)
        self._left.pop(source, None)
        self._left[source] = (left - size, now)

    def _refilled(self, source: str, now: float) -> float:
        left, since = self._left.get(source, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)

    def _room(self, now: float) -> bool:
        if len(self._left) < self._max_sources:
            return True
        oldest = next(iter(self._left))
        if self._refilled(oldest, now) < self._burst:
            return False
        del self._left[oldest]
        return True

"""A limit on how often each of many sources may do something: a token bucket for each.

The table of sources is bounded too. When it is full, a source that has been quiet long
enough to have its whole burst again is forgotten, which changes nothing for it; if there is
none, newcomers are refused. So a flood of forged source addresses costs neither memory nor
more work than the table allows.
"""

from __future__ import annotations

MAX_SOURCES = 1_024


class RateLimit:
    """Allows each source a steady rate and a burst.

    Args:
        per_second: steady rate of a source.
        burst: how many at once.
        max_sources: sources remembered.

    """

    def __init__(self, per_second: float, burst: int, max_sources: int = MAX_SOURCES) -> None:
        self._per_second = per_second
        self._burst = burst
        self._max_sources = max_sources
        # By source: what was left of its burst, and when. The source quiet longest stands first.
        self._left: dict[str, tuple[float, float]] = {}

    def allow(self, source: str, now: float) -> bool:
        """Whether the source may do it once more at this time (seconds, never going back)."""
        left = self._refilled(source, now)
        if left is None:
            if not self._room(now):
                return False
            left = float(self._burst)
        if left < 1.0:
            return False
        self._left.pop(source, None)
        self._left[source] = (left - 1.0, now)
        return True

    def _refilled(self, source: str, now: float) -> float | None:
        known = self._left.get(source)
        if known is None:
            return None
        return min(self._burst, known[0] + (now - known[1]) * self._per_second)

    def _room(self, now: float) -> bool:
        if len(self._left) < self._max_sources:
            return True
        oldest = next(iter(self._left))
        left = self._refilled(oldest, now)
        if left is None or left < self._burst:
            return False
        del self._left[oldest]
        return True

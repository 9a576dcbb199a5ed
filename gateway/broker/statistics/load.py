"""Load averages as Mosquitto's ``$SYS`` tells them: events in a minute, smoothed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

MINUTES = (1, 5, 15)
_NOTHING: Final = (0.0,) * len(MINUTES)


class LoadAverages:
    """Exponential moving averages of counters, over 1, 5 and 15 minutes.

    A counter's rate since the last update, in events a minute, is mixed with the average before
    it; what is older than the average's time has a weight of 1/e. They begin at 0, as if nothing
    had happened before the start.

    Args:
        now_s: the time of the start.

    """

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._totals: dict[str, int] = {}
        self._averages: dict[str, tuple[float, ...]] = {}

    def update(self, totals: Mapping[str, int], now_s: float) -> dict[str, tuple[float, ...]]:
        """Take the counters in; return for each its averages over `MINUTES`.

        Args:
            totals: counters by name; one that is new began at 0.
            now_s: later than the time of the last call, or nothing changes.

        """
        passed_s = now_s - self._at_s
        if passed_s <= 0:
            return {name: self._averages.get(name, _NOTHING) for name in totals}
        for name, total in totals.items():
            rate = (total - self._totals.get(name, 0)) * 60 / passed_s
            before = self._averages.get(name, _NOTHING)
            self._averages[name] = tuple(
                rate + math.exp(-passed_s / (60 * minutes)) * (average - rate)
                for minutes, average in zip(MINUTES, before, strict=True)
            )
        self._totals = dict(totals)
        self._at_s = now_s
        return dict(self._averages)

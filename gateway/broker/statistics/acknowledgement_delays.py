"""Delays of acknowledgements: measured while somebody asks, and else not at all."""

from __future__ import annotations

import math
from typing import Any, Final

from gateway.base.duration_histogram import BOUNDS_S, DurationHistogram

WATCHED_S: Final = 60.0
"""Whoever has asked may ask again within so long, and is told what passed meanwhile."""


class AcknowledgementDelays:
    """From the first message that a turn of the event loop accepts to the last answer of the turn.

    Attributes:
        is_watched: whether anybody has asked lately, so that delays are to be measured.

    """

    __slots__ = ("_durations", "_until_s", "is_watched")

    def __init__(self) -> None:
        self._durations = DurationHistogram()
        self._until_s = -math.inf
        self.is_watched = False

    def took(self, since_s: float, now_s: float) -> None:
        """Count the delay of a turn whose messages are all acknowledged.

        Args:
            since_s: when its first message came, on the loop's clock.
            now_s: when its last answer was given, on the same.

        """
        self._durations.observe(now_s - since_s)
        if now_s > self._until_s:
            self.is_watched = False

    def as_json(self, now_s: float) -> dict[str, Any]:
        """Return all that were counted, and go on counting for a time.

        What is told only grows: who asks twice knows by the difference what was between.

        Args:
            now_s: on the loop's clock.

        """
        self._until_s = now_s + WATCHED_S
        self.is_watched = True
        return {
            "bounds_s": list(BOUNDS_S),
            "counts": list(self._durations.counts),
            "sum_s": round(self._durations.sum_s, 6),
        }

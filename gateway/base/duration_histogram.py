"""Durations counted in fixed buckets."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
"""From a good SSD's flush to an SD card that collects its garbage."""


class DurationHistogram:
    """A histogram of durations; one thread writes it at a time.

    Attributes:
        counts: in each bucket of `BOUNDS_S` alone, then above the last.
        sum_s: all durations together.

    """

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one; a duration of exactly a bound is in the bucket below it."""
        self.counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s

"""Durations are counted in buckets, and summed up."""

from __future__ import annotations

import pytest

from gateway.base.duration_histogram import BOUNDS_S, DurationHistogram


def test_a_duration_of_a_bound_is_below_it_and_one_that_is_longer_is_above() -> None:
    histogram = DurationHistogram()
    assert (histogram.counts, histogram.sum_s) == ([0] * (len(BOUNDS_S) + 1), 0.0)
    durations = (0.0, BOUNDS_S[0], BOUNDS_S[0] + 1e-9, BOUNDS_S[-1], BOUNDS_S[-1] + 1.0)
    for duration_s in durations:
        histogram.observe(duration_s)
    found = {at: count for at, count in enumerate(histogram.counts) if count}
    assert found == {0: 2, 1: 1, len(BOUNDS_S) - 1: 1, len(BOUNDS_S): 1}
    assert histogram.sum_s == pytest.approx(sum(durations))

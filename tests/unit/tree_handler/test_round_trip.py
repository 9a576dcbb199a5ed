from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.spanning.round_trip import MAX_RTT_MS, SETTLED_SAMPLES, RoundTrip


def of(*samples_ms: float) -> RoundTrip:
    round_trip = RoundTrip(unmeasured_ms=10, margin=0.25, margin_ms=1.0)
    for rtt_ms in samples_ms:
        round_trip.sample(rtt_ms)
    return round_trip


def test_an_unmeasured_link_costs_what_the_parameters_say() -> None:
    assert of().cost_ms == 10
    assert of().srtt_ms is None


def test_a_link_costs_at_least_one_millisecond() -> None:
    assert of(0.0).cost_ms == 1
    assert of(0.2, 0.3).cost_ms == 1


def test_one_sample_out_of_the_first_few_does_not_count() -> None:
    assert of(900.0, 20.0, 21.0, 20.0, 22.0).cost_ms == 21


@given(st.lists(st.floats(0, MAX_RTT_MS), min_size=1, max_size=SETTLED_SAMPLES))
def test_the_first_few_samples_count_by_their_median(samples: list[float]) -> None:
    assert of(*samples).srtt_ms == statistics.median(samples)


def test_jitter_within_the_margin_never_changes_the_cost() -> None:
    chance = random.Random(7)
    round_trip = of(*[20.0] * SETTLED_SAMPLES)
    for _ in range(2_000):
        round_trip.sample(max(0.0, chance.gauss(20, 4)))
        assert round_trip.cost_ms == 20


def test_a_lasting_change_is_followed_within_twenty_samples() -> None:
    round_trip = of(*[20.0] * SETTLED_SAMPLES)
    for _ in range(20):
        round_trip.sample(60.0)
    assert 45 <= round_trip.cost_ms <= 60


def test_one_stall_of_a_process_is_not_a_longer_way() -> None:
    round_trip = of(*[20.0] * 50)
    round_trip.sample(5_000.0)
    assert round_trip.cost_ms == 20


@given(st.lists(st.floats(0, 1e9), max_size=60))
def test_the_cost_is_a_whole_number_within_limits_whatever_is_measured(
    samples: list[float],
) -> None:
    round_trip = of(*samples)
    assert isinstance(round_trip.cost_ms, int)
    assert 1 <= round_trip.cost_ms <= MAX_RTT_MS
    assert round_trip.slowest_ms >= 0


@pytest.mark.parametrize("rtt_ms", [-0.1, float("nan"), float("inf")])
def test_a_time_that_can_not_be_is_the_callers_fault(rtt_ms: float) -> None:
    with pytest.raises(ValueError, match="rtt_ms"):
        of(rtt_ms)

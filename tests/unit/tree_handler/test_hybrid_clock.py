"""The hybrid logical clock: cause always, time as far as clocks can be trusted."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tree_handler.retained.hybrid_clock import (
    EARLIEST_US,
    LATEST_US,
    LOGICAL_MAX,
    MAX_AHEAD_US,
    NEVER,
    HybridClock,
    Stamp,
    is_plausible,
)

NOW_US = EARLIEST_US + 10**12
YEAR_US = 365 * 24 * 3600 * 10**6
walls = st.integers(0, LATEST_US + 30 * YEAR_US)
logicals = st.integers(0, LOGICAL_MAX)
stamps = st.builds(Stamp, st.integers(0, 1 << 60), logicals)
ahead = st.integers(LATEST_US, LATEST_US + 2)


def test_a_right_clock_is_taken_for_one_for_half_a_century() -> None:
    year_2070 = EARLIEST_US + 44 * YEAR_US
    assert is_plausible(year_2070)
    assert HybridClock().stamp(year_2070).physical_us == year_2070
    assert not is_plausible(EARLIEST_US - 1)
    assert not is_plausible(EARLIEST_US + 51 * YEAR_US)


@given(st.lists(st.tuples(walls, st.booleans(), stamps), max_size=30))
def test_a_stamp_is_above_what_it_replaces_whatever_any_clock_says(
    steps: list[tuple[int, bool, Stamp]],
) -> None:
    clock = HybridClock()
    for wall_us, is_write, seen in steps:
        if is_write:
            assert clock.stamp(wall_us, seen) > seen
        else:
            clock.observe(seen, wall_us)


@given(
    st.integers(EARLIEST_US, LATEST_US - YEAR_US),
    st.lists(st.tuples(st.integers(0, 10), stamps), max_size=30),
)
def test_of_two_stamps_with_a_clock_that_does_not_jump_back_the_later_is_greater(
    wall_us: int, steps: list[tuple[int, Stamp]]
) -> None:
    clock = HybridClock()
    last = NEVER
    for passed_us, seen in steps:
        wall_us += passed_us
        clock.observe(seen, wall_us)
        stamp = clock.stamp(wall_us)
        assert stamp > last
        last = stamp


@given(st.lists(stamps, max_size=20))
@example([Stamp(NOW_US + 2 * MAX_AHEAD_US, LOGICAL_MAX)])
@example([Stamp(NOW_US + 2 * MAX_AHEAD_US, LOGICAL_MAX - 1)])
def test_writes_of_one_topic_that_lies_far_ahead_are_told_apart(others: list[Stamp]) -> None:
    clock = HybridClock()
    future = Stamp(NOW_US + 30 * YEAR_US, 7)
    first = clock.stamp(NOW_US, future)
    for other in others:
        clock.stamp(NOW_US, other)
    assert clock.stamp(NOW_US, future) > first > future


@given(st.lists(st.builds(Stamp, ahead, logicals), max_size=20))
def test_no_two_writes_far_ahead_get_the_same_stamp(replaced: list[Stamp]) -> None:
    clock = HybridClock()
    made = [clock.stamp(NOW_US, after) for after in replaced]
    assert len(set(made)) == len(made)
    assert all(new > old for new, old in zip(made, replaced, strict=True))


def test_a_stamp_of_the_far_future_does_not_move_the_clock() -> None:
    clock = HybridClock()
    future = Stamp(NOW_US + 24 * YEAR_US, 0)
    clock.observe(future, NOW_US)
    assert clock.ahead == 1
    assert clock.stamp(NOW_US) == Stamp(NOW_US, 0)
    assert clock.stamp(NOW_US, future) == Stamp(future.physical_us, 1)
    assert clock.stamp(NOW_US + 1) == Stamp(NOW_US + 1, 0)


def test_a_clock_follows_one_that_goes_a_little_ahead() -> None:
    clock = HybridClock()
    seen = Stamp(NOW_US + MAX_AHEAD_US, 3)
    clock.observe(seen, NOW_US)
    assert clock.stamp(NOW_US) == Stamp(seen.physical_us, 4)


def test_a_clock_at_1970_counts_on_from_the_newest_it_has_seen() -> None:
    clock = HybridClock()
    assert clock.stamp(5_000_000) >= Stamp(EARLIEST_US, 0)
    clock.observe(Stamp(NOW_US, 0), 6_000_000)
    assert clock.stamp(7_000_000) == Stamp(NOW_US, 1)


def test_a_clock_that_is_set_right_comes_back_from_the_future() -> None:
    clock = HybridClock()
    ahead_us = NOW_US + 5 * YEAR_US
    assert clock.stamp(ahead_us) == Stamp(ahead_us, 0)
    assert clock.stamp(NOW_US).physical_us == NOW_US


def test_logical_parts_run_over_into_the_physical_one() -> None:
    clock = HybridClock()
    clock.observe(Stamp(NOW_US, LOGICAL_MAX), NOW_US)
    assert clock.stamp(NOW_US) == Stamp(NOW_US + 1, 0)
    future = Stamp(NOW_US + 9 * YEAR_US, LOGICAL_MAX)
    assert clock.stamp(NOW_US, future) == Stamp(future.physical_us + 1, 1)

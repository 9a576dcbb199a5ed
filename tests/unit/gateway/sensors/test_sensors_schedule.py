"""The schedule: what is due when, with time as an argument."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.sensors.schedule import MAX_BACK_OFF_S, Schedule, back_off_s


def test_a_name_is_due_at_once_and_then_at_its_interval() -> None:
    schedule = Schedule()
    schedule.add("a", 10.0, now=5.0)
    assert schedule.due(4.9) == []
    assert schedule.due(5.0) == ["a"]
    assert schedule.next_timer() == 15.0
    assert schedule.due(14.9) == []
    assert schedule.due(15.2) == ["a"]
    assert schedule.next_timer() == 25.0  # regular, however late it was read


def test_times_that_went_by_are_skipped_and_counted() -> None:
    schedule = Schedule()
    schedule.add("a", 1.0, now=0.0)
    assert schedule.due(5.5) == ["a"]
    assert schedule.skipped == 5
    assert schedule.due(5.9) == []
    assert schedule.next_timer() == 6.0


def test_a_removed_name_is_not_due_and_one_put_on_again_counts_once() -> None:
    schedule = Schedule()
    schedule.add("a", 1.0, now=0.0)
    schedule.add("b", 1.0, now=0.0)
    schedule.remove("a")
    schedule.add("b", 7.0, now=3.0)
    assert schedule.next_timer() == 3.0
    assert schedule.due(3.0) == ["b"]
    assert schedule.due(9.9) == []
    schedule.remove("b")
    assert schedule.next_timer() is None


def test_the_pause_after_a_failure_doubles_up_to_five_minutes_or_the_interval() -> None:
    assert [back_off_s(10.0, failures) for failures in range(1, 8)] == [
        10.0,
        20.0,
        40.0,
        80.0,
        160.0,
        MAX_BACK_OFF_S,
        MAX_BACK_OFF_S,
    ]
    assert {back_off_s(400.0, failures) for failures in (1, 2, 10_000)} == {400.0}


@given(
    intervals=st.lists(st.floats(0.001, 1e6), min_size=1, max_size=5),
    steps=st.lists(st.floats(0, 1e5), max_size=30),
)
def test_each_due_time_is_given_out_or_counted_and_none_is_left_behind(
    intervals: list[float], steps: list[float]
) -> None:
    schedule = Schedule()
    for i, interval_s in enumerate(intervals):
        schedule.add(str(i), interval_s, now=0.0)
    now = 0.0
    for step in steps:
        now += step
        names = schedule.due(now)
        assert len(names) == len(set(names))
        next_at = schedule.next_timer()
        assert next_at is not None
        assert next_at > now

"""Goal: what was refused is asked for again, ever less often, and at once when more is known."""

from __future__ import annotations

import math

from gateway.node.signing.retry_schedule import RetrySchedule

DAY_S = 86_400.0


def asking(now: float = 0.0) -> RetrySchedule[str]:
    return RetrySchedule(1_000.0 + now, now)


def test_nothing_is_asked_for_again_while_nothing_was_refused() -> None:
    again = asking()
    assert again.next_timer() == math.inf
    again.more_is_known(5.0)
    assert again.next_timer() == math.inf
    assert again.take(1e9) == []


def test_it_is_asked_for_after_a_minute_then_after_twice_as_long_up_to_a_day() -> None:
    again, now, waits = asking(), 0.0, list[float]()
    for _ in range(13):
        again.refused("a", now)
        waits.append(again.next_timer() - now)
        assert again.take(again.next_timer() - 0.001) == []
        now = again.next_timer()
        assert again.take(now) == ["a"]
        assert len(again) == 0
    assert waits[:3] == [60.0, 120.0, 240.0]
    assert waits[10:] == [61_440.0, DAY_S, DAY_S]


def test_what_is_refused_later_does_not_put_off_what_was_refused_before() -> None:
    again = asking()
    again.refused("a", 0.0)
    again.refused("b", 59.0)
    assert again.next_timer() == 60.0
    assert again.take(60.0) == ["a", "b"]


def test_when_more_is_known_it_is_asked_for_at_once_and_soon_after_that() -> None:
    again = asking()
    for now in (0.0, 60.0):
        again.refused("a", now)
        again.take(now + 60.0)
    again.refused("a", 200.0)
    again.more_is_known(201.0)
    assert again.take(201.0) == ["a"]
    again.refused("a", 201.0)
    assert again.next_timer() == 201.0 + 120.0


def test_a_wall_clock_that_was_set_by_more_than_ten_seconds_has_it_asked_for_at_once() -> None:
    again = asking()
    again.refused("a", 0.0)
    assert not again.follow_clock(1_000.0 + 5.0 + 10.0, 5.0)
    assert again.next_timer() == 60.0
    assert again.follow_clock(1_000.0 + 6.0 + 21.0, 6.0)
    assert again.next_timer() == 6.0
    assert not again.follow_clock(1_000.0 + 7.0 + 21.0, 7.0)
    assert again.follow_clock(1_000.0 + 8.0, 8.0)


def test_a_thousand_are_kept_and_of_more_the_oldest_is_forgotten() -> None:
    again = asking()
    for number in range(1_001):
        again.refused(f"{number}", 0.0)
    again.refused("1000", 0.0)
    assert len(again) == 1_000
    assert again.take(60.0) == [f"{number}" for number in range(1, 1_001)]

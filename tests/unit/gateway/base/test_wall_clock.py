"""The time of messages and records is the machine's, in the unit that stands in its name."""

from __future__ import annotations

import time

from gateway.base import wall_clock


def test_each_unit_is_what_its_name_says() -> None:
    begin_s = time.time()
    us, ms = wall_clock.now_us(), wall_clock.now_ms()
    end_s = time.time()
    assert begin_s - 0.001 <= us / 1e6 <= end_s + 0.001
    assert begin_s - 0.001 <= ms / 1e3 <= end_s + 0.001


def test_a_part_of_a_unit_is_not_rounded_up() -> None:
    before_ns = time.time_ns()
    assert wall_clock.now_us() * 1_000 <= time.time_ns()
    assert wall_clock.now_ms() * 1_000_000 <= time.time_ns()
    assert (before_ns // 1_000) <= wall_clock.now_us()


def test_it_is_ahead_of_the_monotonic_clock_by_their_difference() -> None:
    begin_s, begin_monotonic_s = time.time(), time.monotonic()
    ahead_s = wall_clock.ahead_s()
    end_s, end_monotonic_s = time.time(), time.monotonic()
    assert begin_s - end_monotonic_s <= ahead_s <= end_s - begin_monotonic_s

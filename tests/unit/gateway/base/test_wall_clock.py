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

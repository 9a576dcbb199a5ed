"""Sensors are judged at the exact limits of their rules, and remembered within bounds."""

from __future__ import annotations

import itertools

import pytest

from cloud_ingest.evidence.facts import SensorSpan
from cloud_ingest.fleet.alerts import AlertBook
from cloud_ingest.fleet.clock import APART_US
from cloud_ingest.fleet.flapping import DampedAlerts, Flaps
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.rules import read
from cloud_ingest.fleet.sensors import MAX_NAME_BYTES, SILENT_US, SensorJudge

STUCK = "[sensor-stuck]\nafter-s = 60.0\nreadings = 3\n"
RANGE = "[sensor-range]\nlow = 0.0\nhigh = 10.0\nmargin = 1.0\n"


class Judged:
    """One gateway's sensors; times are in microseconds, and a device's clock is right."""

    def __init__(self, rules: str) -> None:
        self.book = AlertBook()
        self._alerts = DampedAlerts(self.book, Flaps())
        self.gateway = GatewayState("gw-a", 0, 0)
        self.rule(rules)

    def rule(self, rules: str) -> None:
        self._judge = SensorJudge(read(rules), self._alerts)

    def says(
        self, at_us: int, *values: float, sensor: str = "s", times: tuple[int, int] | None = None
    ) -> None:
        changes = sum(one != other for one, other in itertools.pairwise(values))
        extremes = min(values), max(values), values[0], values[-1]
        times = times or (at_us, at_us)
        span = SensorSpan("gw-a", sensor, len(values), *times, *extremes, changes)
        self._judge.take(self.gateway, span, at_us)

    def open(self) -> list[tuple[str, str, int, float | None]]:
        return [(one.kind, one.sensor, one.opened_us, one.value) for one in self.book.open.values()]

    def closed(self) -> list[tuple[str, str, int | None]]:
        return [(one.kind, one.sensor, one.cleared_us) for one in self.book.closed]

    def messages(self) -> list[str]:
        return [one.message for one in self.book.open.values()]


# -- stuck -----------------------------------------------------------------------------------------


def test_a_sensor_is_stuck_once_it_says_the_same_for_so_long_in_so_many_readings() -> None:
    judged = Judged(STUCK)
    judged.says(0, 5.0)
    judged.says(30_000_000, 5.0)
    judged.says(59_999_999, 5.0)
    assert judged.open() == []  # long enough it is not
    judged.says(60_000_000, 5.0)
    assert judged.open() == [("sensor-stuck", "s", 60_000_000, 5.0)]
    assert judged.messages() == ["it says 5 for 60 s, in 4 readings"]
    judged.says(70_000_000, 6.0)
    assert judged.closed() == [("sensor-stuck", "s", 70_000_000)]


def test_a_sensor_that_says_little_is_stuck_only_after_so_many_readings() -> None:
    judged = Judged(STUCK)
    judged.says(0, 5.0)
    judged.says(90_000_000, 5.0)
    assert judged.open() == []
    judged.says(95_000_000, 5.0)
    assert judged.messages() == ["it says 5 for 95 s, in 3 readings"]


@pytest.mark.parametrize("other", [[6.0, 6.0, 6.0], [5.0, 6.0], [6.0, 5.0], [5.0, 6.0, 5.0]])
def test_another_value_begins_anew_as_one_reading_of_the_last_one(other: list[float]) -> None:
    judged = Judged(STUCK)
    judged.says(0, 5.0, 5.0, 5.0)
    judged.says(50_000_000, *other)
    judged.says(109_999_999, other[-1], other[-1])
    assert judged.open() == []
    judged.says(110_000_000, other[-1])
    assert judged.messages() == [f"it says {other[-1]:g} for 60 s, in 4 readings"]


def test_readings_of_one_batch_count_each() -> None:
    judged = Judged(STUCK)
    judged.says(0, 5.0, 5.0)
    judged.says(60_000_000, 5.0)
    assert judged.messages() == ["it says 5 for 60 s, in 3 readings"]


def test_a_sensor_may_be_stuck_after_less_than_a_second_and_never_after_none() -> None:
    for after_s, count in (("0.5", 1), ("1.0", 1), ("0.0", 0)):
        judged = Judged(f"{RANGE}[sensor-stuck]\nafter-s = {after_s}\nreadings = 2")
        judged.says(0, 5.0)
        judged.says(1_000_000, 5.0)
        assert len(judged.open()) == count
    alone = Judged("[sensor-stuck]\nafter-s = 0.5\nreadings = 2")
    alone.says(0, 5.0)
    alone.says(500_000, 5.0)
    assert len(alone.open()) == 1


@pytest.mark.parametrize("off", ["on = false\nafter-s = 60.0", "after-s = 0.0"])
def test_a_stuck_alert_ends_where_its_rule_is_off(off: str) -> None:
    judged = Judged(STUCK + RANGE)
    judged.says(0, 5.0, 5.0)
    judged.says(60_000_000, 5.0)
    assert len(judged.open()) == 1
    judged.rule(f"{RANGE}[sensor-stuck]\n{off}")
    judged.says(61_000_000, 5.0)
    assert judged.closed() == [("sensor-stuck", "s", 61_000_000)]


# -- out of range ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "out"),
    [
        ([0.0, 10.0], None),
        ([10.0], None),
        ([9.0, 10.5, 9.0], 10.5),
        ([1.0, -0.5, 1.0], -0.5),
        ([-0.5, 10.5], -0.5),
    ],
)
def test_a_value_at_a_limit_is_within_and_one_beyond_is_told(
    values: list[float], out: float | None
) -> None:
    judged = Judged(RANGE)
    judged.says(5, *values)
    assert judged.open() == ([] if out is None else [("sensor-range", "s", 5, out)])
    if out is not None:
        assert judged.messages() == [f"it says {out:g}, out of 0..10"]


@pytest.mark.parametrize(
    ("values", "is_open"),
    [
        ([1.0, 9.0], False),
        ([9.0], False),
        ([9.5], True),
        ([0.5], True),
        ([0.5, 5.0], True),
        ([5.0, 9.5, 5.0], True),
    ],
)
def test_it_clears_when_all_of_a_batch_is_within_by_the_margin(
    values: list[float], is_open: bool
) -> None:
    judged = Judged(RANGE)
    judged.says(5, 11.0)
    judged.says(6, *values)
    assert bool(judged.open()) is is_open


@pytest.mark.parametrize(
    ("limit", "inside", "beyond", "limits"),
    [("low = 2.0", 1e9, 1.0, "2.."), ("high = 2.0", -1e9, 3.0, "..2")],
)
def test_one_limit_alone_is_one(limit: str, inside: float, beyond: float, limits: str) -> None:
    judged = Judged(f"[sensor-range]\n{limit}")
    judged.says(5, inside)
    assert judged.open() == []
    judged.says(6, beyond)
    assert judged.messages() == [f"it says {beyond:g}, out of {limits}"]
    judged.says(7, 2.0)
    assert judged.open() == []


def test_a_range_that_is_off_ends_its_alert_and_raises_none() -> None:
    judged = Judged(RANGE + STUCK)
    judged.says(5, 11.0)
    judged.rule(f"{RANGE}on = false\n{STUCK}")
    judged.says(6, 11.0)
    judged.says(7, 12.0, sensor="other")
    assert judged.open() == []
    assert judged.closed() == [("sensor-range", "s", 6)]


@pytest.mark.parametrize("rules", ["", "[sensor-stuck]\non = false\nafter-s = 9.0", "on", "none"])
def test_a_sensor_without_a_rule_is_not_remembered(rules: str) -> None:
    text = {"on": f"{RANGE}on = false", "none": f"{RANGE}[kept]\nsensors = 0"}.get(rules, rules)
    judged = Judged(text)
    judged.says(5, 11.0)
    assert judged.gateway.sensors == {}
    assert judged.gateway.unwatched_us is None
    assert judged.open() == []


# -- room ------------------------------------------------------------------------------------------


def test_one_that_was_silent_for_long_gives_its_room_and_its_alert_ends() -> None:
    judged = Judged(f"{RANGE}[kept]\nsensors = 2")
    for name in ("b", "a"):
        judged.says(10, 11.0, sensor=name)
    judged.says(9 + SILENT_US, 11.0, sensor="c")
    assert set(judged.gateway.sensors) == {"a", "b"}
    assert judged.gateway.unwatched_us == 9 + SILENT_US
    judged.says(10 + SILENT_US, 11.0, sensor="c")
    assert set(judged.gateway.sensors) == {"b", "c"}
    assert judged.closed() == [("sensor-range", "a", 10 + SILENT_US)]
    judged.says(5, 11.0, sensor="d")
    assert judged.gateway.unwatched_us == 9 + SILENT_US  # the last time, whatever is read later


def test_who_was_heard_longest_ago_goes_first() -> None:
    judged = Judged(f"{RANGE}[kept]\nsensors = 2")
    judged.says(20, 5.0, sensor="a")
    judged.says(10, 5.0, sensor="b")
    judged.says(20 + SILENT_US, 5.0, sensor="c")
    assert set(judged.gateway.sensors) == {"a", "c"}


def test_names_fill_the_room_to_its_last_byte() -> None:
    judged = Judged(f"{RANGE}[kept]\nsensors = 10000")
    name = "\N{BUG}" * 4_096
    for at in range(3):
        judged.says(10, 5.0, sensor=f"{at}{name[1:]}abc")
    judged.says(10, 5.0, sensor="x" * (MAX_NAME_BYTES - 3 * 4 * 4_096 + 1))
    assert len(judged.gateway.sensors) == 3
    judged.says(10, 5.0, sensor="x" * (MAX_NAME_BYTES - 3 * 4 * 4_096))
    assert len(judged.gateway.sensors) == 4
    judged.says(10, 5.0, sensor="y")
    assert len(judged.gateway.sensors) == 4


# -- what is read again ----------------------------------------------------------------------------


def test_what_came_long_before_the_latest_was_judged_then() -> None:
    judged = Judged(RANGE)
    late_us = 10 * APART_US
    judged.says(late_us, 5.0)
    judged.says(late_us - APART_US - 1, 11.0)
    assert judged.open() == []
    judged.says(late_us - APART_US, 11.0)  # of a clock that is a little behind
    assert judged.open() == [("sensor-range", "s", late_us, 11.0)]


def test_what_a_device_says_later_is_newer_whatever_the_collector_s_clock_says() -> None:
    judged = Judged(RANGE)
    late_us = 10 * APART_US
    judged.says(late_us, 5.0, times=(1_000, 1_000))
    judged.says(7, 11.0, times=(1_000, 1_000))
    assert judged.open() == []
    judged.says(7, 11.0, times=(1_001, 1_001))
    assert judged.open() == [("sensor-range", "s", late_us, 11.0)]
    assert judged.gateway.sensors["s"].told_us == 1_001


def test_of_a_batch_that_has_old_readings_again_the_newest_alone_counts() -> None:
    judged = Judged(RANGE + STUCK)
    judged.says(0, 5.0, times=(1_000, 1_000))
    judged.says(60_000_000, 11.0, -4.0, 5.0, times=(999, 2_000))
    assert judged.open() == []
    assert judged.gateway.sensors["s"].readings == 2
    judged.says(60_000_001, 11.0, 5.0, times=(2_000, 3_000))
    assert [kind for kind, *_ in judged.open()] == ["sensor-range"]

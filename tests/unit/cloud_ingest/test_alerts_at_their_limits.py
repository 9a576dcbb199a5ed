"""Each alert begins and ends at the value that its rule says, and not one step before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from watched_fleet import Gateway, at

from cloud_ingest.evidence.facts import BatchFacts, SensorSpan, Statement
from cloud_ingest.fleet import state
from cloud_ingest.fleet.rules import AlertRules, RulesError, read
from cloud_ingest.fleet.watch import FleetWatch

HOT = "[hot]\nopens-cel = 70\nclears-cel = 60\n"
POWER = "[under-voltage]\nclears-records = 2\n"
FULL = "[disk-full]\nopens-free = 0.1\nclears-free = 0.2\n"
CLOCK = "[clock-off]\nopens-s = 30\nclears-s = 20\nrecords = 2\n"
ROOT = "[flapping-root]\nelections = 3\nwindow-s = 100\n"
RANGE = "[sensor-range]\nlow = 5\nhigh = 10\nmargin = 1\n"
STUCK = "[sensor-stuck]\nafter-s = 100\nreadings = 4\n"


def disk(free: int) -> dict[str, Any]:
    return {"disk_free_bytes": free, "disk_total_bytes": 1_000}


class OneWatched:
    """A watch, and one gateway of which a batch tells every ten seconds."""

    def __init__(self, rules: str) -> None:
        self.gateway = Gateway("gw-a", 0.0, 7, root="gw-a")
        self.watch = FleetWatch(read(rules))
        self.number = 0
        self.last: list[dict[str, Any]] = []

    @property
    def second(self) -> int:
        return 10 * self.number

    def says(self, ahead_s: float | None = 0.0, **fields: Any) -> None:
        """Take its next record."""
        self.number += 1
        record = replace(self.gateway.record(self.second), **fields)
        origin_us = None if ahead_s is None else at(self.second + ahead_s)
        said = Statement("gw-a", 7, self.number, origin_us, at(self.second), "status", b"")
        self._take(statements=(replace(said, payload=record.encode()),))

    def measures(self, value: float, *, sensor: str = "s", count: int = 1) -> None:
        self.says()
        time_us = at(self.second)
        span = SensorSpan("gw-a", sensor, count, time_us, time_us, *[value] * 4, changes=0)
        self.number += 1
        self._take(sensors=(span,))

    def _take(self, **facts: Any) -> None:
        made = BatchFacts(committed_us=at(self.second), batch_id=self.number, **facts)
        self.watch.take(made)

    def rows(self) -> list[dict[str, Any]]:
        table = self.watch.changes(at(self.second)).replace.get("alerts")
        self.last = self.last if table is None else table.to_pylist()
        return self.last

    def is_open(self, kind: str) -> bool:
        return any(row["kind"] == kind and row["cleared"] is None for row in self.rows())


@pytest.mark.parametrize(
    ("kind", "rules", "steps"),
    [
        (
            "hot",
            HOT,
            [
                ({"temperature_cel": 69.9}, False),
                ({"temperature_cel": 70.0}, True),
                ({"temperature_cel": 60.0}, True),
                ({"temperature_cel": None}, True),
                ({"temperature_cel": 59.9}, False),
            ],
        ),
        (
            "under-voltage",
            POWER,
            [
                ({"under_voltage": False}, False),
                ({"under_voltage": True}, True),
                ({"under_voltage": False}, True),
                ({"under_voltage": True}, True),
                ({"under_voltage": False}, True),
                ({"under_voltage": None}, True),
                ({"under_voltage": False}, False),
            ],
        ),
        (
            "disk-full",
            FULL,
            [
                (disk(101), False),
                (disk(100), True),
                (disk(200), True),
                ({"disk_free_bytes": None}, True),
                ({"disk_free_bytes": 900, "disk_total_bytes": 0}, True),
                (disk(201), False),
            ],
        ),
        (
            "backup-overdue",
            "",
            [
                ({"backup": "none yet"}, False),
                ({"backup": "overdue"}, True),
                ({"backup": ""}, True),
                ({"backup": "good"}, False),
                ({"backup": "trial failed"}, True),
                ({"backup": "off"}, False),
            ],
        ),
        (
            "clock-off",
            CLOCK,
            [
                ({"ahead_s": 30.1}, False),
                ({"ahead_s": 30.0}, False),
                ({"ahead_s": -30.1}, False),
                ({"ahead_s": 30.1}, True),
                ({"ahead_s": 20.0}, True),
                ({"ahead_s": 19.9}, True),
                ({"ahead_s": -19.9}, False),
                ({"ahead_s": None}, False),
                ({"ahead_s": None}, True),
            ],
        ),
        (
            "flapping-root",
            ROOT,
            [
                ({"elections": 0}, False),
                ({"elections": 2}, False),
                ({"elections": 3}, True),  # two are ten seconds old, one is new
                *[({"elections": 3}, True)] * 8,
                ({"elections": 3}, False),  # for a hundred seconds it is the only one
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.islower() else "",
)
def test_an_alert_is_open_from_one_limit_to_the_other_and_never_where_its_rule_is_off(
    kind: str, rules: str, steps: list[tuple[dict[str, Any], bool]]
) -> None:
    one, off = OneWatched(rules), OneWatched(f"{rules or f'[{kind}]'}\non = false\n")
    for number, (said, is_open) in enumerate(steps):
        one.says(**said)
        off.says(**said)
        assert one.is_open(kind) == is_open, (number, said)
        assert not off.is_open(kind)
        if (
            is_open and None not in said.values() and 0 not in said.values()
        ):  # the operator turns its rule off, and starts the job again
            turned = FleetWatch(read(f"{rules or f'[{kind}]'}\non = false\n"), one.watch.state())
            one.watch, kept = turned, one.watch
            number_before = one.number
            one.says(**said)
            assert not one.is_open(kind), "what is not looked at any longer is not wrong"
            one.watch, one.number, one.last = kept, number_before, [{"kind": kind, "cleared": None}]


@pytest.mark.parametrize(
    ("kind", "rules", "wrong"),
    [
        ("hot", HOT, {"temperature_cel": 70.0}),
        ("under-voltage", POWER, {"under_voltage": True}),
        ("disk-full", FULL, disk(100)),
        ("backup-overdue", "", {"backup": "overdue"}),
    ],
)
@pytest.mark.parametrize("speaks", [True, False])
def test_an_alert_ends_as_its_rule_is_turned_off_though_nothing_more_is_said_of_it(
    kind: str, rules: str, wrong: dict[str, Any], speaks: bool
) -> None:
    one = OneWatched(rules)
    one.says(**wrong)
    assert one.is_open(kind)
    off = f"{rules or f'[{kind}]'}\non = false\n"
    one.watch = FleetWatch(read(off), one.watch.state())
    if speaks:
        one.says(temperature_cel=None, under_voltage=None, disk_free_bytes=None, backup="")
    else:
        one.number += 1
        one.watch.take(BatchFacts(committed_us=at(one.second), batch_id=one.number))
    assert not one.is_open(kind)


def test_a_rule_that_is_off_for_one_ends_the_alerts_of_that_one_alone() -> None:
    one = OneWatched(RANGE)
    one.measures(11)
    assert one.is_open("sensor-range")
    for pattern, is_open in (("other", True), ("s", False)):
        off = f"{RANGE}\n[[override]]\nsensor = '{pattern}'\nsensor-range = {{on = false}}\n"
        one.watch = FleetWatch(read(off), one.watch.state())
        one.says()
        assert one.is_open("sensor-range") == is_open


def test_the_message_of_an_alert_says_what_was_measured() -> None:
    one = OneWatched(HOT + POWER + FULL + CLOCK + ROOT)
    wrong = {"temperature_cel": 70.04, "under_voltage": True, **disk(15)}
    one.says(elections=0)
    backup = {"backup": "overdue", "backup_why": "no room", "backup_age_s": 9.0}
    one.says(ahead_s=-40.4, elections=1, **wrong, **backup)
    one.says(ahead_s=40.4, elections=3)
    told = {row["kind"]: (row["message"], row["value"]) for row in one.rows()}
    assert told == {
        "hot": ("its processor has 70.0 degrees Celsius", 70.04),
        "under-voltage": ("its supply is too weak", None),
        "disk-full": ("1.5% of its disk is free", 0.015),
        "backup-overdue": ("its backup: overdue, no room", 9.0),
        "clock-off": ("its clock is 40 s ahead", pytest.approx(40.4)),
        "flapping-root": ("it became root 3 times in 100 s", 3.0),
    }


def sensor_steps(one: OneWatched, kind: str, values: Iterable[float]) -> list[bool]:
    found = []
    for value in values:
        one.measures(value)
        found.append(one.is_open(kind))
    return found


@pytest.mark.parametrize(
    ("rules", "values", "is_open"),
    [
        (RANGE, [5, 10, 4.9, 5, 5.9, 6, 10.1, 10, 9.1, 9], "--xxx-xxx-"),
        ("[sensor-range]\nlow = 5\nmargin = 1\n", [99, 4.9, 5.9, 6], "-xx-"),
        ("[sensor-range]\nhigh = 5\nmargin = 1\n", [-9, 5.1, 4.1, 4], "-xx-"),
        (RANGE + "on = false\n" + STUCK, [4, 99], "--"),
        (RANGE + "[kept]\nsensors = 0\n", [4, 99], "--"),
    ],
)
def test_a_sensor_is_out_of_its_range_until_it_is_well_within(
    rules: str, values: list[float], is_open: str
) -> None:
    found = sensor_steps(OneWatched(rules), "sensor-range", values)
    assert "".join("x" if each else "-" for each in found) == is_open


def test_a_range_that_is_turned_off_is_of_no_alert_though_the_sensor_is_watched() -> None:
    one = OneWatched(RANGE + STUCK)
    assert sensor_steps(one, "sensor-range", [4]) == [True]
    (row,) = one.rows()
    assert (row["sensor"], row["message"], row["value"]) == ("s", "it says 4, out of 5..10", 4.0)
    one.watch = FleetWatch(read(RANGE + "on = false\n" + STUCK), one.watch.state())
    assert sensor_steps(one, "sensor-range", [4]) == [False]


@pytest.mark.parametrize(("after_s", "at_step"), [(80, 4), (81, 5), (20, 3)])
def test_a_sensor_is_stuck_after_so_long_and_so_many_readings(after_s: int, at_step: int) -> None:
    """A reading comes every twenty seconds, the first at the step 0."""
    rules = f"[sensor-stuck]\nafter-s = {after_s}\nreadings = 4\n"
    found = sensor_steps(OneWatched(rules), "sensor-stuck", [7] * 7 + [8])
    assert found == [step >= at_step for step in range(7)] + [False]


# -- what is remembered ----------------------------------------------------------------------------


def test_of_queries_whose_batches_are_known_so_many_are_and_the_oldest_goes_first() -> None:
    found = FleetWatch(AlertRules())
    for number in range(state.MAX_QUERIES):
        found.take(BatchFacts(batch_id=5, committed_us=at(1)), str(number))
    found.take(BatchFacts(batch_id=6, committed_us=at(1)), "0")
    assert all(found.has_taken(str(number), 5) for number in range(state.MAX_QUERIES))
    assert (found.has_taken("0", 6), found.has_taken("0", 7)) == (True, False)
    found.take(BatchFacts(batch_id=0, committed_us=at(1)), "new")
    assert not found.has_taken("1", 0)
    assert found.has_taken("0", 6)
    assert found.has_taken("2", 5)
    assert found.has_taken("new", 0)


def test_an_override_that_is_no_table_is_named() -> None:
    with pytest.raises(RulesError, match=r"^override\[1\]: is not a table$"):
        read("override = [{}, 7]")


def test_rules_are_the_same_for_whoever_is_asked_for_however_often() -> None:
    rules = read('[[override]]\ngateway = "gw-1*"\nhot = {opens-cel = 99}\n')
    for number in [*range(30), *range(30)]:
        found = rules.of(f"gw-{number}", None).hot.opens_cel
        assert (found == 99) == str(number).startswith("1")

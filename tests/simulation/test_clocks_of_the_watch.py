"""No clock alone moves the watch: the table of clocks in docs/monitoring.md, tried line by line."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from clocked_fleet import CLOCKS, OFF_S, Clock, ClockedFleet, Fault
from troubled_fleet import raised
from watched_fleet import WatchedFleet, at

from cloud_ingest.evidence.facts import Activity, BatchFacts, Delays, SensorSpan, Statement
from cloud_ingest.fleet import rules
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.watch import FleetWatch
from record_formats.status_record import StatusRecord

WRONG_S = 200.0
"""The time since which a clock is wrong, if it is not wrong from the beginning."""
GOES_S, COMES_S, END_S = 330.0, 520.0, 700.0
"""Seconds at which two gateways fall silent, one of them comes back, and all is looked at."""

LATE_US = 90_000_000
"""The delay of the job behind what collectors have, where it catches up."""


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("when", ["for a minute", "from then on", "from the beginning"])
def test_whichever_clock_is_wrong_who_falls_silent_is_silent_and_nobody_else(
    clock: Clock, when: str, request: pytest.FixtureRequest
) -> None:
    lines = [(off, way) for off in OFF_S for way in ("ahead", "behind")]
    if not request.config.getoption("--soak"):
        draw = random.Random(f"{request.config.getoption('--seed')} {clock} {when}")
        lines = draw.sample(lines, 1)
    for off, way in lines:
        _is_right(clock, off, way, when)


def _is_right(clock: Clock, off: str, way: str, when: str) -> None:
    off_s = OFF_S[off] if way == "ahead" else -OFF_S[off]
    since_s = 0.0 if when == "from the beginning" else WRONG_S
    until_s = WRONG_S + 60 if when == "for a minute" else END_S
    fleet = ClockedFleet(5, Fault(clock, off_s, since_s, until_s))
    gone = fleet[1].name, fleet[2].name, fleet[3].name
    for index in (1, 2, 3):
        fleet.when(GOES_S, lambda one=fleet[index]: setattr(one, "is_down", True))  # type: ignore[misc]  # bound now
    fleet.when(COMES_S, lambda: setattr(fleet[3], "is_down", False))
    watch = FleetWatch(AlertRules())
    tables = {}
    for facts in fleet.clocked(END_S):
        watch.take(facts)
        if facts.batch_id % 3:
            continue
        changes = watch.changes(facts.committed_us)
        tables.update(changes.replace)
        watch.written(changes)
    alerts = raised(tables["alerts"])
    about_clocks = {key: n for key, n in alerts.items() if key[0] == "clock-off"}
    others = {key: n for key, n in alerts.items() if key[0] not in ("clock-off", "clocks-apart")}
    silent = {("silent", gone[0], False), ("silent", gone[1], False), ("silent", gone[2], True)}
    assert others == dict.fromkeys(silent, 1), f"{clock} {off} {way} {when}"
    health = dict(
        zip(
            tables["gateways"]["gateway"].to_pylist(),
            tables["gateways"]["health"].to_pylist(),
            strict=True,
        )
    )
    is_off = clock == "gateway"
    assert {who for _, who, _ in about_clocks} <= ({fleet[0].name} if is_off else set())
    assert health[gone[0]] == health[gone[1]] == "silent"
    assert health[gone[2]] == health[fleet[4].name] == "good"


@pytest.mark.parametrize("off", OFF_S)
@pytest.mark.parametrize("way", ["ahead", "behind"])
def test_while_the_job_catches_up_one_of_two_collectors_of_a_gateway_is_wrong_and_it_is_not(
    off: str, way: str
) -> None:
    fleet = WatchedFleet(3, batch_s=60.0)
    off_us = round((OFF_S[off] if way == "ahead" else -OFF_S[off]) * 1e6)

    def us(gateway: str, number: int) -> int:
        is_by_wrong_one = number % 2 or gateway == fleet[2].name
        return off_us if fleet.second > WRONG_S and is_by_wrong_one else 0

    watch, alerts = FleetWatch(AlertRules()), pa.table({})
    for facts in fleet.batches(END_S):
        number = facts.batch_id
        came = replace(
            facts,
            statements=tuple(
                replace(one, collected_us=one.collected_us + us(one.gateway, one.sequence))
                for one in facts.statements
            ),
            activity=tuple(
                replace(one, collected_us=one.collected_us + us(one.gateway, number + at))
                for at, one in enumerate(facts.activity)
            ),
            committed_us=facts.committed_us + LATE_US,
        )
        watch.take(came)
        changes = watch.changes(came.committed_us)
        alerts = changes.replace.get("alerts", alerts)
        watch.written(changes)
    told = {(row["kind"], row["gateway"]) for row in alerts.to_pylist()}
    # By the stamps of the wrong one alone nobody can tell its leap ahead from a silence.
    unknowable = {("silent", fleet[2].name)} if way == "ahead" else set()
    assert told <= unknowable


WHO, SENSOR = "gw-0001", "valve"
BATCH_US = 10_000_000


class TwoCollectors:
    """A job over two collectors of one gateway, of which the second one's clock is wrong.

    Args:
        off_us: by so much.
        late_us: how far the job is behind what collectors have.

    """

    def __init__(self, off_us: int, late_us: int = 0) -> None:
        watched = '[[override]]\nsensor = "*"\nsensor-range = {high = 100.0}\n'
        self.watch = FleetWatch(rules.read(watched))
        self.tables: dict[str, pa.Table] = {}
        self._off_us = off_us
        self._late_us = late_us
        self._number = 0

    def batch(self, value: float, *, status: bool, by_wrong: bool) -> None:
        """Take a micro-batch: a reading, and a status record or none, through one collector."""
        self._number += 1
        now_us = at(self._number * BATCH_US / 1e6)
        stamp_us = now_us + (self._off_us if by_wrong else 0)
        said = StatusRecord(interval_s=60.0, up_s=self._number * BATCH_US / 1e6).encode()
        statement = Statement(WHO, 1, self._number, now_us, stamp_us, "status", said)
        facts = BatchFacts(
            batch_id=self._number,
            committed_us=now_us + self._late_us,
            statements=(statement,) if status else (),
            activity=(Activity(WHO, 1, 0, 0, now_us, now_us, stamp_us),),
            delays=(Delays(WHO, stamp_us // 60_000_000 * 60_000_000, "device-origin", {1: 1}),),
            sensors=(SensorSpan(WHO, SENSOR, 1, now_us, now_us, value, value, value, value, 0),),
        )
        self.watch.take(facts)
        changes = self.watch.changes(facts.committed_us)
        self.tables.update(changes.replace)
        self.watch.written(changes)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tables[table].to_pylist()
        return found


@pytest.mark.parametrize("off", OFF_S)
@pytest.mark.parametrize("late_us", [0, LATE_US], ids=["on time", "late"])
@pytest.mark.parametrize("shows", [False, True], ids=["unknown", "shown before"])
def test_a_reading_through_the_collector_whose_clock_is_behind_ends_its_alert(
    off: str, late_us: int, shows: bool
) -> None:
    fleet = TwoCollectors(-round(OFF_S[off] * 1e6), late_us)
    fleet.batch(1.0, status=True, by_wrong=False)
    if shows:
        fleet.batch(1.0, status=True, by_wrong=True)
    fleet.batch(1_000.0, status=True, by_wrong=False)
    fleet.batch(1.0, status=False, by_wrong=True)
    (alert,) = (row for row in fleet.rows("alerts") if row["kind"] == "sensor-range")
    assert alert["cleared"] is not None
    assert alert["opened"] <= alert["cleared"]


@pytest.mark.parametrize("off", OFF_S)
@pytest.mark.parametrize("shows", [False, True], ids=["unknown", "shown before"])
def test_no_gateway_was_seen_before_there_was_one_by_a_clock_that_is_behind(
    off: str, shows: bool
) -> None:
    fleet = TwoCollectors(-round(OFF_S[off] * 1e6))
    fleet.batch(1.0, status=True, by_wrong=False)
    (first,) = {row["first_seen"] for row in fleet.rows("gateways")}
    if shows:
        fleet.batch(1.0, status=True, by_wrong=True)
    for _ in range(4):
        fleet.batch(1.0, status=True, by_wrong=False)
        fleet.batch(1.0, status=False, by_wrong=True)
    assert {row["first_seen"] for row in fleet.rows("gateways")} == {first}

"""Made-up names of sensors fill neither the watch nor the dashboard, over any batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from synthetic_tables import NOW, TELEMETRY, rows
from watched_fleet import at

from cloud_ingest.dashboard import rollups
from cloud_ingest.evidence.facts import Activity, BatchFacts, SensorSpan
from cloud_ingest.fleet.rules import AlertRules, read
from cloud_ingest.fleet.sensors import MAX_NAME_BYTES
from cloud_ingest.fleet.watch import FleetWatch
from cloud_ingest.query.lake import Lake

EMPTY = BatchFacts(committed_us=at(0))
TANK = read("[[override]]\nsensor = 'tank/*'\nsensor-range = {high = 10.0}\n[kept]\nsensors = 2")


class Watched:
    def __init__(self, rules: AlertRules) -> None:
        self.watch = FleetWatch(rules)
        self.number = 0

    def measured(self, second: float, names: Sequence[str]) -> None:
        self.number += 1
        spans = tuple(SensorSpan("gw-a", name, 1, 0, 0, 20, 20, 20, 20, 0) for name in names)
        activity = (Activity("gw-a", len(names), 0, 0, None, None, at(second)),)
        facts = replace(EMPTY, batch_id=self.number, committed_us=at(second), sensors=spans)
        self.watch.take(replace(facts, activity=activity))
        self.watch.changes(at(second))

    def alerts(self, second: float) -> list[tuple[str, Any, bool]]:
        table = self.watch.changes(at(second)).replace.get("alerts")
        found = [] if table is None else table.to_pylist()
        return [(row["kind"], row["sensor"], row["cleared"] is None) for row in found]


def test_a_name_that_no_rule_is_for_takes_no_room_of_those_that_have_one() -> None:
    watched = Watched(TANK)
    for number in range(5):
        watched.measured(10.0 * number, [f"x{number}-{each}" for each in range(100)])
    size = len(watched.watch.state())
    watched.measured(60, ["tank/level"])
    assert watched.alerts(60) == [("sensor-range", "tank/level", True)]
    for number in range(5):
        watched.measured(70.0 + number, [f"y{number}-{each}" for each in range(100)])
    assert len(watched.watch.state()) < size + 600


def test_names_of_any_length_take_a_bounded_room_and_it_is_told_once() -> None:
    watched = Watched(read("[sensor-range]\nhigh = 10.0\n[kept]\nsensors = 10000"))
    names = [f"{each:04}" + "\N{BUG}" * 250 for each in range(200)]
    for number in range(4):
        watched.measured(10.0 * number, names[50 * number : 50 * number + 50])
    told = [row for row in watched.alerts(40) if row[0] == "sensors-unwatched"]
    assert told == [("sensors-unwatched", None, True)]
    open_names = [row[1] for row in watched.alerts(40) if row[0] == "sensor-range"]
    assert sum(len(name.encode()) for name in open_names) <= MAX_NAME_BYTES
    assert len(watched.watch.state()) < 6 * MAX_NAME_BYTES
    for hour in range(1, 27):
        watched.measured(3_600.0 * hour, names[:10])
    told = [row for row in watched.alerts(3_600.0 * 26) if row[0] == "sensors-unwatched"]
    assert told == [("sensors-unwatched", None, False)]


def test_a_sensor_whose_rule_is_taken_away_leaves_no_alert_and_no_room_behind() -> None:
    watched = Watched(TANK)
    watched.measured(10, ["tank/level"])
    state = watched.watch.state()
    watched.watch = FleetWatch(AlertRules(), state)
    watched.measured(20, ["tank/level"])
    assert watched.alerts(20) == [("sensor-range", "tank/level", False)]


def test_one_gateway_takes_no_room_of_others_among_the_dashboards_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "SERIES_MAX", 12)
    monkeypatch.setattr(rollups, "SERIES_MAX_A_GATEWAY", 5)
    made = rollups.Rollups(Lake(tmp_path))
    folder = tmp_path / "telemetry" / f"day={NOW.date()}"
    folder.mkdir(parents=True)
    row = {"topic": "t", "value": 1.0, "origin_time": NOW}
    for number, (gateway, count) in enumerate([("gw-a", 3), ("gw-a", 9), ("gw-b", 2), ("gw-c", 9)]):
        told = [row | {"origin": gateway, "sensor": f"s{each}"} for each in range(count)]
        pq.write_table(rows(TELEMETRY, told).drop_columns(["day"]), folder / f"{number}.parquet")
        dataset = ds.dataset(sorted(folder.glob("*.parquet")), TELEMETRY)
        made.follow("telemetry", dataset)
    found: dict[str, int] = {}
    for one in made.series():
        found[one.gateway] = found.get(one.gateway, 0) + 1
    assert found == {"gw-a": 5, "gw-b": 2, "gw-c": 5}

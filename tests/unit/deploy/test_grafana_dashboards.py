"""The dashboards for Grafana ask for metrics that are told, and for columns that there are."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from documented_metrics import unknown_in

from cloud_ingest.query import Lake
from cloud_ingest.query.sql import ask, connect
from cloud_ingest.tables.fleet_schemas import ALERTS, GAPS, GATEWAYS, LATENCY

PROJECT = Path(__file__).resolve().parents[3]
FOLDER = PROJECT / "deploy/grafana"
PROMETHEUS, TABLES = "fleet-from-prometheus.json", "fleet-from-tables.json"
COLUMNS = 24


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return found


def queries(name: str, field: str) -> list[tuple[str, str]]:
    return [
        (panel["title"], target[field])
        for panel in dashboard(name)["panels"]
        for target in panel["targets"]
    ]


@pytest.mark.parametrize("name", [PROMETHEUS, TABLES])
def test_panels_stand_beside_each_other_with_names_and_numbers_of_their_own(name: str) -> None:
    panels = dashboard(name)["panels"]
    assert (
        len({one["id"] for one in panels}) == len({one["title"] for one in panels}) == len(panels)
    )
    for one in panels:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        assert one["datasource"]["uid"] == "${datasource}", "whoever provisions it chooses"
    for one, other in itertools.combinations((one["gridPos"] for one in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def test_both_have_addresses_of_their_own_and_none_of_a_machine() -> None:
    found = [dashboard(name) for name in (PROMETHEUS, TABLES)]
    assert [one["uid"] for one in found] == ["hedgerow-fleet", "hedgerow-tables"]
    for name in (PROMETHEUS, TABLES):
        assert "://" not in (FOLDER / name).read_text()


def test_each_metric_is_one_that_is_told() -> None:
    found = [one for one in texts(dashboard(PROMETHEUS)) if "hedgerow_" in one]
    assert any(one.startswith("label_values(") for one in found), "variables ask, too"
    for query in found:
        assert unknown_in(query) == [], query


def texts(part: Any) -> Iterator[str]:
    """Yield every text within."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for one in part.values() if isinstance(part, dict) else part:
            yield from texts(one)


@pytest.mark.peer("promtool", "prometheus")
def test_prometheus_takes_each_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": _filled(query)}
        for number, (_, query) in enumerate(queries(PROMETHEUS, "expr"))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _filled(query: str) -> str:
    for name, value in (("__rate_interval", "5m"), ("__range", "6h")):
        query = query.replace(f"${name}", value)
    return re.sub(r"\$(domain|gateway)", ".*", query)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables as the job of today writes them, a row each."""
    now = datetime.datetime.now(datetime.UTC)
    rows: list[tuple[str, Any, dict[str, Any]]] = [
        ("gateways", GATEWAYS, {"gateway": "gw-a", "health": "silent", "judged": now}),
        ("gaps", GAPS, {"gateway": "gw-a", "first": 3, "last": 5, "state": "missing"}),
        ("latency", LATENCY, {"stage": "accept", "minute": now, "p99_ms": 4.0, "day": now.date()}),
        ("alerts", ALERTS, {"alert": "a", "kind": "silent", "opened": now, "severity": "critical"}),
    ]
    for name, schema, row in rows:
        write_deltalake(str(tmp_path / name), pa.Table.from_pylist([row], schema=schema))
    return tmp_path


def test_the_tables_answer_each_query(tables: Path) -> None:
    connection = connect(Lake(tables))
    since = r"\1 > TIMESTAMPTZ '2000-01-01 00:00:00+00'"
    for title, query in queries(TABLES, "rawSql"):
        filled = re.sub(r"\$__timeFilter\((\w+)\)", since, query)
        assert "$" not in filled, title
        assert len(ask(connection, filled).fetchall()) == 1, title
    missing = dict(queries(TABLES, "rawSql"))["Messages that are missing"]
    assert ask(connection, missing).fetchall() == [(3,)]

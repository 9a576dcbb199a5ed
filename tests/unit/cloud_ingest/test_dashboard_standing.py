"""The dashboard shows the age of the tables, the state of job and collector, and the alerts."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
from synthetic_tables import ALERTS, NOW, Fleet, rows

from cloud_ingest.dashboard import fleet_view
from cloud_ingest.dashboard.alerts_view import alerts
from cloud_ingest.dashboard.standing import (
    LATE_MS,
    attention,
    heard_ms,
    standing,
)
from cloud_ingest.fleet.kinds import ABOUT
from cloud_ingest.tables import fleet_schemas

NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("written", "heard", "job", "collector"),
    [
        (None, None, "none", "unknown"),
        (NOW_MS, NOW_MS, "runs", "runs"),
        (NOW_MS - LATE_MS - 1, NOW_MS, "late", "unknown"),
        (NOW_MS, NOW_MS - LATE_MS - 1, "runs", "late"),
        (NOW_MS, None, "runs", "unknown"),
        (NOW_MS + LATE_MS + 1, NOW_MS, "ahead", "unknown"),
        (NOW_MS, NOW_MS + 40 * 365 * 86_400_000, "runs", "ahead"),
    ],
)
def test_job_and_collector_run_only_where_something_new_says_so(
    written: int | None, heard: int | None, job: str, collector: str
) -> None:
    told = standing(written, heard, NOW_MS)
    assert (told["job"], told["collector"]) == (job, collector)


def test_the_collector_was_heard_when_the_watch_says_so_else_when_a_message_came() -> None:
    table = Fleet(3).gateways()
    assert heard_ms(table) == NOW_MS - 4000
    judged = pa.array([NOW - datetime.timedelta(hours=3)] * 3, pa.timestamp("us", tz="UTC"))
    assert heard_ms(table.append_column("judged", judged)) == NOW_MS - 3 * 3_600_000
    assert heard_ms(None) is None


def test_a_state_that_is_not_known_here_is_unknown_and_not_good() -> None:
    table = Fleet(3).gateways()
    at = table.schema.get_field_index("health")
    table = table.set_column(at, "health", pa.array(["stale", "splendid", None]))
    told = fleet_view.fleet(table, alerts(None, None))
    assert told["gateways"]["health"] == ["stale", "unknown", "unknown"]
    assert told["health"] == dict.fromkeys(told["health"], 0) | {"stale": 1, "unknown": 2}
    one: Any = fleet_view.gateway(table, "gw-root")
    assert one["health"] == "stale"


def test_what_the_ingest_says_of_itself_comes_first_and_what_is_acknowledged_is_not_told() -> None:
    opened = {"kind": "hot", "opened": NOW}
    table = rows(
        ALERTS,
        [
            opened | {"alert": "a", "gateway": "gw"},
            opened | {"alert": "b", "gateway": "", "kind": "job-behind"},
            opened | {"alert": "c", "gateway": "gw"},
            opened | {"alert": "d", "gateway": "gw", "cleared": NOW},
        ],
    )
    said = pa.table(
        {
            "alert": ["c"],
            "by": ["olga"],
            "time": pa.array([NOW], pa.timestamp("us", tz="UTC")),
            "note": [""],
        }
    )
    told = attention(None, alerts(table, said))
    assert (told["open"], told["new"]) == (3, 2)
    assert [each["alert"] for each in told["first"]] == ["b", "a"]


def test_the_worst_kind_of_alert_comes_first_however_new_the_others_are() -> None:
    kinds = ("sensor-stuck", "hot", "gap", "of-a-later-version", "silent")
    found = [
        {"alert": kind, "kind": kind, "gateway": "gw", "opened": NOW - datetime.timedelta(hours=at)}
        for at, kind in enumerate(kinds)
    ]
    told = attention(None, alerts(rows(fleet_schemas.ALERTS, found), None))
    order = ["of-a-later-version", "silent", "gap", "hot", "sensor-stuck"]
    assert [each["alert"] for each in told["first"]] == order


def test_open_alerts_are_ordered_as_the_watch_weighs_their_kinds() -> None:
    found = [
        {"alert": kind, "kind": kind, "gateway": "gw", "opened": NOW, "severity": about.severity}
        for kind, about in reversed(ABOUT.items())
    ]
    assert alerts(rows(fleet_schemas.ALERTS, found), None)["kind"] == list(ABOUT)


def test_nothing_that_is_a_warning_comes_before_what_is_critical() -> None:
    kinds = ("disk-full", "flapping", "of-a-later-version", "gap")
    severities = ("critical", "warning", "warning", "warning")
    found = [
        {"alert": kind, "kind": kind, "gateway": "gw", "opened": NOW, "severity": severity}
        for kind, severity in zip(kinds, severities, strict=True)
    ]
    told = alerts(rows(fleet_schemas.ALERTS, found), None)
    assert told["kind"] == ["disk-full", "of-a-later-version", "gap", "flapping"]
    known = [about.severity for about in ABOUT.values()]
    assert known == sorted(known)  # critical, then warning


def test_a_state_that_raises_no_alert_is_told_and_those_that_do_are_not_told_twice() -> None:
    table = Fleet(5).gateways()
    states = pa.array(["stale", "good", "unreadable", "silent", "stale"])
    table = table.set_column(table.schema.get_field_index("health"), "health", states)
    assert attention(table, alerts(None, None))["states"] == {"unreadable": 1, "stale": 2}

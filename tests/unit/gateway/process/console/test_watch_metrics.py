"""``/metrics`` tells of the machine, the members and alerts what the last look saw."""

from __future__ import annotations

import platform
from dataclasses import replace
from typing import Any, Literal, cast

import pytest

from alerts.desk import trial
from alerts.record import AlertRecord
from alerts.state import AlertState, WaitingRecord, WayState
from gateway.alerting.figures import AlertFigures
from gateway.alerting.gateway_alerts import GatewayAlerts
from gateway.alerting.judging import SeenByGateway
from gateway.alerting.plan import AlertPlan
from gateway.alerting.rules import RULES
from gateway.base import build
from gateway.process.console import metrics
from gateway.process.console.exposition import by_label, histogram, render
from gateway.process.console.watch_metrics import collect

SEEN = SeenByGateway(
    gateway="gw-a",
    site="campus/north",
    ahead_s=0.0,
    free_bytes=10,
    total_bytes=100,
    is_read_only=True,
    temperature_cel=61.5,
    under_voltage=False,
    is_throttled=True,
    disk_life_used=0.4,
    written_bytes=1000,
    away=["gw-z"],
    missing={"gw-z", "gw-y"},
    sites={"gw-a": "campus/north", "gw-y": "", "gw-z": "campus/south"},
)


def told(figures: AlertFigures) -> set[str]:
    lines = render(collect(figures)).decode().splitlines()
    return {line for line in lines if not line.startswith("#")}


def test_what_was_seen_is_told_with_who_this_is() -> None:
    alerts = GatewayAlerts(AlertPlan(), AlertState(), 0.0)
    alerts.look(SEEN, 1_000_000, 10.0)
    lines = told(alerts.figures())
    assert {
        'hedgerow_gateway_info{domain="campus",gateway="gw-a",group="north"} 1.0',
        "hedgerow_members 3.0",
        "hedgerow_members_away 2.0",
        'hedgerow_member_away{domain="campus",gateway="gw-z",group="south"} 1.0',
        "hedgerow_disk_free_bytes 10.0",
        "hedgerow_disk_size_bytes 100.0",
        "hedgerow_disk_read_only 1.0",
        "hedgerow_cpu_temperature_celsius 61.5",
        "hedgerow_under_voltage 0.0",
        "hedgerow_throttled 1.0",
        "hedgerow_disk_life_used_ratio 0.4",
        "hedgerow_disk_written_bytes_total 1000.0",
        "hedgerow_tree_elections_total 0.0",
        'hedgerow_alerts{alertname="disk-read-only",severity="critical"} 1.0',
        'hedgerow_alerts{alertname="hot",severity="warning"} 0.0',
    } <= lines
    assert len([line for line in lines if line.startswith("hedgerow_alerts{")]) == len(RULES)
    assert not any("clock_synchronized" in line for line in lines), "it does not say"
    alerts.look(replace(SEEN, is_clock_kept=True), 1_000_001, 11.0)
    assert "hedgerow_clock_synchronized 1.0" in told(alerts.figures())


def test_before_the_first_look_alerts_alone_are_told() -> None:
    lines = told(GatewayAlerts(AlertPlan(), AlertState(), 0.0).figures())
    assert not any(line.startswith("hedgerow_gateway_info") for line in lines)
    assert 'hedgerow_alerts{alertname="hot",severity="warning"} 0.0' in lines


def test_ways_tell_what_waits_and_whether_they_fail() -> None:
    record: AlertRecord = trial("gw-a", "", 1)[0]
    ways = {
        "mail": WayState([WaitingRecord(record)], delivered=3, dropped=1, trouble="no route"),
        "ntfy": WayState(),
    }
    lines = told(AlertFigures(None, {}, ways))
    assert {
        'hedgerow_alert_way_waiting_records{way="mail"} 1.0',
        'hedgerow_alert_way_failing{way="mail"} 1.0',
        'hedgerow_alert_way_failing{way="ntfy"} 0.0',
        'hedgerow_alert_way_delivered_records_total{way="mail"} 3.0',
        'hedgerow_alert_way_dropped_records_total{way="mail"} 1.0',
    } <= lines


def test_a_histogram_has_one_more_count_than_bounds() -> None:
    told = render([histogram("wait_seconds", "A wait.", (0.5, 1.0), (1, 2, 4), 3.5)]).decode()
    assert [line for line in told.splitlines() if not line.startswith("#")] == [
        'wait_seconds_bucket{le="0.5"} 1.0',
        'wait_seconds_bucket{le="1.0"} 3.0',
        'wait_seconds_bucket{le="+Inf"} 7.0',
        "wait_seconds_count 7.0",
        "wait_seconds_sum 3.5",
    ]
    for counts in ((1, 2), (1, 2, 4, 8)):
        with pytest.raises(ValueError, match="zip"):
            histogram("wait_seconds", "A wait.", (0.5, 1.0), counts, 3.5)


def test_a_label_is_told_in_the_order_of_its_values() -> None:
    values = {"b": 2.0, "a": 1.0}
    for kind, end in (("gauge", ""), ("counter", "_total")):
        metric = by_label(cast(Literal["gauge", "counter"], kind), "x", "X.", "of", values)
        told = render([metric]).decode().splitlines()
        assert [line for line in told if line.startswith("x")] == [
            f'x{end}{{of="a"}} 1.0',
            f'x{end}{{of="b"}} 2.0',
        ]


def test_the_version_and_pythons_are_labels_of_the_first_figure() -> None:
    parts: Any = None
    first = next(metrics.collect(parts, parts, parts, parts))
    told = render([first]).decode().splitlines()
    labels = f'python="{platform.python_version()}",version="{build.VERSION}"'
    assert told[-1] == f"hedgerow_build_info{{{labels}}} 1.0"

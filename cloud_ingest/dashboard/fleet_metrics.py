"""Metrics of the fleet for Prometheus, as the tables have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.standing import healths
from gateway.base import wall_clock

RUNS = "runs"


def collect(models: Models) -> Iterator[Metric]:
    """Yield all metrics now; asked from another thread than the one that reads the tables."""
    text = "Gateways, by how they are."
    gateways = GaugeMetricFamily("hedgerow_fleet_gateways", text, labels=("health",))
    for health, count in healths(models.gateways).items():
        gateways.add_metric((health,), count)
    yield gateways
    yield from _alerts(models)
    written = GaugeMetricFamily(
        "hedgerow_fleet_table_written_timestamp_seconds",
        "Time at which a table was last written to, by its writer's clock.",
        labels=("table",),
    )
    for table, at_ms in sorted(dict(models.written_ms).items()):
        written.add_metric((table,), at_ms / 1000)
    yield written
    unreadable = GaugeMetricFamily(
        "hedgerow_fleet_table_unreadable", "1 for a table that can't be read.", labels=("table",)
    )
    for table in sorted(dict(models.problems)):
        unreadable.add_metric((table,), 1)
    yield unreadable
    standing = models.standing(wall_clock.now_ms())
    for who in ("job", "collector"):
        text = f"1 while the {who} keeps the tables new."
        yield GaugeMetricFamily(f"hedgerow_fleet_{who}_runs", text, float(standing[who] == RUNS))
    text = "Times that something new was taken up."
    yield CounterMetricFamily("hedgerow_dashboard_revisions_total", text, models.revision)


def _alerts(models: Models) -> Iterator[Metric]:
    found = models.alerts
    counts: Counter[tuple[str, str, str]] = Counter()
    columns = ("kind", "severity", "cleared_ms", "acknowledged_by")
    for kind, severity, cleared, by in zip(*(found.get(name, ()) for name in columns), strict=True):
        if cleared is None:
            counts[kind, severity or "", "no" if by is None else "yes"] += 1
    alerts = GaugeMetricFamily(
        "hedgerow_fleet_alerts",
        "Alerts of the ingest job that are open, by kind.",
        labels=("alertname", "severity", "acknowledged"),
    )
    for labels, count in sorted(counts.items()):
        alerts.add_metric(labels, count)
    yield alerts

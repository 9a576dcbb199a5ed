"""Lines of ``/metrics`` on the machine, other gateways and alerts, as the last look saw them.

Who the gateway is stands in one metric, ``hedgerow_gateway_info``, with which queries join the
others: labels that are the same in all metrics are a target's (prometheus.io, "Instrumentation").
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.alerting.figures import AlertFigures
from gateway.alerting.judging import SeenByGateway
from gateway.process.console.exposition import gauge

_PLACE = ("gateway", "domain", "group")


def collect(figures: AlertFigures) -> Iterator[Metric]:
    """Yield all of them; what a machine does not tell is not there."""
    if figures.seen is not None:
        yield from _who(figures.seen)
        yield from _members(figures.seen)
        yield from _machine(figures.seen)
    standing = GaugeMetricFamily(
        "hedgerow_alerts", "Alerts that stand, by rule.", labels=("alertname", "severity")
    )
    for (rule, severity), count in figures.standing.items():
        standing.add_metric((rule, severity), count)
    yield standing
    yield from _ways(figures)


def _who(seen: SeenByGateway) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "hedgerow_gateway_info", "1, with which gateway this is, and where.", labels=_PLACE
    )
    info.add_metric(_labels(seen.gateway, seen.site), 1)
    yield info


def _members(seen: SeenByGateway) -> Iterator[Metric]:
    yield gauge("hedgerow_members", "Gateways that are known, this one included.", len(seen.sites))
    yield gauge("hedgerow_members_away", "Those that the tree has lost.", len(seen.missing))
    away = GaugeMetricFamily(
        "hedgerow_member_away",
        "1 for each gateway that the tree has lost and of which this one is to tell.",
        labels=_PLACE,
    )
    for who in seen.away:
        away.add_metric(_labels(who, seen.sites.get(who, "")), 1)
    yield away


def _machine(seen: SeenByGateway) -> Iterator[Metric]:
    figures = (
        ("hedgerow_disk_free_bytes", "Of the disk with the gateway's state.", seen.free_bytes),
        ("hedgerow_disk_size_bytes", "All of that disk.", seen.total_bytes),
        ("hedgerow_disk_read_only", "1 if that disk takes nothing any more.", seen.is_read_only),
        ("hedgerow_cpu_temperature_celsius", "Of the processor.", seen.temperature_cel),
        ("hedgerow_under_voltage", "1 while the supply is too weak.", seen.under_voltage),
        ("hedgerow_throttled", "1 while the processor is slowed down.", seen.is_throttled),
        ("hedgerow_disk_life_used_ratio", "Of that card's life time.", seen.disk_life_used),
        (
            "hedgerow_clock_synchronized",
            "1 while a time service keeps the clock.",
            seen.is_clock_kept,
        ),
        (
            "hedgerow_tree_elections_total",
            "Times that this gateway became the root.",
            seen.elections,
        ),
    )
    for name, text, value in figures:
        if value is None:
            continue
        if name.endswith("_total"):
            yield CounterMetricFamily(name, text, float(value))
        else:
            yield gauge(name, text, float(value))
    written = seen.written_bytes
    if written is not None:
        text = "To that disk, since the machine's start."
        yield CounterMetricFamily("hedgerow_disk_written_bytes_total", text, float(written))


def _ways(figures: AlertFigures) -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "hedgerow_alert_way_waiting_records",
        "Records that a way out has not taken yet.",
        labels=("way",),
    )
    failing = GaugeMetricFamily(
        "hedgerow_alert_way_failing",
        "1 while a way out does not take what it is given.",
        labels=("way",),
    )
    delivered = CounterMetricFamily(
        "hedgerow_alert_way_delivered_records_total", "Records that it has taken.", labels=("way",)
    )
    dropped = CounterMetricFamily(
        "hedgerow_alert_way_dropped_records_total", "Records that it never took.", labels=("way",)
    )
    for name, way in figures.ways.items():
        waiting.add_metric((name,), len(way.waiting))
        failing.add_metric((name,), float(bool(way.trouble)))
        delivered.add_metric((name,), way.delivered)
        dropped.add_metric((name,), way.dropped)
    yield from (waiting, failing, delivered, dropped)


def _labels(gateway: str, site: str) -> tuple[str, str, str]:
    domain, _, group = site.partition("/")
    return gateway, domain, group

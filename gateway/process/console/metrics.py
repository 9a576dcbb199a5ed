"""Lines of ``/metrics``. No label holds anything that a client or neighbour chose."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psutil
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import PROCESS_COLLECTOR

from gateway.base import build
from gateway.base.duration_histogram import BOUNDS_S
from gateway.broker.statistics import report
from gateway.process.console import edge_metrics, watch_metrics
from gateway.process.console.exposition import (
    CONTENT_TYPE,
    by_label,
    counter,
    gauge,
    histogram,
    render,
)
from gateway.process.console.pages import Page

if TYPE_CHECKING:
    from gateway.alerting.figures import AlertFigures
    from gateway.broker.data_plane import DataPlane
    from gateway.log.message_log import MessageLog
    from gateway.node.links.node import TreeNode
    from gateway.node.links.routed_part import RoutedPart
    from gateway.process.status.edge import GatewayEdge

_process = psutil.Process()


def page(
    core: DataPlane,
    node: TreeNode,
    routed: RoutedPart | None,
    edge: GatewayEdge,
    figures: AlertFigures | None = None,
) -> Page:
    """Return the page of all metrics."""
    return Page(CONTENT_TYPE, render(collect(core, node, routed, edge, figures)))


def collect(
    core: DataPlane,
    node: TreeNode,
    routed: RoutedPart | None,
    edge: GatewayEdge,
    figures: AlertFigures | None = None,
) -> Iterator[Metric]:
    """Yield all metrics now."""
    built = GaugeMetricFamily(
        "hedgerow_build_info", "1, with the version in a label.", labels=("version", "python")
    )
    built.add_metric((build.VERSION, platform.python_version()), 1)
    yield built
    yield from _traffic(core)
    yield from _clients(core)
    yield from _limits(core)
    yield from _log(node.log)
    yield from _tree(node)
    if routed is not None:
        yield from _routed(routed)
    yield from edge_metrics.collect(edge)
    if figures is not None:
        yield from watch_metrics.collect(figures)
    yield from PROCESS_COLLECTOR.collect()
    yield gauge("process_threads", "Threads.", _process.num_threads())


def _traffic(core: DataPlane) -> Iterator[Metric]:
    traffic = core.traffic
    mqtt = "hedgerow_mqtt_"
    received = {
        "0": traffic.received_qos_0,
        "1": traffic.received_qos_1,
        "2": traffic.received_qos_2,
    }
    yield counter(mqtt + "received_bytes_total", "Bytes from clients.", traffic.bytes_read)
    yield counter(mqtt + "sent_bytes_total", "Bytes to clients.", traffic.bytes_sent)
    yield counter(mqtt + "received_packets_total", "Packets of any type.", traffic.packets_read)
    yield counter(mqtt + "sent_packets_total", "Packets of any type.", traffic.packets_sent)
    yield by_label(
        "counter", mqtt + "received_publishes_total", "PUBLISH packets by QoS.", "qos", received
    )
    yield counter(mqtt + "sent_publishes_total", "PUBLISH packets to clients.", traffic.delivered)
    yield counter(
        mqtt + "received_publish_bytes_total",
        "Bytes of PUBLISH packets, headers included.",
        traffic.published_bytes,
    )
    yield counter(
        mqtt + "sent_publish_bytes_total",
        "Bytes of PUBLISH packets, headers included.",
        traffic.delivered_bytes,
    )
    yield counter(
        mqtt + "dropped_messages_total",
        "Messages that did not reach a subscriber: not read, queue full, expired or too large.",
        core.dropped,
    )
    yield counter(
        mqtt + "sockets_total",
        "Connections opened, refused ones included.",
        core.connections.opened_count,
    )
    yield counter(mqtt + "connects_total", "CONNECT packets.", traffic.connects)
    yield by_label(
        "counter",
        mqtt + "refusals_total",
        "Messages and requests that were refused or dropped, by kind.",
        "kind",
        dict(core.refusals.counts),
    )
    yield counter(
        mqtt + "sessions_expired_total",
        "Sessions that ended because their client stayed away.",
        core.sessions.expired,
    )


def _clients(core: DataPlane) -> Iterator[Metric]:
    mqtt = "hedgerow_mqtt_"
    waiting = report.waiting(core)
    yield gauge(mqtt + "connected_clients", "Clients that are connected.", core.sessions.connected)
    yield gauge(
        mqtt + "disconnected_clients",
        "Sessions that wait for their client.",
        core.sessions.offline_count,
    )
    yield gauge(
        mqtt + "connected_clients_max",
        "The most clients at a time since the start.",
        core.sessions.connected_max,
    )
    yield gauge(
        mqtt + "shared_subscriptions",
        "Those of the subscriptions that are shared.",
        core.subscriptions.shared_count,
    )
    yield gauge(mqtt + "subscriptions", "Subscriptions.", len(core.subscriptions))
    yield gauge(
        mqtt + "queued_messages",
        "Messages that wait, once for each client.",
        waiting.queued_messages,
    )
    yield gauge(
        mqtt + "inflight_messages",
        "Messages sent and not acknowledged.",
        waiting.inflight_messages,
    )
    yield gauge(mqtt + "inflight_bytes", "Their size.", waiting.inflight_bytes)
    yield gauge(mqtt + "cached_routes", "Topics whose receivers are known.", len(core.known_routes))


def _limits(core: DataPlane) -> Iterator[Metric]:
    used = report.use_of_limits(core)
    yield by_label(
        "gauge",
        "hedgerow_mqtt_limit_used",
        "Use of what [limits] limits in all.",
        "limit",
        used,
    )
    yield by_label(
        "gauge",
        "hedgerow_mqtt_limit",
        "Limit on what there may be.",
        "limit",
        {name: getattr(core.limits, name) for name in used},
    )


def _log(log: MessageLog) -> Iterator[Metric]:
    yield gauge("hedgerow_log_bytes", "Size of the message log.", log.length)
    yield counter("hedgerow_log_appends_total", "Batches appended to the log.", log.appends)
    yield counter(
        "hedgerow_log_appended_bytes_total", "Bytes appended to the log.", log.appended_bytes
    )
    yield counter(
        "hedgerow_log_damaged_bytes_total",
        "Bytes of the log in which no batch can be read any more.",
        log.damaged_bytes,
    )
    yield counter(
        "hedgerow_log_lost_messages_total",
        "Messages that damage has cost the log; who may have them is asked.",
        log.lost_messages,
    )
    yield histogram(
        "hedgerow_log_sync_seconds",
        "Duration of each fdatasync.",
        BOUNDS_S,
        log.syncs.counts,
        log.syncs.sum_s,
    )


def _tree(node: TreeNode) -> Iterator[Metric]:
    report = node.status()
    yield by_label(
        "counter",
        "hedgerow_tree_events_total",
        "Events of the tree and its replication, by kind.",
        "event",
        report["counters"],
    )
    yield gauge("hedgerow_tree_links", "Links to neighbours.", len(node.links))
    yield gauge(
        "hedgerow_tree_forwarding_links",
        "Links over which messages are forwarded.",
        sum(one["forwarding"] for one in report["neighbours"]),
    )
    yield gauge(
        "hedgerow_tree_queued_bytes",
        "Bytes that wait to be written to links.",
        sum(link.queued_bytes for link in node.links.values()),
    )
    yield gauge(
        "hedgerow_tree_backlog_bytes",
        "Bytes of the log that links which were full have not come to.",
        sum(one["backlog_bytes"] for one in report["neighbours"]),
    )
    yield gauge("hedgerow_tree_hops", "Hops to the root.", report["hops"])
    if report["cost_ms"] is not None:
        yield gauge(
            "hedgerow_tree_cost_seconds", "Cost of the way to the root.", report["cost_ms"] / 1000
        )


def _routed(part: RoutedPart) -> Iterator[Metric]:
    report = part.status()
    yield by_label(
        "counter",
        "hedgerow_routed_events_total",
        "Events of routed mode, by kind.",
        "event",
        report["counters"],
    )
    owed = report["owed"]
    yield gauge(
        "hedgerow_routed_owed_messages",
        "Messages of this gateway's clients that gateways have not said they have.",
        sum(owed.values()),
    )
    yield gauge("hedgerow_routed_owed_gateways", "Gateways that are owed any.", len(owed))
    yield gauge(
        "hedgerow_routed_interests",
        "Gateways of which it is known what they want.",
        len(report["interests"]),
    )
    if (overlays := report["overlays"]) is not None:
        yield from _overlays(overlays)


def _overlays(report: dict[str, Any]) -> Iterator[Metric]:
    yield by_label(
        "counter",
        "hedgerow_overlay_events_total",
        "Events of topic overlays, by kind.",
        "event",
        report["counters"],
    )
    yield gauge("hedgerow_overlays", "Overlays that this gateway is in.", len(report["overlays"]))
    yield gauge(
        "hedgerow_overlays_settled",
        "Those of them that messages take.",
        sum(overlay["settled"] for overlay in report["overlays"]),
    )
    yield gauge("hedgerow_overlays_rooted", "Those of which it is the root.", report["rooted"])
    yield by_label(
        "gauge",
        "hedgerow_overlays_left_out",
        "Overlays that are not run, by the reason.",
        "reason",
        {reason: report[reason] for reason in ("over_limit", "disconnected")},
    )

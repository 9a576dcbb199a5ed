"""What ``/metrics`` tells of sensors, CoAP and certificates."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from gateway.console.exposition import by_label, counter, gauge
from gateway.edge import GatewayEdge


def collect(edge: GatewayEdge) -> Iterator[Metric]:
    """All of them now."""
    sensors = edge.sensors()
    yield gauge("hedgerow_sensors", "Sensors that are read.", sensors["count"])
    yield counter(
        "hedgerow_sensor_failed_readings_total",
        "Readings that were due and could not be taken.",
        sensors["failed"],
    )
    yield counter(
        "hedgerow_sensor_skipped_readings_total",
        "Readings left out because the one before was not done.",
        sensors["skipped"],
    )
    yield by_label(
        "gauge", "hedgerow_coap_peers", "Who is there over CoAP, by kind.", "kind", edge.peers()
    )
    expiry = GaugeMetricFamily(
        "hedgerow_certificate_expiry_timestamp_seconds",
        "When a certificate or revocation list ends, by the field that names its file.",
        labels=("field", "number"),
    )
    for one in edge.expiry.expiring:
        expiry.add_metric((one.field, str(one.number)), one.ends_s)
    yield expiry

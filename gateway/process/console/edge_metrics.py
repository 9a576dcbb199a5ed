"""Lines of ``/metrics`` on sensors, CoAP and certificates."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from gateway.coap.server import CoapCounts
from gateway.process.console.exposition import by_label, counter, gauge
from gateway.process.status.edge import GatewayEdge


def collect(edge: GatewayEdge) -> Iterator[Metric]:
    """Yield all of them now."""
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
        "gauge",
        "hedgerow_coap_peers",
        "Peers that are there over CoAP, by kind.",
        "kind",
        edge.peers(),
    )
    yield from _coap(edge.coap_counts())
    asked = "Requests over CoAP to and from other gateways, by what became of them."
    counts = edge.query_counts()
    yield by_label("counter", "hedgerow_remote_queries_total", asked, "outcome", counts)
    expiry = GaugeMetricFamily(
        "hedgerow_certificate_expiry_timestamp_seconds",
        "End of a certificate or revocation list, by the field that names its file.",
        labels=("field", "number"),
    )
    for one in edge.expiry.expiring:
        expiry.add_metric((one.field, str(one.number)), one.ends_s)
    yield expiry


def _coap(counts: CoapCounts) -> Iterator[Metric]:
    events = "Messages over CoAP, by what became of them."
    yield by_label("counter", "hedgerow_coap_events_total", events, "event", counts.events)
    refused = "Requests of peers that CoAP refused, by what was too much and whose part was taken."
    yield by_label("counter", "hedgerow_coap_refusals_total", refused, "kind", counts.refusals)
    held = "Parts that peers have taken of what CoAP has for all."
    yield by_label("gauge", "hedgerow_coap_held", held, "kind", counts.held)
    sessions = "Handshakes and sessions over DTLS, by what became of them."
    yield by_label("counter", "hedgerow_dtls_events_total", sessions, "event", counts.dtls)

"""JSON of `hedgerow top` for scripts: rates and percentiles beside what was told."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gateway.tools.top.fleet_sample import FleetHistory
from gateway.tools.top.history import DelayPercentiles, GatewayHistory
from gateway.tools.top.sample import GatewaySample


def of_gateway(history: GatewayHistory) -> dict[str, Any]:
    """Return one gateway; ``gateway`` is null where it has told nothing.

    TrafficRates are a second, delays milliseconds; null where they are not known.
    """
    sample = history.last
    document: dict[str, Any] = {
        "gateway": None if sample is None else _who(sample),
        "failure": history.failure or None,
        "rates": None if history.rates is None else _rounded(asdict(history.rates)),
        "acknowledgement_delays": _delays(history.delays),
    }
    if sample is None:
        return document
    return document | {
        "totals": asdict(sample.totals),
        "queues": {
            "queued": sample.queued,
            "inflight": sample.inflight,
            "link_bytes": sample.link_bytes,
        },
        "log_bytes": sample.log_bytes,
        "free_bytes": None if sample.free_bytes is None else int(sample.free_bytes),
        "connected": sample.connected,
        "away": sample.away,
        "retained": sample.retained,
        "neighbours": [
            asdict(one) | {"bytes_s": _maybe(history.of_link(one))} for one in sample.neighbours
        ],
        "clients": [asdict(one) | _client_rate(history, one) for one in sample.clients],
        "sensors": [asdict(one) for one in sample.sensors],
        "alerts": [asdict(one) for one in sample.alerts],
        "log": list(sample.log),
        "trouble": dict(sample.trouble),
    }


def of_fleet(fleet: FleetHistory) -> dict[str, Any]:
    """Return all gateways by their ids, each as `of_gateway` has it but for what only it tells."""
    left_out = ("clients", "sensors", "log", "trouble", "alerts")
    return {
        "failure": fleet.failure or None,
        "gateways": {
            gateway_id: {
                name: value for name, value in of_gateway(one).items() if name not in left_out
            }
            for gateway_id, one in fleet.gateways.items()
        },
    }


def _who(sample: GatewaySample) -> dict[str, Any]:
    return {
        "id": sample.id,
        "place": sample.place,
        "version": sample.version,
        "boot_epoch": sample.boot,
        "up_s": sample.up_s,
        "root": sample.root,
        "parent": sample.parent or None,
        "hops": sample.hops,
        "cost_ms": sample.cost_ms,
        "alerts": {"standing": sample.alerts_standing, "critical": sample.alerts_critical},
    }


def _delays(delays: DelayPercentiles) -> dict[str, Any]:
    return {
        "count": delays.count,
        "p50_ms": None if delays.p50_s is None else round(delays.p50_s * 1000, 3),
        "p99_ms": None if delays.p99_s is None else round(delays.p99_s * 1000, 3),
    }


def _client_rate(history: GatewayHistory, one: Any) -> dict[str, float | None]:
    rate = history.of_client(one)
    return {"bytes_s": _maybe(rate.bytes_s), "packets_s": _maybe(rate.packets_s)}


def _maybe(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}

"""Answers of gateways to `hedgerow top`, for tests: a fleet at work, and one that misbehaves."""

from __future__ import annotations

from typing import Any

from gateway.base.duration_histogram import BOUNDS_S
from gateway.tools.top.sample import GatewayAnswers

NOW_S = 1_764_300_000.0


def neighbour(name: str, role: str, **more: Any) -> dict[str, Any]:
    told = {
        "id": name,
        "role": role,
        "forwarding": role != "blocked",
        "rtt_ms": 1.25,
        "capability": 1.0,
        "heard_s_ago": 0.4,
        "queued_bytes": 0,
        "backlog_bytes": 0,
        "sent_bytes": 1_000,
        "received_bytes": 2_000,
        "address": "10.0.0.2:8883",
    }
    return told | more


def client(name: str, count: int, **more: Any) -> dict[str, Any]:
    told = {
        "id": name,
        "user": "plant",
        "address": "10.0.3.4",
        "protocol": "MQTT 5.0",
        "is_connected": True,
        "since_s": NOW_S - 3_600,
        "subscriptions": 2,
        "queued": 0,
        "inflight": 1,
        "dropped": 0,
        "bytes_read": 1_000 * count,
        "bytes_sent": 40 * count,
        "packets_read": 10 * count,
        "packets_sent": 10 * count,
    }
    return told | more


def status(at: int = 1, **more: Any) -> dict[str, Any]:
    """A status, `at` steps into its life."""
    counts = [0] * (len(BOUNDS_S) + 1)
    counts[4], counts[6] = 90 * at, 10 * at
    told: dict[str, Any] = {
        "id": "gw-north",
        "domain": "campus",
        "group": "north",
        "boot_epoch": 7,
        "version": "0.2.0",
        "up_s": 300_000.0 + 2 * at,
        "root": "gw-root",
        "parent": "gw-root",
        "hops": 1,
        "cost_ms": 1.3,
        "drain": None,
        "last_change": {"time_s": NOW_S - 60, "why": "parent gw-root"},
        "log_bytes": 12_345_678,
        "disk": {"failure": None, "free_bytes": 5_400_000_000},
        "failing": {},
        "places": {"gw-north": "campus/north", "gw-root": "-/-"},
        "alerts": {"standing": 2, "critical": 1, "ways": {}},
        "broker": {
            "clients": {"connected": 12, "disconnected": 3, "maximum": 15, "expired": 0},
            "messages": {
                "received": 250 * at,
                "sent": 900 * at,
                "dropped": 4,
                "queued": 17,
                "inflight": 5,
                "retained": 240,
            },
            "bytes": {"received": 30_000 * at, "sent": 108_000 * at},
            "acknowledgement_delays": {"bounds_s": list(BOUNDS_S), "counts": counts, "sum_s": 1.0},
        },
        "neighbours": [
            neighbour("gw-root", "root"),
            neighbour("gw-barn", "designated", rtt_ms=0.4, queued_bytes=5_120),
            neighbour("gw-south", "blocked", rtt_ms=None, heard_s_ago=None),
        ],
    }
    return told | more


def answers(at: int = 1, **more: Any) -> GatewayAnswers:
    """All that a gateway tells, two seconds after the step before."""
    told: dict[str, Any] = {
        "status": status(at),
        "clients": {
            "clients": [
                client("meter-17", 9 * at),
                client("厨房温度", 5 * at, user=""),
                client("pump", at, dropped=4),
            ]
        },
        "sensors": {
            "sensors": [
                sensor("valve", "1", "/", "good"),
                sensor("room/temperature", "21.5", "Cel", "good"),
                sensor("room/humidity", "", "%RH", "bad"),
            ]
        },
        "alerts": {
            "alerts": [
                alert("critical", "disk-full", "96 % are used"),
                alert("warning", "hot", "the processor has 81 °C", taken_on={"who": "ines"}),
            ]
        },
        "log": (
            "2025-11-28 03:19:58,120 INFO gateway.node.links.node: linked to gw-barn",
            "2025-11-28 03:19:59,001 WARNING gateway.sensors.sampler: room/humidity: no answer",
            "  Traceback (most recent call last):",
        ),
    }
    return GatewayAnswers(at_s=2.0 * at, time_s=NOW_S + 2.0 * at, **(told | more))


def sensor(name: str, value: str, unit: str, state: str) -> dict[str, Any]:
    last = {"value": value, "time_s": NOW_S - 1} if value else None
    return {"name": name, "type": "ds18b20", "unit": unit, "state": state, "last": last}


def alert(severity: str, rule: str, message: str, **more: Any) -> dict[str, Any]:
    told = {
        "severity": severity,
        "rule": rule,
        "gateway": "gw-north",
        "part": "",
        "message": message,
        "since_us": (NOW_S - 7_200) * 1e6,
        "taken_on": None,
    }
    return told | more

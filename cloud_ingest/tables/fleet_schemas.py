"""Schemas of the tables that the watch over the fleet writes, and of what is said to its alerts.

New columns stand at the end and may be null: tables of before and after are one table.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from cloud_ingest.tables.schemas import TIME

LINKS: Final = pa.list_(
    pa.struct(
        [
            ("peer", pa.string()),
            ("rtt_ms", pa.float64()),
            ("role", pa.string()),
            ("state", pa.string()),
        ]
    )
)
_TEXT, _LONG, _REAL = pa.string(), pa.int64(), pa.float64()

GATEWAYS: Final = pa.schema(
    [
        *((name, _TEXT) for name in ("gateway", "domain", "group", "health", "version", "build")),
        ("boot_epoch", _LONG),
        ("up_s", _REAL),
        ("root", _TEXT),
        ("parent", _TEXT),
        ("roles", pa.list_(_TEXT)),
        ("links", LINKS),
        ("clock_offset_ms", _REAL),
        ("temperature_cel", _REAL),
        ("under_voltage", pa.bool_()),
        ("disk_free_bytes", _LONG),
        ("disk_total_bytes", _LONG),
        ("disk_written_bytes", _LONG),
        ("memory_bytes", _LONG),
        ("load1", _REAL),
        ("queue_messages", _LONG),
        ("mqtt_clients", _LONG),
        ("messages", _LONG),
        ("rate_per_s", _REAL),
        *((name, _LONG) for name in ("undecodable", "duplicates", "gaps", "kept_local")),
        ("first_seen", TIME),
        ("last_seen", TIME),
        ("last_status", TIME),
        ("member_error", _TEXT),
        ("counters", pa.map_(_TEXT, _LONG)),
        ("health_why", _TEXT),
        ("judged", TIME),
        ("latitude", _REAL),
        ("longitude", _REAL),
        ("page", _TEXT),
        ("release", _TEXT),
        ("ring", _LONG),
        *((name, _TEXT) for name in ("trial", "trial_release", "trial_why")),
        ("reboot_due", pa.bool_()),
        *((name, _TEXT) for name in ("backup", "backup_why")),
        ("backup_age_s", _REAL),
        *((name, _LONG) for name in ("rated_messages_per_s", "rated_clients")),
    ]
)
"""A row a gateway. Times are the collector's; ``health`` is a `fleet.health.HealthState`, and holds
for the time ``judged``: until then the watch has heard the collector."""
GAPS: Final = pa.schema(
    [
        ("gateway", _TEXT),
        ("boot_epoch", _LONG),
        ("logged", pa.bool_()),
        ("first", _LONG),
        ("last", _LONG),
        ("found_time", TIME),
        ("closed_time", TIME),
        ("state", _TEXT),
    ]
)
"""``state`` is ``missing``, ``came`` or ``given up``: nobody looks for it any longer."""
LATENCY: Final = pa.schema(
    [
        ("gateway", _TEXT),
        ("minute", TIME),
        ("stage", _TEXT),
        ("count", _LONG),
        *((name, _REAL) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
        ("day", pa.date32()),
        ("part", _LONG),
    ]
)
"""Rows of one ``part`` of a minute replace each other: that with the greatest ``count`` holds; its
parts add up. Null, in rows of before, is 0."""
TOPOLOGY: Final = pa.schema(
    [
        ("time", TIME),
        ("gateway", _TEXT),
        ("boot_epoch", _LONG),
        ("root", _TEXT),
        ("parent", _TEXT),
        ("root_cost", _REAL),
        ("links", LINKS),
        ("reconvergences", _LONG),
        ("day", pa.date32()),
    ]
)
ALERTS: Final = pa.schema(
    [
        *((name, _TEXT) for name in ("alert", "kind", "gateway", "sensor")),
        ("opened", TIME),
        ("cleared", TIME),
        ("message", _TEXT),
        ("value", _REAL),
        ("severity", _TEXT),
        ("what_to_do", _TEXT),
    ]
)
ACKNOWLEDGEMENTS: Final = pa.schema(
    [
        ("alert", pa.string()),
        ("by", pa.string()),
        ("time", TIME),
        ("note", pa.string()),
    ]
)
"""Answers of people to alerts in the dashboard; ``alert`` is an alert's id."""

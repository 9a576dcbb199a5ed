"""The fleet's tables as Arrow: their columns, each declared once, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from cloud_ingest.fleet.alerts import Alert
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.health import Health
from cloud_ingest.fleet.kinds import ABOUT
from cloud_ingest.fleet.state import GapRow, LatencyRow, RowOutbox, TopologyRow
from cloud_ingest.status_record import StatusRecord

TIME: Final = pa.timestamp("us", tz="UTC")
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
    ]
)
"""A row a gateway. Times are the collector's; ``health`` is a word of `health.State`, and holds for
the time ``judged``: until then the watch has heard the collector."""
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
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "gateways": GATEWAYS,
    "gaps": GAPS,
    "latency": LATENCY,
    "topology": TOPOLOGY,
    "alerts": ALERTS,
}
PARTITIONS: Final[Mapping[str, str]] = {"latency": "day", "topology": "day"}
"""The column by which a table is partitioned."""
_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class FleetChanges:
    """What is to be written.

    Attributes:
        append: rows, by the table that gets them.
        replace: whole tables.
        number: of what is appended: rows of one number go into a table once.

    """

    append: Mapping[str, pa.Table] = field(default_factory=dict)
    replace: Mapping[str, pa.Table] = field(default_factory=dict)
    number: int = 0

    def __bool__(self) -> bool:
        return bool(self.append or self.replace)


def gateways(known: Iterable[GatewayState], healths: Mapping[str, Health], now_us: int) -> pa.Table:
    """The table ``gateways``.

    Args:
        known: all of them.
        healths: how each of them is, by its id.
        now_us: until when the watch has heard.

    """
    rows = sorted(known, key=lambda each: each.gateway)
    told = [each.status for each in rows]
    columns: dict[str, list[Any]] = {
        "health": [healths[each.gateway].state for each in rows],
        "health_why": [healths[each.gateway].why for each in rows],
        "judged": [now_us] * len(rows),
        "version": _of(told, lambda record: record.software),
        "boot_epoch": [each.epoch for each in rows],
        "roles": _of(told, lambda record: list(record.roles)),
        "links": _of(told, lambda record: [_link(*_fields(link)) for link in record.links]),
        "rate_per_s": [each.rate_per_s(now_us) for each in rows],
        "gaps": [each.missing for each in rows],
        "first_seen": [each.first_us for each in rows],
        "last_seen": [each.last_us for each in rows],
        "last_status": [each.status_us if each.status else None for each in rows],
        "member_error": [each.record_error for each in rows],
        "counters": _of(told, lambda record: sorted(record.counters.items())),
    }
    of_state = GatewayState.__struct_fields__
    for name in GATEWAYS.names:
        if name not in columns:
            columns[name] = (
                [getattr(each, name) for each in rows]
                if name in of_state
                else [None if record is None else getattr(record, name) for record in told]
            )
    return _table(columns, GATEWAYS)


def gaps(known: Iterable[GatewayState], closed: Iterable[GapRow]) -> pa.Table:
    """The table ``gaps``.

    Args:
        known: gateways, with what is missing and told.
        closed: gaps that are closed or given up.

    """
    rows = [(row, "given up" if row.closed_us is None else "came") for row in closed]
    for each in known:
        for epoch, life in each.lives.items():
            for hole in life.numbering.holes:
                if hole.is_told:
                    found = hole.first, hole.last, hole.found_us
                    rows.append((GapRow(each.gateway, epoch, *found, None), "missing"))
    rows.sort(key=lambda one: (one[0].found_us, one[0].gateway, one[0].epoch, one[0].first))
    states = [is_now for _, is_now in rows]
    told = [row for row, _ in rows]
    columns: dict[str, list[Any]] = {
        "gateway": [row.gateway for row in told],
        "boot_epoch": [row.epoch for row in told],
        "logged": [True] * len(rows),
        "first": [row.first for row in told],
        "last": [row.last for row in told],
        "found_time": [row.found_us for row in told],
        "closed_time": [row.closed_us for row in told],
        "state": states,
    }
    return _table(columns, GAPS)


def alerts(all_of_them: Iterable[Alert]) -> pa.Table:
    """The table ``alerts``."""
    rows = list(all_of_them)
    columns: dict[str, list[Any]] = {
        "alert": [row.id for row in rows],
        "kind": [row.kind for row in rows],
        "gateway": [row.gateway for row in rows],
        "sensor": [row.sensor or None for row in rows],
        "opened": [row.opened_us for row in rows],
        "cleared": [row.cleared_us for row in rows],
        "message": [row.message for row in rows],
        "value": [row.value for row in rows],
        "severity": [ABOUT[row.kind].severity for row in rows],
        "what_to_do": [ABOUT[row.kind].what_to_do for row in rows],
    }
    return _table(columns, ALERTS)


def appended(outbox: RowOutbox) -> dict[str, pa.Table]:
    """Rows of the tables ``latency`` and ``topology``."""
    found = {}
    if outbox.latency:
        found["latency"] = _latency(outbox.latency)
    if outbox.topology:
        found["topology"] = _topology(outbox.topology)
    return found


def _latency(rows: list[LatencyRow]) -> pa.Table:
    names = ("gateway", "stage", "count", "p50_ms", "p95_ms", "p99_ms", "max_ms", "part")
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in names}
    columns["minute"] = [row.minute_us for row in rows]
    columns["day"] = [row.minute_us // _DAY_US for row in rows]
    return _table(columns, LATENCY)


def _topology(rows: list[TopologyRow]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "time": [row.time_us for row in rows],
        "gateway": [row.gateway for row in rows],
        "boot_epoch": [row.epoch for row in rows],
        "root": [row.root for row in rows],
        "parent": [row.parent for row in rows],
        "root_cost": [row.root_cost_ms for row in rows],
        "links": [[_link(*link) for link in row.links] for row in rows],
        "reconvergences": [row.reconvergences for row in rows],
        "day": [row.time_us // _DAY_US for row in rows],
    }
    return _table(columns, TOPOLOGY)


def _of(told: list[StatusRecord | None], what: Callable[[StatusRecord], Any]) -> list[Any]:
    return [None if record is None else what(record) for record in told]


def _fields(link: Any) -> tuple[str, float | None, str, str]:
    return link.peer, link.rtt_ms, link.role, link.state


def _link(peer: str, rtt_ms: float | None, role: str, state: str) -> dict[str, Any]:
    return {"peer": peer, "rtt_ms": rtt_ms, "role": role, "state": state}


def _table(columns: Mapping[str, list[Any]], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(columns[each.name], each.type) for each in schema]
    return pa.Table.from_arrays(arrays, schema=schema)

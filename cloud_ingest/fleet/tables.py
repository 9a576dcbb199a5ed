"""The rows of the fleet's tables, as Arrow."""

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
from cloud_ingest.tables.fleet_schemas import ALERTS, GAPS, GATEWAYS, LATENCY, TOPOLOGY
from record_formats.status_record import StatusRecord

_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class FleetChanges:
    """The rows that are to be written to the fleet's tables.

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
    """Return the table ``gateways``.

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
    """Return the table ``gaps``.

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
    """Return the table ``alerts``; severity and first step are those of an alert's kind."""
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
    """Return rows of the tables ``latency`` and ``topology``."""
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

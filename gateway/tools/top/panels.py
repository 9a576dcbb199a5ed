"""Panels of one gateway, and the rows of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from gateway.base.event_log.read_lines import LogRecord, records_of
from gateway.tools.top import quantities
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.sample import AlertSample, ClientSample, GatewaySample, NeighbourSample
from gateway.tools.top.styled_text import Style
from gateway.tools.top.table import Column, PanelRow, PanelTable
from gateway.tools.top.top_view import ALERTS, CLIENTS, LOG, SENSORS, TREE

_TREE: Final = (
    Column("neighbour", 12, 0),
    Column("role", 9, 1),
    Column("rtt ms", 7, 2, is_number=True),
    Column("bytes/s", 8, 4, is_number=True),
    Column("queued", 8, 3, is_number=True),
    Column("heard", 6, 5, is_number=True),
    Column("address", 10, 6),
)
_CLIENTS: Final = (
    Column("client", 12, 0),
    Column("bytes/s", 8, 1, is_number=True),
    Column("pkts/s", 7, 2, is_number=True),
    Column("queued", 7, 3, is_number=True),
    Column("in flight", 9, 6, is_number=True),
    Column("dropped", 8, 5, is_number=True),
    Column("subs", 5, 8, is_number=True),
    Column("user", 8, 4),
    Column("address", 10, 7),
)
_SENSORS: Final = (
    Column("sensor", 12, 0),
    Column("value", 8, 1, is_number=True),
    Column("unit", 5, 2),
    Column("state", 6, 3),
    Column("age", 6, 4, is_number=True),
    Column("type", 6, 5),
)
_ALERTS: Final = (
    Column("alert", 14, 0),
    Column("severity", 8, 1),
    Column("since", 8, 2, is_number=True),
    Column("what", 16, 3),
    Column("gateway", 8, 5),
    Column("taken on by", 8, 4),
)
_LOG: Final = (
    Column("time", 8, 2),
    Column("level", 7, 1),
    Column("part", 8, 3),
    Column("log", 20, 0),
)
COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    TREE: _TREE,
    CLIENTS: _CLIENTS,
    SENSORS: _SENSORS,
    ALERTS: _ALERTS,
    LOG: _LOG,
}
"""Of each panel."""
_BLOCKED: Final = "blocked"
_LEVEL_STYLES: Final = {
    "WARNING": Style.LOOK,
    "ERROR": Style.WRONG,
    "CRITICAL": Style.WRONG,
    "DEBUG": Style.FAINT,
}


def table_of(panel: str, history: GatewayHistory, now_s: float) -> PanelTable:
    """Return what a panel shows.

    Args:
        panel: its name.
        history: of the gateway.
        now_s: seconds since 1970, for ages.

    """
    sample = history.last
    if sample is None:
        return PanelTable(panel, COLUMNS[panel], (), "nothing has been told yet")
    rows = tuple(_ROWS[panel](sample, history, now_s))
    missing = "" if rows else sample.trouble.get(panel, "") or _none(panel, sample)
    return PanelTable(panel, COLUMNS[panel], rows, missing)


def _none(panel: str, sample: GatewaySample) -> str:
    if not sample.tells_all and panel == TREE:
        return "not told: give --psk-file"
    return {
        TREE: "no neighbour is linked",
        CLIENTS: "no client is connected",
        SENSORS: "there are no sensors",
        ALERTS: "nothing is wrong",
        LOG: "the log says nothing",
    }[panel]


def _tree(sample: GatewaySample, history: GatewayHistory, _now_s: float) -> list[PanelRow]:
    order = {"parent": 0, "child": 1, "stands by": 2}
    found = [(_role(one, sample), one) for one in sample.neighbours]
    found.sort(key=lambda pair: (order.get(pair[0], 3), pair[1].id))
    return [_neighbour(one, role, history) for role, one in found]


def _neighbour(one: NeighbourSample, role: str, history: GatewayHistory) -> PanelRow:
    passing = history.of_link(one)
    cells = (
        one.id,
        role,
        quantities.milliseconds(None if one.rtt_ms is None else one.rtt_ms / 1000),
        quantities.number(passing),
        quantities.size(one.queued_bytes),
        quantities.span(one.heard_s),
        one.address,
    )
    keys = (one.id, role, one.rtt_ms, passing, one.queued_bytes, one.heard_s, one.address)
    return PanelRow(cells, keys, Style.PLAIN if one.forwards else Style.FAINT)


def _role(one: NeighbourSample, sample: GatewaySample) -> str:
    if one.id == sample.parent:
        return "parent"
    if one.role == _BLOCKED:
        return "stands by"
    return "child" if one.forwards else one.role


def _clients(sample: GatewaySample, history: GatewayHistory, _now_s: float) -> list[PanelRow]:
    return [_client(one, history) for one in sample.clients]


def _client(one: ClientSample, history: GatewayHistory) -> PanelRow:
    rate = history.of_client(one)
    cells = (
        one.id,
        quantities.number(rate.bytes_s),
        quantities.number(rate.packets_s),
        quantities.number(one.queued),
        quantities.number(one.inflight),
        quantities.number(one.dropped),
        quantities.number(one.subscriptions),
        one.user or quantities.UNKNOWN,
        one.address,
    )
    keys = (
        one.id,
        rate.bytes_s,
        rate.packets_s,
        one.queued,
        one.inflight,
        one.dropped,
        one.subscriptions,
        one.user,
        one.address,
    )
    return PanelRow(cells, keys, Style.LOOK if one.dropped else Style.PLAIN)


def _sensors(sample: GatewaySample, _history: GatewayHistory, now_s: float) -> list[PanelRow]:
    rows = []
    for one in sample.sensors:
        age_s = None if one.time_s is None else max(0.0, now_s - one.time_s)
        value = one.value or quantities.UNKNOWN
        cells = (one.name, value, one.unit, one.state, quantities.span(age_s), one.type)
        keys = (one.name, _number_in(one.value), one.unit, one.state, age_s, one.type)
        rows.append(PanelRow(cells, keys, Style.WRONG if one.state == "bad" else Style.PLAIN))
    return rows


def _number_in(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _alerts(sample: GatewaySample, _history: GatewayHistory, now_s: float) -> list[PanelRow]:
    return [_alert(one, now_s) for one in sample.alerts]


def _alert(one: AlertSample, now_s: float) -> PanelRow:
    age_s = max(0.0, now_s - one.since_s)
    what = f"{one.rule} {one.part}".rstrip()
    taken = one.taken_on_by or quantities.UNKNOWN
    cells = (what, one.severity, quantities.span(age_s), one.message, one.gateway, taken)
    keys = (what, one.severity, age_s, one.message, one.gateway, one.taken_on_by or None)
    return PanelRow(cells, keys, Style.WRONG if one.severity == "critical" else Style.LOOK)


def _log(sample: GatewaySample, _history: GatewayHistory, _now_s: float) -> list[PanelRow]:
    return [_record(one) for one in reversed(list(records_of(sample.log)))]


def _record(one: LogRecord) -> PanelRow:
    cells = (one.clock, one.level, one.part.rpartition(".")[2], one.text)
    return PanelRow(cells, cells, _LEVEL_STYLES.get(one.level, Style.PLAIN))


_ROWS: Final[Mapping[str, Callable[[GatewaySample, GatewayHistory, float], list[PanelRow]]]] = {
    TREE: _tree,
    CLIENTS: _clients,
    SENSORS: _sensors,
    ALERTS: _alerts,
    LOG: _log,
}

"""The panel of a whole fleet: a row for each gateway, below its parent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.tools.top import quantities
from gateway.tools.top.fleet_sample import FleetHistory
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.styled_text import Style, StyledLine, clipped
from gateway.tools.top.table import Column, PanelRow, PanelTable
from gateway.tools.top.top_view import FLEET

FLEET_COLUMNS: Final = (
    Column("gateway", 14, 0),
    Column("msg/s in", 8, 1, is_number=True),
    Column("out", 7, 2, is_number=True),
    Column("p99 ms", 6, 5, is_number=True),
    Column("clients", 7, 3, is_number=True),
    Column("queued", 7, 6, is_number=True),
    Column("links", 6, 9, is_number=True),
    Column("alerts", 6, 4, is_number=True),
    Column("up", 8, 7, is_number=True),
    Column("place", 10, 8),
    Column("version", 7, 10),
)
SILENT_MAX: Final = 3
"""So many reasons of silence stand above."""
DEPTH_MAX: Final = 16
"""Deeper gateways are not moved further to the right."""


def fleet_table(fleet: FleetHistory) -> PanelTable:
    """Return the rows of all gateways, those below others behind them."""
    rows = tuple(_row(gateway_id, one, depth) for gateway_id, one, depth in _in_order(fleet))
    return PanelTable(
        FLEET, FLEET_COLUMNS, rows, "" if rows else "no gateway has told anything yet"
    )


def fleet_meters(fleet: FleetHistory, now_s: float, cells: int) -> list[StyledLine]:
    """Return the lines above: what all do together, and who does not answer."""
    lines: list[StyledLine] = []
    if fleet.failure:
        for_s = quantities.span(max(0.0, now_s - fleet.failed_at_s))
        lines.append(clipped(((f"no answer for {for_s}: {fleet.failure}", Style.WRONG),), cells))
    told = [one for one in fleet.gateways.values() if not one.failure and one.last is not None]
    rates = [one.rates for one in told if one.rates is not None]
    clients = sum(one.last.connected for one in told if one.last is not None)
    count = f"{len(fleet.gateways)} gateway{'' if len(fleet.gateways) == 1 else 's'}"
    text = f"{count}, {len(fleet.gateways) - len(told)} silent"
    more = (
        f"   msg/s in {quantities.number(sum(one.messages_in for one in rates))}"
        f" out {quantities.number(sum(one.messages_out for one in rates))}   {clients} clients"
    )
    lines.append(clipped(((text, Style.STRONG), (more, Style.PLAIN)), cells))
    silent = [(who, one.failure) for who, one in fleet.gateways.items() if one.failure]
    for who, why in silent[:SILENT_MAX] if not fleet.failure else ():
        lines.append(clipped(((f"{who}: {why}", Style.WRONG),), cells))
    return lines


def _in_order(fleet: FleetHistory) -> Iterator[tuple[str, GatewayHistory, int]]:
    """Yield each once, below its parent; a circle of parents can't keep any of them out."""
    below: dict[str, list[str]] = {}
    tops = list[str]()
    for gateway_id, one in sorted(fleet.gateways.items()):
        parent = "" if one.last is None else one.last.parent
        if parent in fleet.gateways and parent != gateway_id:
            below.setdefault(parent, []).append(gateway_id)
        else:
            tops.append(gateway_id)
    seen = set[str]()
    for start in (*tops, *sorted(fleet.gateways)):
        waiting = [(start, 0)]
        while waiting:
            gateway_id, depth = waiting.pop()
            if gateway_id in seen:
                continue
            seen.add(gateway_id)
            yield gateway_id, fleet.gateways[gateway_id], depth
            waiting += [(child, depth + 1) for child in reversed(below.get(gateway_id, []))]


def _row(gateway_id: str, history: GatewayHistory, depth: int) -> PanelRow:
    sample, rates = history.last, history.rates
    name = "  " * min(depth, DEPTH_MAX) + gateway_id
    if sample is None or history.failure:
        nothing = [quantities.UNKNOWN] * (len(FLEET_COLUMNS) - 2)
        unknown = [None] * (len(FLEET_COLUMNS) - 1)
        return PanelRow((name, "silent", *nothing), (gateway_id, *unknown), Style.WRONG)
    messages_in = None if rates is None else rates.messages_in
    messages_out = None if rates is None else rates.messages_out
    p99_s = history.delays.p99_s
    links = sum(one.forwards for one in sample.neighbours)
    cells = (
        name,
        quantities.number(messages_in),
        quantities.number(messages_out),
        quantities.milliseconds(p99_s),
        quantities.number(sample.connected),
        quantities.number(sample.queued),
        str(links),
        str(sample.alerts_standing),
        quantities.span(sample.up_s),
        sample.place,
        sample.version,
    )
    keys = (
        gateway_id,
        messages_in,
        messages_out,
        p99_s,
        sample.connected,
        sample.queued,
        links,
        sample.alerts_standing,
        sample.up_s,
        sample.place,
        sample.version,
    )
    return PanelRow(cells, keys, _style(sample.alerts_critical, sample.alerts_standing))


def _style(critical: int, standing: int) -> Style:
    if critical:
        return Style.WRONG
    return Style.LOOK if standing else Style.PLAIN

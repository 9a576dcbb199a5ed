"""The lines above the panels: who it is, what passes, what waits, and what is wrong."""

from __future__ import annotations

from typing import Final

from gateway.tools.top import quantities
from gateway.tools.top.cells import width_of
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.sample import GatewaySample
from gateway.tools.top.styled_text import Span, Style, StyledLine, clipped

LITTLE_BYTES: Final = 64_000_000
"""With less room than that on its disk a gateway soon refuses messages."""
_GAP: Final = "   "
_SPARK_CELLS: Final = 20

_Meter = tuple[Span, ...]
"""Spans that are not parted by the end of a line."""


def drawn(history: GatewayHistory, now_s: float, cells: int, rows: int) -> list[StyledLine]:
    """Return the lines, of which there are `rows` at most.

    Args:
        history: of the gateway.
        now_s: the steady clock, which says how long it has not answered.
        cells: the width of a line.
        rows: how many lines there are.

    """
    sample = history.last
    lines: list[StyledLine] = []
    trouble = _trouble(history, now_s)
    if sample is not None:
        lines.append(clipped(_who(sample), cells))
    lines += [clipped(((line, Style.WRONG),), cells) for line in trouble]
    if sample is not None:
        for group in _groups(sample, history):
            lines += _flowing(group, cells)
    return lines[:rows]


def _trouble(history: GatewayHistory, now_s: float) -> list[str]:
    lines = []
    if history.failure:
        for_s = quantities.span(max(0.0, now_s - history.failed_at_s))
        lines.append(f"no answer for {for_s}: {history.failure}")
    sample = history.last
    if sample is not None:
        if sample.disk_failure:
            lines.append(f"disk: {sample.disk_failure}: messages are refused")
        if sample.failing:
            lines.append(f"failed: {', '.join(sample.failing)}")
        if not sample.tells_all:
            lines.append("it tells the rest on its own machine and to those with --psk-file")
    return lines


def _who(sample: GatewaySample) -> StyledLine:
    if sample.parent:
        where = f"{sample.hops} hop{'' if sample.hops == 1 else 's'} below {sample.root}"
    else:
        where = "root of the tree" if sample.tells_all else ""
    parts = [sample.place if sample.tells_all else "", where]
    parts.append("draining" if sample.is_draining else "")
    parts += [f"up {quantities.span(sample.up_s)}", f"hedgerow {sample.version or '?'}"]
    return ((sample.id, Style.STRONG), ("  " + ", ".join(filter(None, parts)), Style.PLAIN))


def _groups(sample: GatewaySample, history: GatewayHistory) -> list[list[_Meter]]:
    """Return what is shown, the most wanted first; each group begins a line."""
    if not sample.tells_all:
        return []
    return [_passing(history), _late(sample, history), _kept(sample), _wrong(sample, history)]


def _passing(history: GatewayHistory) -> list[_Meter]:
    rates = history.rates
    spark = quantities.sparkline(list(history.points), _SPARK_CELLS)
    meters = [
        _meter("msg/s in", quantities.number(None if rates is None else rates.messages_in)),
        _meter("out", quantities.number(None if rates is None else rates.messages_out)),
        _meter("B/s in", quantities.number(None if rates is None else rates.bytes_in)),
        _meter("out", quantities.number(None if rates is None else rates.bytes_out)),
    ]
    if rates is not None and rates.dropped:
        meters.append(_meter("dropped/s", quantities.number(rates.dropped), Style.WRONG))
    if spark:
        meters.append(((spark, Style.GOOD),))
    return meters


def _late(sample: GatewaySample, history: GatewayHistory) -> list[_Meter]:
    delays = history.delays
    return [
        _meter("ack ms p50", quantities.milliseconds(delays.p50_s)),
        _meter("p99", quantities.milliseconds(delays.p99_s)),
        _meter("clients", f"{sample.connected}+{sample.away} away"),
        _meter("queued", quantities.number(sample.queued)),
        _meter("in flight", quantities.number(sample.inflight)),
    ]


def _kept(sample: GatewaySample) -> list[_Meter]:
    free = sample.free_bytes
    style = Style.WRONG if free is not None and free < LITTLE_BYTES else Style.PLAIN
    return [
        _meter("to links", quantities.size(sample.link_bytes)),
        _meter("log", quantities.size(sample.log_bytes)),
        _meter("disk free", quantities.size(free), style),
        _meter("retained", quantities.number(sample.retained)),
        _meter("dropped", quantities.number(sample.totals.dropped)),
    ]


def _wrong(sample: GatewaySample, history: GatewayHistory) -> list[_Meter]:
    standing, critical = sample.alerts_standing, sample.alerts_critical
    style = Style.WRONG if critical else Style.LOOK if standing else Style.GOOD
    text = f"{standing}, {critical} critical" if standing else "none"
    meters = [_meter("alerts", text, style)]
    if sample.sensors_failing:
        meters.append(_meter("sensors failing", str(sample.sensors_failing), Style.WRONG))
    if history.starts:
        meters.append(_meter("started while you look", str(history.starts), Style.LOOK))
    if sample.last_change:
        meters.append(_meter("last change", sample.last_change))
    return meters


def _meter(name: str, value: str, style: Style = Style.STRONG) -> _Meter:
    return ((f"{name} ", Style.FAINT), (value, style))


def _flowing(meters: list[_Meter], cells: int) -> list[StyledLine]:
    lines: list[list[Span]] = []
    used = 0
    for meter in meters:
        width = sum(width_of(text) for text, _ in meter)
        if lines and used + len(_GAP) + width <= cells:
            lines[-1].append((_GAP, Style.PLAIN))
            used += len(_GAP) + width
        else:
            lines.append([])
            used = width
        lines[-1].extend(meter)
    return [clipped(tuple(line), cells) for line in lines]

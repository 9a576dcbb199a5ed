"""A whole frame: meters above, panels below, and a line of keys; as large as the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.tools.top import meters, table
from gateway.tools.top.cells import width_of
from gateway.tools.top.fleet_panel import FLEET_COLUMNS, fleet_meters, fleet_table
from gateway.tools.top.fleet_sample import FleetHistory
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.panels import COLUMNS, table_of
from gateway.tools.top.styled_text import Style, StyledLine, TopFrame, clipped
from gateway.tools.top.table import PanelRow, PanelTable
from gateway.tools.top.top_view import (
    ALERTS,
    CLIENTS,
    FLEET,
    KEYS,
    LOG,
    OVERVIEW,
    SENSORS,
    TREE,
    TopView,
)
from light_dataclasses import dataclass

CELLS_LEAST: Final = 20
ROWS_LEAST: Final = 6
_SECTION_LEAST: Final = 2
"""A line of titles, and one row."""
COLUMN_COUNTS: Final[Mapping[str, int]] = {
    **{name: len(columns) for name, columns in COLUMNS.items()},
    FLEET: len(FLEET_COLUMNS),
}
"""Of each panel, for `TopView.pressed`."""
_FOOT: Final = (
    ("F1", "Help"),
    ("F4", "Filter"),
    ("F5", "Panel"),
    ("F6", "Sort"),
    ("F7", "Invert"),
    ("F8", "Pause"),
    ("F10", "Quit"),
)


@dataclass(frozen=True, slots=True)
class FrameSize:
    """Of a terminal, in characters."""

    cells: int
    rows: int


@dataclass(frozen=True, slots=True)
class FrameTime:
    """The time at which a frame is drawn.

    Attributes:
        now_s: on a steady clock.
        time_s: since 1970.

    """

    now_s: float
    time_s: float


def drawn(
    history: GatewayHistory | FleetHistory,
    view: TopView,
    size: FrameSize,
    at: FrameTime,
    *,
    has_keys: bool = True,
) -> TopFrame:
    """Return the frame.

    Args:
        history: of the gateway, or of the fleet.
        view: what is looked at.
        size: of the terminal; one that is very small gets the first lines of a frame.
        at: the time.
        has_keys: whether there are keys to tell of.

    """
    cells, rows = max(size.cells, CELLS_LEAST), max(size.rows, ROWS_LEAST)
    foot = [_foot(view, cells)] if has_keys else []
    if view.has_help:
        body = _help(cells)
    else:
        above = _above(history, at, cells, max(2, rows // 4 + 1))
        above += [_bar(view, cells)] if has_keys else [()]
        body = [*above, *_panels(history, view, at, cells, rows - len(above) - len(foot))]
    body = body[: rows - len(foot)]
    body += [()] * (rows - len(foot) - len(body))
    lines = [*body, *foot][: size.rows]
    return TopFrame(tuple(clipped(line, size.cells) for line in lines))


def _above(
    history: GatewayHistory | FleetHistory, at: FrameTime, cells: int, rows: int
) -> list[StyledLine]:
    if isinstance(history, FleetHistory):
        return fleet_meters(history, at.now_s, cells)[:rows]
    return meters.drawn(history, at.now_s, cells, rows)


def _panels(
    history: GatewayHistory | FleetHistory, view: TopView, at: FrameTime, cells: int, rows: int
) -> list[StyledLine]:
    if isinstance(history, FleetHistory):
        return _one(fleet_table(history), view, cells, rows)
    if view.panel != OVERVIEW:
        return _one(table_of(view.panel, history, at.time_s), view, cells, rows)
    names = [TREE, CLIENTS, SENSORS, ALERTS, LOG]
    sample = history.last
    if sample is not None and sample.alerts:
        names.sort(key=lambda name: name != ALERTS)
    tables = [table_of(name, history, at.time_s) for name in names[: max(1, rows // 2)]]
    chosen = [_chosen(one, view) for one in tables]
    shares = _shares([1 + max(1, len(found)) for found in chosen], rows)
    lines: list[StyledLine] = []
    for one, found, share in zip(tables, chosen, shares, strict=True):
        lines += _section(one, found, view, cells, share)
    return lines


def _one(shown: PanelTable, view: TopView, cells: int, rows: int) -> list[StyledLine]:
    found = _chosen(shown, view)
    first = min(view.first_row, max(0, len(found) - (rows - 1)))
    return _section(shown, found[first:], view, cells, rows)


def _chosen(shown: PanelTable, view: TopView) -> list[PanelRow]:
    return shown.chosen(view.text, view.sorted_by(shown.name), inverted=view.is_inverted)


def _section(
    shown: PanelTable, found: Sequence[PanelRow], view: TopView, cells: int, rows: int
) -> list[StyledLine]:
    lines = table.drawn(shown, found[: max(0, rows - 1)], view.sorted_by(shown.name), cells)
    if not found:
        why = shown.missing or f"no row has {view.text!r}"
        lines.append(clipped(((why, Style.FAINT),), cells))
    return lines[:rows]


def _shares(wanted: Sequence[int], rows: int) -> list[int]:
    """Give rows to sections: to each what it needs at least, the rest by turns to who wants it."""
    shares = [min(_SECTION_LEAST, one) for one in wanted]
    left = rows - sum(shares)
    while left > 0 and any(have < want for have, want in zip(shares, wanted, strict=True)):
        for at, want in enumerate(wanted):
            if left > 0 and shares[at] < want:
                shares[at] += 1
                left -= 1
    return shares


def _bar(view: TopView, cells: int) -> StyledLine:
    spans = []
    for number, name in enumerate(view.panels, 1):
        style = Style.CHOSEN if name == view.panel else Style.FAINT
        spans.append((f"{number} {name}" if cells >= 60 else name, style))
        spans.append((" " if cells < 60 else "  ", Style.PLAIN))
    notes = [f"every {view.interval_s:g} s"]
    if view.text and not view.is_typing:
        notes.insert(0, f"filter {view.text!r}")
    if view.is_paused:
        notes.insert(0, "paused")
    note = ", ".join(notes)
    used = sum(width_of(text) for text, _ in spans)
    if used + width_of(note) <= cells:
        spans.append((" " * (cells - used - width_of(note)), Style.PLAIN))
        spans.append((note, Style.LOOK if view.is_paused or view.text else Style.FAINT))
    return clipped(tuple(spans), cells)


def _foot(view: TopView, cells: int) -> StyledLine:
    if view.is_typing:
        line = ((f"Filter: {view.text}_", Style.STRONG), ("  Enter keeps, Esc clears", Style.FAINT))
        return clipped(line, cells)
    spans = []
    for key, name in _FOOT if cells >= 60 else (*_FOOT[:3], _FOOT[-1]):
        spans += [(key, Style.STRONG), (f"{name} ", Style.CHOSEN)]
    return clipped(tuple(spans), cells)


def _help(cells: int) -> list[StyledLine]:
    head: StyledLine = (("hedgerow top: any key goes back", Style.STRONG),)
    lines = [head, ()]
    for keys, text in KEYS:
        line = ((f"{keys:18}", Style.STRONG), (text, Style.PLAIN))
        lines.append(clipped(line, cells))
    return lines

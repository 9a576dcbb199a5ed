"""A table in the cells that there are: sorted, filtered, with the columns that have room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.tools.top.cells import fit, width_of
from gateway.tools.top.styled_text import Style, StyledLine, clipped
from light_dataclasses import dataclass

_GAP: Final = "  "
_GROWTH: Final = 4
"""Cells that a column gets at a time from those that are left."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        title: above it.
        least: cells that it needs.
        rank: the columns of the lowest ranks stay where there is little room.
        is_number: stands to the right, and is sorted from the greatest down.

    """

    title: str
    least: int
    rank: int
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One row.

    Attributes:
        cells: a text for each column.
        keys: what each is sorted by; None stands last.
        style: of all of it.

    """

    cells: tuple[str, ...]
    keys: tuple[Any, ...]
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class PanelTable:
    """The content of a panel.

    Attributes:
        name: of the panel.
        columns: in their order.
        rows: in the order in which they stand unless they are sorted.
        missing: why there is nothing; empty if there is.

    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[PanelRow, ...]
    missing: str = ""

    def chosen(self, text: str, column: int | None, *, inverted: bool) -> list[PanelRow]:
        """Return the rows in which a text stands, sorted.

        Args:
            text: in any cell, in capitals or not; empty for all.
            column: by which they are sorted; None leaves them in their order.
            inverted: the other way round.

        """
        wanted = text.casefold()
        found = [one for one in self.rows if any(wanted in cell.casefold() for cell in one.cells)]
        if column is None or column >= len(self.columns):
            return found[::-1] if inverted else found
        known = [one for one in found if one.keys[column] is not None]
        downwards = self.columns[column].is_number != inverted
        known.sort(key=lambda one: one.keys[column], reverse=downwards)
        return known + [one for one in found if one.keys[column] is None]


def drawn(
    table: PanelTable, rows: Sequence[PanelRow], sorted_by: int | None, cells: int
) -> list[StyledLine]:
    """Return a line of titles, and one for each row.

    Args:
        table: which.
        rows: those that are shown.
        sorted_by: the column by which they are, if by any.
        cells: the width of a line.

    """
    shown = _with_room(table.columns, cells)
    widths = _widths(table, shown, rows, cells)
    titles = []
    for number, width in zip(shown, widths, strict=True):
        column = table.columns[number]
        mark = "*" if number == sorted_by else ""
        titles.append(fit(column.title + mark, width, to_the_right=column.is_number))
    lines: list[StyledLine] = [((fit(_GAP.join(titles), cells), Style.HEAD),)]
    for row in rows:
        texts = [
            fit(row.cells[number], width, to_the_right=table.columns[number].is_number)
            for number, width in zip(shown, widths, strict=True)
        ]
        lines.append(clipped(((_GAP.join(texts).rstrip(), row.style),), cells))
    return lines


def _with_room(columns: tuple[Column, ...], cells: int) -> list[int]:
    """Return the columns that have room, in their order; the first is always among them."""
    kept, used = set[int](), -len(_GAP)
    for number in sorted(range(len(columns)), key=lambda one: columns[one].rank):
        needed = columns[number].least + len(_GAP)
        if kept and used + needed > cells:
            break
        kept.add(number)
        used += needed
    return sorted(kept)


def _widths(table: PanelTable, shown: list[int], rows: Sequence[PanelRow], cells: int) -> list[int]:
    """Give what is left to the columns whose texts are longer, a little to each in turn."""
    widths = [min(table.columns[one].least, cells) for one in shown]
    wanted = [
        max([width_of(table.columns[one].title) + 1, *(width_of(row.cells[one]) for row in rows)])
        for one in shown
    ]
    left = cells - sum(widths) - len(_GAP) * (len(shown) - 1)
    while left > 0 and any(have < want for have, want in zip(widths, wanted, strict=True)):
        for at, want in enumerate(wanted):
            more = min(_GROWTH, left, max(0, want - widths[at]))
            widths[at] += more
            left -= more
    return widths

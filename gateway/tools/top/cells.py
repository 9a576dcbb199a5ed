"""Text in the cells of a terminal, of which a character may take none, one or two."""

from __future__ import annotations

import unicodedata
from typing import Final

from gateway.base.printable import printable

CUT: Final = "…"
"""Stands where something was cut off."""
_NO_CELL: Final = frozenset(("Mn", "Me"))
"""Marks that stand on the character before them."""
_TWO_CELLS: Final = frozenset(("W", "F"))
"""Wide characters of East Asia, and emoji (Unicode Standard Annex 11)."""


def width_of(text: str) -> int:
    """Return how many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def clip(text: str, cells: int) -> str:
    """Return as much of a text as its cells hold, with nothing in it that a terminal obeys.

    What was cut off is told by `CUT`. Marks without a cell of their own are left out: a name may
    have thousands of them in one cell, and terminals differ in what they show of that.

    Args:
        text: anything, as of any length.
        cells: how many there are.

    """
    if cells <= 0:
        return ""
    shown = printable(text[: cells + 1] if text.isascii() else text[: 8 * cells])
    if shown.isascii():
        fits = len(shown) <= cells and len(text) <= cells
        return shown if fits else shown[: cells - 1] + CUT
    kept, used = list[str](), 0
    for one in shown:
        width = _cells(one)
        if not width:
            continue
        kept.append(one)
        used += width
        if used > cells:
            break
    else:
        if len(text) <= 8 * cells:
            return "".join(kept)
    while kept and used > cells - 1:
        used -= _cells(kept.pop())
    return "".join(kept) + CUT


def fit(text: str, cells: int, *, to_the_right: bool = False) -> str:
    """Return a text that takes exactly so many cells: cut off, or filled up with spaces."""
    shown = clip(text, cells)
    filling = " " * (cells - width_of(shown))
    return filling + shown if to_the_right else shown + filling


def _cells(one: str) -> int:
    if unicodedata.category(one) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(one) in _TWO_CELLS else 1

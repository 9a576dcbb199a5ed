"""Counts that anybody can drive up: they stay at the largest that a table, or a file, can hold.

A gateway may claim any number up to 2**62, so what is missing of it over some of its lives is more
than a column of 64 bits takes.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 2**63 - 1


def added(count: int, more: int) -> int:
    """Return the sum of two counts, at most `MOST`."""
    return min(MOST, count + more)

"""Texts of others, and values of drivers, as a terminal or a log may show them."""

from __future__ import annotations

import array

import pytest

from gateway.base.printable import shortly


class Cell:
    """A value of which it is known how often it was looked at."""

    seen = 0

    def __repr__(self) -> str:
        Cell.seen += 1
        return "cell"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (21.5, "21.5"),
        ([12, "x"], "[12, 'x']"),
        (list(range(1_000)), "a list of 1000"),
        (dict.fromkeys(range(1_000)), "a dict of 1000"),
        (array.array("d", range(1_000)), "a array of 1000"),
        ("x" * 1_000, "'" + "x" * 59),
        (bytearray(1_000), "bytearray(b'" + "\\x00" * 12),
        (None, "None"),
    ],
)
def test_a_value_is_shown_shortly(value: object, shown: str) -> None:
    assert shortly(value, 60) == shown


def test_of_a_long_value_only_what_is_shown_is_looked_at() -> None:
    cells = [Cell() for _ in range(100_000)]
    for value in (cells, [cells], {"a": tuple(cells)}):
        assert len(shortly(value, 60)) <= 60
    assert Cell.seen < 50

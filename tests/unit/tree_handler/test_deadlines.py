"""Deadlines that move: the earliest is always at hand, and what moved or was dropped is not due."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tree_handler.deadlines import Deadlines


def test_what_is_due_is_taken_once_and_the_earliest_first() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next() == math.inf
    for key, at in (("b", 2.0), ("a", 1.0), ("c", 3.0), ("d", 2.0)):
        deadlines.set(key, at)
    assert deadlines.next() == 1.0
    deadlines.set("a", 4.0)
    deadlines.drop("c")
    deadlines.drop("unknown")
    assert deadlines.next() == 2.0
    assert deadlines.take_due(1.9) == []
    assert deadlines.take_due(2.0) == ["b", "d"]
    assert deadlines.take_due(9.0) == ["a"]
    assert deadlines.next() == math.inf


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 9)), max_size=200))
def test_however_often_they_move_only_the_last_one_of_each_counts(
    moves: list[tuple[int, float]],
) -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key, at in moves:
        deadlines.set(key, at)
    last = dict(moves)
    assert deadlines.next() == min(last.values(), default=math.inf)
    due = deadlines.take_due(9.0)
    assert sorted(due) == sorted(last)
    assert [last[key] for key in due] == sorted(last.values())

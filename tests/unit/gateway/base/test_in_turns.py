"""Rows that are gone through in turns: no more of them in one turn than was said."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from loop_turns import LoopTurns, turns

from gateway.base.in_turns import in_turns


@given(st.integers(0, 100), st.integers(1, 30))
async def test_no_turn_of_the_loop_has_more_rows_than_it_may(count: int, per_turn: int) -> None:
    counted = LoopTurns()

    def rows() -> Iterator[int]:
        for number in range(count):
            counted.note()
            yield number

    await turns(1)
    assert [row async for row in in_turns(rows(), per_turn)] == list(range(count))
    assert max(counted.stop().values(), default=0) <= per_turn

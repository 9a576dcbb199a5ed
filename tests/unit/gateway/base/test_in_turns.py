"""Rows that are gone through in turns: everybody else has one after a time that is bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_turns import LoopTurns, turns

from gateway.base import in_turns as module
from gateway.base.in_turns import LONG_PAUSES, PAUSE_S, SHORT_PAUSE_S, TURN_S, in_turns

CLOCK_IS_COARSE = 0.9


class Clock:
    """A clock that each row moves on by so much."""

    def __init__(self, row_s: float) -> None:
        self.now_s, self._row_s = 0.0, row_s

    def __call__(self) -> float:
        return self.now_s

    def rows(self, count: int, counted: LoopTurns) -> Iterator[int]:
        for number in range(count):
            counted.note()
            yield number
            self.now_s += self._row_s


@given(st.integers(0, 40), st.integers(1, 30))
async def test_no_turn_of_the_loop_begins_a_row_after_its_time(count: int, fit: int) -> None:
    counted, clock = LoopTurns(), Clock(1.001 * TURN_S / fit)
    await turns(1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "perf_counter", clock)
        patched.setattr(module, "PAUSE_S", 0.0)
        patched.setattr(module, "SHORT_PAUSE_S", 0.0)
        assert [row async for row in in_turns(clock.rows(count, counted))] == list(range(count))
    # The row that is fetched before the clock is looked at is held until the next turn.
    assert max(counted.stop().values(), default=0) <= fit + 1


async def test_between_two_turns_a_thread_has_time_to_take_pythons_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That which syncs the log needs it several times, and all who publish wait for it."""
    monkeypatch.setattr(module, "TURN_S", 0.0)
    began_s = time.perf_counter()
    async for _ in in_turns(range(10)):
        pass
    assert time.perf_counter() - began_s >= 9 * PAUSE_S * CLOCK_IS_COARSE


async def pauses_between(rows: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Go through so many rows, each in a turn of its own; return the pauses between them."""
    monkeypatch.setattr(module, "TURN_S", 0.0)
    pauses: list[float] = []

    async def paused(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(module, "others_first", paused)
    assert [row async for row in in_turns(range(rows))] == list(range(rows))
    return pauses


async def test_a_short_answer_has_whole_pauses_and_a_long_one_shorter_ones_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = [PAUSE_S] * LONG_PAUSES
    assert await pauses_between(0, monkeypatch) == []
    assert await pauses_between(LONG_PAUSES, monkeypatch) == whole
    later = [SHORT_PAUSE_S] * (100 - LONG_PAUSES)
    assert await pauses_between(100, monkeypatch) == [*whole, *later]

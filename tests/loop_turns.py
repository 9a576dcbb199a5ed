"""Counts turns of the event loop, for tests of what is bounded by a number of rows and no clock."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from gateway.base import in_turns


class LoopTurns:
    """Knows how much was done in each turn of the loop since it was made, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._done: Counter[int] = Counter()
        self._next = self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._turn += 1
        self._next = self._loop.call_soon(self._begin)

    def note(self) -> None:
        """Something was done in this turn."""
        self._done[self._turn] += 1

    def stop(self) -> Counter[int]:
        """Count no more; return how often something was done, by turn."""
        self._next.cancel()
        return self._done


def each_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each row that is gone through in turns take a turn of its own, on any machine.

    The pause behind it is that turn alone: `LoopTurns` has the loop go round without waiting.
    """
    for name in ("TURN_S", "PAUSE_S", "SHORT_PAUSE_S"):
        monkeypatch.setattr(in_turns, name, 0.0)


async def turns(count: int) -> None:
    """Let so many turns of the loop pass."""
    for _ in range(count):
        await asyncio.sleep(0)

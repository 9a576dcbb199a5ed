"""Work of many small steps on the event loop, done so that all else goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import Final, TypeVar

T = TypeVar("T")

TURN_S: Final = 0.0003
"""So long at a time. Then whoever waits has a turn."""
PAUSE_S: Final = 0.003
"""So long is left to others. A message takes a third of it, so that it meets one turn at most. It
must not be nothing: the loop would go round without waiting. A thread that syncs the log takes
Python's lock several times. Each time it would wait for some rows more, and each message that waits
for the disk with it: until the last row, in the end."""
SHORT_PAUSE_S: Final = 0.001
"""So long is left to others by what has taken long already, and has to come to its end."""
LONG_PAUSES: Final = 12
"""So many pauses are whole ones. A page that asks every few seconds has an answer by then."""


async def in_turns(rows: Iterable[T]) -> AsyncIterator[T]:
    """Yield rows one by one; others have a turn of the event loop after each `TURN_S`.

    Args:
        rows: to go through; what is to be the same at the end is copied by the caller.

    """
    pauses = 0
    ends_s = perf_counter() + TURN_S
    for row in rows:
        if perf_counter() >= ends_s:
            pauses += 1
            await others_first(PAUSE_S if pauses <= LONG_PAUSES else SHORT_PAUSE_S)
            ends_s = perf_counter() + TURN_S
        yield row


async def others_first(pause_s: float = PAUSE_S) -> None:
    """Let everybody else have a turn of the event loop, threads too.

    Args:
        pause_s: how long; nothing is too short, see `PAUSE_S`.

    """
    await asyncio.sleep(pause_s)

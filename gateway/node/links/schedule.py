"""One timer for all that a node has to do at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

STALL_S: Final = 0.1
"""A timer that is later than this had to wait for this process itself."""
FAILED_S: Final = 1.0
"""So long after it failed what is due is tried again."""
READ_FIRST_S: Final = 0.02
"""So long such a timer waits once more; less than `STALL_S`."""


class LinkTimers:
    """Calls when something is due.

    Args:
        next_timer: when that is, on the loop's clock; infinity for never.
        handle_timer: does what is due, and sets the timer anew (`set`).

    """

    def __init__(
        self, next_timer: Callable[[], float], handle_timer: Callable[[float], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._next_timer = next_timer
        self._handle_timer = handle_timer
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._is_over = False

    def set(self) -> None:
        """Set the timer to what is due next."""
        due = math.inf if self._is_over else self._next_timer()
        if due == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None if due == math.inf else self._loop.call_at(due, self._tick)

    def stop(self) -> None:
        """Call no more."""
        self._is_over = True
        self.set()

    def _tick(self) -> None:
        now = self._loop.time()
        if now - self._due > STALL_S:
            # This process stood still: what neighbours said meanwhile is read before it is judged.
            self._due = now
            self._timer = self._loop.call_later(READ_FIRST_S, self._tick)
            return
        # Unless what is due sets it sooner: a failure, which the loop tells, is not the last word.
        self._due = now + FAILED_S
        self._timer = self._loop.call_at(self._due, self._tick)
        self._handle_timer(now)

"""One timer for what a core has to do at a time: a failure does not end it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from gateway.base.timers import Alarm, Timers

FAILED_S: Final = 1.0
"""So long after it failed what is due is tried again."""


class DueTimer:
    """Calls when something is due, and is then set to what is due next.

    Args:
        timers: the event loop, which tells of a failure.
        now: the clock that the core counts by, in seconds.
        next_timer: when something is due, on that clock; infinity for never.
        handle_timer: does what is due at a time.

    """

    def __init__(
        self,
        timers: Timers,
        now: Callable[[], float],
        next_timer: Callable[[], float],
        handle_timer: Callable[[float], None],
    ) -> None:
        self._timers = timers
        self._now = now
        self._next_timer = next_timer
        self._handle_timer = handle_timer
        self._alarm: Alarm | None = None
        self._due = math.inf

    def set(self) -> None:
        """Set it to what is due next. Where that is later than before, it may ring too early."""
        due = self._next_timer()
        if due < self._due:
            self._ring_at(due)

    def stop(self) -> None:
        """Ring no more, until it is set again."""
        self._ring_at(math.inf)

    def _ring_at(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._due, self._alarm = due, None
        if due != math.inf:
            self._alarm = self._timers.call_later(max(0.0, due - self._now()), self._rung)

    def _rung(self) -> None:
        now = self._now()
        self._ring_at(now + FAILED_S)
        if self._next_timer() <= now:
            self._handle_timer(now)
        self._ring_at(self._next_timer())

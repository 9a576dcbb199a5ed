"""Timers of an event loop that a test lets run out at the moment that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest


class HeldTimers:
    """Holds all timers that are set from now on for exactly so long.

    A short time limit may pass on a slow machine before that has begun for which the limit is. So a
    test has a long one, waits until all has come as far as it should, and ends the time itself.

    Args:
        patch: puts the loop's own method back when the test ends.
        delay_s: which timers are meant; longer than any test takes.

    """

    def __init__(self, patch: pytest.MonkeyPatch, delay_s: float) -> None:
        self._delay_s = delay_s
        self._held: list[tuple[asyncio.TimerHandle, Callable[[], object]]] = []
        loop = asyncio.get_running_loop()
        self._call_later = loop.call_later
        patch.setattr(loop, "call_later", self._set)

    @property
    def count(self) -> int:
        """The number of timers that have neither run out nor been cancelled."""
        return sum(not timer.cancelled() for timer, _ in self._held)

    def run_out(self) -> None:
        """Let them run out."""
        held, self._held = self._held, []
        for timer, callback in held:
            if not timer.cancelled():
                timer.cancel()
                callback()

    def _set(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = self._call_later(delay, callback, *args, context=context)
        if delay == self._delay_s:
            self._held.append((timer, partial(callback, *args)))
        return timer

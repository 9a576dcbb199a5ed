"""One timer of a core on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

FAILED_S: Final = 1.0
"""So long after it failed what is due is tried again."""


class CoreTimer:
    """Calls back when a core's timer is due, and not much more often.

    A time that moves later, as most do, leaves the loop's timer alone: it rings early then, and
    whoever is called asks its core again.

    Args:
        ring: called when it is due, or before.

    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, due: float | None) -> None:
        """Ring at a time of the loop's clock; None for not at all."""
        if due is None or (self._handle is not None and self._at <= due):
            return
        self.cancel()
        self._at = due
        self._handle = self._loop.call_at(due, self._rung)

    def cancel(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _rung(self) -> None:
        self._handle = None
        try:
            self._ring()
        except Exception:  # the event loop tells of it, and it is not the last word
            self.set(self._loop.time() + FAILED_S)
            raise

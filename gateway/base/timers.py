"""An event loop as far as those need it who wait for a time: in tests its clock is another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """It will not."""


class Timers(Protocol):
    """An event loop."""

    def time(self) -> float:
        """Return its clock, in seconds."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Alarm:
        """Call back in so many seconds."""

"""An event loop whose clock jumps to the next timer when nothing else is left to do."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class StuckError(Exception):
    """All wait, and nothing is left that could wake one of them."""


class _Instant(selectors.DefaultSelector):
    """Waits for no time: it says how long that would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise StuckError
            self.passed_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks in their order; a second of waiting takes no time."""

    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)

    def time(self) -> float:
        """Return the seconds that were waited so far."""
        return self._instant.passed_s

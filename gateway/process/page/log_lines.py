"""The newest lines of the log, for whoever looks at the page; bounded."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from gateway.base.printable import printable

LINES_MAX: Final = 1_000
CHARACTERS_MAX: Final = 2_000
"""Of a line, its traceback included."""
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class RecentLines(logging.Handler):
    """Keeps what the log was told last.

    Args:
        loop: whoever waits for a line does so in it; lines may come from any thread.

    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES_MAX)
        self._number = 0
        self._waiting: set[Callable[[], None]] = set()

    @property
    def number(self) -> int:
        """The number of the newest line."""
        return self._number

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        try:
            text = printable(record.getMessage())
        except Exception:
            self.handleError(record)
            return
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({printable(repr(record.exc_info[1]))})"
        self._number += 1
        self._lines.append(
            {
                "number": self._number,
                "time_ms": int(record.created * 1000),
                "level": record.levelname,
                "from": record.name,
                "text": text[:CHARACTERS_MAX],
            }
        )
        if self._waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def after(self, number: int, level: str = "DEBUG", text: str = "") -> list[dict[str, Any]]:
        """Return the lines behind a number.

        Args:
            number: of a line.
            level: the least; one of `LEVELS`.
            text: what they have to hold, in either case.

        """
        least = logging.getLevelNamesMapping()[level]
        wanted = text.lower()
        known = logging.getLevelNamesMapping()
        return [
            one
            for one in tuple(self._lines)
            if one["number"] > number
            and known.get(one["level"], 0) >= least
            and (not wanted or wanted in one["text"].lower() or wanted in one["from"])
        ]

    async def wait(self, most_s: float) -> None:
        """Wait for a line, or for so many seconds."""
        came = asyncio.Event()
        self._waiting.add(came.set)
        try:
            async with asyncio.timeout(most_s):
                await came.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(came.set)

    def _wake(self) -> None:
        for wake in tuple(self._waiting):
            wake()

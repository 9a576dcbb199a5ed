"""What the broker has under way beside its data path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


class Tasks:
    """Runs things until they end or the broker stops."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    def start(self, work: Awaitable[None]) -> None:
        """Run one more."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel them all."""
        for task in self._running:
            task.cancel()

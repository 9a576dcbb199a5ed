"""Tasks that the broker has under way beside its data path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from gateway.base.event_log.failures import Failures


class Tasks:
    """Runs things until they end or the broker stops.

    Args:
        failures: is told of one that fails.

    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._running: set[asyncio.Future[Any]] = set()

    def start(self, work: Awaitable[None]) -> None:
        """Run one more."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.failed("task beside the data path", error)

    def stop(self) -> None:
        """Cancel them all."""
        for task in self._running:
            task.cancel()

"""Changes that are carried out to their end, even if who asked for them goes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class WholeChanges:
    """Carries out changes, each as a whole.

    A browser that goes ends the request that it has made. A file that is written then, and that
    nobody goes by, would let in whom it keeps out.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def carry_out(self, change: Coroutine[Any, Any, T]) -> T:
        """Carry out a change, and return what it returns.

        Args:
            change: writes a file, and has the gateway go by it; what it raises is raised here.

        """
        task = asyncio.create_task(change, name="change of access")
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # who waited for it has had it, or is gone

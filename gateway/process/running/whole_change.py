"""A change that is carried out to its end, even if who asked for it goes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class WholeChange:
    """Carries out changes one after the other, each as a whole.

    A browser that goes ends the request that it has made. A file that is written then, and that
    nobody goes by, would let in whom it keeps out.
    """

    def __init__(self) -> None:
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    async def carry_out(self, change: Coroutine[Any, Any, None]) -> None:
        """Carry out a change when those before it are.

        Args:
            change: writes a file, and has the gateway go by it; what it raises is raised here.

        """
        task = asyncio.create_task(self._after_others(change), name="change of access")
        self._under_way.add(task)
        task.add_done_callback(self._done)
        await asyncio.shield(task)

    async def _after_others(self, change: Coroutine[Any, Any, None]) -> None:
        async with self._changing:
            await change

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # who waited for it has had it, or is gone

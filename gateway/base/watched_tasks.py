"""Tasks that run beside all else, for as long as the process does: none of them dies unseen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.pauses import GrowingPause
from gateway.base.printable import SAID_CHARACTERS_MAX, printable, said

_log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
STEADY_S: Final = 60.0
"""A task that has run for so long since it failed is well again."""

WatchedWork = Callable[[], Coroutine[Any, Any, None]]


class WatchedTasks:
    """Begins a task again that failed, after a pause that grows; one that is done stays done.

    Attributes:
        failing: why those failed that do not run, or have not run for long since, by name; and
            what else does not work now (`tell`).

    """

    def __init__(self) -> None:
        self._failures = Failures(CountedLines(_log, time.monotonic))
        self._tasks: set[asyncio.Task[None]] = set()
        self._are_last = asyncio.Event()
        """Set when a task that fails is not to be begun again."""
        self.failing: dict[str, str] = {}

    def start(self, name: str, work: WatchedWork) -> asyncio.Task[None]:
        """Run something, which is begun anew by the same call if it fails.

        Returns:
            The task that sees to it: done when the work is, or when it is cancelled.

        """
        task = asyncio.create_task(self._keep(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def tell(self, name: str, why: str) -> None:
        """Note what does not work now, though no task has ended of it.

        Args:
            name: of it.
            why: it does not; empty if it works again.

        """
        if why:
            self.failing[name] = printable(why[:SAID_CHARACTERS_MAX])
        else:
            self.failing.pop(name, None)

    def of_part(self) -> WatchedTasks:
        """Return those of a part, which ends them itself; why they fail is shown here."""
        part = WatchedTasks()
        part.failing = self.failing
        return part

    def begin_last(self) -> None:
        """Begin those at once that failed and wait to be tried again: for the last time."""
        self._are_last.set()

    async def stop(self) -> None:
        """End them all."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, work: WatchedWork) -> None:
        loop = asyncio.get_running_loop()
        pause = GrowingPause(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            steady = loop.call_later(STEADY_S, self._is_well, name, pause)
            try:
                failure = await _failure_of(work)
            finally:
                steady.cancel()
            if failure is None:
                self.failing.pop(name, None)
                return
            self.failing[name] = said(failure)
            self._failures.failed(f"task {name}", failure)
            if self._are_last.is_set():
                return
            # Not `wait_for`: up to Python 3.11 it loses a cancellation that comes as it ends.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause.failed(loop.time())):
                    await self._are_last.wait()

    def _is_well(self, name: str, pause: GrowingPause) -> None:
        self.failing.pop(name, None)
        pause.worked()


async def _failure_of(work: WatchedWork) -> Exception | None:
    """Return what ended it; None if it is done."""
    try:
        await work()
    except Exception as error:  # a task of any part: whatever it raises
        return error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return RuntimeError("nobody cancelled it: something of its own was cancelled")
    return None

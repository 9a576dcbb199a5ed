"""Group commit: acknowledgements leave once the log holds what they stand on.

With durability ``write`` an append is enough and nobody waits; the disk is made to have it now and
then. With ``sync`` one `fdatasync`
runs in a thread at a time; whoever came while it ran shares the next, so batches grow with the
disk's slowness.

A disk that fails or is full refuses: nobody whose message may be missing from it is told
otherwise, and one line a second at most says so. That it takes again is said once, and then rarely.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.log.message_log import AfterSync, LogError, MessageLog
from tree_handler.batch import Header

AGAIN_INTERVAL_S: Final = 30.0
"""A disk that is nearly full takes some and refuses some: that it takes again is said so rarely."""

_log = logging.getLogger(__name__)


class GroupCommit:
    """Waits for the log, for all who appended together.

    Args:
        log: the open log.
        sync: whether to wait for `fdatasync`.
        sync_interval_s: without, how often it is called while something is appended.

    """

    def __init__(self, log: MessageLog, *, sync: bool, sync_interval_s: float = 1.0) -> None:
        self.log = log
        self._sync = sync
        self._sync_interval_s = sync_interval_s
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[AfterSync] = []
        self._is_wanted = False
        """Something was appended that the sync which is under way may not be for."""
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._is_refusing = False
        self._said_again_at_s = -math.inf
        self._again: asyncio.TimerHandle | None = None
        self.refusals = CountedLines(_log, self._loop.time)
        """The failures of the disk, in writing and in reading, and of what stands beside."""
        self._failures = Failures(self.refusals)

    def append(self, frame: bytes, header: Header) -> LogError | None:
        """Append one batch to the log; return why it did not take it, if so, which is counted."""
        try:
            self.log.append(frame, header)
        except LogError as error:
            self._is_refusing = True
            self.refusals.count("batch refused by the log", str(error))
            return error
        if not self._sync and self._timer is None:
            self._timer = self._loop.call_later(self._sync_interval_s, self._sync_due)
        if self._is_refusing and not self.log.failure:
            self._is_refusing = False
            self._takes_again()
        return None

    def _takes_again(self) -> None:
        """Say so, or see that it is said in time if it still holds then."""
        wait_s = self._said_again_at_s + AGAIN_INTERVAL_S - self._loop.time()
        if wait_s <= 0:
            self._say_again()
        elif self._again is None:
            self._again = self._loop.call_later(wait_s, self._say_again)

    def _say_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if not self._is_refusing:
            self._said_again_at_s = self._loop.time()
            _log.warning("the log takes batches again")

    def settle(self, waiting: list[AfterSync]) -> None:
        """Tell these when all that was appended so far is durable, in the order of the calls."""
        if not waiting:
            return
        if not self._sync:
            self._tell(waiting, None)
            return
        self._waiting.extend(waiting)
        self._start()

    def refuse(self, waiting: list[AfterSync], error: OSError) -> None:
        """Let these messages go unacknowledged: the log did not take them."""
        self._tell(waiting, error)

    def soon(self) -> None:
        """Make all that was appended so far durable before long."""
        if self._sync:
            self._start()

    def _sync_due(self) -> None:
        self._timer = None
        self._start()

    def _start(self) -> None:
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="group commit")

    async def drain(self) -> None:
        """Wait for a commit that is under way; none is begun by itself any more."""
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while True:
            settled, self._waiting = self._waiting, []
            self._is_wanted = False
            try:
                await asyncio.to_thread(self.log.start_sync())
            except OSError as error:
                # What was appended meanwhile may have been in what the disk did not take.
                late, self._waiting = self._waiting, []
                self._is_refusing = True
                self.refusals.count("sync of the log that failed", str(error))
                self._tell([*settled, *late], error)
            except Exception as failure:  # such as no thread for it: whoever waits gets an answer
                self._is_refusing = True
                self._failures.failed("sync of the log", failure)
                self._tell(settled, LogError(f"{self.log.folder}: {failure}"))
            else:
                self._tell(settled, None)
            if not self._is_wanted:
                return

    def _tell(self, waiting: Iterable[AfterSync], error: OSError | None) -> None:
        for done in waiting:
            try:
                done(error)
            except Exception as failure:  # the others wait for theirs
                self._failures.failed("answer of the log to who waited for it", failure)

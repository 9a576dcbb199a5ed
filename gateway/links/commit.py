"""Group commit: acknowledgements leave once the log holds what they stand on.

With durability ``write`` an append is enough and nobody waits. With ``sync`` one `fdatasync`
runs in a thread at a time; whoever came while it ran shares the next, so batches grow with the
disk's slowness.
"""

from __future__ import annotations

import asyncio

from gateway.broker.message_log import MessageLog


class GroupCommit:
    """Waits for the log, for all who appended together.

    Args:
        log: the open log.
        sync: whether to wait for `fdatasync`.

    """

    def __init__(self, log: MessageLog, *, sync: bool) -> None:
        self._log = log
        self._sync = sync
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    def settle(self, acknowledgements: list[asyncio.Future[None]]) -> None:
        """Complete these futures when all that was appended so far is durable."""
        if not acknowledgements:
            return
        if not self._sync:
            _complete(acknowledgements, None)
            return
        self._waiting.extend(acknowledgements)
        self.soon()

    def refuse(self, acknowledgements: list[asyncio.Future[None]], error: OSError) -> None:
        """Let these messages go unacknowledged: the log did not take them."""
        _complete(acknowledgements, error)

    def soon(self) -> None:
        """See that all that was appended so far is durable before long."""
        if self._sync and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="group commit")

    async def drain(self) -> None:
        """Wait for a commit that is under way."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while True:
            settled, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._log.start_sync())
            except OSError as error:
                _complete(settled, error)
            else:
                _complete(settled, None)
            if not self._waiting:
                return


def _complete(futures: list[asyncio.Future[None]], error: OSError | None) -> None:
    for future in futures:
        if future.done():  # its client is gone
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

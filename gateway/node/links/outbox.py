"""Messages of this gateway itself (sensors, queries), until a turn's end makes batches of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.log.message_log import AfterSync
from tree_handler.batch import MAX_BODY_BYTES, Entry, Flags, Row


class Outbox:
    """Gathers messages and has them flushed once, at the end of the loop's turn.

    At light load that is one message and waits for nothing; under load a batch grows by itself.

    Args:
        flush: takes what was gathered; called when the loop's turn ends or a batch is full.

    Attributes:
        rows: what was gathered, by what it becomes.

    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._flush = flush
        self._scheduled = False
        self.rows: dict[int, list[Row]] = {}
        self._done: list[AfterSync] = []
        self._size = 0

    def add(self, entry: Entry, *, control: bool) -> asyncio.Future[None] | None:
        """Take a message; the future, for one that is to be logged, is its acknowledgement."""
        flags = Flags.CONTROL if control else Flags.NONE
        acknowledgement: asyncio.Future[None] | None = None
        if entry.qos or entry.retain:
            flags |= Flags.LOGGED
            acknowledgement = self._loop.create_future()
            self._done.append(_completes(acknowledgement))
        self.rows.setdefault(flags, []).append(entry.row())
        self._size += len(entry.payload)
        if self._size >= MAX_BODY_BYTES:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn_ended)
        return acknowledgement

    def take(self) -> tuple[dict[int, list[Row]], list[AfterSync]]:
        """Return all that was gathered, by what it becomes, and who is to be told of it."""
        taken = self.rows, self._done
        self.rows, self._done, self._size = {}, [], 0
        return taken

    def _turn_ended(self) -> None:
        self._scheduled = False
        self._flush()


def _completes(future: asyncio.Future[None]) -> AfterSync:
    def done(error: OSError | None) -> None:
        if future.done():  # its client is gone
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # not everyone who publishes waits for it

    return done

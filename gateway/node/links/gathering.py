"""QoS 0 messages of several turns in one batch, where each batch is signed.

A turn that brings many QoS 0 messages is one of many such turns: a signature for each would cost
more than all else that is done for them. So they wait for those of the next turns, two milliseconds
at most. A turn that brings few waits for nothing; nor does what is logged, since a client waits for
its acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from tree_handler.batch import MAX_ENTRIES, Row

GATHER_S: Final = 0.002
MANY: Final = 32
"""Messages in a turn that are worth a wait."""


class Gathering:
    """A queue of messages that wait to be sent in one batch.

    Args:
        send: makes a batch of messages and sends it.

    """

    def __init__(self, send: Callable[[Sequence[Row]], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._rows: list[Row] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Take the messages of a turn; those that are to be sent now, in order, perhaps none."""
        if not self._rows and len(rows) < MANY:
            return rows
        self._rows.extend(rows)
        if len(self._rows) >= MAX_ENTRIES:
            return self._take()
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self.end)
        return ()

    def end(self) -> None:
        """Send what waits, if anything does."""
        if rows := self._take():
            self._send(rows)

    def _take(self) -> list[Row]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, []
        return rows

"""The end of a turn of the event loop: what it gathered is committed, and then written.

One commit and one write for each connection serve all that a turn brings, however much that is.
Packets that come alone in their reads (`alone`) wait for that too: they are handled together.
To wait for the turn's end costs a single message a round of the loop, though. So while a turn has
but one read, the next few reads do not wait; then one waits again, to see whether it is alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.inbound.acceptance import Acceptance

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.outbound.outgoing import Outgoing

    Read = tuple[Connection, bytes]

READS_ALONE = 8
"""So many reads do not wait for the end of the turn, after one that was alone in its own."""


class Turns:
    """Ends turns.

    Args:
        dirty: connections with something to write; each stands in it once.
        flush: writes for these.
        ended: called when all of a turn is written.

    Attributes:
        acceptance: what is to be committed; set by its owner, whom it calls back here.
        read: handles reads of packets that came alone; set by its owner too.
        gathered: those of this turn, in their order.
        is_scheduled: whether the end of this turn is.

    """

    __slots__ = (
        "_dirty",
        "_flush",
        "_loop",
        "_reads",
        "_reads_alone",
        "_when_ended",
        "acceptance",
        "gathered",
        "is_scheduled",
        "read",
    )

    acceptance: Acceptance
    read: Callable[[list[Read]], None]

    def __init__(
        self,
        dirty: list[Outgoing],
        flush: Callable[[list[Outgoing]], None],
        ended: Callable[[], None],
    ) -> None:
        self._flush = flush
        self._when_ended = ended
        self._loop = asyncio.get_running_loop()
        self._dirty = dirty
        self.is_scheduled = False
        self.gathered: list[Read] = []
        self._reads = 0
        self._reads_alone = 0

    def kick(self) -> None:
        """See that what is due is dealt with at the end of this turn."""
        if not self.is_scheduled and (self._dirty or self.gathered or self.acceptance.has_due):
            self.is_scheduled = True
            self._loop.call_soon(self._ended)

    def gather(self, connection: Connection, data: bytes) -> None:
        """Have a read of what may be a packet alone handled with the others of the turn."""
        self.gathered.append((connection, data))
        self.has_read()

    def read_gathered(self) -> None:
        """Handle what was gathered, if anything was."""
        if self.gathered:
            gathered, self.gathered = self.gathered, []
            self.read(gathered)

    def commit(self) -> None:
        """Handle what was gathered, and hand in what the log is to have."""
        self.read_gathered()
        self.acceptance.commit()

    def has_read(self) -> None:
        """A read is dealt with: what it brought is due, at once if no other comes with it."""
        if self.is_scheduled:
            self._reads += 1
        elif self._reads_alone:
            self.read_gathered()
            if self._dirty or self.acceptance.has_due:
                self._reads_alone -= 1
                self._end()
        else:
            self._reads = 1
            self.kick()

    def _ended(self) -> None:
        self._reads_alone = READS_ALONE if self._reads == 1 else 0
        self._reads = 0
        self._end()

    def _end(self) -> None:
        self.is_scheduled = True  # nothing that happens here needs another turn's end
        try:
            self.commit()
        finally:
            self.is_scheduled = False
        dirty = self._dirty[:]
        self._dirty.clear()
        self._flush(dirty)
        self.acceptance.pass_on()
        self._when_ended()
        if self.gathered:  # brought by what this has let go on
            self.kick()

"""Backlog of a link that was full: the log is its queue.

From the moment when a link is full, no batch that is logged is queued on it. When it takes data
again, they are read from the log on from there, in large pieces and in their order, until the end
of the log is reached; from then on batches are queued as they come. So a slow neighbour costs this
gateway a position in the log, however far it is behind, and has to ask for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gateway.log.message_log import LogError, MessageLog
from gateway.node.links.link import Link
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

PIECE_BYTES: Final = 1 << 20
"""Read from the log at once, in a thread."""
TAIL_BYTES: Final = 128 * 1024
"""So little at the end of the log is read without a thread: it was written a moment ago."""

_log = logging.getLogger(__name__)


class LinkBacklog:
    """One link's backlog, from the moment it is full until it has caught up.

    Args:
        link: the link.
        log: the open log.
        send: sends a batch of the log over the link, if it is for it.
        caught_up: called once, when batches are to be queued as they come again.

    Attributes:
        position: how far in the log the link is.

    """

    def __init__(
        self,
        link: Link,
        log: MessageLog,
        send: Callable[[bytes, Header], None],
        caught_up: Callable[[], None],
    ) -> None:
        self.position = log.position
        self._link = link
        self._message_log = log
        self._send = send
        self._caught_up = caught_up
        self._came: dict[Epoch, Intervals] = {}
        self._task = asyncio.create_task(self._run(), name=f"backlog of {link.peer_id}")

    @property
    def bytes(self) -> int:
        """Return how many bytes of the log are still to be looked at for the link."""
        return self._message_log.position - self.position

    def came_from_it(self, header: Header) -> None:
        """A batch that the neighbour itself has sent, and that it is not to be sent again."""
        self._came.setdefault(header.stream, Intervals()).add(header.first, header.last)

    def stop(self) -> asyncio.Task[None]:
        """Send no more."""
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        log = self._message_log
        try:
            while self.bytes:
                await self._link.room()
                read = log.reading_on(self.position, PIECE_BYTES)
                is_tail = self.bytes <= TAIL_BYTES
                found, position = read() if is_tail else await asyncio.to_thread(read)
                for frame, header in found:
                    came = self._came.get(header.stream)
                    if came is None or not came.covers(header.first, header.last):
                        self._send(frame, header)
                self.position = position
        except LogError as error:  # what was left out is found by the next summaries
            _log.error("backlog of %s: %s", self._link.peer_id, error)
        except OSError as ended:  # the link has ended
            _log.debug("backlog of %s: %s", self._link.peer_id, ended)
            return
        except Exception as failure:  # without an end no batch would be queued on the link any more
            _log.error("backlog of %s: %r", self._link.peer_id, failure, exc_info=failure)
        self._caught_up()

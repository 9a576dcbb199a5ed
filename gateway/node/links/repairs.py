"""Answers neighbours' requests for batches from the log, without holding the loop up.

A request is a few bytes, and its answer may be all of the log. So whatever a neighbour asks, and
how often, one piece is read for it at one time, when its link has room for it; of its requests the
last one counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import field
from functools import partial
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.log.message_log import LogError, MessageLog
from gateway.node.links.link import Link
from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.answering import answer
from tree_handler.replication.repair import Request
from tree_handler.replication.search import MAX_SEARCHES

PIECE_BYTES: Final = 1 << 20
"""Read from the log at once; the next piece follows when the link has room."""
PUSHED_BYTES: Final = 256 * 1024
"""Sent unasked to a new neighbour in the tree, without a thread: most was written just now."""
UNREADABLE_S: Final = 24 * 3600.0
"""A range that the log fails to read for so long is gone, as one that its origin takes away is:
until then nobody gives it up."""
UNASKED_S: Final = 6 * 3600.0
"""A range not looked for so long may have been readable meanwhile: the day begins anew."""
MAX_LOOKS: Final = MAX_SEARCHES
"""For searches of one neighbour at one time; what is beyond them is not looked for."""
MAX_UNREADABLE: Final = 1_000
"""Streams that the log fails to read and that are remembered."""
REPAIR: Final = b"$hedgerow/repair"
DONE: Final = b"$hedgerow/done"
_UNKNOWN: Final = "a damaged segment of the log is still to be looked through"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Answering:
    """The answers to one neighbour that are under way.

    Attributes:
        turn: of who reads and sends the next piece.
        request: the last one, while it is answered.
        tasks: all that answer it and its searches.

    """

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    request: Request | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Repairs:
    """The requests being answered; a neighbour has one at a time, the last.

    Args:
        log: the open log.
        now: monotonic time in seconds.
        seal: proves statements about what stays here; None where nobody seals.

    """

    def __init__(
        self, log: MessageLog, now: Callable[[], float], seal: batch.Seal | None = None
    ) -> None:
        self._message_log = log
        self._now = now
        self._seal = seal
        self._lines = CountedLines(_log, now)
        self._unreadable: dict[Epoch, tuple[float, float]] = {}
        """The times at which the log failed to read a stream for searches: the first and the
        last."""
        self._answering: dict[int, _Answering] = {}
        self.refused: set[int] = set()
        """Links whose batches this gateway's own log refused since their last DONE."""

    def was_refused(self, link: int) -> bool:
        """Return whether the log refused what a neighbour sent that says DONE; it is asked again.

        The request is left open, so that it is repeated when its time is over and not at once.
        """
        refused = link in self.refused
        self.refused.discard(link)
        return refused

    def serve(self, link: Link, request: Request) -> None:
        """Send what is asked for as far as the log has it, then say that this is all.

        The answer to an earlier request ends here: who asks again names what he still lacks.
        """
        answering = self._answering.setdefault(link.number, _Answering())
        is_at_work = answering.request is not None
        answering.request = request
        if not is_at_work:
            self._begin(f"repair {link.peer_id}", link, answering, self._serve(link, answering))

    def _begin(
        self,
        what: str,
        link: Link,
        answering: _Answering,
        answer: Coroutine[object, object, None],
    ) -> None:
        task = asyncio.create_task(answer, name=what)
        answering.tasks.add(task)
        task.add_done_callback(partial(self._ended, link.number, answering))

    def _ended(self, number: int, answering: _Answering, task: asyncio.Task[None]) -> None:
        answering.tasks.discard(task)
        if not answering.tasks:
            self._answering.pop(number, None)

    def push(self, link: Link, request: Request) -> None:
        """Send some of these batches at once, unasked, unless the link is full."""
        left = 0 if link.is_full else PUSHED_BYTES
        try:
            for stream, numbers in request.wanted.items():
                if left <= 0:
                    return
                frames = _up_to(left, self._answer(stream, numbers))
                for frame in frames:
                    link.send_batch(REPAIR, frame)
                    left -= len(frame)
        except LogError as error:
            _log.error("for %s: %s", link.peer_id, error)

    def look(
        self,
        link: Link,
        wanted: dict[Epoch, Intervals],
        looked: Callable[[dict[Epoch, Intervals], bool], None],
    ) -> None:
        """Send as repair what the log has of these numbers.

        Args:
            link: where to.
            wanted: the numbers.
            looked: is told which were sent, and whether all that the log has could be read.

        """
        answering = self._answering.setdefault(link.number, _Answering())
        if len(answering.tasks) > MAX_LOOKS:
            looked({}, False)
            return
        look = self._look(link, answering, wanted, looked)
        self._begin(f"seek {link.peer_id}", link, answering, look)

    async def stop(self) -> None:
        """Answer no more."""
        tasks = [task for one in self._answering.values() for task in one.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(
        self,
        link: Link,
        answering: _Answering,
        wanted: dict[Epoch, Intervals],
        looked: Callable[[dict[Epoch, Intervals], bool], None],
    ) -> None:
        found: dict[Epoch, Intervals] = {}
        was_read = True
        try:
            for stream, numbers in wanted.items():
                doubts = self._message_log.doubts
                try:
                    found[stream] = sent = Intervals()
                    batches = self._answer(stream, numbers)
                    while piece := await self._sent(link, answering.turn, batches):
                        sent.update(piece)
                    is_doubted = doubts is None or doubts != self._message_log.doubts
                    if is_doubted and len(numbers.without(sent)):
                        raise LogError(_UNKNOWN)
                    self._unreadable.pop(stream, None)
                except LogError as error:
                    was_read &= self._is_given_up(stream, error, link.peer_id)
        except OSError as ended:
            _log.debug("search by %s: %s", link.peer_id, ended)
            was_read = False
        looked(found, was_read)

    def _is_given_up(self, stream: Epoch, error: LogError, peer_id: str) -> bool:
        """Return whether what can't be read has been so for so long that it counts as gone."""
        now = self._now()
        since, last = self._unreadable.get(stream, (now, now))
        if now - last > UNASKED_S:
            since = now
        self._unreadable[stream] = since, now
        if len(self._unreadable) > MAX_UNREADABLE:
            del self._unreadable[next(iter(self._unreadable))]
        if now - since < UNREADABLE_S:
            what = f"{error}: asked by {peer_id}, who has to wait until it can be read"
            self._lines.count("search that the log could not answer", what, 1, stream[0])
            return False
        _log.error(
            "%s: for a day, so what it holds of %s, epoch %d, counts as gone", error, *stream
        )
        return True

    async def _sent(self, link: Link, turn: asyncio.Lock, batches: Iterator[bytes]) -> Intervals:
        """Send the next piece when the link has room; return its numbers, none at the end.

        Raises:
            LogError: the log can't be read.
            LinkClosedError: the link has ended.

        """
        numbers = Intervals()
        async with turn:
            await link.room()
            for frame in await asyncio.to_thread(_up_to, PIECE_BYTES, batches):
                header = batch.check(frame)
                numbers.add(header.first, header.last)
                link.send_batch(REPAIR, frame)
        return numbers

    def _answer(self, stream: Epoch, numbers: Intervals) -> Iterator[bytes]:
        return answer(self._message_log.read(stream, numbers), self._seal)

    async def _serve(self, link: Link, answering: _Answering) -> None:
        try:
            while (request := answering.request) is not None:
                if await self._is_answered(link, answering, request):
                    # As a batch, for it must not go before those that it follows. One that gives
                    # way gets one too, for who asked counts them.
                    link.send_batch(DONE, b"")
                if answering.request is request:
                    answering.request = None
        except OSError as ended:
            _log.debug("repair for %s: %s", link.peer_id, ended)
        finally:
            answering.request = None

    async def _is_answered(self, link: Link, answering: _Answering, request: Request) -> bool:
        """Send what is asked for, until a later request comes; False if the log can't be read."""
        try:
            for stream, numbers in request.wanted.items():
                batches = self._answer(stream, numbers)
                while await self._sent(link, answering.turn, batches):
                    if answering.request is not request:
                        return True
        except LogError as error:
            _log.error("repair for %s: %s", link.peer_id, error)
            return False
        return True


def _up_to(limit_bytes: int, batches: Iterator[bytes]) -> list[bytes]:
    frames: list[bytes] = []
    size = 0
    for frame in batches:
        frames.append(frame)
        size += len(frame)
        if size >= limit_bytes:
            break
    return frames

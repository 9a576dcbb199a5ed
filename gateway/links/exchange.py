"""Carries out what replication decides: batches to the log, over the links and to the clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from gateway.links.backlog import Backlog
from gateway.links.commit import GroupCommit
from gateway.links.link import Link
from gateway.links.repairs import DONE, REPAIR, Repairs
from tree_handler import batch, replication
from tree_handler.batch import Entry, Epoch, Header, Row
from tree_handler.delivery import Deliver, DeliverLogged
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.repair import Request, Summary
from tree_handler.replication import (
    Append,
    Replication,
    SendBatch,
    SendRequest,
    SendSummary,
    Serve,
)

_BATCH = b"$hedgerow/batch"
_SUMMARY = b"$hedgerow/summary"
_REQUEST = b"$hedgerow/request"

_log = logging.getLogger(__name__)


class Exchange:
    """Between one `Replication` and the log, the links and who is handed messages.

    Args:
        core: decides.
        commit: appends to the log.
        links: those that are up, by number.
        deliver: called with the messages of other gateways' clients, in order per origin; None
            where there is nobody to hand them to.
        control: called with each message between gateways.
        spool_unlogged: append QoS 0 batches too.

    """

    topics = frozenset((_BATCH, REPAIR, _SUMMARY, _REQUEST, DONE))

    def __init__(
        self,
        core: Replication,
        commit: GroupCommit,
        links: Mapping[int, Link],
        *,
        deliver: Callable[[list[Row], Header], None] | None,
        control: Callable[[Entry, Header], None],
        spool_unlogged: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._core = core
        self._commit = commit
        self._links = links
        self._deliver = deliver
        self._control = control
        self._spool_unlogged = spool_unlogged
        self._repairs = Repairs(commit.log)
        self._backlogs: dict[int, Backlog] = {}
        self.times_full = 0
        """How often a link was full, so that what was for it had to wait in the log."""
        self.trimmed: Callable[[dict[Epoch, int]], None] = lambda _: None
        """Called when the log has dropped its oldest, with what it still holds."""

    def link_up(self, link: int, now: float) -> None:
        """A neighbour is there."""
        self.carry_out(self._core.link_up(link, now))

    def link_down(self, link: int, now: float) -> None:
        """The neighbour is gone."""
        if (backlog := self._backlogs.pop(link, None)) is not None:
            backlog.stop()
        self.carry_out(self._core.link_down(link, now))

    def forwarding(self, link: int, *, forwards: bool) -> None:
        """The tree starts or stops to forward over a link."""
        if not forwards and (backlog := self._backlogs.pop(link, None)) is not None:
            # Another link may bring it what it lacks; this one is asked for the rest.
            backlog.stop()
            self.carry_out(self._core.link_drained(link))
        self.carry_out(self._core.forwarding(link, forwards=forwards))

    def backlog_bytes(self, link: int) -> int:
        """How much of the log is still to be looked at for a link that was full."""
        backlog = self._backlogs.get(link)
        return 0 if backlog is None else backlog.bytes

    def receive(self, link: Link, topic: bytes, payload: bytes, now: float) -> None:
        """Take what a neighbour sent on one of `topics`.

        Raises:
            ProtocolError: the neighbour is broken.

        """
        core, number = self._core, link.number
        if topic == _BATCH:
            self.carry_out(core.receive_batch(number, payload))
        elif topic == REPAIR:
            self.carry_out(core.receive_batch(number, payload, repair=True))
        elif topic == _SUMMARY:
            self.carry_out(core.receive_summary(number, Summary.decode(payload), now))
        elif topic == _REQUEST:
            self.carry_out(core.receive_request(number, Request.decode(payload)))
        elif not self._repairs.was_refused(number):
            self.carry_out(core.receive_done(number, now))
        self._commit.soon()

    def handle_timer(self, now: float) -> None:
        """Summaries, requests and a log that has grown too large."""
        self.carry_out(self._core.handle_timer(now))
        log = self._commit.log
        try:
            if log.trim():
                kept_from = log.kept_from()
                self._core.trimmed(kept_from)
                self.trimmed(kept_from)
        except OSError as error:
            self._commit.refused("segment of the log that can't be deleted", error)

    def take(self, actions: Iterable[replication.Action]) -> None:
        """Do what replication decided of what came by another way than `receive`."""
        self.carry_out(actions)
        self._commit.soon()

    def carry_out(self, actions: Iterable[replication.Action]) -> None:
        """Do what replication decided."""
        for action in actions:
            match action:
                case Append():
                    self._append(action)
                case SendBatch():
                    self._send_live(action)
                case Deliver(frame, header, first):
                    self._hand_out(frame, header, first)
                case DeliverLogged(key, first, last):
                    wanted = Intervals([(first, last)])
                    for frame, header in self._commit.log.read(key, wanted):
                        self._hand_out(frame, header, max(first, header.first))
                case SendSummary(number, summary) if number in self._links:
                    # Behind the batches that it tells of, those of this turn too: who hears of
                    # one before it comes would ask for it.
                    send = self._links[number].send_batch
                    self._loop.call_soon(send, _SUMMARY, summary.encode())
                case SendRequest(number, request) if number in self._links:
                    self._links[number].send_control(_REQUEST, request.encode())
                case Serve(number, request) if number in self._links:
                    self._repairs.serve(self._links[number], request)

    async def stop(self) -> None:
        """Answer no more requests, and send no more of the log."""
        stopping = [backlog.stop() for backlog in self._backlogs.values()]
        await asyncio.gather(*stopping, self._repairs.stop(), return_exceptions=True)

    def _append(self, action: Append) -> None:
        if self._commit.append(action.frame, action.header) is None:
            if (backlog := self._backlogs.get(action.source or 0)) is not None:
                backlog.came_from_it(action.header)
            self.carry_out(self._core.appended(action))
        elif action.source is not None:
            self._repairs.refused.add(action.source)

    def _send_live(self, action: SendBatch) -> None:
        link = self._links.get(action.link)
        if link is None:
            return
        # A full link still takes what was decided in this turn: its backlog begins behind that.
        link.send_batch(_BATCH, action.frame, action.unlogged)
        if link.is_full and link.number not in self._backlogs:
            self._begin_backlog(link)

    def _begin_backlog(self, link: Link) -> None:
        number = link.number

        def caught_up() -> None:
            del self._backlogs[number]
            self.carry_out(self._core.link_drained(number))

        def send(frame: bytes, header: Header) -> None:
            for action in self._core.replay(number, frame, header):
                link.send_batch(_BATCH, action.frame)

        self.times_full += 1
        self._core.link_full(number)
        self._backlogs[number] = Backlog(link, self._commit.log, send, caught_up)

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if header.passed:
            return
        if not header.logged and self._spool_unlogged and not header.control:
            self._commit.append(frame, header)
        if self._deliver is None and not header.control:
            return
        try:
            rows = batch.rows(frame, header)[first - header.first :]
        except ProtocolError as error:
            _log.error("%s from %s can't be read: %s", header, header.origin, error)
            return
        if header.control:
            for row in rows:
                self._control(Entry.of(row), header)
        elif self._deliver is not None:
            self._deliver(rows, header)

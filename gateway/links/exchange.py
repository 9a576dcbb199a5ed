"""Carries out what replication decides: batches to the log, over the links and to the clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from gateway.links import wire
from gateway.links.commit import GroupCommit
from gateway.links.link import Link
from gateway.links.repairs import DONE, REPAIR, Repairs
from tree_handler import batch, replication
from tree_handler.batch import Entry, Header
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
        deliver: Callable[[list[Entry], Header], None] | None,
        control: Callable[[Entry, Header], None],
        spool_unlogged: bool,
    ) -> None:
        self._core = core
        self._commit = commit
        self._links = links
        self._deliver = deliver
        self._control = control
        self._spool_unlogged = spool_unlogged
        self._repairs = Repairs(commit.log)

    def link_up(self, link: int, now: float) -> None:
        """A neighbour is there."""
        self.carry_out(self._core.link_up(link, now))

    def link_down(self, link: int, now: float) -> None:
        """The neighbour is gone."""
        self.carry_out(self._core.link_down(link, now))

    def forwarding(self, link: int, *, forwards: bool) -> None:
        """The tree starts or stops to forward over a link."""
        self.carry_out(self._core.forwarding(link, forwards=forwards))

    def drained(self, link: Link) -> None:
        """Go on with a link that was full, if it has emptied."""
        if link.drained():
            self.carry_out(self._core.link_drained(link.number))

    def receive(self, number: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take what a neighbour sent on one of `topics`.

        Raises:
            ProtocolError: the neighbour is broken.

        """
        core = self._core
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
        """Summaries, requests, links that have emptied and a log that has grown too large."""
        self.carry_out(self._core.handle_timer(now))
        for link in self._links.values():
            self.drained(link)
        log = self._commit.log
        try:
            if log.trim():
                self._core.trimmed(log.kept_from())
        except OSError as error:
            self._commit.refused("segment of the log that can't be deleted", error)

    def carry_out(self, actions: Iterable[replication.Action]) -> None:
        """Do what replication decided."""
        for action in actions:
            match action:
                case Append():
                    self._append(action)
                case SendBatch(number, frame):
                    self._send_live(number, frame)
                case Deliver(frame, header, first):
                    self._hand_out(frame, header, first)
                case DeliverLogged(key, first, last):
                    wanted = Intervals([(first, last)])
                    for frame, header in self._commit.log.read(key, wanted):
                        self._hand_out(frame, header, max(first, header.first))
                case SendSummary(number, summary):
                    self._send(number, _SUMMARY, summary.encode())
                case SendRequest(number, request):
                    self._send(number, _REQUEST, request.encode())
                case Serve(number, request) if number in self._links:
                    self._repairs.serve(self._links[number], request)

    async def stop(self) -> None:
        """Answer no more requests."""
        await self._repairs.stop()

    def _append(self, action: Append) -> None:
        if self._commit.append(action.frame, action.header) is None:
            self.carry_out(self._core.appended(action))
        elif action.source is not None:
            self._repairs.refused.add(action.source)

    def _send_live(self, number: int, frame: bytes) -> None:
        link = self._links.get(number)
        if link is None:
            return
        if not link.full:  # else the log is its queue: what is left out is asked for later
            link.send(wire.publish(_BATCH, frame))
        if link.full:
            self._core.link_full(number)

    def _send(self, number: int, topic: bytes, payload: bytes) -> None:
        link = self._links.get(number)
        if link is not None:
            link.send(wire.publish(topic, payload))

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if not header.logged and self._spool_unlogged and not header.control:
            self._commit.append(frame, header)
        if self._deliver is None and not header.control:
            return
        try:
            entries = batch.decode(frame, header)[first - header.first :]
        except ProtocolError as error:
            _log.error("%s from %s can't be read: %s", header, header.origin, error)
            return
        if header.control:
            for entry in entries:
                self._control(entry, header)
        elif self._deliver is not None:
            self._deliver(entries, header)

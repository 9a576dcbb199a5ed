"""Carries out what replication decides: batches to the log, over the links and to the clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ClassVar, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.log.errors import LogError
from gateway.node.links.backlog import LinkBacklog
from gateway.node.links.commit import GroupCommit
from gateway.node.links.held_batches import HeldBatches
from gateway.node.links.link import Link
from gateway.node.links.repairs import DONE, REPAIR, Repairs
from gateway.node.links.settings import NodeReceiver
from gateway.node.links.surveys import NOT_LOOKED_THROUGH, Surveys
from tree_handler import batch, boot_epoch
from tree_handler.batch import Entry, Epoch, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import replication
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Request, SearchId, SearchResult, Seek, Summary
from tree_handler.replication.replication import (
    Append,
    Forget,
    Look,
    Lost,
    Push,
    Refuse,
    Replication,
    RouteBatch,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)

_BATCH: Final = b"$hedgerow/batch"
_SUMMARY: Final = b"$hedgerow/summary"
_REQUEST: Final = b"$hedgerow/request"
_SEEK: Final = b"$hedgerow/seek"
_SOUGHT: Final = b"$hedgerow/sought"

LINES_AT_ONCE: Final = 16
"""So many losses of an origin in a row are named; beyond that they are counted."""

_log = logging.getLogger(__name__)


class Exchange:
    """Between one `Replication` and the log, the links and who is handed messages.

    Args:
        core: decides.
        commit: appends to the log.
        links: those that are up, by number.
        receiver: takes what others sent.
        spool_unlogged: append QoS 0 batches too.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset(
        (_BATCH, REPAIR, _SUMMARY, _REQUEST, DONE, _SEEK, _SOUGHT)
    )

    def __init__(
        self,
        core: Replication,
        commit: GroupCommit,
        links: Mapping[int, Link],
        receiver: NodeReceiver,
        *,
        spool_unlogged: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._core = core
        self._commit = commit
        self._links = links
        self._receiver = receiver
        self._spool_unlogged = spool_unlogged
        self._keep = receiver.keep or commit.append
        seals = core.settings.seals
        self._repairs = Repairs(commit.log, self._loop.time, None if seals is None else seals.seal)
        self.surveys = Surveys(commit.log, self._lost, commit.refusals, self._loop.time)
        self._backlogs: dict[int, LinkBacklog] = {}
        self._held = HeldBatches()
        self._unread: dict[Epoch, tuple[int, int]] = {}
        """The numbers due to be handed out that could not be read: they are read again later."""
        self._lines = CountedLines(_log, self._loop.time, LINES_AT_ONCE)
        self._failures = Failures(commit.refusals)
        self._times_full = 0
        self._sent_from_log = 0
        self._dropped_by_gone_links = 0
        self._told_of_trims: list[Callable[[dict[Epoch, int]], None]] = []
        self._told_of_losses: list[Callable[[Mapping[Epoch, Intervals]], None]] = []

    def tell_of_trims(self, told: Callable[[dict[Epoch, int]], None]) -> None:
        """Call this too when the log has dropped its oldest.

        Args:
            told: is given the lowest number that the log still holds, by stream.

        """
        self._told_of_trims.append(told)

    def tell_of_losses(self, told: Callable[[Mapping[Epoch, Intervals]], None]) -> None:
        """Call this too when the log has found what it can't read any more.

        Args:
            told: is given the numbers, by stream, when replication knows them.

        """
        self._told_of_losses.append(told)

    def link_up(self, link: int, now: float) -> None:
        """A neighbour is there."""
        self.carry_out(self._core.repair.link_up(link, now))

    def link_down(self, link: Link, now: float) -> None:
        """The neighbour is gone."""
        self._dropped_by_gone_links += link.dropped
        if (backlog := self._backlogs.pop(link.number, None)) is not None:
            backlog.stop()
        self._repairs.refused.discard(link.number)
        self.carry_out(self._core.repair.link_down(link.number, now))

    def agrees(self, link: int) -> None:
        """The tree is about to send this neighbour JOIN or ACCEPT.

        Before that goes what is here: as soon as the neighbour forwards, it sends what is not, and
        by an older summary it would send much that has come meanwhile.
        """
        for action in self._core.repair.joins(link):
            if isinstance(action, SendSummary) and link in self._links:
                self._links[link].send_ahead(_SUMMARY, action.summary.encode())

    def forwarding(self, link: int, *, forwards: bool) -> None:
        """The tree starts or stops to forward over a link."""
        if not forwards and (backlog := self._backlogs.pop(link, None)) is not None:
            # Another link may bring it what it lacks; this one is asked for the rest.
            backlog.stop()
            self.carry_out(self._core.link_drained(link))
        self.carry_out(self._core.repair.forwarding(link, forwards=forwards))

    @property
    def counters(self) -> dict[str, int]:
        """Return the counts of full links and of what became of messages then.

        These are how often a link was full, the batches that it was sent from the log because of
        that, and the QoS 0 messages that were dropped because too many waited.
        """
        dropped = self._dropped_by_gone_links + sum(link.dropped for link in self._links.values())
        return {
            "links_full": self._times_full,
            "sent_from_log": self._sent_from_log,
            "dropped_unlogged": dropped,
        }

    def backlog_bytes(self, link: int) -> int:
        """Return how much of the log is still to be looked at for a link that was full."""
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
            core.repair.progressed(number, now)
            self.carry_out(core.receive_batch(number, payload, repair=True))
        elif topic == _SUMMARY:
            summary = Summary.decode(payload)
            later = boot_epoch.latest(core.origin, summary.epochs())
            if later > core.epoch and core.settings.seals is None:
                self._receiver.outlived(later)
            self.carry_out(core.repair.receive_summary(number, summary, now))
        elif topic == _REQUEST:
            self.carry_out(core.repair.receive_request(number, Request.decode(payload)))
        elif topic == _SEEK:
            self.carry_out(core.repair.receive_seek(number, Seek.decode(payload), now))
        elif topic == _SOUGHT:
            self.carry_out(core.repair.receive_sought(number, SearchResult.decode(payload), now))
        elif not self._repairs.was_refused(number):
            self.carry_out(core.repair.receive_done(number, now))
        self._commit.soon()

    def handle_timer(self, now: float) -> None:
        """Summaries, requests, a log that has grown too large, and what it failed to read."""
        for stream, (first, last) in list(self._unread.items()):
            self._hand_out_logged(stream, first, last)
        self.carry_out(self._core.repair.handle_timer(now))
        self.surveys.begin()
        log = self._commit.log
        try:
            if log.trim():
                kept_from = log.kept_from()
                self.carry_out(self._core.trimmed(kept_from))
                for told in self._told_of_trims:
                    told(kept_from)
        except OSError as error:
            self._commit.refusals.count("segment of the log that can't be deleted", str(error))

    def look_through_damage(self) -> bool:
        """Find out what the damage that was met last has cost, and ask for it: of one segment, if
        there is such a one. It is read here and now, as a start needs it; else see `surveys`."""
        try:
            lost = self._commit.log.survey()
        except OSError as error:
            self._commit.refusals.count(NOT_LOOKED_THROUGH, str(error))
            return False
        self._lost(lost or {})
        return lost is not None

    def _lost(self, lost: Mapping[Epoch, Intervals]) -> None:
        for stream, numbers in lost.items():
            self.carry_out(self._core.lost(stream, numbers))
        for told in self._told_of_losses if lost else ():
            told(lost)

    def take(self, actions: Iterable[replication.ReplicationAction]) -> None:
        """Do what replication decided of what came by another way than `receive`."""
        self.carry_out(actions)
        self._commit.soon()

    def carry_out(self, actions: Iterable[replication.ReplicationAction]) -> None:
        """Do what replication decided."""
        for action in actions:
            match action:
                case Append():
                    self._append(action)
                case SendBatch():
                    self._send_live(action)
                case Deliver(frame, header, first):
                    if header.logged and header.stream in self._unread:
                        self._hand_out_logged(header.stream, first, header.last)
                    else:
                        self._hand_out(frame, header, first)
                case DeliverLogged(key, first, last):
                    self._hand_out_logged(key, first, last)
                case Lost((origin, epoch), first, last, why):
                    what = f"{first} to {last} of {origin}, epoch {epoch}: {why}"
                    self._lines.count("lost", what, last - first + 1, origin)
                case Forget(streams):
                    self._commit.log.forget(streams)
                case Refuse():
                    link = None if action.link is None else self._links.get(action.link)
                    self._receiver.unproven(action, "?" if link is None else link.peer_id)
                case RouteBatch():
                    pass  # `Origin` gives its own batches to its router
                case _ if (link := self._links.get(action.link)) is not None:
                    self._send(link, action)

    def _send(self, link: Link, action: replication.ReplicationAction) -> None:
        match action:
            case SendSummary(_, summary):
                # Behind the batches that it tells of, those of this turn too: who hears of one
                # before it comes would ask for it.
                self._loop.call_soon(link.send_batch, _SUMMARY, summary.encode())
            case SendRequest(_, request):
                link.send_control(_REQUEST, request.encode())
            case Serve(_, request):
                self._repairs.serve(link, request)
            case Push(_, request):
                self._repairs.push(link, request)
            case SendRepair(_, frame):
                link.send_batch(REPAIR, frame)
            case SendSeek(_, seek):
                link.send_control(_SEEK, seek.encode())
            case SendSought(_, sought):
                link.send_batch(_SOUGHT, sought.encode())
            case Look(_, number, wanted):
                self._repairs.look(link, wanted, partial(self._looked, number))

    def _looked(self, number: SearchId, found: dict[Epoch, Intervals], was_read: bool) -> None:
        self.carry_out(self._core.repair.looked(number, found, was_read=was_read))

    async def stop(self) -> None:
        """Answer no more requests, and send no more of the log."""
        stopping = [backlog.stop() for backlog in self._backlogs.values()]
        await asyncio.gather(
            *stopping, self._repairs.stop(), self.surveys.stop(), return_exceptions=True
        )

    def _append(self, action: Append) -> None:
        if self._keep(action.frame, action.header) is None:
            if (backlog := self._backlogs.get(action.source or 0)) is not None:
                backlog.came_from_it(action.header)
            self.carry_out(self._core.appended(action))
            header = action.header
            if header.origin == self._core.origin and header.epoch > self._core.epoch:
                self._receiver.outlived(header.epoch)  # nobody else can have sealed it
            if header.logged and self._core.handed_out(header.stream) < header.last:
                self._held.wait(header, self._loop.time())
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
                self._sent_from_log += 1
                link.send_batch(_BATCH, action.frame)

        self._times_full += 1
        self._core.link_full(number)
        self._backlogs[number] = LinkBacklog(link, self._commit.log, send, caught_up)

    def _hand_out_logged(self, stream: Epoch, first: int, last: int) -> None:
        """Hand out what the log has of these numbers, behind what it failed to read before."""
        if (unread := self._unread.pop(stream, None)) is not None:
            first = unread[0]
        try:
            for frame, header in self._commit.log.in_sequence(stream, first, last):
                self._hand_out(frame, header, max(first, header.first))
                first = max(first, header.last + 1)
        except LogError as error:
            self._unread[stream] = first, last
            what = f"{first} to {last} of {stream[0]}, epoch {stream[1]}, wait: {error}"
            self._lines.count("not handed out yet", what, 1, stream[0])

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if header.passed:
            return
        if not header.logged and self._spool_unlogged and not header.control:
            self._keep(frame, header)
        receiver = self._receiver
        deliver = receiver.deliver
        if not header.control and (
            deliver is None or not (header.logged or receiver.reads_unlogged())
        ):
            return
        try:
            rows = batch.rows(frame, header)[first - header.first :]
            if self._held:
                self._held.handed_out(header, rows, self._loop.time())
        except ProtocolError as error:
            self._core.counters.set_aside += header.count
            what = f"{header} can't be read: {error}"
            self._lines.count("set aside", what, header.count, header.origin)
            return
        if header.control:
            for row in rows:
                try:
                    receiver.control(Entry.of(row), header)
                except Exception as failure:  # those behind it are not to wait for it
                    self._failures.failed(
                        "message between gateways", failure, f"{header}, {row[0]}"
                    )
        elif deliver is not None:
            try:
                deliver(rows, header)
            except Exception as failure:  # likewise; the log has it
                self._failures.failed("hand out a batch", failure, str(header))

"""A gateway's part in the tree: feeds the pure cores and carries out what they return.

One node drives one `SpanningTree` and one `Replication` over any number of links and one log.
The broker publishes through it and is handed what other gateways published; the collector is a
node too, whose log is the spool.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gateway.broker.hooks import Committed
from gateway.broker.log.message_log import Done, MessageLog
from gateway.links import wire
from gateway.links.commit import GroupCommit
from gateway.links.handshake import Credentials
from gateway.links.link import Link, accept, dial
from gateway.links.neighbours import Address
from gateway.links.origin import Origin
from gateway.links.repairs import DONE, REPAIR, Repairs
from gateway.links.report import report
from gateway.links.scope import Scope
from gateway.links.wire import Packet, Type
from tree_handler import batch, replication
from tree_handler.batch import Entry, Header, Row
from tree_handler.bpdu import Bpdu
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
from tree_handler.spanning_tree import (
    Changed,
    Discard,
    Drop,
    Forward,
    Identity,
    Parameters,
    Send,
    SpanningTree,
)

MAX_HANDSHAKES = 64
"""Links that have not yet proved who they are; more are closed at once."""
MAX_PINGS = 64
"""Hellos on one link whose echo is awaited."""

_BATCH = b"$hedgerow/batch"
_SUMMARY = b"$hedgerow/summary"
_REQUEST = b"$hedgerow/request"

_log = logging.getLogger(__name__)


class TreeNode:
    """The node of one process.

    Args:
        credentials: id, tree name and key.
        identity: what the spanning tree elects by.
        parameters: timers of the spanning tree.
        log: the open message log, or the collector's spool.
        deliver: called with the messages of other gateways' clients, in order per origin; None
            where there is nobody to hand them to.
        control: called with each message between gateways, this one's included.
        sync: acknowledge after `fdatasync`.
        sync_interval_s: without, how often `fdatasync` is called while something is appended.
        spool_unlogged: append QoS 0 batches too (the collector).
        repair_interval_s: see `Replication`.
        scope: which messages of clients leave this gateway.

    """

    def __init__(
        self,
        credentials: Credentials,
        identity: Identity,
        parameters: Parameters,
        log: MessageLog,
        *,
        deliver: Callable[[list[Entry], Header], None] | None,
        control: Callable[[Entry, Header], None],
        sync: bool = False,
        sync_interval_s: float = 1.0,
        spool_unlogged: bool = False,
        repair_interval_s: float = 5.0,
        scope: Scope | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._credentials = credentials
        self._deliver = deliver
        self._control = control
        self._spool_unlogged = spool_unlogged
        self.log = log
        self._commit = GroupCommit(log, sync=sync, sync_interval_s=sync_interval_s)
        self.tree = SpanningTree(identity, parameters, self._loop.time())
        self.replication = Replication(
            credentials.gateway_id,
            identity.boot_epoch,
            {key: Intervals(numbers) for key, numbers in log.have.items()},
            repair_interval_s=repair_interval_s,
        )
        self.replication.trimmed(log.kept_from())
        self.links: dict[int, Link] = {}
        self._greeting = 0
        self._numbers = itertools.count(1)
        self._pings: dict[int, dict[int, float]] = {}
        self._ping_number = 0
        self._origin = Origin(self.replication, self._commit, self._replicate, scope or Scope())
        self._timer: asyncio.TimerHandle | None = None
        self._repairs = Repairs(log)
        self.last_change: tuple[float, str] = (time.time(), "started")
        self._stopped = False
        self._arm()

    # -- what the broker calls -----------------------------------------------------------------

    def publish(self, entry: Entry, *, control: bool = False) -> asyncio.Future[None] | None:
        """Accept a message of a local client for the log and the tree.

        Returns:
            For QoS 1, 2 and retained messages a future that completes when the message may be
            acknowledged, and raises LogError if it may not. None for QoS 0.

        """
        return self._origin.publish(entry, control=control)

    def publish_all(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        """Accept the messages that local clients handed in during one turn: `hooks.Commit`.

        What was published by `publish` before is a batch of its own, and an earlier one.
        """
        self._origin.publish_all(logged, unlogged, done)

    def remember(self, frame: bytes, done: Done) -> None:
        """Put what only this gateway has to remember into the log, behind all published so far.

        The batch that stands for it is numbered as the next logged message will be.

        Args:
            frame: what to remember.
            done: called once when it is durable, or with the error of a sync that failed.

        Raises:
            LogError: the log did not take it; ``done`` is not called.

        """
        self._origin.remember(frame, done)

    @property
    def carries_unlogged(self) -> bool:
        """Whether QoS 0 messages are wanted: there is someone to send them to."""
        return bool(self.links) or self._spool_unlogged

    # -- links ---------------------------------------------------------------------------------

    def is_linked(self, peer_id: str) -> bool:
        """Whether there is a link to this gateway."""
        return any(link.peer_id == peer_id for link in self.links.values())

    async def dial(self, address: Address) -> str:
        """Connect to a neighbour and serve the link until it ends; return the neighbour's id.

        Raises:
            OSError, ProtocolError: no link came about.

        """
        link = await dial(address.host, address.port, self._credentials, self._numbers)
        await self._serve(link)
        return link.peer_id

    async def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes
    ) -> None:
        """Serve a neighbour that dialled, until its link ends; ``first`` is already read."""
        if self._greeting >= MAX_HANDSHAKES:
            writer.transport.abort()
            return
        self._greeting += 1
        try:
            link = await accept(reader, writer, first, self._credentials, self._numbers)
        except (OSError, ProtocolError) as error:
            _log.warning("a neighbour was refused: %s", error)
            return
        finally:
            self._greeting -= 1
        await self._serve(link)

    def _may_stay(self, link: Link) -> bool:
        """Of two links of a pair the one that the lower id dialled stays; both ends agree."""
        for other in list(self.links.values()):
            if other.peer_id != link.peer_id:
                continue
            if link.dialler_id > other.dialler_id:
                return False
            self._end(other, f"replaced by a newer link to {other.peer_id}")
        return True

    async def _serve(self, link: Link) -> None:
        if self._stopped or not self._may_stay(link):
            link.close()
            return
        self.links[link.number] = link
        self._pings[link.number] = {}
        now = self._loop.time()
        _log.info("link %d to %s (%s) is up", link.number, link.peer_id, link.address)
        self.tree.link_up(link.number, link.peer_id, now)
        self._replicate(self.replication.link_up(link.number, now))
        self._carry_out()
        why = "closed here"
        try:
            while link.number in self.links:
                self._receive(link, await link.receive())
        except (OSError, ProtocolError) as error:
            why = str(error) or type(error).__name__
        finally:
            self._end(link, why)

    def _end(self, link: Link, why: str) -> None:
        if self.links.pop(link.number, None) is None:
            return
        link.close()
        del self._pings[link.number]
        _log.info("link %d to %s is down: %s", link.number, link.peer_id, why)
        now = self._loop.time()
        self.tree.link_down(link.number, now)
        self._carry_out()
        self._replicate(self.replication.link_down(link.number, now))

    def _receive(self, link: Link, packet: Packet) -> None:
        now = self._loop.time()
        if packet.type is Type.PUBLISH:
            topic, payload = wire.split_publish(packet.body)
            self._receive_message(link.number, topic, payload, now)
        elif packet.type is Type.PINGREQ:
            number, body = wire.split_ping(packet.body)
            link.send(wire.pong(number))
            self.tree.receive(link.number, Bpdu.decode(body), now)
            self._carry_out()
        elif packet.type is Type.PINGRESP:
            number, _ = wire.split_ping(packet.body)
            sent_at = self._pings[link.number].pop(number, None)
            if sent_at is not None:
                self.tree.measured(link.number, (now - sent_at) * 1000, now)
                self._carry_out()
        else:
            raise ProtocolError("packet on a link", str(packet))
        if link.drained():
            self._replicate(self.replication.link_drained(link.number))

    def _receive_message(self, number: int, topic: bytes, payload: bytes, now: float) -> None:
        core = self.replication
        if topic == _BATCH:
            self._replicate(core.receive_batch(number, payload))
        elif topic == REPAIR:
            self._replicate(core.receive_batch(number, payload, repair=True))
        elif topic == _SUMMARY:
            self._replicate(core.receive_summary(number, Summary.decode(payload), now))
        elif topic == _REQUEST:
            self._replicate(core.receive_request(number, Request.decode(payload)))
        elif topic == DONE:
            if not self._repairs.was_refused(number):
                self._replicate(core.receive_done(number, now))
        else:
            raise ProtocolError("topic on a link", topic)
        self._commit.soon()

    # -- carrying out --------------------------------------------------------------------------

    def _carry_out(self) -> None:
        """Do what the spanning tree decided, and set the timer for what it decides next."""
        now = self._loop.time()
        while actions := self.tree.take_actions():
            for action in actions:
                match action:
                    case Send(number, bpdu):
                        self._ping(number, bpdu, now)
                    case Forward(number):
                        self._replicate(self.replication.forwarding(number, forwards=True))
                    case Discard(number):
                        self._replicate(self.replication.forwarding(number, forwards=False))
                    case Drop(number, why):
                        if number in self.links:
                            self._end(self.links[number], why)
                    case Changed(why):
                        self.last_change = (time.time(), why)
                        _log.info("tree: %s", why)
        self._arm()

    def _ping(self, number: int, bpdu: Bpdu, now: float) -> None:
        link = self.links.get(number)
        if link is None:
            return
        self._ping_number = (self._ping_number + 1) % (1 << 32)
        pings = self._pings[number]
        pings[self._ping_number] = now
        if len(pings) > MAX_PINGS:
            del pings[next(iter(pings))]
        link.send(wire.ping(self._ping_number, bpdu.encode()))

    def _replicate(self, actions: Iterable[replication.Action]) -> None:
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
                    for frame, header in self.log.read(key, wanted):
                        self._hand_out(frame, header, max(first, header.first))
                case SendSummary(number, summary):
                    self._send(number, _SUMMARY, summary.encode())
                case SendRequest(number, request):
                    self._send(number, _REQUEST, request.encode())
                case Serve(number, request) if number in self.links:
                    self._repairs.serve(self.links[number], request)

    def _append(self, action: Append) -> None:
        if self._commit.append(action.frame, action.header) is None:
            self._replicate(self.replication.appended(action))
        elif action.source is not None:
            self._repairs.refused.add(action.source)

    def _send_live(self, number: int, frame: bytes) -> None:
        link = self.links.get(number)
        if link is None:
            return
        if not link.full:  # else the log is its queue: what is left out is asked for later
            link.send(wire.publish(_BATCH, frame))
        if link.full:
            self.replication.link_full(number)

    def _send(self, number: int, topic: bytes, payload: bytes) -> None:
        link = self.links.get(number)
        if link is not None:
            link.send(wire.publish(topic, payload))

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if header.passed:
            return
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

    # -- time ----------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stopped:
            return
        due = min(self.tree.next_timer(), self.replication.next_timer())
        self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        self.tree.handle_timer(now)
        self._replicate(self.replication.handle_timer(now))
        for link in self.links.values():
            if link.drained():
                self._replicate(self.replication.link_drained(link.number))
        try:
            if self.log.trim():
                self.replication.trimmed(self.log.kept_from())
        except OSError as error:
            self._commit.refused("segment of the log that can't be deleted", error)
        self._carry_out()

    def status(self) -> dict[str, Any]:
        """Root, cost, neighbours and counters, ready for JSON; see `report`."""
        return report(self, self._loop.time())

    async def stop(self) -> None:
        """Send what is queued, close every link and commit what is under way."""
        self._origin.flush()
        self._stopped = True
        self._arm()
        await asyncio.gather(*(link.finish() for link in self.links.values()))
        for link in list(self.links.values()):
            self._end(link, "this gateway stops")
        await self._repairs.stop()
        await self._commit.drain()

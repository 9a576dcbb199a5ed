"""A gateway's part in the tree: feeds the pure cores and carries out what they return.

One node drives one `SpanningTree` and one `Replication` over any number of links and one log.
The broker publishes through it and is handed what other gateways published; the collector is a
node too, whose log is the spool.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.base.event_log.failures import Failures
from gateway.log.message_log import MessageLog
from gateway.node.links.commit import GroupCommit
from gateway.node.links.direct_part import DirectPart
from gateway.node.links.exchange import Exchange
from gateway.node.links.greeting import accept, dial, take_over
from gateway.node.links.hellos import Hellos
from gateway.node.links.link import Link
from gateway.node.links.link_admission import LinkAdmission
from gateway.node.links.link_log import LinkLog
from gateway.node.links.link_turns import LinkTurns
from gateway.node.links.locator_part import LocatorPart
from gateway.node.links.neighbours import LAST_RETRY_S, Neighbours
from gateway.node.links.origin import Origin, Router
from gateway.node.links.pairing import Pairing
from gateway.node.links.part import Part, Parts
from gateway.node.links.report import report
from gateway.node.links.schedule import LinkTimers
from gateway.node.links.scope import Scope
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.transport import Address, FarEnd
from gateway.node.links.wire import LinkPacket, Type
from gateway.node.links.word_rate import LONG_BYTES, HelloPace, WordRates
from tree_handler.batch import CONTROL_PREFIX, Entry
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Replication
from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.spanning_tree import (
    Changed,
    Discard,
    Drop,
    Forward,
    Outlived,
    Send,
    SpanningTree,
)

_AGREEMENT = (Kind.JOIN, Kind.ACCEPT)
_TOLD_ON = frozenset((b"$hedgerow/clocks",))
"""Topics of what a neighbour says and others are told at once."""


class TreeNode:
    """The node of one process.

    Attributes:
        admission: which gateways may open a link, and what is shown to them.
        direct: carries messages for one gateway alone.
        failures: are told of what was set aside.
        commit: through which alone the log is written.
        origin: makes batches of what is published here: the broker's `hooks.Tree`.
        pairing: decides which of several links to a gateway there is.

    Args:
        settings: who it is, and how it is run.
        log: the open message log, or the collector's spool.
        receiver: takes what other gateways sent.
        admission: which gateways may open a link; all that hold the key if not given.
        scope: which messages of clients leave this gateway.

    """

    def __init__(
        self,
        settings: NodeSettings,
        log: MessageLog,
        receiver: NodeReceiver,
        admission: LinkAdmission | None = None,
        scope: Scope | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._credentials = credentials = replace(
            settings.credentials, epoch=settings.identity.boot_epoch
        )
        self._receiver = receiver
        self._spool_unlogged = settings.spool_unlogged
        self.log = log
        self.commit = GroupCommit(log, sync=settings.sync, sync_interval_s=settings.sync_interval_s)
        self._seals = settings.seals
        self.tree = SpanningTree(settings.candidate(), settings.parameters, self._loop.time())
        self.replication = Replication(
            credentials.gateway_id,
            settings.identity.boot_epoch,
            {key: Intervals(numbers) for key, numbers in log.have.items()},
            settings.repair(LAST_RETRY_S),
            log.control(),
        )
        self.replication.trimmed(log.kept_from())
        self.links: dict[int, Link] = {}
        self.admission = admission or LinkAdmission()
        self._dialling_back: Neighbours | None = None
        self._numbers = itertools.count(1)
        self._hellos = Hellos()
        self._turns = LinkTurns()
        self._words = WordRates()
        self._pace = HelloPace()
        self._link_log = LinkLog(self._loop)
        self.failures = Failures(self.commit.refusals)
        self._parts = Parts(self.failures)
        own = (credentials.gateway_id, credentials.epoch)
        self.locator = LocatorPart(own, lambda: self.tree.forwarding, self.send)
        self.direct = DirectPart(own[0], self.locator, self.links, self._flood)
        self._parts.add_all(self.locator, self.direct)
        self.pairing = Pairing(
            credentials.gateway_id,
            self._links_to,
            self.locator.epoch_of,
            receiver.kept_out,
            receiver.is_there,
        )
        self.exchange = Exchange(
            self.replication, self.commit, self.links, receiver, spool_unlogged=self._spool_unlogged
        )
        self.origin = Origin(
            self.replication,
            self.commit,
            self.exchange.carry_out,
            scope or Scope(),
            self.links,
            spool_unlogged=self._spool_unlogged,
        )
        self.last_change: tuple[float, str] = (time.time(), "started")
        self._stopped = False
        self._schedule = LinkTimers(self._next_timer, self._handle_timer)
        self._schedule.set()

    # -- what the broker calls -----------------------------------------------------------------

    def publish(self, entry: Entry, *, control: bool = False) -> asyncio.Future[None] | None:
        """Accept a message of a local client for the log and the tree.

        Returns:
            For QoS 1, 2 and retained messages a future that completes when the message may be
            acknowledged, and raises LogError if it may not. None for QoS 0.

        """
        return self.origin.publish(entry, control=control)

    @property
    def next_control(self) -> int:
        """The number that this gateway's next message to other gateways gets at least."""
        core = self.replication
        return core.covered((CONTROL_PREFIX + core.origin, core.epoch)).last + 1

    # -- other protocols on the links ----------------------------------------------------------

    def add_part(self, part: Part) -> None:
        """Let another protocol ride on the links; to be called before any link is up.

        Raises:
            ValueError: one of its topics is taken.

        """
        if taken := part.topics & self.exchange.topics:
            raise ValueError(f"topics that replication has: {sorted(taken)}")
        self._parts.add(part)
        self.reschedule()

    def route(self, router: Router) -> None:
        """Let another one send clients' messages; to be called before there are any."""
        self.origin.route(router)

    def _flood(self, topic: str, payload: bytes) -> None:
        self.publish(Entry(topic, payload), control=True)

    def send(self, link: int, topic: bytes, payload: bytes) -> None:
        """Queue one control message on a link; nothing if the link is gone."""
        if (there := self.links.get(link)) is not None:
            there.send_control(topic, payload)

    # -- links ---------------------------------------------------------------------------------

    def is_linked(self, peer_id: str) -> bool:
        """Return whether there is a link to this gateway."""
        return bool(self._links_to(peer_id))

    async def link_ends(self, peer_id: str) -> None:
        """Wait until a link to this gateway has ended; not at all if there is none."""
        if links := self._links_to(peer_id):
            await links[0].until_ended()

    def _links_to(self, peer_id: str) -> list[Link]:
        return [link for link in self.links.values() if link.peer_id == peer_id]

    def rescope(self, scope: Scope) -> None:
        """From now on let other messages of clients leave this gateway."""
        self.origin.rescope(scope)

    def reseal(self) -> None:
        """This gateway signs with another key now: have those find it proven who know no older."""
        if self._seals is not None:
            self.tree.reseal(self._seals.stands(self.tree.identity))

    def listens_at(self, port: int) -> None:
        """Tell neighbours that are dialled from now on where this node takes links itself."""
        self._credentials = replace(self._credentials, port=port)

    def dials_back(self, neighbours: Neighbours) -> None:
        """From now on note where those that dialled take links themselves."""
        self._dialling_back = neighbours

    def drop(self, peer_id: str, why: str) -> None:
        """End the link to a gateway; nothing if there is none."""
        for link in self._links_to(peer_id):
            self._end(link, why)

    async def dial(self, address: Address, linked: Callable[[str], None]) -> None:
        """Connect to a neighbour and serve the link until it ends.

        Args:
            address: where it takes links.
            linked: called with the neighbour's id when there is a link.

        Raises:
            OSError, ProtocolError: no link came about.

        """
        tls, own = self.admission.tls, self._credentials
        link = await dial(address, own, self._numbers, tls, self.pairing)
        linked(link.peer_id)
        await self._serve(link)

    async def accept(self, transport: asyncio.Transport, first: bytes, far_end: FarEnd) -> None:
        """Serve a neighbour that dialled and that `admission` has let in, until its link ends.

        Args:
            transport: the connection, of which nothing is read for now.
            first: what was read of it.
            far_end: who is there.

        """
        link = take_over(transport, first, far_end.address)
        try:
            with self.admission.shaking_hands(far_end.source):
                await accept(link, self._credentials, self._numbers, self.pairing)
        except (OSError, ProtocolError):
            return
        neighbours, at_port = self._dialling_back, far_end.at_port
        if neighbours is None or at_port is None or not link.peer_port:
            await self._serve(link)
            return
        address = at_port(link.peer_port)
        neighbours.add_met(address, link.peer_id)
        await self._serve(link)
        if link.was_left:
            neighbours.remove_met(address)

    async def _serve(self, link: Link) -> None:
        if self._stopped:
            link.close()
            return
        for other in self._links_to(link.peer_id):  # of which the neighbour knows no more
            self._end(other, f"replaced by a newer link to {other.peer_id}")
        self.links[link.number] = link
        why = "closed here"
        try:
            self._hellos.link_up(link.number, is_leaf=self.admission.is_leaf(link.peer_id))
            now = self._loop.time()
            self._link_log.up(link)
            self.tree.link_up(link.number, link.peer_id, now)
            self.exchange.link_up(link.number, now)
            self._parts.link_up(link.number, link.peer_id, now)
            self._carry_out()
            why = await self._served(link)
        finally:
            self._end(link, why)

    async def _served(self, link: Link) -> str:
        # Compiled, a coroutine that waits in an `except` block may raise another task's exception.
        try:
            return await link.serve(self._receive, self._turns)
        except asyncio.CancelledError as error:
            cancelled = error
        await link.finish()
        raise cancelled

    def _end(self, link: Link, why: str) -> None:
        if self.links.pop(link.number, None) is None:
            return
        link.close()
        self._hellos.link_down(link.number)
        self._pace.link_down(link.number)
        self._link_log.down(link, why)
        now = self._loop.time()
        self.tree.link_down(link.number, now)
        self._parts.link_down(link.number, now)
        self._carry_out()
        self.exchange.link_down(link, now)

    def _receive(self, link: Link, packet: LinkPacket) -> None:
        now = self._loop.time()
        if packet.type is Type.PUBLISH:
            if packet.topic in self.exchange.topics:
                self.exchange.receive(link, packet.topic, packet.body, now)
            else:
                if packet.topic in _TOLD_ON:
                    self._count_word(link, now, 1 + len(packet.body) // LONG_BYTES)
                self._parts.receive(link.number, packet.topic, packet.body, now)
                self.reschedule()
        elif packet.type is Type.PINGREQ:
            self._count_word(link, now)
            bpdu = self._hellos.answer(link, packet.body)
            if self._seals is not None and not self._seals.is_candidate(bpdu.root):
                self.tree.counters["unproven_root"] += 1
            elif self._pace.may_pass(link.number, bpdu, now):
                self._take(link.number, bpdu, now)
            else:
                self.reschedule()
        elif packet.type is Type.PINGRESP:
            rtt_ms = self._hellos.rtt_ms(link.number, packet.body, now)
            if rtt_ms is not None:
                self.tree.measured(link.number, rtt_ms, now)
                self._carry_out()
        else:
            raise ProtocolError("packet on a link", str(packet))

    def _take(self, link: int, bpdu: Bpdu, now: float) -> None:
        self.tree.receive(link, bpdu, now)
        self._carry_out()

    def _count_word(self, link: Link, now: float, size: int = 1) -> None:
        link.hold(self._words.spend(link.peer_id, now, size))

    # -- carrying out --------------------------------------------------------------------------

    def _carry_out(self) -> None:
        """Do what the spanning tree decided, and set the timer for what it decides next."""
        now = self._loop.time()
        has_changed = False
        while actions := self.tree.take_actions():
            for action in actions:
                match action:
                    case Send(number, bpdu) if number in self.links:
                        if bpdu.kind in _AGREEMENT:
                            self.exchange.agrees(number)
                        self._hellos.send(self.links[number], bpdu.encode(), now)
                    case Forward(number):
                        has_changed = True
                        self.exchange.forwarding(number, forwards=True)
                    case Discard(number):
                        has_changed = True
                        self.exchange.forwarding(number, forwards=False)
                    case Drop(number, why):
                        if number in self.links:
                            self._end(self.links[number], why)
                    case Outlived(epoch) if self.replication.settings.seals is None:
                        self._receiver.outlived(epoch)  # where it is sealed, batches prove it
                    case Changed(why):
                        has_changed = True
                        self.last_change = (time.time(), why)
                        self._link_log.changed(why)
        if has_changed:
            self._parts.tree_changed(now)
        self.reschedule()

    # -- time ----------------------------------------------------------------------------------

    def reschedule(self) -> None:
        """Set the timer anew: a part's next one may have moved."""
        self._schedule.set()

    def _next_timer(self) -> float:
        repair = self.replication.repair
        own = min(self.tree.next_timer(), self._pace.next_timer())
        return min(own, repair.next_timer(), self._parts.next_timer())

    def _handle_timer(self, now: float) -> None:
        for link in self.links.values():
            self.tree.heard(link.number, link.heard_at)
        for number, hello in self._pace.take_due(now):
            self._take(number, hello, now)
        self.failures.tried("timer of the tree", lambda: self.tree.handle_timer(now))
        self.failures.tried("timer of replication", lambda: self.exchange.handle_timer(now))
        self._parts.handle_timer(now)
        self._carry_out()

    def status(self) -> dict[str, Any]:
        """Root, cost, neighbours and counters, ready for JSON; see `report`."""
        return report(self, self._loop.time())

    async def stop(self) -> None:
        """Send what is queued, close every link and commit what is under way."""
        self.origin.stop()
        self._stopped = True
        self._schedule.stop()
        await asyncio.gather(*(link.finish() for link in self.links.values()))
        for link in list(self.links.values()):
            self._end(link, "this gateway stops")
        self._link_log.close()
        await self.exchange.stop()
        await self.commit.drain()

"""Replacement of a fleet's heads: trees, locators, membership and suspicion, in virtual time.

What a fleet's control messages do is modelled as they are: a question or an answer floods over the
links that carry, and a gateway passes on what it has not seen. Records are known to all from the
start. A liar may stand among them, which tells its neighbours that it reaches nobody behind it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Protocol

from light_dataclasses import dataclass
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.suspicion import Patience, Question, Suspicion
from tree_handler.remote.query import Publication
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.simulation.gateway import Gateway, Start, Watch
from tree_handler.simulation.growth import regular_network
from tree_handler.simulation.network import DATA, Clock, Edge, End, Network
from tree_handler.spanning.spanning_tree import Identity, Parameters, SpanningTree

DELAY_S, JITTER_S = 0.002, 0.0002
LINKED_WITHIN_S = 0.2
SETTLE_S = 0.05
REDIAL_S = 0.5
GROUPS, DOMAINS = 4, 3
PATIENCE = Patience(believed_s=20.0, last_hold_s=8.0, forget_s=40.0)


@dataclass(frozen=True, slots=True)
class _Flooded:
    """A control message of one gateway's life: a question, an answer (None), or a tenant's."""

    origin: str
    serial: tuple[int, int]
    body: Question | Publication | None


class Tenant(Protocol):
    """A further part of a gateway in such a fleet, for one life of it."""

    def begin(self, gateway: HeadedGateway) -> None:
        """Begin to live in a gateway."""

    def heard(self, origin: str, body: Publication) -> None:
        """Take what another tenant had flooded."""

    def took(self, link: int, message: object) -> None:
        """Take what a neighbour's tenant said."""

    def forwards(self, link: int) -> None:
        """A link starts to forward."""

    def moved(self) -> None:
        """Others may be in reach, or not any more, or be suspect."""


class HeadedGateway(Gateway):
    """A gateway that knows who heads what.

    Args:
        start: what it starts with.
        records: of all gateways.
        patience: of its suspicion.
        liar: the gateway that tells of nobody behind it.
        tenant: what else it has.

    Attributes:
        members: the records, and who is suspect.
        said: messages that it made or passed on.

    """

    def __init__(
        self,
        start: Start,
        records: Collection[MemberRecord],
        patience: Patience,
        liar: str = "",
        tenant: Tenant | None = None,
    ) -> None:
        super().__init__(start)
        self._tenant = tenant
        self._forwarding: frozenset[int] = frozenset()
        self.members = Membership()
        for record in records:
            self.members.update(record)
        self._ids = tuple(record.id for record in records)
        self.locator = Locator(self.gateway_id, self.boot_epoch)
        self.suspicion = Suspicion(self.gateway_id, patience)
        self.said = 0
        self.asked = 0
        self._serial = 0
        self._liar = liar
        self._seen: set[tuple[str, tuple[int, int]]] = set()
        self._located: set[int] = set()
        self._look_at_s = 0.0
        self._timer = self.timer(self._due)

    def begin(self) -> None:
        """Let time pass for the gateway, and for its tenant."""
        super().begin()
        if self._tenant is not None:
            self._tenant.begin(self)

    def changed(self) -> None:
        """Tell neighbours and the tenant which links forward now."""
        forwarding = {link for link, end in self.ends.items() if end.forwards}
        for gone in self.locator._heard.keys() - self.ends.keys():  # as a shell does
            self._tell(self.locator.link_down(gone))
        self._tell(self.locator.forwards(forwarding))
        new, self._forwarding = forwarding - self._forwarding, frozenset(forwarding)
        if self._tenant is not None:
            for link in sorted(new):
                self._tenant.forwards(link)

    def take(self, end: End, message: object) -> None:
        """Take in a message of the locator, a flooded one, or one of the tenant."""
        if isinstance(message, ReachUpdate):
            peer = end.peer.host
            if peer.gateway_id == self._liar:
                message = ReachUpdate(True, {peer.gateway_id: peer.boot_epoch})
            self._tell(self.locator.receive(end.link, message))
        elif isinstance(message, _Flooded):
            self._hear(end, message)
        elif self._tenant is not None:
            self._tenant.took(end.link, message)

    def say(self, link: int, message: object) -> None:
        """Say something of the tenant's to a neighbour."""
        if link in self.ends:
            self._network.send(self.ends[link], message, DATA)

    @property
    def forwarding(self) -> list[int]:
        """The links that forward."""
        return [link for link, end in self.ends.items() if end.forwards]

    def _hear(self, end: End, message: _Flooded) -> None:
        key = (message.origin, message.serial)
        if key in self._seen or not end.forwards:
            return
        self._seen.add(key)
        self._flood(message, end.link)
        match message.body:
            case None:
                self.suspicion.answered(message.origin, self.now)
                self._soon()
            case Question():
                self.suspicion.asked(message.origin, message.body, self.now)
                if self.gateway_id in message.body.ids:
                    self.flood(None)
            case _ if self._tenant is not None:
                self._tenant.heard(message.origin, message.body)

    def flood(self, body: Question | Publication | None) -> None:
        """Have a control message at all in reach."""
        self._serial += 1
        self.asked += isinstance(body, Question)
        message = _Flooded(self.gateway_id, (self.boot_epoch, self._serial), body)
        self._seen.add((message.origin, message.serial))
        self._flood(message, None)

    def _flood(self, message: _Flooded, came_by: int | None) -> None:
        self.said += 1
        for link, end in self.ends.items():
            if link != came_by and end.forwards:
                self._network.send(end, message, DATA)

    def _tell(self, news: dict[int, ReachUpdate]) -> None:
        for link, behind in news.items():
            if link in self.ends:
                self._network.send(self.ends[link], behind, DATA)
        if news and self._tenant is not None:
            self._tenant.moved()
        self._soon()

    def _soon(self) -> None:
        self._look_at_s = min(self._look_at_s, self.now + SETTLE_S)
        self._timer.set(self._look_at_s)

    def _due(self, now: float) -> None:
        for question in self.suspicion.look(self._ids, self.locator.reached, now):
            self.flood(question)
        before = self.members.suspects
        self.members.suspect(self.suspicion.suspects)
        if self._tenant is not None and before != self.members.suspects:
            self._tenant.moved()
        self._look_at_s = self.suspicion.next_timer()
        self._timer.set(self._look_at_s)


class HeadedFleet:
    """A fleet whose heads die and come back.

    Args:
        gateways: how many.
        seed: of the network and of who is what.
        degree: links of each.
        patience: of all.
        liar: the gateway that tells its neighbours of nobody behind it; empty for none.
        tenant_of: makes what else a life of a gateway has; None for nothing.

    """

    def __init__(
        self,
        gateways: int,
        seed: int,
        degree: int = 4,
        patience: Patience = PATIENCE,
        liar: str = "",
        tenant_of: Callable[[str], Tenant] | None = None,
    ) -> None:
        self.clock = Clock()
        self.watch = Watch()
        self.gateways: dict[str, HeadedGateway] = {}
        self.patience = patience
        self.chance = random.Random(f"heads {seed}")
        self._liar = liar
        self._tenant_of = tenant_of
        self._lives = 0
        self.network = Network(self.clock, random.Random(seed))
        self.records = {record.id: record for record in map(self._record, range(gateways))}
        self._edges = [
            Edge((f"gw-{first}", f"gw-{second}"), DELAY_S, JITTER_S)
            for first, second in regular_network(gateways, degree, seed)
        ]
        self.network.edges.extend(self._edges)
        if tenant_of is None:
            self.start_all()

    def start_all(self) -> None:
        """Start all; who has tenants does so when they can be made."""
        for gateway_id in self.records:
            self.start(gateway_id)

    def _record(self, number: int) -> MemberRecord:
        domain = f"d{number % DOMAINS}" if number else ""
        group = f"g{number % GROUPS}" if number % 7 and domain else ""
        capability = float(
            self.chance.choice((1, 2, 2, 3, 5) if number < 8 else (0, 1, 2, 2, 3, 5))
        )
        at = f"10.0.{number >> 8}.{number & 255}"
        return MemberRecord(f"gw-{number}", 1, 0, domain, group, at, 1883, capability=capability)

    def start(self, gateway_id: str) -> None:
        """Let a gateway live, once more if it was dead."""
        self._lives += 1
        record = self.records[gateway_id]
        identity = Identity(gateway_id, self._lives, record.capability or 0.5, record.address)
        tree = SpanningTree(identity, Parameters(), self.clock.now)
        start = Start(tree, self.clock, self.network, self.watch)
        tenant = None if self._tenant_of is None else self._tenant_of(gateway_id)
        gateway = HeadedGateway(start, self.records.values(), self.patience, self._liar, tenant)
        self.gateways[gateway_id] = gateway
        gateway.begin()
        for edge in self._edges:
            if gateway_id in edge.ids:
                wait_s = self.chance.uniform(0, LINKED_WITHIN_S)
                self.clock.at(self.clock.now + wait_s, partial(self._dial, edge, gateway))

    def _dial(self, edge: Edge, gateway: HeadedGateway) -> None:
        """Keep an edge linked, as `Neighbours` does, while this life of the dialler lasts."""
        if not gateway.alive:
            return
        if not gateway.is_linked(edge):
            other_id = edge.ids[1 - edge.ids.index(gateway.gateway_id)]
            self.network.dial(edge, gateway, partial(self.gateways.get, other_id))
        wait_s = REDIAL_S * self.chance.uniform(0.8, 1.2)
        self.clock.at(self.clock.now + wait_s, partial(self._dial, edge, gateway))

    def kill(self, gateway_id: str) -> None:
        """Let a gateway's power fail: nobody is told."""
        self.gateways.pop(gateway_id).stop(silently=True)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(self.clock.now + seconds)

    def heads(self) -> set[str]:
        """Return who heads something in anybody's view."""
        one = next(iter(self.gateways.values())).members.hierarchy()
        return {*one.domain_heads.values(), *one.group_heads.values(), *filter(None, (one.root,))}

    def disagreements(self) -> Iterator[str]:
        """Yield what is wrong once all is at peace: nothing, if the protocol holds."""
        alive = self.gateways.keys()
        expected = Membership()
        for record in self.records.values():
            expected.update(record)
        expected.suspect(frozenset(self.records.keys() - alive))
        right = expected.hierarchy()
        for gateway_id, gateway in self.gateways.items():
            seen = gateway.members.hierarchy()
            for what in ("root", "domain_heads", "group_heads", "parents", "children"):
                if getattr(seen, what) != getattr(right, what):
                    yield f"{gateway_id}: {what} differ; it suspects {gateway.members.suspects}"
        heads = {*right.domain_heads.values(), *right.group_heads.values()}
        for gone in heads - alive:
            yield f"a head is gone: {gone}"

"""Simulated networks with topic overlays, and the proof that each overlay keeps the invariants.

A run drives the very `Overlays` that run in production, over the common tree and the faults of
`simulation`, while clients come and go, so that overlays begin, end and begin anew all the
time. Gateways tell each other their records by a flood of its own, so they differ in what they
know. What is checked is `simulation.overlay_checks`.
"""

from __future__ import annotations

import random
from dataclasses import field, replace
from functools import partial
from typing import Self

from mypy_extensions import mypyc_attr

from light_dataclasses import dataclass
from tree_handler.overlays.overlays import Overlays, Settings
from tree_handler.overlays.policy import RootPolicy
from tree_handler.routing.interest import Interest
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.network import End
from tree_handler.simulation.overlay_checks import OverlayChecks
from tree_handler.simulation.overlay_driver import OverlayDriver
from tree_handler.simulation.runs import STILL_INTERVALS, Options, Simulation
from tree_handler.spanning.spanning_tree import SpanningTree

QUIET_S = 12.0
"""Jitter ends with the faults, and then it may take the tree so long to find a better way."""
FLAP_S = 0.02
"""Mean time until a client that thinks better of it does so."""


@dataclass(frozen=True)
class OverlayOptions(Options):
    """One run.

    Attributes:
        topics: how many there are.
        density: probability that a gateway publishes a topic, and that it subscribes to it.
        changes_per_s: clients that come or go in the whole network in a second; some think better
            of it at once, so that overlays end and begin anew while the news of it travel.
        settings: of all gateways.

    """

    topics: int = 6
    density: float = 0.3
    changes_per_s: float = 2.0
    settings: Settings = field(default_factory=Settings)

    @property
    def subject(self) -> str:
        """Return ``overlays``."""
        return "overlays"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed, those of `Options` included."""
        chance = random.Random(f"overlays {seed} {gateways}")  # a seed, no secret
        return replace(
            cls.any_network(seed, gateways),
            traffic_per_s=0.0,
            quiet_s=QUIET_S,
            topics=chance.choice((1, 4, 12)),
            density=chance.choice((0.2, 0.4, 0.7)),
            changes_per_s=chance.choice((0.0, 1.0, 5.0)),
            settings=Settings(
                policy=chance.choice(tuple(RootPolicy)), max_overlays=chance.choice((3, 64))
            ),
        )

    def simulation(self, make_tree: MakeTree = SpanningTree) -> OverlaySimulation:
        """Return a simulation of overlays."""
        return OverlaySimulation(self, make_tree)


@dataclass(slots=True)
class Clients:
    """The subscriptions and topics of one gateway's clients; they outlive its lives."""

    publishes: set[str] = field(default_factory=set)
    subscribes: set[str] = field(default_factory=set)
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Records:
    """Records on their way; the stand-in for the replicated control stream."""

    records: tuple[Interest, ...]


class OverlayGateway(Gateway):
    """A gateway with overlays.

    Args:
        start: see `Gateway`.
        settings: of its overlays.
        clients: what its clients want.
        checks: is told of what overlays do.

    """

    def __init__(
        self, start: Start, settings: Settings, clients: Clients, checks: OverlayChecks
    ) -> None:
        super().__init__(start)
        tree = start.tree
        self.overlays = Overlays(tree.identity, tree.parameters, settings, self.now)
        self.records: dict[str, Interest] = {}
        self._driver = OverlayDriver(self, self.overlays, checks, start.network)
        self._clients = clients
        self._is_told = False

    def clients_changed(self) -> None:
        """Tell all others what this gateway is now, if it is another."""
        before = self.records.get(self.gateway_id)
        identity = self.tree.identity
        record = Interest(
            self.gateway_id,
            identity.boot_epoch,
            0 if before is None else before.version + 1,
            frozenset(self._clients.subscribes),
            frozenset(self._clients.publishes),
            frozenset(end.peer.host.gateway_id for end in self.ends.values()),
            self._clients.count,
            self.overlays.rooted,
            identity.transit,
        )
        if before is None or replace(record, version=before.version) != before:
            self._learn((record,), None)

    def tell(self, records: dict[str, Interest]) -> None:
        """Take these records for what all gateways tell from now on, whatever they say."""
        self._is_told = True
        self.records = records
        self._driver.records_changed(records)

    def link_up(self, end: End) -> None:
        """Take a new connection, and send the records of all gateways over it."""
        super().link_up(end)
        if end.link in self.ends:
            self._network.send(end, _Records(tuple(self.records.values())))

    def take(self, end: End, message: object) -> None:
        """Take in records, or a message of the overlays."""
        if isinstance(message, _Records):
            self._learn(message.records, end)
        elif isinstance(message, bytes):
            self._driver.receive(end.link, message)
            self.clients_changed()

    def carry_out(self) -> None:
        """Do what the tree asks for, then what the overlays ask for."""
        super().carry_out()
        self._driver.follow()
        self.clients_changed()

    def _learn(self, records: tuple[Interest, ...], source: End | None) -> None:
        if self._is_told:
            return
        for record in records:
            if (
                record.gateway_id == self.gateway_id
                and record.epoch > self.tree.identity.boot_epoch
            ):
                self.outlived(record.epoch)  # it lost its disk, and learns of its last life
                return
        known = self.records
        news = [r for r in records if r.gateway_id not in known or known[r.gateway_id].age < r.age]
        news = [r for r in news if source is None or r.gateway_id != self.gateway_id]
        if not news:
            return
        known.update({record.gateway_id: record for record in news})
        for other in self.ends.values():
            if other is not source:
                self._network.send(other, _Records(tuple(news)))
        self._driver.records_changed(known)


@mypyc_attr(allow_interpreted_subclasses=True)
class OverlaySimulation(Simulation):
    """One network with overlays; see `Simulation`."""

    def __init__(self, options: OverlayOptions, make_tree: MakeTree = SpanningTree) -> None:
        super().__init__(options, make_tree)
        self.overlay_options = options
        self.overlay_checks = OverlayChecks(self.checks)
        self.clients: dict[str, Clients] = {}
        self._topics = [f"topic/{number}" for number in range(options.topics)]
        for gateway_id in self._identities:
            self.clients[gateway_id] = clients = Clients(count=self._random.randrange(20))
            for wanted in (clients.publishes, clients.subscribes):
                wanted.update(t for t in self._topics if self._random.random() < options.density)
            if self._random.random() < 0.1:
                clients.subscribes.add("topic/+")

    def make_gateway(self, start: Start) -> Gateway:
        """Return a gateway with overlays."""
        clients = self.clients.setdefault(start.tree.identity.gateway_id, Clients())
        return OverlayGateway(start, self.overlay_options.settings, clients, self.overlay_checks)

    def storm(self) -> None:
        """Let things break for a while, and clients come and go."""
        self._next_change(self.clock.now + self.options.faults_s)
        super().storm()

    def check_more(self) -> None:
        """Check overlays, which may take all of the quiet time to find their better ways.

        The common tree is still before that: a round-trip time that goes on settling can make a
        way of an overlay better that the common tree doesn't have.
        """
        checks, options = self.overlay_checks, self.overlay_options
        end_s = options.start_s + options.faults_s + options.quiet_s
        while True:
            before, changes = checks.spoken.copy(), checks.changes
            self.clock.run(self.clock.now + STILL_INTERVALS * options.parameters.hello_s)
            if checks.changes == changes or self.clock.now >= end_s:
                break
        checks.check_settled(self._overlay_gateways())
        checks.check_quiet(checks.spoken - before, self._overlay_gateways(), STILL_INTERVALS)

    def change_clients(self) -> None:
        """Let one client come or go somewhere."""
        gateway_id = self._random.choice(sorted(self.clients))
        topic, publishes = self._random.choice(self._topics), self._random.random() < 0.5
        self._change_client(gateway_id, topic, publishes=publishes)
        if self._random.random() < 0.5:
            soon_s = self._random.expovariate(1 / FLAP_S)
            again = partial(self._change_client, gateway_id, topic, publishes=publishes)
            self.clock.at(self.clock.now + soon_s, again)

    def _change_client(self, gateway_id: str, topic: str, *, publishes: bool) -> None:
        clients = self.clients[gateway_id]
        wanted = clients.publishes if publishes else clients.subscribes
        wanted ^= {topic}
        clients.count = self._random.randrange(20)
        gateway = self.gateways.get(gateway_id)
        if isinstance(gateway, OverlayGateway) and gateway.paused_until_s <= self.clock.now:
            gateway.clients_changed()

    def _next_change(self, until_s: float) -> None:
        rate_per_s = self.overlay_options.changes_per_s
        if rate_per_s <= 0 or not self._topics:
            return
        at_s = self.clock.now + self._random.expovariate(rate_per_s)
        if at_s < until_s:
            self.clock.at(at_s, partial(self._change, until_s))

    def _change(self, until_s: float) -> None:
        self.change_clients()
        self._next_change(until_s)

    def _overlay_gateways(self) -> dict[str, OverlayGateway]:
        return {i: g for i, g in self.gateways.items() if isinstance(g, OverlayGateway)}

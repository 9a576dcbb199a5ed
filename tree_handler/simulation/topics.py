"""Topic mode in the simulated network: `simulation.routed` with overlays as the fast path (C5).

Every gateway runs `Routed` and `Overlays` as in production, over records that replication
carries. What is checked of messages is what `simulation.routed` checks (nothing lost, doubled or
astray, each origin in its order), and of overlays what `simulation.overlay_checks` does.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar, Self, cast

from light_dataclasses import dataclass
from tree_handler.batch import Entry, Header
from tree_handler.overlays.overlays import Overlays, Settings
from tree_handler.routing.interest import Interest
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import MakeTree, Start
from tree_handler.simulation.network import End
from tree_handler.simulation.overlay_checks import OverlayChecks
from tree_handler.simulation.overlay_driver import OverlayDriver
from tree_handler.simulation.routed import (
    FILTERS,
    RoutedOptions,
    RoutedSimulation,
    RoutedTraffic,
)
from tree_handler.simulation.routed_gateway import RoutedGateway
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.spanning_tree import SpanningTree

RESTLESS = 0.03
"""Of the changes of subscriptions in `simulation.routed`; overlays want some time to settle."""

MOST_FAULTS_PER_S = 1.0


@dataclass(eq=False)
class TopicTraffic(RoutedTraffic):
    """Messages of one network in topic mode; see `SimulatedTraffic`.

    Attributes:
        overlay_checks: is told of what overlays do.
        in_overlays: batches that began their way in an overlay.
        settings: of all gateways.

    """

    overlay_checks: OverlayChecks = field(init=False)
    in_overlays: int = field(default_factory=int, init=False)
    settings: Settings = field(default_factory=Settings, init=False)

    def __post_init__(self) -> None:
        self.overlay_checks = OverlayChecks(self.checks)

    def gateway(self, start: Start) -> TopicGateway:
        """Return a life of a gateway with overlays by topics."""
        return TopicGateway(start, self.disk(start.tree.identity.gateway_id), self)

    def _change_subscriptions(self, gateway: RoutedGateway) -> None:
        if self.chance.random() < RESTLESS:
            super()._change_subscriptions(gateway)


class TopicGateway(RoutedGateway):
    """A gateway in topic mode; see `ReplicatingGateway`."""

    def __init__(self, start: Start, disk: Disk, traffic: TopicTraffic) -> None:
        tree = start.tree
        now = start.local.reading(start.clock.now)
        self.overlays = Overlays(tree.identity, tree.parameters, traffic.settings, now)
        super().__init__(start, disk, traffic, self.overlays)
        self._driver = OverlayDriver(self, self.overlays, traffic.overlay_checks, start.network)
        self._topics = traffic
        self._linked: frozenset[str] = frozenset()

    def begin(self) -> None:
        """Let time pass, and look at the records."""
        super().begin()
        self._records_changed()

    @property
    def records(self) -> dict[str, Interest]:
        """Return the records of all gateways that it knows."""
        return {record.gateway_id: record for record in self.interests}

    def publish(self, entries: list[Entry], flags: int) -> int:
        """Accept messages of a client, and advertise their topics."""
        for entry in entries:
            self.own.published(entry.topic)
        return super().publish(entries, flags)

    def take(self, end: End, message: object) -> None:
        """Take in a message of the overlays, or one of replication."""
        if isinstance(message, bytes):
            self._driver.receive(end.link, message)
        else:
            super().take(end, message)

    def carry_out(self) -> None:
        """Do what the tree asks for, then what the overlays ask for."""
        super().carry_out()
        self._driver.follow()
        linked = frozenset(end.peer.host.gateway_id for end in self.ends.values())
        if linked != self._linked:
            self._linked = linked
            self.own.linked_to(linked)
            self._set_timer()

    def _note(self, frame: bytes, header: Header) -> None:
        super()._note(frame, header)
        if not header.control and self._run.way is not None:
            self._topics.in_overlays += 1

    def _learn(self, frame: bytes, header: Header) -> None:
        super()._learn(frame, header)
        self._records_changed()

    def _tell_interest(self, now: float) -> None:
        super()._tell_interest(now)
        self._records_changed()

    def _records_changed(self) -> None:
        own = self.interests.get(self.gateway_id)
        if own is not None and own.epoch > self.tree.identity.boot_epoch:
            self.outlived(own.epoch)  # it lost its disk, and learns of its last life
        self._driver.records_changed(self.records)


class TopicSimulation(RoutedSimulation):
    """A network in topic mode; see `Simulation`."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = TopicTraffic

    def __init__(self, options: TopicOptions, make_tree: MakeTree = SpanningTree) -> None:
        super().__init__(options, make_tree)
        self._topic_traffic = cast(TopicTraffic, self.traffic)
        for gateway_id in self._identities:
            self._topic_traffic.subscriptions[gateway_id] += self._random.sample(FILTERS, 2)

    def check_more(self) -> None:
        """Check that the overlays have settled."""
        gateways = {i: g for i, g in self.gateways.items() if isinstance(g, TopicGateway)}
        self._topic_traffic.overlay_checks.check_settled(gateways)


class TopicOptions(RoutedOptions):
    """A run of a `TopicSimulation`."""

    @property
    def subject(self) -> str:
        """Return ``topic``."""
        return "topic"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed, as `Options` draws them, but with less faults for
        longer."""
        base = cls.routed_network(seed, gateways)
        rate_per_s = min(base.faults.rate_per_s, MOST_FAULTS_PER_S)
        faults = replace(base.faults, rate_per_s=rate_per_s)
        return replace(base, faults=faults, faults_s=10.0, traffic_per_s=4.0)

    def simulation(self, make_tree: MakeTree = SpanningTree) -> TopicSimulation:
        """Return a simulation of overlays by topics."""
        return TopicSimulation(self, make_tree)

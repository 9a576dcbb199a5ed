"""Topic mode in the simulated network: `simulation.routed` with overlays as the fast path (C5).

Every gateway runs `Routed` and `Overlays` as in production, over records that replication
carries. What is checked of messages is what `simulation.routed` checks (nothing lost, doubled or
astray, each origin in its order), and of overlays what `simulation.overlay_checks` does.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tree_handler.batch import Entry, Flags, Header
from tree_handler.overlays.overlays import Overlays, Settings
from tree_handler.routing.interest import Interest
from tree_handler.routing.routed import Ways
from tree_handler.simulation.gateway import LocalClock, MakeTree, Watch
from tree_handler.simulation.network import Clock, End, Network
from tree_handler.simulation.overlay_checks import OverlayChecks
from tree_handler.simulation.overlay_driver import OverlayDriver
from tree_handler.simulation.routed import FILTERS, RoutedGateway, RoutedSimulation, RoutedTraffic
from tree_handler.simulation.runs import Options, Report
from tree_handler.simulation.traffic import Disk
from tree_handler.spanning.spanning_tree import SpanningTree

RESTLESS = 0.03
"""Of the changes of subscriptions in `simulation.routed`; overlays want some time to settle."""


MOST_FAULTS_PER_S = 1.0


class TopicOptions(Options):
    """The options of a run; see `Options`."""

    __slots__ = ()

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> TopicOptions:
        """The options of a seed, as `Options` draws them, but with less faults for longer."""
        base = Options.drawn(seed, gateways)
        own = {field.name: getattr(base, field.name) for field in fields(base)}
        rate_per_s = min(base.faults.rate_per_s, MOST_FAULTS_PER_S)
        own["faults"] = replace(base.faults, rate_per_s=rate_per_s)
        return cls(**(own | {"faults_s": 10.0, "traffic_per_s": 4.0}))

    @property
    def replay(self) -> str:
        """How to run this again."""
        return f"simulation_topics.replay(seed={self.seed}, gateways={self.gateways})"


def replay(seed: int, gateways: int, make_tree: MakeTree = SpanningTree) -> Report:
    """Run the options of a seed."""
    simulation = TopicSimulation(TopicOptions.drawn(seed, gateways), make_tree)
    simulation.start_all()
    simulation.storm()
    return simulation.calm()


class TopicTraffic(RoutedTraffic):
    """Messages of one network in topic mode; see `Traffic`."""

    def __init__(self, overlay_checks: OverlayChecks, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.overlay_checks = overlay_checks
        self.in_overlays = 0
        """Batches that began their way in an overlay."""
        self.settings = Settings()

    def gateway(
        self, tree: SpanningTree, clock: Clock, network: Network, watch: Watch, local: LocalClock
    ) -> TopicGateway:
        """See `Traffic`."""
        disk = self.disks[tree.identity.gateway_id]
        return TopicGateway(tree, clock, network, watch, local, disk=disk, traffic=self)

    def _change_subscriptions(self, gateway: RoutedGateway) -> None:
        if self._random.random() < RESTLESS:
            super()._change_subscriptions(gateway)


class TopicGateway(RoutedGateway):
    """A gateway in topic mode; see `ReplicatingGateway`."""

    def __init__(
        self,
        tree: SpanningTree,
        clock: Clock,
        network: Network,
        watch: Watch,
        local: LocalClock,
        *,
        disk: Disk,
        traffic: TopicTraffic,
    ) -> None:
        now = local.reading(clock.now)
        self.overlays = Overlays(tree.identity, tree.parameters, traffic.settings, now)
        self._driver = OverlayDriver(
            self,
            self.overlays,
            traffic.overlay_checks,
            clock=clock,
            network=network,
            local=local,
        )
        self._topics = traffic
        self._linked: frozenset[str] = frozenset()
        self._is_made = False
        super().__init__(tree, clock, network, watch, local, disk=disk, traffic=traffic)
        self._is_made = True
        self._records_changed()

    @property
    def records(self) -> dict[str, Interest]:
        """What it knows of all gateways."""
        return {record.gateway_id: record for record in self.interests}

    def ways(self) -> Ways:
        """See `RoutedGateway`."""
        return self.overlays

    def publish(self, entries: list[Entry], flags: Flags) -> int:
        """See `ReplicatingGateway`; the topics are advertised."""
        for entry in entries:
            self.own.published(entry.topic)
        return super().publish(entries, flags)

    def take(self, end: End, message: object) -> None:
        """See `ReplicatingGateway`."""
        if isinstance(message, bytes):
            self._driver.receive(end.link, message)
        else:
            super().take(end, message)

    def carry_out(self) -> None:
        """See `ReplicatingGateway`."""
        super().carry_out()
        self._driver.follow()
        linked = frozenset(end.peer.host.gateway_id for end in self.ends.values())
        if self._is_made and linked != self._linked:
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
        if not self._is_made:
            return
        own = self.interests.get(self.gateway_id)
        if own is not None and own.epoch > self.tree.identity.boot_epoch:
            self.outlived(own.epoch)  # it lost its disk, and learns of its last life
        self._driver.records_changed(self.records)


class TopicSimulation(RoutedSimulation):
    """A network in topic mode; see `Simulation`."""

    def __init__(self, options: TopicOptions, make_tree: MakeTree = SpanningTree) -> None:
        super().__init__(options, make_tree)
        self.overlay_checks = OverlayChecks(self.checks)
        self.traffic: TopicTraffic = TopicTraffic(
            self.overlay_checks, self.clock, self.checks, options.traffic_per_s, self._random
        )
        self.faults._traffic = self.traffic
        for gateway_id in self._identities:
            self.traffic.subscriptions[gateway_id] += self._random.sample(FILTERS, 2)

    def calm(self) -> Report:
        """See `Simulation`; then the overlays are looked at."""
        report = super().calm()
        gateways = {i: g for i, g in self.gateways.items() if isinstance(g, TopicGateway)}
        self.overlay_checks.check_settled(gateways)
        return replace(report, violations=tuple(self.checks.violations))

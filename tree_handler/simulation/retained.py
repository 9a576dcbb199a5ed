"""Retained messages in the simulated network: written anywhere, alike everywhere in the end.

Gateways write and delete a few topics while things break, logs are trimmed, disks are lost, wall
clocks are wrong (behind by weeks, ahead by years, at 1970) and newcomers join at the end. What is
checked: a write has a greater version than what its gateway had seen of the topic; in the end all
gateways in reach of each other have the same version and content of each topic, which is at
least as new as every write that is on the disk of one of them; what was deleted last is gone; and
no message is given to clients both by the log and as news.

The cores are those of production: `Replication`, `RetainedSync`, `RetainedVersions`, `HybridClock`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from typing import ClassVar, Self

from light_dataclasses import dataclass
from tree_handler.batch import Header
from tree_handler.replication.replication import Lost
from tree_handler.retained.hybrid_clock import EARLIEST_US, RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.simulation.checks import component, usable_paths
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.faults import FaultOptions
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.network import Edge, Network
from tree_handler.simulation.replicating import Receiver, ReplicatingGateway
from tree_handler.simulation.retained_gateway import RetainedGateway
from tree_handler.simulation.retained_store import RetainedDisk
from tree_handler.simulation.runs import FULL_MESH_AT_MOST, Options, Simulation
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.spanning_tree import SpanningTree

TOPICS = 12
NOW_US = EARLIEST_US + 300 * 24 * 3600 * 1_000_000
WRONG_CLOCKS_US = (0, 0, 0, 30_000, -21 * 24 * 3600 * 1_000_000, 5 * 365 * 24 * 3600 * 1_000_000)
"""Errors of wall clocks; one is drawn for each life."""
AT_1970 = 0.15
"""Of lives: those whose wall clock begins at 1970."""


@dataclass(eq=False)
class RetainedTraffic(SimulatedTraffic):
    """Writes of retained topics, and what must hold of them; see `SimulatedTraffic`.

    Attributes:
        contents: what was written, by version.

    """

    disks: dict[str, Disk] = field(default_factory=lambda: defaultdict(RetainedDisk), init=False)
    contents: dict[RetainedVersion, bytes] = field(default_factory=dict, init=False)

    def gateway(self, start: Start) -> RetainedGateway:
        """Return a life of a gateway with retained messages."""
        disk = self.disk(start.tree.identity.gateway_id)
        return RetainedGateway(start, disk, self, self.wall_us())

    def wall_us(self) -> int:
        """Return what the wall clock of a life shows at the beginning."""
        at_1970 = self.chance.random() < AT_1970
        return 0 if at_1970 else NOW_US + self.chance.choice(WRONG_CLOCKS_US)

    def disk(self, gateway_id: str) -> RetainedDisk:
        """Return the disk of a gateway."""
        disk = self.disks[gateway_id]
        assert isinstance(disk, RetainedDisk)
        return disk

    def lose_disk(self, gateway_id: str) -> None:
        """Let a gateway that is down find nothing of what it had.

        Which epoch follows is asked where no clock is wrong (`simulation`).
        """
        epoch = self.disks[gateway_id].boot_epoch
        self._lost_disks.add(gateway_id)
        lost_epoch = -1 if epoch is None else epoch
        self.disks[gateway_id] = RetainedDisk(boot_epoch=epoch, lost_epoch=lost_epoch)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """Let a client write a retained message, or delete one."""
        assert isinstance(gateway, RetainedGateway)
        topic = f"t/{self.chance.randrange(TOPICS)}"
        self.published += 1
        payload = b"" if self.chance.random() < 0.3 else b"%d" % self.published
        version = gateway.write(topic, payload)
        if version is not None:
            if version in self.contents:
                self.checks.found(5, f"{gateway.gateway_id} makes {version} a second time")
            self.contents[version] = payload

    def handed(self, gateway: Receiver, header: Header, first: int) -> None:
        """Check that clients were not given as news what the log brings (invariant 4).

        What the log hands out twice or out of order, `simulation` asks where no log is trimmed.
        """
        disk = self.disk(gateway.gateway_id)
        news = disk.news[header.stream]
        if news.missing(first, header.last) != [(first, header.last)]:
            what = f"{gateway.gateway_id} hands out {header} that clients had as news"
            self.checks.found(4, what)
        disk.handed[header.stream].add(first, header.last)
        disk.given[header.stream].add(first, header.last)
        self._check_epochs(gateway.gateway_id, header)

    def given_as_news(self, gateway_id: str, told: Retained) -> None:
        """Check that clients had it neither from the log nor as news before (invariant 4).

        What this gateway wrote before it lost its disk, the log brings back and hands to nobody.
        """
        disk = self.disk(gateway_id)
        origin, epoch = told.stream
        is_brought_back = origin == gateway_id and epoch <= disk.lost_epoch
        had = told.number in disk.given[told.stream] and not is_brought_back
        if had or not disk.news[told.stream].add(told.number, told.number):
            what = f"{gateway_id} gives {told.topic} {told.version} as news a second time"
            self.checks.found(4, what)

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Logs are trimmed here, so what is given up was somewhere."""
        self.given_up += lost.last - lost.first + 1

    def wrote(
        self, gateway_id: str, topic: str, seen: RetainedVersion | None, version: RetainedVersion
    ) -> None:
        """Check that a write surpasses what its gateway had seen."""
        if seen is not None and version <= seen:
            self.checks.found(5, f"{gateway_id} writes {topic} {version} behind {seen}")

    def check_all_arrived(self, gateways: dict[str, Gateway], network: Network) -> None:
        """Check that all in reach of each other retain the same, and the newest."""
        paths = usable_paths(gateways, network)
        left = set(gateways)
        while left:
            reach = component(min(left), paths.__getitem__)
            left -= reach
            self._check_alike(sorted(reach), gateways)

    def _check_alike(self, reach: list[str], gateways: dict[str, Gateway]) -> None:
        newest: dict[str, RetainedVersion] = {}
        for gateway_id in reach:
            for topic, version in self.disk(gateway_id).written.items():
                newest[topic] = max(version, newest.get(topic, version))
        first = gateways[reach[0]]
        assert isinstance(first, RetainedGateway)
        state = first.store.versions.state()
        for topic, version in newest.items():
            if state.get(topic, RetainedVersion(0, 0, "", 0)) < version:
                self.checks.found(3, f"{first.gateway_id} lacks {topic} {version}")
        for gateway_id in reach:
            gateway = gateways[gateway_id]
            assert isinstance(gateway, RetainedGateway)
            for what in self._wrong(gateway, state):
                self.checks.found(3, what)

    def _wrong(self, gateway: RetainedGateway, state: dict[str, RetainedVersion]) -> Iterator[str]:
        own = gateway.store.versions.state()
        for topic in sorted(state.keys() | own.keys()):
            if own.get(topic) != state.get(topic):
                yield f"{gateway.gateway_id} has {topic} {own.get(topic)}, not {state.get(topic)}"
        for topic, version in own.items():
            told = gateway.store.told(topic, gateway.now)
            payload = None if told is None else told.payload
            if payload != self.contents[version]:
                what = f"{payload!r}, not {self.contents[version]!r}"
                yield f"{gateway.gateway_id} retains on {topic} {what}"


class RetainedSimulation(Simulation):
    """A network whose gateways retain messages, and newcomers at the end of the storm."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = RetainedTraffic

    def storm(self) -> None:
        """Let things break for a while, then let two new gateways join."""
        super().storm()
        known = sorted(self._identities)
        for number in range(2):
            name = f"new-{number}"
            self.add(name, 1.0, f"10.99.0.{number + 1}")
            for other in self._random.sample(known, min(2, len(known))):
                edge = Edge((other, name), 0.005, 0.0)
                self.network.edges.append(edge)
                self._redial(edge)
            self.start(name)


class RetainedOptions(Options):
    """A run of a `RetainedSimulation`."""

    __slots__ = ()

    @property
    def subject(self) -> str:
        """Return ``retained``."""
        return "retained"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed."""
        chance = random.Random(f"retained {seed} {gateways}")  # a seed, no secret
        return cls(
            seed,
            gateways,
            degree=chance.choice((0.0, 2.5)) if gateways <= FULL_MESH_AT_MOST else 2.5,
            delay_ms=chance.choice((1.0, 5.0, 20.0)),
            skew=chance.choice((0.0, 0.001)),
            traffic_per_s=chance.choice((2.0, 8.0)),
            quiet_s=35.0,
            faults=FaultOptions(
                rate_per_s=chance.choice((1.0, 4.0)),
                outage_s=chance.choice((0.5, 2.0)),
                lasting=chance.choice((0.0, 0.2)),
            ),
        )

    def simulation(self, make_tree: MakeTree = SpanningTree) -> RetainedSimulation:
        """Return a simulation of retained messages."""
        return RetainedSimulation(self, make_tree)

"""Messages that clients of a fleet write over years, and what must hold of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from itertools import chain

from light_dataclasses import dataclass
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Lost
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.simulation.checks import component, linked, usable_paths
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Gateway, Start
from tree_handler.simulation.lying import sealing
from tree_handler.simulation.network import Network
from tree_handler.simulation.retained import RetainedTraffic
from tree_handler.simulation.retained_gateway import RetainedGateway
from tree_handler.simulation.retained_store import RetainedDisk
from tree_handler.simulation.years_gateway import YearsDisk, YearsGateway
from tree_handler.simulation.years_tables import FleetSize, too_large
from tree_handler.spanning.election import Identity

LINKED_S = 1.0
"""A neighbour that linked longer ago than this is asked, and what it has is not lost."""
TEXTS = 1_000
"""So many that were written last may still be in a log."""
LARGE = bytes(2_000_000)
"""A body that takes 40 s over a line of 50 kB/s."""


@dataclass(eq=False)
class YearsTraffic(RetainedTraffic):
    """Retained writes over years; see `RetainedTraffic`.

    Attributes:
        members: all that ever were in the fleet.
        texts: what was written, by topic and version: a clock that was set right may give what it
            surpasses on two topics the same version.

    """

    disks: dict[str, Disk] = field(default_factory=lambda: defaultdict(YearsDisk), init=False)
    members: set[str] = field(default_factory=set, init=False)
    texts: dict[tuple[str, RetainedVersion], bytes] = field(default_factory=dict, init=False)

    def gateway(self, start: Start) -> RetainedGateway:
        """Return a life of a gateway with renewed keys, on a disk that has grown older."""
        gateway_id = start.tree.identity.gateway_id
        self.members.add(gateway_id)
        disk = self.years_disk(gateway_id)
        disk.grow_old(self.clock.now)
        return YearsGateway(start, disk, self, self.wall_us())

    def years_disk(self, gateway_id: str) -> YearsDisk:
        """Return the disk of a gateway."""
        disk = self.disks[gateway_id]
        assert isinstance(disk, YearsDisk)
        return disk

    def disk(self, gateway_id: str) -> RetainedDisk:
        """Return the disk of a gateway."""
        return self.years_disk(gateway_id)

    def standing(self, identity: Identity) -> Identity:
        """Return the identity with a seal."""
        return sealing(identity.gateway_id).stands(identity)

    def write(self, gateway: Gateway, topic: str, payload: bytes) -> RetainedVersion | None:
        """Let a client of a gateway write a retained message, or delete one."""
        assert isinstance(gateway, YearsGateway)
        self.published += 1
        version = gateway.write(topic, payload)
        if version is not None:
            self.texts[topic, version] = payload
        return version

    def expire(self, gateways: dict[str, Gateway]) -> None:
        """Let gateways forget deletions, and the simulation what nobody has any more."""
        for gateway in gateways.values():
            assert isinstance(gateway, YearsGateway)
            gateway.expire()
        if len(self.texts) > 2 * TEXTS:
            disks = [self.disk(one) for one in self.disks]
            told = [
                one for disk in disks for one in chain(disk.messages.values(), disk.graves.values())
            ]
            kept = {(one.topic, one.version) for one in told}.union(list(self.texts)[-TEXTS:])
            self.texts = {written: text for written, text in self.texts.items() if written in kept}

    def leave(self, gateway_id: str) -> None:
        """A gateway has left for good, and its disk with it."""
        del self.disks[gateway_id]

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Check that nobody in reach has what a gateway gives up, readable or not (invariant 3)."""
        self.given_up += lost.last - lost.first + 1
        wanted = Intervals([(lost.first, lost.last)])
        paths = linked(self._gateways, network, self.clock.now - LINKED_S)
        for other in sorted(component(gateway_id, paths.__getitem__)):
            if any(not header.passed for _, header in self.disks[other].read(lost.stream, wanted)):
                self.checks.found(3, f"{gateway_id} gives up {lost}, of which {other} has some")

    def lacking(self, gateways: dict[str, Gateway], network: Network) -> Iterator[str]:
        """Tell what a gateway lacks of what others in its reach have accepted or retain."""
        paths = usable_paths(gateways, network)
        left = set(gateways)
        while left:
            reach = sorted(component(min(left), paths.__getitem__))
            left.difference_update(reach)
            yield from self._not_covered(reach)
            yield from self._not_alike(reach, gateways)

    def _not_covered(self, reach: list[str]) -> Iterator[str]:
        """Return what is in a log within reach and a gateway lacks."""
        for origin in reach:
            stream = (origin, self.disks[origin].boot_epoch or 0)
            held = {one: self.disks[one].holds()[stream] for one in reach}
            for gateway_id in reach:
                have = self.disks[gateway_id].have[stream]
                for numbers in held.values():
                    if len(lacks := numbers.without(have)):
                        yield f"{gateway_id} lacks {stream} {lacks} that others have"
                        break

    def _not_alike(self, reach: list[str], gateways: dict[str, Gateway]) -> Iterator[str]:
        """Yield all retain the same, and nothing older than what is on the disk of one of them."""
        newest: dict[str, RetainedVersion] = {}
        for gateway_id in reach:
            for topic, version in self.disk(gateway_id).written.items():
                newest[topic] = max(version, newest.get(topic, version))
        first: dict[str, RetainedVersion] | None = None
        for gateway_id in reach:
            gateway = gateways[gateway_id]
            assert isinstance(gateway, YearsGateway)
            has = gateway.store.versions.state()
            for topic, version in newest.items():
                if topic not in has or has[topic] < version:
                    yield f"{gateway_id} has {topic} {has.get(topic)}, not {version}"
            first = has if first is None else first
            for topic in sorted(has.keys() | first.keys()):
                if has.get(topic) != first.get(topic):
                    yield f"{gateway_id} has {topic} {has.get(topic)}, not {first.get(topic)}"
            for topic, version in has.items():
                told = gateway.store.told(topic, gateway.now)
                if told is None or told.payload != self.texts[topic, version]:
                    yield f"{gateway_id} retains on {topic} not what was written as {version}"

    def check_tables(self, gateways: dict[str, Gateway]) -> None:
        """Check that what a gateway knows is bounded by who there is (invariant 6)."""
        topics = {topic for one in self.disks for topic in self._topics_of(one)}
        living = sum(disk.boot_epoch is not None for disk in self.disks.values())
        lives = FleetSize(living, len(self.members), len(topics))
        for gateway in gateways.values():
            assert isinstance(gateway, YearsGateway)
            for what in too_large(gateway, lives):
                self.checks.found(6, what)

    def _topics_of(self, gateway_id: str) -> Iterator[str]:
        disk = self.disk(gateway_id)
        return chain(disk.messages, disk.graves)

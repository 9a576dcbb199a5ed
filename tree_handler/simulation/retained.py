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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.replication import Action, Lost
from tree_handler.retained.hybrid_clock import EARLIEST_US, HybridClock, Version
from tree_handler.retained.message import VERSION, Retained, stamped_version
from tree_handler.retained.sync import RetainedSync, Send
from tree_handler.retained.versions import RetainedVersions, Tombstone
from tree_handler.simulation.checks import Checks, component, usable_paths
from tree_handler.simulation.faults import FaultOptions
from tree_handler.simulation.gateway import Gateway, LocalClock, Watch
from tree_handler.simulation.network import DATA, Clock, Edge, End, Network
from tree_handler.simulation.runs import FULL_MESH_AT_MOST, Options, Report, Simulation
from tree_handler.simulation.traffic import Disk, ReplicatingGateway, Traffic
from tree_handler.spanning.spanning_tree import SpanningTree

SETTLE_S = 1.0
TOPICS = 12
NOW_US = EARLIEST_US + 300 * 24 * 3600 * 1_000_000
WRONG_CLOCKS_US = (0, 0, 0, 30_000, -21 * 24 * 3600 * 1_000_000, 5 * 365 * 24 * 3600 * 1_000_000)
"""By how much a wall clock is wrong; drawn for each life."""
AT_1970 = 0.15
"""Of lives: those whose wall clock begins at 1970."""
LOG_BATCHES = 20
"""A log is trimmed to so many batches."""


@dataclass(slots=True)
class RetainedDisk(Disk):
    """What survives, retained messages included.

    Attributes:
        messages: content and place of each topic's message, by topic.
        graves: tombstones and their ages, as of the last write to the disk.
        written: versions of this gateway's own writes that are on this disk, by topic.
        news: numbers that clients were given as news, by stream.

    """

    messages: dict[str, Retained] = field(default_factory=dict)
    graves: dict[str, Retained] = field(default_factory=dict)
    written: dict[str, Version] = field(default_factory=dict)
    news: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))


class RetainedStore:
    """The retained messages of one life: a `tree_handler.retained.sync.Store`."""

    def __init__(self, gateway: RetainedGateway, disk: RetainedDisk, now: float) -> None:
        self._gateway = gateway
        self._disk = disk
        self._versions = RetainedVersions()
        self._silent: dict[str, Retained] = {}
        for topic, told in disk.messages.items():
            self._versions.set(topic, told.version)
        for topic, told in disk.graves.items():
            self._versions.bury(topic, _grave(told, now), now)

    @property
    def versions(self) -> RetainedVersions:
        """See `Store`."""
        return self._versions

    def told(self, topic: str, now: float) -> Retained | None:
        """See `Store`."""
        grave = self._versions.tombstone(topic)
        if grave is None:
            return self._disk.messages.get(topic)
        return replace(self._disk.graves[topic], dead_s=now - grave.since_s)

    def learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        """See `Store`."""
        had = retained.topic in self._disk.messages
        # It crosses a link: whatever can't be written there can't be read either.
        if self.take(Retained.of(retained.row()), now) and (retained.payload or had):
            if is_news:
                self._gateway.is_told(retained)
            else:
                self._silent[retained.topic] = retained
        return True

    def announce(self, topic: str, now: float) -> None:
        """See `Store`."""
        told = self._silent.pop(topic, None)
        if told is not None:
            self._gateway.is_told(told)

    def has_come(self, topic: str, version: Version) -> None:
        """The log has brought this."""
        told = self._silent.get(topic)
        if told is not None and version >= told.version:
            del self._silent[topic]

    def take(self, told: Retained, now: float) -> bool:
        """Retain a message if it is newer; whether it was."""
        topic = told.topic
        if told.dead_s is None:
            if not self._versions.set(topic, told.version):
                return False
            self._disk.graves.pop(topic, None)
            self._disk.messages[topic] = told
        else:
            if not self._versions.bury(topic, _grave(told, now), now):
                return False
            self._disk.messages.pop(topic, None)
            self._disk.graves[topic] = told
        return True


def _grave(told: Retained, now: float) -> Tombstone:
    return Tombstone(told.version, told.number, told.qos, now - (told.dead_s or 0.0))


@dataclass(frozen=True, slots=True)
class _Sync:
    payload: bytes


class RetainedTraffic(Traffic):
    """Writes of retained topics, and what must hold of them."""

    def __init__(
        self, clock: Clock, checks: Checks, rate_per_s: float, random_: random.Random
    ) -> None:
        super().__init__(clock, checks, rate_per_s, random_)
        self.disks = defaultdict(RetainedDisk)
        self.contents: dict[Version, bytes] = {}
        """What was written, by version."""

    def gateway(
        self, tree: SpanningTree, clock: Clock, network: Network, watch: Watch, local: LocalClock
    ) -> RetainedGateway:
        """See `Traffic`."""
        disk = self.disks[tree.identity.gateway_id]
        assert isinstance(disk, RetainedDisk)
        at_1970 = self._random.random() < AT_1970
        wall_us = 0 if at_1970 else NOW_US + self._random.choice(WRONG_CLOCKS_US)
        shell = (tree, clock, network, watch, local)
        return RetainedGateway(*shell, disk=disk, traffic=self, wall_us=wall_us)

    def lose_disk(self, gateway_id: str) -> None:
        """See `Traffic`. Which epoch follows is asked where no clock is wrong (`simulation`)."""
        self.disks[gateway_id] = RetainedDisk(boot_epoch=self.disks[gateway_id].boot_epoch)

    def _publish(self, gateways: dict[str, Gateway], gateway_id: str, until_s: float) -> None:
        gateway = gateways.get(gateway_id)
        if isinstance(gateway, RetainedGateway) and gateway.paused_until_s <= self._clock.now:
            topic = f"t/{self._random.randrange(TOPICS)}"
            self.published += 1
            payload = b"" if self._random.random() < 0.3 else b"%d" % self.published
            version = gateway.write(topic, payload)
            if version is not None:
                if version in self.contents:
                    self._checks.found(5, f"{gateway_id} makes {version} a second time")
                self.contents[version] = payload
        self._next(gateways, gateway_id, until_s)

    def handed(self, gateway: ReplicatingGateway, header: Header, first: int) -> None:
        """Check that clients were not given as news what the log brings (invariant 4).

        What the log hands out twice or out of order, `simulation` asks where no log is trimmed.
        """
        disk = self.disks[gateway.gateway_id]
        assert isinstance(disk, RetainedDisk)
        news = disk.news[header.stream]
        if news.missing(first, header.last) != [(first, header.last)]:
            what = f"{gateway.gateway_id} hands out {header} that clients had as news"
            self._checks.found(4, what)
        disk.handed[header.stream].add(first, header.last)

    def given_as_news(self, gateway_id: str, told: Retained) -> None:
        """Check that clients had it neither from the log nor as news before (invariant 4)."""
        disk = self.disks[gateway_id]
        assert isinstance(disk, RetainedDisk)
        had = told.number in disk.handed[told.stream]
        if had or not disk.news[told.stream].add(told.number, told.number):
            what = f"{gateway_id} gives {told.topic} {told.version} as news a second time"
            self._checks.found(4, what)

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Logs are trimmed here, so what is given up was somewhere."""
        self.given_up += lost.last - lost.first + 1

    def wrote(self, gateway_id: str, topic: str, seen: Version | None, version: Version) -> None:
        """Check that a write surpasses what its gateway had seen."""
        if seen is not None and version <= seen:
            self._checks.found(5, f"{gateway_id} writes {topic} {version} behind {seen}")

    def check_all_arrived(self, gateways: dict[str, Gateway], network: Network) -> None:
        """Check that all in reach of each other retain the same, and the newest."""
        paths = usable_paths(gateways, network)
        left = set(gateways)
        while left:
            reach = component(min(left), paths.__getitem__)
            left -= reach
            self._check_alike(sorted(reach), gateways)

    def _check_alike(self, reach: list[str], gateways: dict[str, Gateway]) -> None:
        newest: dict[str, Version] = {}
        for gateway_id in reach:
            disk = self.disks[gateway_id]
            assert isinstance(disk, RetainedDisk)
            for topic, version in disk.written.items():
                newest[topic] = max(version, newest.get(topic, version))
        first = gateways[reach[0]]
        assert isinstance(first, RetainedGateway)
        state = first.store.versions.state()
        for topic, version in newest.items():
            if state.get(topic, Version(0, 0, "", 0)) < version:
                self._checks.found(3, f"{first.gateway_id} lacks {topic} {version}")
        for gateway_id in reach:
            gateway = gateways[gateway_id]
            assert isinstance(gateway, RetainedGateway)
            for what in self._wrong(gateway, state):
                self._checks.found(3, what)

    def _wrong(self, gateway: RetainedGateway, state: dict[str, Version]) -> Iterator[str]:
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


class RetainedGateway(ReplicatingGateway):
    """A gateway that retains messages.

    Args:
        tree: see `ReplicatingGateway`; as the next six.
        clock: see there.
        network: see there.
        watch: see there.
        local: see there.
        disk: see there.
        traffic: see there.
        wall_us: what its wall clock shows when the simulation begins.

    """

    def __init__(
        self,
        tree: SpanningTree,
        clock: Clock,
        network: Network,
        watch: Watch,
        local: LocalClock,
        *,
        disk: RetainedDisk,
        traffic: RetainedTraffic,
        wall_us: int,
    ) -> None:
        self._retained_disk = disk
        self._retained_traffic = traffic
        self._wall_at_0_us = wall_us
        self._hybrid = HybridClock()
        self._synced: set[int] = set()
        self._sync_due_s = -1.0
        self._sync: RetainedSync | None = None
        super().__init__(tree, clock, network, watch, local, disk=disk, traffic=traffic)
        self.store = RetainedStore(self, disk, self.now)
        for version in self.store.versions.state().values():
            self._hybrid.observe(version.stamp, self._wall_us)
        self._sync = RetainedSync(self.store, self.replication, SETTLE_S)

    @property
    def _wall_us(self) -> int:
        return self._wall_at_0_us + int(self._clock.now * 1_000_000)

    # -- writing and reading -------------------------------------------------------------------

    def write(self, topic: str, payload: bytes) -> Version | None:
        """Accept a retained message of a client; its version, if the log has it."""
        seen = self.store.versions.version(topic)
        stamp = self._hybrid.stamp(self._wall_us, self.store.versions.stamp(topic))
        version = Version(*stamp, self.gateway_id, self.tree.identity.boot_epoch)
        self._retained_traffic.wrote(self.gateway_id, topic, seen, version)
        number = self.replication.next_logged
        entry = Entry(topic, payload, qos=1, retain=True, properties={VERSION: tuple(stamp)})
        if not self.publish([entry], Flags.LOGGED):
            return None
        self._retained_disk.written[topic] = version
        self._retain(entry, (self.gateway_id, self.tree.identity.boot_epoch), number)
        return version

    def is_told(self, told: Retained) -> None:
        """Clients are given what a neighbour told."""
        self._retained_traffic.given_as_news(self.gateway_id, told)

    def _retain(self, entry: Entry, stream: Epoch, number: int) -> None:
        version = stamped_version(entry.properties.get(VERSION), stream)
        self._hybrid.observe(version.stamp, self._wall_us)
        dead_s = None if entry.payload else 0.0
        self.store.has_come(entry.topic, version)
        where = entry.topic, version, number, entry.qos
        self.store.take(Retained(*where, entry.payload, {}, None, dead_s), self.now)

    # -- the shell -----------------------------------------------------------------------------

    def _replicate(self, actions: Iterable[Action]) -> None:
        for action in actions:
            super()._replicate((action,))
            match action:
                case Deliver(frame, header, first):
                    self._hand_out(frame, header, first)
                case DeliverLogged(stream, first, last):
                    for frame, header in self._disk.read(stream, Intervals([(first, last)])):
                        self._hand_out(frame, header, max(first, header.first))

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if header.control or header.passed:
            return
        for number, entry in enumerate(batch.decode(frame, header), header.first):
            if number >= first and entry.retain:
                self._retain(entry, header.stream, number)

    def link_up(self, end: End) -> None:
        """See `Gateway`."""
        super().link_up(end)
        if end.link in self.ends and self._sync is not None:
            self._synced.add(end.link)
            self._sync.link_up(end.link, self.now)
            self._set_sync_timer()

    def changed(self) -> None:
        """See `Gateway`."""
        super().changed()
        for link in sorted(self._synced - self.ends.keys()):
            self._synced.discard(link)
            if self._sync is not None:
                self._sync.link_down(link, self.now)
        self._set_sync_timer()

    def take(self, end: End, message: object) -> None:
        """See `Gateway`."""
        if isinstance(message, _Sync):
            if self._sync is not None:
                self._tell(self._sync.receive(end.link, message.payload, self.now))
            self._set_sync_timer()
        else:
            super().take(end, message)

    def _tell(self, sends: Iterable[Send]) -> None:
        for send in sends:
            end = self.ends.get(send.link)
            if end is not None:
                self._traffic.sent += 1
                self._network.send(end, _Sync(send.payload), DATA)

    def _set_sync_timer(self) -> None:
        due_s = float("inf") if self._sync is None else self._sync.next_timer()
        if due_s < float("inf") and due_s != self._sync_due_s:
            self._sync_due_s = due_s
            self._clock.at(self._local.virtual_s(due_s), partial(self._sync_tick, due_s))

    def _sync_tick(self, due_s: float) -> None:
        if not self.alive or due_s != self._sync_due_s or self._sync is None:
            return
        if self.paused_until_s > self._clock.now:
            self._clock.at(self.paused_until_s, partial(self._sync_tick, due_s))
            return
        self._sync_due_s = -1.0
        self._tell(self._sync.handle_timer(max(due_s, self.now)))
        self._set_sync_timer()


class RetainedSimulation(Simulation):
    """A network whose gateways retain messages, and newcomers at the end of the storm."""

    def make_traffic(self) -> Traffic:
        """See `Simulation`."""
        return RetainedTraffic(self.clock, self.checks, self.options.traffic_per_s, self._random)

    def storm(self) -> None:
        """See `Simulation`."""
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

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> RetainedOptions:
        """The options of a seed."""
        chance = random.Random(f"retained {seed} {gateways}")  # a seed, no secret
        return cls(
            seed,
            gateways,
            degree=chance.choice((0.0, 2.5)) if gateways <= FULL_MESH_AT_MOST else 2.5,
            delay_ms=chance.choice((1.0, 5.0, 20.0)),
            skew=chance.choice((0.0, 0.001)),
            traffic_per_s=chance.choice((2.0, 8.0)),
            quiet_s=35.0,
            log_batches=LOG_BATCHES,
            faults=FaultOptions(
                rate_per_s=chance.choice((1.0, 4.0)),
                outage_s=chance.choice((0.5, 2.0)),
                lasting=chance.choice((0.0, 0.2)),
            ),
        )

    @property
    def replay(self) -> str:
        """How to run this again."""
        if self == RetainedOptions.drawn(self.seed, self.gateways):
            same = f"--seed {self.seed} --gateways {self.gateways} --runs 1"
            return f"hedgerow simulate --retained {same}"
        return f"simulation_retained.run({self!r})"


def run(options: Options) -> Report:
    """Run one network from start to quiet."""
    simulation = RetainedSimulation(options)
    simulation.start_all()
    simulation.storm()
    return simulation.calm()


def run_many(runs: int, gateways: int, seed: int) -> Iterator[Report]:
    """Run the options drawn from the seeds ``seed``, ``seed + 1``, ... one after the other."""
    for number in range(seed, seed + runs):
        yield run(RetainedOptions.drawn(number, gateways))

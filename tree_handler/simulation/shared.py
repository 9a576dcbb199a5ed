"""Shared subscriptions in a simulated network: each message has one member, whatever breaks.

Clients join and leave shared subscriptions on all gateways while things break, and clients publish.
What is checked, beside what `traffic` checks of replication: no message is given to members on two
gateways (invariant 4), and once all is mended each message that some holder could have been chosen
for was given (invariant 3), for one gateway has a member all the time. A member whose gateway dies
with it has had what it was given.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar, Final, Self

from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.holders import Holders, SharedGroup
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.replication import ReplicationAction
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.sharing import claims, handed_on
from tree_handler.sharing.claims import DURABLE, ONLINE, Claims, OwnClaims
from tree_handler.sharing.groups import FleetGroups
from tree_handler.sharing.handed_on import HandedOn
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.faults import FaultOptions
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.network import DATA, End, Network
from tree_handler.simulation.replicating import ReplicatingGateway
from tree_handler.simulation.runs import FULL_MESH_AT_MOST, Options, Simulation
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.spanning_tree import SpanningTree

GROUPS: Final[tuple[SharedGroup, ...]] = (("g", "t/#"), ("h", "t/+"), ("i", "#"))
STEADFAST: Final = "gw-0"
"""This gateway has a member of each shared subscription, whose session lasts, all the time."""
TOGGLES: Final = 0.4
"""So often what clients do is to join or leave."""


@dataclass(slots=True)
class SharedDisk(Disk):
    """The disk of a gateway, and whose sessions last.

    Attributes:
        lasting: shared subscriptions with a member whose session outlives its gateway's death.

    """

    lasting: set[SharedGroup] = field(default_factory=set)


class SharedGateway(ReplicatingGateway):
    """A gateway with members of shared subscriptions.

    Args:
        start: see `ReplicatingGateway`.
        disk: see there.
        traffic: see there.

    """

    def __init__(self, start: Start, disk: SharedDisk, traffic: SharedTraffic) -> None:
        super().__init__(start, disk, traffic)
        self._shared_disk = disk
        self._shared_traffic = traffic
        self._online: set[SharedGroup] = set()
        self._locator = Locator(self.gateway_id, self.boot_epoch)
        self._heard: set[int] = set()
        self.groups = FleetGroups(self.gateway_id, self._distance)
        self.own = OwnClaims(self.gateway_id, self.boot_epoch)
        for frame, header in disk.told():
            for entry in batch.decode(frame, header):
                self._record(entry)
        for group in GROUPS:
            self._told_of(group)
        self._claims_timer = self.timer(self._claims_due)

    def begin(self) -> None:
        """Let time pass for the gateway and its claims."""
        super().begin()
        self._claims_due(self.now)

    def _distance(self, gateway_id: str) -> int:
        return 0 if any(e.peer.host.gateway_id == gateway_id for e in self.ends.values()) else 1

    @property
    def reached(self) -> frozenset[str]:
        """All other gateways in reach."""
        return self._locator.reached

    # -- clients ---------------------------------------------------------------------------------

    def presence(self, group: SharedGroup) -> int:
        """Return who is there of a shared subscription."""
        lasts = DURABLE if group in self._shared_disk.lasting else 0
        return lasts | (ONLINE if group in self._online else 0)

    def connect(self, group: SharedGroup, *, is_online: bool, lasts: bool) -> None:
        """Let a member come or go."""
        (self._online.add if is_online else self._online.discard)(group)
        lasting = self._shared_disk.lasting
        (lasting.add if lasts else lasting.discard)(group)
        self._told_of(group)
        self._claims_timer.set(self.own.next_timer())

    def _told_of(self, group: SharedGroup) -> None:
        self.own.changed(group, self.presence(group))

    def accept(self, topic: str, payload: bytes, qos: int) -> Holders | None:
        """Accept a client's message; whom it names, or None if the log refused it."""
        here = {group: self.presence(group) for group in GROUPS}
        holders = self.groups.choose(topic, qos, here)
        entry = Entry(topic, payload, qos, holders=holders)
        if not self.publish([entry], Flags.LOGGED if qos else Flags.NONE):
            return None
        self._give("", entry)
        return holders

    def _give(self, origin: str, entry: Entry) -> None:
        for group in GROUPS:
            if self.groups.gives(origin, entry.holders, group):
                if self.presence(group):
                    self._shared_traffic.given(self.gateway_id, group, entry.payload)
                elif origin and entry.qos:
                    self._hand_on(entry, group, 1)

    def _hand_on(self, entry: Entry, group: SharedGroup, hops: int) -> None:
        to = self.groups.next_holder(entry.topic, group) if hops <= handed_on.HOPS_MAX else None
        bare = Entry(entry.topic, entry.payload, entry.qos)
        if to is None:
            self._shared_traffic.unclaimed(group, entry.payload)
        else:
            self._control(handed_on.TOPIC + to, HandedOn(group, hops, bare).encode())

    def _control(self, topic: str, payload: bytes) -> None:
        self.publish([Entry(topic, payload, qos=1)], Flags.LOGGED | Flags.CONTROL)

    # -- the shell -------------------------------------------------------------------------------

    def _replicate(self, actions: Iterable[ReplicationAction]) -> None:
        for action in actions:
            super()._replicate((action,))
            match action:
                case Deliver(frame, header, first):
                    self._hand_out(frame, header, first)
                case DeliverLogged(stream, first, last):
                    for frame, header in self._disk.read(stream, Intervals([(first, last)])):
                        self._hand_out(frame, header, max(first, header.first))

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if header.passed:
            return
        for number, entry in enumerate(batch.decode(frame, header), header.first):
            if number < first:
                continue
            if not header.control:
                self._give(header.origin, entry)
            elif entry.topic == handed_on.TOPIC + self.gateway_id:
                handed = HandedOn.decode(entry.payload)
                if self.presence(handed.group):
                    self._shared_traffic.given(self.gateway_id, handed.group, handed.entry.payload)
                else:
                    self._hand_on(handed.entry, handed.group, handed.hops + 1)
            else:
                self._record(entry)

    def _record(self, entry: Entry) -> None:
        if entry.topic.startswith(claims.TOPIC):
            self.groups.update(Claims.decode(entry.payload))

    def _claims_due(self, now: float) -> None:
        record = self.own.take(now)
        if record is not None:
            self._control(claims.TOPIC + self.gateway_id, record.encode())
        self._claims_timer.set(self.own.next_timer())

    def changed(self) -> None:
        """Follow the tree, and tell neighbours whom this gateway reaches."""
        super().changed()
        for link in sorted(self._heard - self.ends.keys()):
            self._heard.discard(link)
            self._say_behind(self._locator.link_down(link))
        forwarding = {link for link, end in self.ends.items() if end.forwards}
        self._say_behind(self._locator.forwards(forwarding))

    def take(self, end: End, message: object) -> None:
        """Take in a message of the locator, or one of replication."""
        if isinstance(message, ReachUpdate):
            self._heard.add(end.link)
            self._say_behind(self._locator.receive(end.link, message))
        else:
            super().take(end, message)

    def _say_behind(self, news: dict[int, ReachUpdate]) -> None:
        for link, behind in news.items():
            self._heard.add(link)
            if link in self.ends:
                self._network.send(self.ends[link], ReachUpdate.decode(behind.encode()), DATA)
        self.groups.moved(self._locator.reached)


@dataclass(eq=False)
class SharedTraffic(SimulatedTraffic):
    """The traffic of clients that subscribe to shared subscriptions and publish to them.

    Attributes:
        took: the gateway whose member got a message, by shared subscription and payload.
        due: what is to be given in the end, likewise.

    """

    disks: dict[str, Disk] = field(default_factory=lambda: defaultdict(SharedDisk), init=False)
    took: dict[tuple[SharedGroup, bytes], str] = field(default_factory=dict, init=False)
    due: set[tuple[SharedGroup, bytes]] = field(default_factory=set, init=False)

    def gateway(self, start: Start) -> SharedGateway:
        """Return a life of a gateway with members of shared subscriptions."""
        gateway_id = start.tree.identity.gateway_id
        disk = self.disks[gateway_id]
        assert isinstance(disk, SharedDisk)
        if gateway_id == STEADFAST:
            disk.lasting.update(GROUPS)
        return SharedGateway(start, disk, self)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """Let a member come or go, or let a client publish."""
        assert isinstance(gateway, SharedGateway)
        if self.chance.random() < TOGGLES:
            group = self.chance.choice(GROUPS)
            lasts = gateway.gateway_id == STEADFAST or self.chance.random() < 0.3
            gateway.connect(group, is_online=self.chance.random() < 0.6, lasts=lasts)
            return
        payload = b"%d" % self.published
        qos = self.chance.choice((0, 1, 1, 2))
        topic = self.chance.choice(("t/1", "t", "u"))
        holders = gateway.accept(topic, payload, qos)
        if holders is None:
            return
        self.published += 1
        if qos:
            named = {(share, topic_filter) for share, topic_filter, _ in holders}
            self.due.update((group, payload) for group in named)

    def given(self, gateway_id: str, group: SharedGroup, payload: bytes) -> None:
        """Check that no other gateway's member got the message."""
        before = self.took.setdefault((group, payload), gateway_id)
        if before != gateway_id:
            what = f"{payload!r} for {group} is given at {before} and at {gateway_id}"
            self.checks.found(4, what)

    def unclaimed(self, group: SharedGroup, payload: bytes) -> None:
        """Drop what was due: its holder has not heard yet of who is always there."""
        self.due.discard((group, payload))

    def check_all_arrived(self, gateways: dict[str, Gateway], network: Network) -> None:
        """Check that all arrived; where all reach each other, what is due was given."""
        super().check_all_arrived(gateways, network)
        is_whole = all(
            isinstance(one, SharedGateway) and len(one.reached) == len(self.disks) - 1
            for one in gateways.values()
        )
        if is_whole and len(gateways) == len(self.disks):
            for group, payload in sorted(self.due - self.took.keys()):
                self.checks.found(3, f"nobody of {group} is given {payload!r}")


class SharedSimulation(Simulation):
    """A network with members of shared subscriptions."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = SharedTraffic


class SharedOptions(Options):
    """A run of a `SharedSimulation`."""

    __slots__ = ()

    @property
    def subject(self) -> str:
        """Return ``shared``."""
        return "shared"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed: no disk is lost or full, for what is only there goes with
        it."""
        chance = random.Random(f"shared {seed} {gateways}")  # a seed, no secret
        return cls(
            seed,
            gateways,
            degree=chance.choice((0.0, 2.5)) if gateways <= FULL_MESH_AT_MOST else 2.5,
            delay_ms=chance.choice((1.0, 5.0, 20.0)),
            traffic_per_s=chance.choice((4.0, 12.0)),
            quiet_s=35.0,
            hasty=True,
            faults=FaultOptions(
                rate_per_s=chance.choice((0.0, 1.0, 4.0)),
                outage_s=chance.choice((0.5, 2.0)),
                lose_disk=0.0,
                full_disk=0.0,
                lasting=chance.choice((0.0, 0.2)),
            ),
        )

    def simulation(self, make_tree: MakeTree = SpanningTree) -> SharedSimulation:
        """Return a simulation of shared subscriptions."""
        return SharedSimulation(self, make_tree)

"""Routed mode in the simulated network: who wants what comes and goes while things break.

Every gateway runs `Routed`, `Locator` and `OwnInterest` as in production, over `Replication` that
floods nothing of clients. Clients subscribe and unsubscribe, with wildcards, and publish on a
few topics. Checked besides what `simulation.traffic` checks: a message that its origin has
logged reaches every gateway of which the origin knew a filter that matches when it accepted it (3;
matched anew here, level by level); and no gateway logs a message that was not sent to it.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, cast

from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Append, Lost, Route
from tree_handler.routing.actions import Send, ServeRouted, Settle
from tree_handler.routing.interest import TOPIC, Interest, Interests, OwnInterest
from tree_handler.routing.locator import Behind, Locator
from tree_handler.routing.routed import Routed, Run, Ways
from tree_handler.routing.wire import Ask
from tree_handler.simulation.checks import right_roots
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.network import End, Network
from tree_handler.simulation.replicating import ReplicatingGateway
from tree_handler.simulation.runs import Options, Simulation
from tree_handler.simulation.traffic import Traffic
from tree_handler.spanning.spanning_tree import SpanningTree

TOPICS = ("a", "a/b", "a/b/c", "b", "b/c", "c//d")
FILTERS = ("#", "a/#", "a/+", "+/b", "+", "a/b/c", "b/#", "+/+/d", "$share/g/b/c")
BATCHES_FOR_EACH = 5
"""A log that is trimmed holds so many for each gateway: it must hold all their records."""
SERVED_AT_ONCE = 20
"""Batches sent for one request."""
READING_S = 0.002
"""How long the log takes to be read."""


@dataclass(slots=True)
class Ledger:
    """What became of every message, seen from outside.

    Attributes:
        due: by stream and number, whom the origin knew to want it.
        sent_to: those whom the origin named.

    """

    due: dict[tuple[Epoch, int], frozenset[str]] = field(default_factory=dict)
    sent_to: dict[tuple[Epoch, int], frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Behind:
    payload: bytes


@dataclass(frozen=True, slots=True)
class _Routed:
    payload: bytes


@dataclass(eq=False)
class RoutedTraffic(Traffic):
    """Messages of one network in routed mode; see `Traffic`.

    Attributes:
        ledger: what became of every message.
        saved: by gateway, what it has saved: position in its log, records, accounts.
        subscriptions: by gateway; sessions are durable.
        most_batches: a longer log is trimmed.

    """

    ledger: Ledger = field(default_factory=Ledger, init=False)
    saved: dict[str, tuple[int, list[bytes], list[Any]]] = field(default_factory=dict, init=False)
    subscriptions: dict[str, list[str]] = field(
        default_factory=lambda: defaultdict(list), init=False
    )
    most_batches: float = field(default=math.inf, init=False)

    def gateway(self, start: Start) -> RoutedGateway:
        """See `Traffic`."""
        return RoutedGateway(start, self.disk(start.tree.identity.gateway_id), self)

    def disk(self, gateway_id: str) -> Disk:
        """The disk of a gateway."""
        disk = self.disks[gateway_id]
        disk.most_batches = self.most_batches
        return disk

    def lose_disk(self, gateway_id: str) -> None:
        """See `Traffic`; what was saved was on it too."""
        super().lose_disk(gateway_id)
        self.saved.pop(gateway_id, None)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """See `Traffic`."""
        assert isinstance(gateway, RoutedGateway)
        chance = self.chance
        if chance.random() < 0.3:
            self._change_subscriptions(gateway)
        if chance.random() < 0.1:
            gateway.save()
        qos = chance.choice((0, 1, 1, 2))
        retain = qos > 0 and chance.random() < 0.1
        entries = [
            Entry(chance.choice(TOPICS), b"", qos=qos, retain=retain)
            for _ in range(chance.randrange(1, 4))
        ]
        self.published += gateway.publish(entries, Flags.LOGGED if qos else Flags.NONE)

    def _change_subscriptions(self, gateway: RoutedGateway) -> None:
        there, chance = self.subscriptions[gateway.gateway_id], self.chance
        if there and chance.random() < 0.4:
            gateway.unsubscribe(there.pop(chance.randrange(len(there))))
        else:
            there.append(chance.choice(FILTERS))
            gateway.subscribe(there[-1])

    def missing(self, gateways: dict[str, Gateway], network: Network) -> list[str]:
        """See `Traffic`; of clients' messages those that are due."""
        roots = right_roots(gateways, network)
        missing: list[str] = []
        for gateway_id in sorted(gateways):
            missing += self._astray(gateway_id)
            # The tree is the only way there: a leaf between two islands does not join them.
            for other in sorted(gateways.keys() - {gateway_id}):
                if roots[other] == roots[gateway_id]:
                    missing += self._missing_of(gateway_id, other)
                    missing += self._unknown_to(gateways[gateway_id], gateways[other])
        return missing

    def _astray(self, gateway_id: str) -> Iterator[str]:
        for _, header in self.disks[gateway_id].log:
            if header.passed or header.control or header.origin == gateway_id:
                continue
            for number in range(header.first, header.last + 1):
                if gateway_id not in self.ledger.sent_to[header.stream, number]:
                    yield f"{gateway_id} has {header}, not sent to it"

    def _missing_of(self, gateway_id: str, origin_id: str) -> Iterator[str]:
        disk = self.disks[gateway_id]
        for _, header in self.disks[origin_id].log:
            if header.origin != origin_id or header.passed:
                continue
            due = Intervals()
            for number in range(header.first, header.last + 1):
                to = self.ledger.due.get((header.stream, number))
                if header.control or (to is not None and gateway_id in to):
                    due.add(number, number)
            got = disk.have[header.stream].without(disk.passed[header.stream])
            if len(lost := due.without(got)):
                yield f"{gateway_id} lacks {header.stream} {lost}"
            elif len(kept_back := due.without(disk.handed[header.stream])):
                yield f"{gateway_id} keeps {header.stream} {kept_back} from clients"

    def _unknown_to(self, gateway: Gateway, other: Gateway) -> Iterator[str]:
        assert isinstance(gateway, RoutedGateway)
        assert isinstance(other, RoutedGateway)
        told = other.interests.get(other.gateway_id)
        if gateway.interests.get(other.gateway_id) != told:
            yield f"{gateway.gateway_id} does not know what {other.gateway_id} wants: {told}"

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """See `Traffic`; clients' messages are had from their origin alone."""
        origin = lost.stream[0]
        if origin.startswith(CONTROL_PREFIX):
            super().lost(gateway_id, network, lost)
            return
        self.given_up += lost.last - lost.first + 1
        wanted = Intervals([(lost.first, lost.last)])
        if any(not header.passed for _, header in self.disks[origin].read(lost.stream, wanted)):
            self.checks.found(3, f"{gateway_id} gives up {lost}, which {origin} has")


class RoutedGateway(ReplicatingGateway):
    """A gateway in routed mode; see `ReplicatingGateway`.

    Args:
        start: see there.
        disk: see there.
        traffic: see there.
        ways: who knows shorter ways.

    """

    floods_clients: ClassVar = False
    origin_gone_s: ClassVar = math.inf
    """Nothing is given up, so whatever would be waited for without end shows."""

    def __init__(
        self, start: Start, disk: Disk, traffic: RoutedTraffic, ways: Ways | None = None
    ) -> None:
        super().__init__(start, disk, traffic)
        own = start.tree.identity
        self._ledger = traffic.ledger
        self._saved = traffic.saved
        self._run = Run([], frozenset())
        self._full: set[int] = set()
        self.locator = Locator(own.gateway_id)
        self.interests = Interests(own.gateway_id)
        self.routed = Routed(self.replication, self.interests, self.locator, ways)
        self.own = OwnInterest(own.gateway_id, own.boot_epoch, transit=own.transit)
        for topic_filter in traffic.subscriptions[own.gateway_id]:
            self.own.subscribed(topic_filter)
        self._recall()
        self._routed_timer = self.timer(self._routed_due)

    # -- what a restart finds --------------------------------------------------------------------

    def save(self) -> None:
        """Keep what the log need not be read for again."""
        self._saved[self.gateway_id] = (
            self._disk.trimmed + len(self._disk.log),
            [record.encode() for record in self.interests],
            self.routed.accounts.save(),
        )

    def _recall(self) -> None:
        position, records, accounts = self._saved.get(self.gateway_id, (0, [], []))
        if position > self._disk.trimmed + len(self._disk.log):  # another disk
            position, records, accounts = 0, [], []
        for record in records:
            self.interests.update(Interest.decode(record))
        self.routed.accounts.load(accounts, self.now)
        for frame, header in self._disk.log[max(0, position - self._disk.trimmed) :]:
            self.routed.recall(frame, header, self.now)
        self._trimmed()

    def _repair_due(self, now: float) -> None:
        super()._repair_due(now)
        if len(self._disk.log) > self._disk.most_batches:
            self.save()  # the file is never older than the log
            self._disk.trim()
            self._trimmed()
            self._set_timer()

    def _trimmed(self) -> None:
        kept_from = self._disk.kept_from()
        self.replication.trimmed(kept_from)
        self.routed.trimmed(kept_from)
        self.own.trimmed(kept_from)

    # -- clients ---------------------------------------------------------------------------------

    def subscribe(self, topic_filter: str) -> None:
        """A client subscribes."""
        self.own.subscribed(topic_filter)
        self._set_timer()

    def unsubscribe(self, topic_filter: str) -> None:
        """A client's subscription ends."""
        self.own.unsubscribed(topic_filter)
        self._set_timer()

    def publish(self, entries: list[Entry], flags: int) -> int:
        """See `ReplicatingGateway`."""
        before = self.replication.counters.published
        for run in self.routed.runs([entry.row() for entry in entries]):
            self._run = run
            self._replicate(self.replication.publish(run.rows, flags, 0))
        self._set_timer()
        return self.replication.counters.published - before

    def _tell_interest(self, now: float) -> None:
        record = self.own.take(now)
        if record is not None:
            row = Entry(TOPIC + record.gateway_id, record.encode(), qos=1).row()
            flags = Flags.LOGGED | Flags.CONTROL
            if self._disk.full_until_s <= self._clock.now:
                self.interests.update(record)
            else:
                self.own.refused()
            self._replicate(self.replication.publish([row], flags, 0))

    # -- links -----------------------------------------------------------------------------------

    def take(self, end: End, message: object) -> None:
        """See `ReplicatingGateway`."""
        if isinstance(message, _Behind):
            self._tell_behind(self.locator.receive(end.link, Behind.decode(message.payload)))
        elif isinstance(message, _Routed):
            self._replicate(self.routed.receive(end.link, message.payload, self.now))
        super().take(end, message)

    def _follow_tree(self) -> None:
        gone = self._told - self.ends.keys()
        super()._follow_tree()
        for link in gone:
            self._tell_behind(self.locator.link_down(link))
        self._tell_behind(self.locator.forwards(self.tree.forwarding & self.ends.keys()))

    def link_full(self, end: End) -> None:
        """See `Gateway`; the origin's log is the queue."""
        super().link_full(end)
        self._full.add(end.link)

    def link_drained(self, end: End) -> None:
        """See `Gateway`."""
        super().link_drained(end)
        self._full.discard(end.link)

    def _tell_behind(self, news: dict[int, Behind]) -> None:
        for link, behind in news.items():
            self._say(link, _Behind(behind.encode()))
        self.routed.moved(self.now)

    # -- carrying out ----------------------------------------------------------------------------

    def _replicate(self, actions: Iterable[Any]) -> None:
        for action in actions:
            match action:
                case Route(frame, header):
                    self._note(frame, header)
                    self._replicate(self.routed.accepted(frame, header, self._run, self.now))
                case Send(link, payload):
                    if link in self._full and action.is_batch and not action.unlogged:
                        self.routed.counters["link_full"] += 1
                    else:
                        self._say(link, _Routed(payload))
                case Settle(stream, last):
                    self._replicate(self.routed.settle(stream, last))
                case ServeRouted(ask, wanted):
                    self._clock.at(self._clock.now + READING_S, partial(self._serve, ask, wanted))
                case Append(frame, header) if header.control and header.logged:
                    super()._replicate([action])
                    if self._disk.have[header.stream].covers(header.first, header.last):
                        self._learn(frame, header)
                case _:
                    super()._replicate([action])

    def _learn(self, frame: bytes, header: Header) -> None:
        for entry in batch.decode(frame, header):
            if entry.topic.startswith(TOPIC):
                record = Interest.decode(entry.payload)
                self.routed.update(record, self.now)
                self.own.logged(record, header.first)

    def _serve(self, ask: Ask, wanted: Intervals) -> None:
        if not self.alive:
            return
        frames = self._disk.read(ask.stream, wanted)
        is_all = len(frames) <= SERVED_AT_ONCE
        self._replicate(self.routed.served(ask, frames[:SERVED_AT_ONCE], is_all=is_all))

    def _note(self, frame: bytes, header: Header) -> None:
        """Match the messages anew, against the records that are known here."""
        if header.control:
            return
        for number, entry in enumerate(batch.decode(frame, header), header.first):
            due = {
                record.gateway_id
                for record in self.interests
                if record.gateway_id != self.gateway_id
                and (
                    entry.retain
                    or any(
                        _matches(f.split("/"), entry.topic.split("/")) for f in record.subscribes
                    )
                )
            }
            if header.logged:
                self._ledger.due[header.stream, number] = frozenset(due)
                self._ledger.sent_to[header.stream, number] = self._run.to

    # -- time ------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        super()._set_timer()
        self._routed_timer.set(min(self.routed.next_timer(), self.own.next_timer()))

    def _routed_due(self, now: float) -> None:
        self._replicate(self.routed.handle_timer(now))
        self._tell_interest(now)
        self._set_timer()


def _matches(wanted: list[str], levels: list[str]) -> bool:
    """Section 4.7 of MQTT 5.0 as it is written, for topics that do not begin with ``$``."""
    if not wanted:
        return not levels
    if wanted[0] == "#":
        return True
    return bool(levels) and wanted[0] in ("+", levels[0]) and _matches(wanted[1:], levels[1:])


class RoutedSimulation(Simulation):
    """A network in routed mode; see `Simulation`."""

    traffic_of = RoutedTraffic

    def __init__(self, options: RoutedOptions, make_tree: MakeTree = SpanningTree) -> None:
        super().__init__(options, make_tree)
        cast(RoutedTraffic, self.traffic).most_batches = options.most_batches


@dataclass(frozen=True)
class RoutedOptions(Options):
    """A run of a `RoutedSimulation`, drawn as `Options` are.

    Attributes:
        most_batches: a longer log is trimmed.

    """

    most_batches: float = math.inf

    @property
    def subject(self) -> str:
        """See `Options`."""
        return "routed"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """The options of a seed, those of `Options` included."""
        chance = random.Random(f"routed {seed} {gateways}")  # a seed, no secret
        most_batches = chance.choice((math.inf, math.inf, BATCHES_FOR_EACH * gateways))
        return replace(super().drawn(seed, gateways), most_batches=most_batches)

    def simulation(self, make_tree: MakeTree = SpanningTree) -> RoutedSimulation:
        """See `Options`."""
        return RoutedSimulation(self, make_tree)

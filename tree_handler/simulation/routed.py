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
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, ClassVar, Self, cast

from light_dataclasses import dataclass
from tree_handler.batch import CONTROL_PREFIX, Entry, Epoch, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.epochs_over import is_over
from tree_handler.replication.losses import UNDER_WAY_INTERVALS
from tree_handler.replication.replication import Lost
from tree_handler.simulation.checks import right_roots
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.network import Network
from tree_handler.simulation.replicating import REPAIR_INTERVAL_S, ReplicatingGateway
from tree_handler.simulation.routed_gateway import Ledger, RoutedGateway
from tree_handler.simulation.runs import Options, Simulation
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.spanning_tree import SpanningTree

TOPICS = ("a", "a/b", "a/b/c", "b", "b/c", "c//d")
FILTERS = ("#", "a/#", "a/+", "+/b", "+", "a/b/c", "b/#", "+/+/d", "$share/g/b/c")
BATCHES_FOR_EACH = 5
"""A log that is trimmed holds so many for each gateway: it must hold all their records."""


@dataclass(eq=False)
class RoutedTraffic(SimulatedTraffic):
    """Messages of one network in routed mode; see `SimulatedTraffic`.

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
    most_batches: float = field(default_factory=lambda: math.inf, init=False)
    _told_lost: dict[tuple[str, Epoch], Intervals] = field(
        default_factory=lambda: defaultdict(Intervals), init=False
    )
    """Numbers that a gateway has told as lost: an older card, or one that was off, may bring them
    to their origin later."""
    _swapped_at: dict[str, float] = field(default_factory=dict, init=False)
    _saved_cards: dict[str, tuple[int, list[bytes], list[Any]] | None] = field(
        default_factory=dict, init=False
    )
    """The state that was saved on the cards that were put by."""

    def gateway(self, start: Start) -> RoutedGateway:
        """Return a life of a gateway that routes messages."""
        return RoutedGateway(start, self.disk(start.tree.identity.gateway_id), self)

    def disk(self, gateway_id: str) -> Disk:
        """Return the disk of a gateway, which holds no more batches than this run lets it."""
        disk = self.disks[gateway_id]
        disk.most_batches = self.most_batches
        return disk

    def lose_disk(self, gateway_id: str) -> None:
        """Let a gateway that is down find nothing; what was saved was on the disk too."""
        super().lose_disk(gateway_id)
        self.saved.pop(gateway_id, None)
        self.ledger.records.pop(gateway_id, None)

    def lose_tail(self, gateway_id: str) -> None:
        """Let a gateway find a log without its end; nothing says that there was more."""
        super().lose_tail(gateway_id)
        self.ledger.records.pop(gateway_id, None)

    def swap_card(self, gateway_id: str) -> None:
        """Swap the card of a gateway that is down; what was saved is on the card."""
        there = self.disks[gateway_id]
        self._swapped_at[gateway_id] = self.clock.now
        super().swap_card(gateway_id)
        self.ledger.records.pop(gateway_id, None)
        saved = self.saved.get(gateway_id)
        if self.disks[gateway_id] is there:
            self._saved_cards[gateway_id] = saved
        else:
            put_by, self._saved_cards[gateway_id] = self._saved_cards.get(gateway_id), saved
            if put_by is None:
                self.saved.pop(gateway_id, None)
            else:
                self.saved[gateway_id] = put_by

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """Let clients change subscriptions, and publish."""
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
        """Return what a gateway lacks; of clients' messages only those that are due."""
        roots = right_roots(gateways, network)
        missing: list[str] = []
        for gateway_id in sorted(gateways):
            missing += self._astray(gateway_id)
            # The tree is the only way there: a leaf between two islands does not join them.
            for other in sorted(gateways.keys() - {gateway_id}):
                if roots[other] == roots[gateway_id]:
                    missing += self._missing_of(gateway_id, other)
                    missing += self._kept_back(gateway_id, other)
                    missing += self._unknown_to(gateways[gateway_id], gateways[other])
        return missing

    def _astray(self, gateway_id: str) -> Iterator[str]:
        for _, header in self.disks[gateway_id].log:
            if header.passed or header.control or header.origin == gateway_id:
                continue
            for number in range(header.first, header.last + 1):
                if number in self.ledger.for_everybody[header.stream]:
                    continue
                if gateway_id not in self.ledger.sent_to[header.stream, number]:
                    yield f"{gateway_id} has {header}, not sent to it"

    def _missing_of(self, gateway_id: str, origin_id: str) -> Iterator[str]:
        disk = self.disks[gateway_id]
        for _, header in self.disks[origin_id].log:
            if header.origin != origin_id or header.passed:
                continue
            if header.control and self._is_over_around(gateway_id, header.stream):
                continue
            due = Intervals()
            for number in range(header.first, header.last + 1):
                to = self.ledger.due.get((header.stream, number))
                if header.control or (to is not None and gateway_id in to):
                    due.add(number, number)
            due = due.without(self._told_lost[gateway_id, header.stream])
            got = disk.have[header.stream].without(disk.passed[header.stream])
            if len(lost := due.without(got)):
                yield f"{gateway_id} lacks {header.stream} {lost}"
            kept_back = due.without(disk.handed[header.stream])
            if self.most_batches < math.inf and len(kept_back):  # some waited until it was trimmed
                kept_back = kept_back.common(disk.holds()[header.stream])
            if len(kept_back) and not len(lost):
                yield f"{gateway_id} keeps {header.stream} {kept_back} from clients"

    def _is_over_around(self, gateway_id: str, stream: Epoch) -> bool:
        """Return whether all its neighbours have forgotten a life.

        It hears nothing of it then, though a log farther off may hold some (decision 17).
        """
        near = [end.peer.host.gateway_id for end in self._gateways[gateway_id].ends.values()]
        return bool(near) and all(is_over(self.disks[one].have, stream) for one in near)

    def _kept_back(self, gateway_id: str, origin_id: str) -> Iterator[str]:
        """Give what came of an origin that is there and waits, though its origin may lack it."""
        disk = self.disks[gateway_id]
        for stream, there in disk.holds().items():
            if stream[0] == origin_id and len(kept_back := there.without(disk.handed[stream])):
                yield f"{gateway_id} keeps {stream} {kept_back} from clients"

    def _unknown_to(self, gateway: Gateway, other: Gateway) -> Iterator[str]:
        assert isinstance(gateway, RoutedGateway)
        assert isinstance(other, RoutedGateway)
        told = other.interests.get(other.gateway_id)
        if gateway.interests.get(other.gateway_id) != told:
            yield f"{gateway.gateway_id} does not know what {other.gateway_id} wants: {told}"

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Check that lost messages are nowhere: those of clients, only at their origin."""
        origin = lost.stream[0]
        wanted = Intervals([(lost.first, lost.last)])
        self._told_lost[gateway_id, lost.stream].update(wanted)
        if origin.startswith(CONTROL_PREFIX):
            super().lost(gateway_id, network, lost)
            return
        self.given_up += lost.last - lost.first + 1
        if (
            self.clock.now - self._swapped_at.get(origin, -math.inf)
            < UNDER_WAY_INTERVALS * REPAIR_INTERVAL_S
        ):
            return  # that was the word of the card before, which had lost it
        if any(not header.passed for _, header in self.disks[origin].read(lost.stream, wanted)):
            self.checks.found(3, f"{gateway_id} gives up {lost}, which {origin} has")


class RoutedSimulation(Simulation):
    """A network in routed mode; see `Simulation`."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = RoutedTraffic

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
        """Return ``routed``."""
        return "routed"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed, those of `Options` included."""
        return cls.routed_network(seed, gateways)

    @classmethod
    def routed_network(cls, seed: int, gateways: int) -> Self:
        """Return what is drawn alike for all subjects in which messages are routed."""
        chance = random.Random(f"routed {seed} {gateways}")  # a seed, no secret
        most_batches = chance.choice((math.inf, math.inf, BATCHES_FOR_EACH * gateways))
        drawn = cls.any_network(seed, gateways)
        disks = random.Random(f"disks {seed} {gateways}")
        faults = drawn.faults.with_damaged_disks(disks)
        return replace(drawn, faults=faults, most_batches=most_batches)

    def simulation(self, make_tree: MakeTree = SpanningTree) -> RoutedSimulation:
        """Return a simulation of routed messages."""
        return RoutedSimulation(self, make_tree)

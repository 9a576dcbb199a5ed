"""Messages in the simulated network, and the proof that none is lost or doubled.

Gateways accept messages of clients while things break. What is checked (tree-protocol,
invariants 3 to 7): a message in a log at the end is in the log of every gateway in reach; no
client is handed a message twice as long as its gateway keeps its disk, nor one of QoS 0 in one
life of it; messages of one origin come in its order; what waits behind a gap is bounded; and
once all have everything nothing more is sent. A disk that is lost may take with it what was on
no other.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from functools import partial

from light_dataclasses import dataclass
from tree_handler import boot_epoch
from tree_handler.batch import CONTROL_PREFIX, MAX_NUMBER, NOTE_PREFIX, Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import MAX_HELD_BYTES
from tree_handler.replication.epochs_over import is_over
from tree_handler.replication.replication import Lost, Replication
from tree_handler.simulation.checks import Checks, component, linked, usable_paths, within_reach
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Gateway, Start
from tree_handler.simulation.network import Clock, Network
from tree_handler.simulation.replicating import Receiver, ReplicatingGateway
from tree_handler.spanning.election import Identity

SEEKING_S = 0.5
"""A neighbour that linked longer ago than this is asked, and what it has is here."""
MOST_DAMAGED = 12
"""Batches that a log loses at once."""
CONTROL_SHARE = 0.2
"""Of the batches: those between gateways, which are a stream of their own."""


@dataclass(eq=False)
class SimulatedTraffic:
    """The messages of one network.

    Attributes:
        clock: virtual time.
        checks: is told of what does not hold.
        rate_per_s: batches that each gateway accepts in a second.
        chance: the only source of chance.
        disks: by gateway.
        published: messages accepted.
        sent: messages of replication sent between gateways.
        given_up: messages that gateways gave up, each counted once for each of them.
        forgotten: streams that gateways forgot, each counted once for each of them.
        log_batches: a log is trimmed when it has more; 0 for never.

    """

    clock: Clock
    checks: Checks
    rate_per_s: float
    chance: random.Random
    disks: dict[str, Disk] = field(default_factory=lambda: defaultdict(Disk), init=False)
    published: int = field(default_factory=int, init=False)
    sent: int = field(default_factory=int, init=False)
    given_up: int = field(default_factory=int, init=False)
    forgotten: int = field(default_factory=int, init=False)
    log_batches: int = field(default_factory=int, init=False)
    _lost_disks: set[str] = field(default_factory=set, init=False)
    _cards: dict[str, Disk] = field(default_factory=dict, init=False)
    """Copies of disks that were put by."""
    _gateways: dict[str, Gateway] = field(default_factory=dict, init=False)

    def gateway(self, start: Start) -> ReplicatingGateway:
        """Return a life of a gateway with replication under it, on its disk."""
        disk = self.disks[start.tree.identity.gateway_id]
        if self.log_batches:
            disk.most_batches = float(self.log_batches)
        return ReplicatingGateway(start, disk, self)

    def standing(self, identity: Identity) -> Identity:
        """Return a gateway as it stands for election in its next life."""
        return identity

    def begin(self, gateways: dict[str, Gateway], until_s: float) -> None:
        """Let clients publish at every gateway that is up, until a time."""
        self._gateways = gateways
        if self.rate_per_s > 0:
            for gateway_id in sorted(gateways):
                self._next(gateways, gateway_id, until_s)

    def _next(self, gateways: dict[str, Gateway], gateway_id: str, until_s: float) -> None:
        at_s = self.clock.now + self.chance.expovariate(self.rate_per_s)
        if at_s < until_s:
            self.clock.at(at_s, partial(self._publish, gateways, gateway_id, until_s))

    def _publish(self, gateways: dict[str, Gateway], gateway_id: str, until_s: float) -> None:
        gateway = gateways.get(gateway_id)
        if isinstance(gateway, ReplicatingGateway) and gateway.paused_until_s <= self.clock.now:
            self.clients_of(gateway)
        self._next(gateways, gateway_id, until_s)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """Let clients of a gateway do something."""
        qos = self.chance.choice((0, 1, 1, 2))
        entries = [Entry("t", b"", qos=qos)] * self.chance.randrange(1, 4)
        flags = Flags.LOGGED if qos else Flags.NONE
        if qos and self.chance.random() < CONTROL_SHARE:
            flags |= Flags.CONTROL
        self.published += gateway.publish(entries, flags)

    def lose_disk(self, gateway_id: str) -> None:
        """Let a gateway that is down find nothing of what it had."""
        self.disks[gateway_id] = Disk()
        self._lost_disks.add(gateway_id)

    def lose_tail(self, gateway_id: str) -> None:
        """Let a gateway that is down find a log without its last batches."""
        disk = self._damaged(gateway_id)
        count = self.chance.randrange(1, MOST_DAMAGED + 1)
        disk.lose(max(0, len(disk.log) - count), count)

    def lose_page(self, gateway_id: str) -> None:
        """Let a gateway that is down find a log of which it can't read a part."""
        disk = self._damaged(gateway_id)
        count = self.chance.randrange(1, MOST_DAMAGED + 1)
        if len(disk.log) > count:
            disk.lose(self.chance.randrange(len(disk.log) - count), count)

    def rot(self, gateway_id: str) -> None:
        """Let a gateway that runs find that it can't read a part of its log any more."""
        gateway = self._gateways[gateway_id]
        count = self.chance.randrange(1, MOST_DAMAGED + 1)
        there = len(self.disks[gateway_id].log)
        if isinstance(gateway, ReplicatingGateway) and there > count:
            disk = self._damaged(gateway_id)
            lost = disk.lose(self.chance.randrange(there - count), count)
            for stream, numbers in lost.items():
                if Replication.is_clients(stream):
                    # An origin that has lost a page too may send what it passed over before.
                    done = gateway.replication.handed_out(stream)
                    disk.again[stream].update(numbers.without(_behind(done)))
                    disk.handed[stream] = disk.handed[stream].without(numbers)
            gateway.has_lost(lost)

    def swap_card(self, gateway_id: str) -> None:
        """Let a gateway that is down have an older copy of its disk, or the newer one again."""
        there = self._damaged(gateway_id)
        put_by = self._cards.get(gateway_id)
        self._cards[gateway_id] = copy.deepcopy(there)
        if put_by is not None:
            put_by.boot_epoch = boot_epoch.after(
                put_by.boot_epoch or 0, self.chance.getrandbits(64)
            )
            self.disks[gateway_id] = put_by

    def _damaged(self, gateway_id: str) -> Disk:
        """Return a disk that is about to be damaged: what others have of it may now come late."""
        self._lost_disks.add(gateway_id)
        disk = self.disks[gateway_id]
        disk.is_damaged = True
        return disk

    def handed(self, gateway: Receiver, header: Header, first: int) -> None:
        """Check what a gateway hands its clients (invariants 4 and 5)."""
        gateway_id, numbers = gateway.gateway_id, gateway.handed(header)
        again = self.disks[gateway_id].again
        if header.logged and again[header.stream].covers(first, header.last):
            numbers.add(first, header.last)
            again[header.stream] = again[header.stream].without(Intervals([(first, header.last)]))
            return
        last = numbers.last
        if numbers.add(first, header.last) != header.last - first + 1:
            self.checks.found(4, f"{gateway_id} hands out {header} from {first} on a second time")
        elif header.logged and first <= last:
            self.checks.found(5, f"{gateway_id} hands out {header} behind {last}")
        self._check_epochs(gateway_id, header)

    def _check_epochs(self, gateway_id: str, header: Header) -> None:
        """Check order across the lives of an origin, as far as it can know of them all."""
        if header.control or not header.logged or header.origin in self._lost_disks:
            return
        latest, had = self.disks[gateway_id].latest, self.disks[gateway_id].had
        if had[header.stream].covers(header.first, header.last):
            return
        is_forgotten = is_over(self.disks[header.origin].have, header.stream)
        if header.epoch < latest.get(header.origin, 0) and not is_forgotten:
            what = f"{gateway_id} hands out {header} behind epoch {latest[header.origin]}"
            self.checks.found(5, what)
        latest[header.origin] = header.epoch

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Check that what a gateway gives up is nowhere within its reach (invariant 3)."""
        self.given_up += lost.last - lost.first + 1
        paths = within_reach(self._gateways, network, self.clock.now)
        if self.log_batches:  # who was not linked yet, when it was sought, may hold it alone
            paths = linked(self._gateways, network, self.clock.now - SEEKING_S)
        wanted = Intervals([(lost.first, lost.last)])
        for other in component(gateway_id, paths.__getitem__):
            if any(not header.passed for _, header in self.disks[other].read(lost.stream, wanted)):
                self.checks.found(3, f"{gateway_id} gives up {lost}, of which {other} has some")

    def check_all_arrived(self, gateways: dict[str, Gateway], network: Network) -> None:
        """Check that all in reach of each other have the same, and handed it out (invariant 3)."""
        for what in self.missing(gateways, network):
            self.checks.found(3, what)

    def missing(self, gateways: dict[str, Gateway], network: Network) -> list[str]:
        """Return what a gateway lacks that another in reach has, or keeps from its clients."""
        paths = usable_paths(gateways, network)
        missing: list[str] = []
        left = set(gateways)
        while left:
            reach = component(min(left), paths.__getitem__)
            left -= reach
            if self.log_batches and len(reach) == 1:
                continue  # what others have trimmed it may wait for, until there is whom to ask
            together: dict[Epoch, Intervals] = defaultdict(Intervals)
            for gateway_id in reach:
                disk = self.disks[gateway_id]
                found = disk.holds() if self.log_batches else disk.have
                for epoch, numbers in found.items():
                    if numbers != together[epoch]:
                        together[epoch].update(numbers)
            for gateway_id in sorted(reach):
                missing += self._missing_at(gateway_id, together, paths)
        return missing

    def _missing_at(
        self, gateway_id: str, together: dict[Epoch, Intervals], paths: dict[str, set[str]]
    ) -> Iterator[str]:
        disk = self.disks[gateway_id]
        for epoch, numbers in together.items():
            if epoch[0].startswith(NOTE_PREFIX):
                continue
            if gateway_id in self._lost_disks and is_over(disk.have, epoch):
                continue  # its log knew of no more, and kept nothing of it
            lost = numbers.without(disk.have[epoch])
            if len(lost) and self._can_hear_of(gateway_id, epoch, lost, paths):
                yield f"{gateway_id} lacks {epoch} {lost} that others have"
            # Behind a number that a lost disk took with it the later ones wait.
            due = disk.have[epoch].contiguous_from(1)
            if not due or epoch[0] == CONTROL_PREFIX + gateway_id:
                continue
            if epoch == (gateway_id, disk.boot_epoch):  # its clients have them from the broker
                continue
            kept_back = Intervals([(1, due)]).without(disk.handed[epoch])
            kept_back = kept_back.without(disk.passed[epoch])
            if self.log_batches and len(kept_back):  # some waited until it was trimmed
                kept_back = kept_back.common(disk.holds()[epoch])
            if len(kept_back):
                yield f"{gateway_id} keeps {epoch} {kept_back} from clients"

    def _can_hear_of(
        self, gateway_id: str, epoch: Epoch, lost: Intervals, paths: dict[str, set[str]]
    ) -> bool:
        """Return whether any of these numbers is held on a way that others have not forgotten.

        Those on the way may forget the epoch once their own log has nothing of it.
        """

        def onward(at: str) -> set[str]:
            disk = self.disks[at]
            may_forget = at != gateway_id and not disk.holds()[epoch]
            return set() if may_forget and is_over(disk.have, epoch) else paths[at]

        return any(
            len(self.disks[at].holds()[epoch].common(lost)) > 0
            for at in component(gateway_id, onward)
        )

    def check_bounded(self, gateway_id: str, held_bytes: int) -> None:
        """Check what a gateway keeps in memory (invariant 6)."""
        if held_bytes > MAX_HELD_BYTES:
            self.checks.found(6, f"{gateway_id} holds {held_bytes} bytes behind gaps")

    def check_nothing_open(self, gateways: dict[str, Gateway]) -> None:
        """Check that no exchange is open at either end (invariant 7)."""
        for gateway_id, gateway in gateways.items():
            waits_for = gateway.waits_for() if isinstance(gateway, ReplicatingGateway) else ()
            for what in waits_for:
                self.checks.found(7, f"{gateway_id} still waits for {what}")

    def check_quiet(self, before: int) -> None:
        """Check that nothing was sent since ``sent`` was so many (invariant 7)."""
        if self.sent > before:
            self.checks.found(7, f"replication sent {self.sent - before} messages in still time")


def _behind(number: int) -> Intervals:
    return Intervals([(number + 1, MAX_NUMBER)])

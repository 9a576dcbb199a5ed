"""Messages in the simulated network: `Replication` and a log under every gateway, and its proof.

Gateways accept messages of clients while things break. What is checked (tree-protocol,
invariants 3 to 7): a message in a log at the end is in the log of every gateway in reach; no
client is handed a message twice as long as its gateway keeps its disk, nor one of QoS 0 in one
life of it; messages of one origin come in its order; what waits behind a gap is bounded; and
once all have everything nothing more is sent. A disk that is lost may take with it what was on
no other.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX, Entry, Epoch, Flags, Header, check
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import MAX_HELD_BYTES, Deliver, DeliverLogged
from tree_handler.replication.repair import Request, Seek, Sought, Summary, answer
from tree_handler.replication.replication import (
    Action,
    Append,
    Forget,
    Look,
    Lost,
    Push,
    Replication,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)
from tree_handler.simulation.checks import Checks, component, linked, usable_paths
from tree_handler.simulation.gateway import Gateway, LocalClock, Watch
from tree_handler.simulation.network import DATA, Clock, End, Network
from tree_handler.spanning import boot_epoch
from tree_handler.spanning.spanning_tree import SpanningTree

REPAIR_INTERVAL_S = 1.0
ORIGIN_GONE_S = 3.0
KEPT_LIVES = 0
"""Epochs are forgotten as early as it may be, so that much is."""
CONTROL_SHARE = 0.2
"""Of the batches: those between gateways, which are a stream of their own."""


@dataclass(slots=True)
class Disk:
    """What survives the lives of one gateway, and what its clients were handed.

    Attributes:
        log: batches in the order in which they were appended.
        have: the numbers that the log holds, or held before it was trimmed, and was told to forget.
        trimmed: how many of its oldest batches the log has dropped.
        handed: for each origin and epoch, the numbers that clients got, or can't get any more
            because their gateway died after it had logged them.
        passed: the numbers that statements pass over, those of lost messages too.
        full_until_s: nothing can be appended before this virtual time.
        boot_epoch: of the last start, None if there was none on this disk.
        latest: the epoch of each origin of which clients were handed logged messages last.

    """

    log: list[tuple[bytes, Header]] = field(default_factory=list)
    have: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    handed: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    passed: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    full_until_s: float = 0.0
    trimmed: int = 0
    boot_epoch: int | None = None
    latest: dict[str, int] = field(default_factory=dict)

    def start(self) -> dict[Epoch, Intervals]:
        """What a new life finds."""
        return {epoch: Intervals(numbers) for epoch, numbers in self.have.items()}

    def told(self) -> list[tuple[bytes, Header]]:
        """The control batches that a new life finds."""
        return [(frame, header) for frame, header in self.log if header.control]

    def not_again(self, core: Replication) -> None:
        """What a new life takes for handed out is not handed out again."""
        for epoch in self.have:
            if last := min(core.handed_out(epoch), self.have[epoch].last):
                self.handed[epoch].add(1, last)

    def append(self, frame: bytes, header: Header) -> None:
        """Append a batch."""
        self.log.append((frame, header))
        self.have[header.stream].add(header.first, header.last)
        if header.passed:
            self.passed[header.stream].add(header.first, header.last)

    def trim(self, batches: int) -> bool:
        """Drop the oldest half, if there are more than so many; whether any went."""
        if not batches or len(self.log) <= batches:
            return False
        dropped = len(self.log) - batches // 2
        self.trimmed += dropped
        del self.log[:dropped]
        return True

    def kept_from(self) -> dict[Epoch, int]:
        """The lowest number that the log still has, by stream."""
        lowest = {stream: numbers.last + 1 for stream, numbers in self.have.items()}
        for _, header in self.log:
            lowest[header.stream] = min(lowest[header.stream], header.first)
        return lowest

    def holds(self) -> dict[Epoch, Intervals]:
        """The messages that are in the log."""
        found: dict[Epoch, Intervals] = defaultdict(Intervals)
        for _, header in self.log:
            if not header.passed:
                found[header.stream].add(header.first, header.last)
        return found

    def read(self, epoch: Epoch, ranges: Intervals) -> list[tuple[bytes, Header]]:
        """The batches that hold any number of ``ranges``, in sequence."""
        found = [
            (frame, header)
            for frame, header in self.log
            if header.stream == epoch
            and ranges.missing(header.first, header.last) != [(header.first, header.last)]
        ]
        return sorted(found, key=lambda row: row[1].first)


@dataclass(frozen=True, slots=True)
class _Batch:
    frame: bytes
    repair: bool


class _Done:
    """Everything that a request asked for has been sent."""


_DONE = _Done()


class Traffic:
    """The messages of one network.

    Args:
        clock: virtual time.
        checks: is told of what does not hold.
        rate_per_s: batches that each gateway accepts in a second.
        random_: the only source of chance.

    """

    def __init__(
        self, clock: Clock, checks: Checks, rate_per_s: float, random_: random.Random
    ) -> None:
        self.published = 0
        """Messages accepted."""
        self.sent = 0
        """Messages of replication sent between gateways."""
        self.disks: dict[str, Disk] = defaultdict(Disk)
        self.given_up = 0
        """Messages that gateways gave up, each counted once for each of them."""
        self.forgotten = 0
        """Streams that gateways forgot, each counted once for each of them."""
        self.log_batches = 0
        """A log is trimmed when it has more batches; 0 for never."""
        self._lost_disks: set[str] = set()
        self._gateways: dict[str, Gateway] = {}
        self._clock = clock
        self._checks = checks
        self._rate_per_s = rate_per_s
        self._random = random_

    def gateway(
        self, tree: SpanningTree, clock: Clock, network: Network, watch: Watch, local: LocalClock
    ) -> ReplicatingGateway:
        """A life of a gateway with replication under it, on its disk."""
        disk = self.disks[tree.identity.gateway_id]
        return ReplicatingGateway(tree, clock, network, watch, local, disk=disk, traffic=self)

    def begin(self, gateways: dict[str, Gateway], until_s: float) -> None:
        """Let clients publish at every gateway that is up, until a time."""
        self._gateways = gateways
        if self._rate_per_s > 0:
            for gateway_id in sorted(gateways):
                self._next(gateways, gateway_id, until_s)

    def _next(self, gateways: dict[str, Gateway], gateway_id: str, until_s: float) -> None:
        at_s = self._clock.now + self._random.expovariate(self._rate_per_s)
        if at_s < until_s:
            self._clock.at(at_s, partial(self._publish, gateways, gateway_id, until_s))

    def _publish(self, gateways: dict[str, Gateway], gateway_id: str, until_s: float) -> None:
        gateway = gateways.get(gateway_id)
        if isinstance(gateway, ReplicatingGateway) and gateway.paused_until_s <= self._clock.now:
            qos = self._random.choice((0, 1, 1, 2))
            entries = [Entry("t", b"", qos=qos)] * self._random.randrange(1, 4)
            flags = Flags.LOGGED if qos else Flags(0)
            if qos and self._random.random() < CONTROL_SHARE:
                flags |= Flags.CONTROL
            self.published += gateway.publish(entries, flags)
        self._next(gateways, gateway_id, until_s)

    def lose_disk(self, gateway_id: str) -> None:
        """Let a gateway that is down find nothing of what it had."""
        self.disks[gateway_id] = Disk()
        self._lost_disks.add(gateway_id)

    def handed(self, gateway: ReplicatingGateway, header: Header, first: int) -> None:
        """Check what a gateway hands its clients (invariants 4 and 5)."""
        gateway_id, numbers = gateway.gateway_id, gateway.handed(header)
        last = numbers.last
        if numbers.add(first, header.last) != header.last - first + 1:
            self._checks.found(4, f"{gateway_id} hands out {header} from {first} on a second time")
        elif header.logged and first <= last:
            self._checks.found(5, f"{gateway_id} hands out {header} behind {last}")
        self._check_epochs(gateway_id, header)

    def _check_epochs(self, gateway_id: str, header: Header) -> None:
        """Check order across the lives of an origin, as far as it can know of them all."""
        if header.control or not header.logged or header.origin in self._lost_disks:
            return
        latest = self.disks[gateway_id].latest
        if header.epoch < latest.get(header.origin, 0):
            what = f"{gateway_id} hands out {header} behind epoch {latest[header.origin]}"
            self._checks.found(5, what)
        latest[header.origin] = header.epoch

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Check that what a gateway gives up is nowhere within its reach (invariant 3)."""
        self.given_up += lost.last - lost.first + 1
        paths = usable_paths(self._gateways, network)
        if self.log_batches:  # whoever is not linked yet may hold what others have trimmed
            paths = linked(self._gateways, network)
        wanted = Intervals([(lost.first, lost.last)])
        for other in component(gateway_id, paths.__getitem__):
            if any(not header.passed for _, header in self.disks[other].read(lost.stream, wanted)):
                self._checks.found(3, f"{gateway_id} gives up {lost}, of which {other} has some")

    def check_all_arrived(self, gateways: dict[str, Gateway], network: Network) -> None:
        """Check that all in reach of each other have the same, and handed it out (invariant 3)."""
        for what in self.missing(gateways, network):
            self._checks.found(3, what)

    def missing(self, gateways: dict[str, Gateway], network: Network) -> list[str]:
        """What a gateway lacks that another in reach has, or keeps from its clients."""
        paths = usable_paths(gateways, network)
        missing: list[str] = []
        left = set(gateways)
        while left:
            reach = component(min(left), paths.__getitem__)
            left -= reach
            together: dict[Epoch, Intervals] = defaultdict(Intervals)
            for gateway_id in reach:
                disk = self.disks[gateway_id]
                found = disk.holds() if self.log_batches else disk.have
                for epoch, numbers in found.items():
                    if numbers != together[epoch]:
                        together[epoch].update(numbers)
            for gateway_id in sorted(reach):
                missing += self._missing_at(gateway_id, together)
        return missing

    def _missing_at(self, gateway_id: str, together: dict[Epoch, Intervals]) -> Iterator[str]:
        disk = self.disks[gateway_id]
        for epoch, numbers in together.items():
            if epoch[0].startswith(NOTE_PREFIX):
                continue
            if len(lost := numbers.without(disk.have[epoch])):
                yield f"{gateway_id} lacks {epoch} {lost} that others have"
            # Behind a number that a lost disk took with it the later ones wait.
            due = disk.have[epoch].contiguous_from(1)
            if not due or epoch[0].removeprefix(CONTROL_PREFIX) == gateway_id:
                continue
            kept_back = Intervals([(1, due)]).without(disk.handed[epoch])
            kept_back = kept_back.without(disk.passed[epoch])
            if self.log_batches and len(kept_back):  # some waited until it was trimmed
                kept_back = kept_back.common(disk.holds()[epoch])
            if len(kept_back):
                yield f"{gateway_id} keeps {epoch} {kept_back} from clients"

    def check_bounded(self, gateway: ReplicatingGateway) -> None:
        """Check what a gateway keeps in memory (invariant 6)."""
        held_bytes = gateway.replication._delivery.held_bytes
        if held_bytes > MAX_HELD_BYTES:
            self._checks.found(6, f"{gateway.gateway_id} holds {held_bytes} bytes behind gaps")

    def check_quiet(self, before: int) -> None:
        """Check that nothing was sent since ``sent`` was so many (invariant 7)."""
        if self.sent > before:
            self._checks.found(7, f"replication sent {self.sent - before} messages in still time")


class ReplicatingGateway(Gateway):
    """A gateway that carries messages.

    Args:
        tree: see `Gateway`; as the next four.
        clock: see there.
        network: see there.
        watch: see there.
        local: see there.
        disk: what it finds when it starts, and leaves.
        traffic: checks what it hands out.

    """

    def __init__(
        self,
        tree: SpanningTree,
        clock: Clock,
        network: Network,
        watch: Watch,
        local: LocalClock,
        *,
        disk: Disk,
        traffic: Traffic,
    ) -> None:
        self._disk = disk
        self._traffic = traffic
        self._forwarding: frozenset[int] = frozenset()
        self._told: set[int] = set()
        self._due_s = -1.0
        self.replication = Replication(
            tree.identity.gateway_id,
            tree.identity.boot_epoch,
            disk.start(),
            repair_interval_s=REPAIR_INTERVAL_S,
            origin_gone_s=ORIGIN_GONE_S,
            kept_lives=KEPT_LIVES,
            told=disk.told(),
        )
        if traffic.log_batches:
            self.replication.trimmed(disk.kept_from())
        disk.not_again(self.replication)
        self._unlogged: dict[Epoch, Intervals] = defaultdict(Intervals)
        super().__init__(tree, clock, network, watch, local)
        self._set_timer()

    def publish(self, entries: list[Entry], flags: Flags) -> int:
        """Accept messages of a client; returns how many were, none if the disk is full."""
        before = self.replication.counters.published
        rows = [entry.row() for entry in entries]
        self._replicate(self.replication.publish(rows, flags, 0))
        return self.replication.counters.published - before

    def handed(self, header: Header) -> Intervals:
        """The numbers of an origin and epoch that clients got, of the logged ones or others."""
        kind = self._disk.handed if header.logged else self._unlogged
        return kind[header.stream]

    def link_up(self, end: End) -> None:
        """See `Gateway`."""
        super().link_up(end)
        if end.link in self.ends:
            self._told.add(end.link)
            self._replicate(self.replication.link_up(end.link, self.now))
            self.changed()

    def take(self, end: End, message: object) -> None:
        """See `Gateway`."""
        core, link, now = self.replication, end.link, self.now
        match message:
            case _Batch(frame, repair):
                self._replicate(core.receive_batch(link, frame, repair=repair))
            case Summary():
                latest = boot_epoch.latest(self.gateway_id, message.epochs())
                if latest > self.tree.identity.boot_epoch:
                    self.outlived(latest)
                self._replicate(core.receive_summary(link, message, now))
            case Request():
                self._replicate(core.receive_request(link, message))
            case _Done():
                self._replicate(core.receive_done(link, now))
            case Seek():
                self._replicate(core.receive_seek(link, message, now))
            case Sought():
                self._replicate(core.receive_sought(link, message, now))
        self._traffic.check_bounded(self)
        self._set_timer()

    def changed(self) -> None:
        """See `Gateway`."""
        self._follow_tree()
        self._set_timer()

    def link_full(self, end: End) -> None:
        """See `Gateway`."""
        self.replication.link_full(end.link)

    def link_drained(self, end: End) -> None:
        """See `Gateway`."""
        self._replicate(self.replication.link_drained(end.link))

    def joins(self, link: int) -> None:
        """See `Gateway`."""
        self._replicate(self.replication.joins(link))

    def _follow_tree(self) -> None:
        """Tell replication over which links the tree forwards; stopping comes first."""
        now = self.tree.forwarding
        for link in sorted(self._forwarding - now):
            self._replicate(self.replication.forwarding(link, forwards=False))
        for link in sorted(now):
            self._replicate(self.replication.forwarding(link, forwards=True))
        self._forwarding = now
        for link in sorted(self._told - self.ends.keys()):
            self._told.discard(link)
            self._replicate(self.replication.link_down(link, self.now))

    def _set_timer(self) -> None:
        due_s = self.replication.next_timer()
        if due_s != self._due_s:
            self._due_s = due_s
            self._clock.at(self._local.virtual_s(due_s), partial(self._repair_tick, due_s))

    def _repair_tick(self, due_s: float) -> None:
        if not self.alive or due_s != self._due_s:
            return
        if self.paused_until_s > self._clock.now:
            self._clock.at(self.paused_until_s, partial(self._repair_tick, due_s))
            return
        self._due_s = -1.0
        self._replicate(self.replication.handle_timer(max(due_s, self.now)))
        self._set_timer()

    def _replicate(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Append():
                    self._append(action)
                case Forget(streams):
                    self._traffic.forgotten += len(streams)
                case Serve(link, request) | Push(link, request):
                    self._look(link, request.wanted)
                    if isinstance(action, Serve):
                        self._say(link, _DONE)
                case Look(link, number, wanted):
                    self._replicate(self.replication.looked(number, self._look(link, wanted)))
                case Lost():
                    self._traffic.lost(self.gateway_id, self._network, action)
                case Deliver(_, header, first):
                    self._traffic.handed(self, header, first)
                case DeliverLogged(epoch, first, last):
                    for _, header in self._disk.read(epoch, Intervals([(first, last)])):
                        if not header.passed:
                            self._traffic.handed(self, header, max(first, header.first))
                case _:
                    self._send(action)

    def _append(self, action: Append) -> None:
        if self._disk.full_until_s > self._clock.now:
            return
        self._disk.append(action.frame, action.header)
        self._replicate(self.replication.appended(action))
        if self._disk.trim(self._traffic.log_batches):
            self.trimmed(self._disk.kept_from())

    def _send(self, action: Action) -> None:
        match action:
            case SendBatch(link, frame):
                self._say(link, _Batch(frame, repair=False))
            case SendSummary(link, summary):
                self._say(link, Summary.decode(summary.encode()))
            case SendRequest(link, request):
                self._say(link, Request.decode(request.encode()))
            case SendRepair(link, frame):
                self._say(link, _Batch(frame, repair=True))
            case SendSeek(link, seek):
                self._say(link, Seek.decode(seek.encode()))
            case SendSought(link, sought):
                self._say(link, Sought.decode(sought.encode()))

    def trimmed(self, kept_from: dict[Epoch, int]) -> None:
        """The log has dropped its oldest."""
        self._replicate(self.replication.trimmed(kept_from))

    def _look(self, link: int, wanted: dict[Epoch, Intervals]) -> dict[Epoch, Intervals]:
        found: dict[Epoch, Intervals] = {}
        for stream, numbers in wanted.items():
            for frame in answer(self._disk.read(stream, numbers)):
                header = check(frame)
                found.setdefault(stream, Intervals()).add(header.first, header.last)
                self._say(link, _Batch(frame, repair=True))
        return found

    def _say(self, link: int, message: object) -> None:
        end = self.ends.get(link)
        if end is not None:
            self._traffic.sent += 1
            self._network.send(end, message, DATA)

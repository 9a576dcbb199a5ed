"""A simulated gateway that carries messages: the shell around `Replication` and its log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import ClassVar, Protocol

from light_dataclasses import dataclass
from tree_handler import boot_epoch
from tree_handler.batch import Entry, Epoch, Header, check
from tree_handler.intervals import Intervals
from tree_handler.replication.answering import answer
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Request, SearchResult, Seek, Summary
from tree_handler.replication.replication import (
    Append,
    Forget,
    Look,
    Lost,
    Push,
    RepairSettings,
    Replication,
    ReplicationAction,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)
from tree_handler.seal import Seals
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Gateway, Start
from tree_handler.simulation.network import DATA, End, Network

REPAIR_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class WireBatch:
    """A batch on its way, live or as repair."""

    frame: bytes
    repair: bool


class _Done:
    """Everything that a request asked for has been sent."""


_DONE = _Done()


class Receiver(Protocol):
    """A gateway, as a witness sees it."""

    gateway_id: str
    replication: Replication

    def handed(self, header: Header) -> Intervals:
        """Return the numbers of a stream that its clients got."""


class Witness(Protocol):
    """A witness that checks and counts what gateways do: `traffic.SimulatedTraffic`.

    Attributes:
        sent: messages of replication sent between gateways.
        forgotten: streams that gateways forgot.
        log_batches: a log is trimmed when it has more; 0 for never.

    """

    sent: int
    forgotten: int
    log_batches: int

    def handed(self, gateway: Receiver, header: Header, first: int) -> None:
        """Check what a gateway hands its clients, from number ``first`` of a batch on."""

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Check what a gateway gives up."""

    def check_bounded(self, gateway_id: str, held_bytes: int) -> None:
        """Check that what a gateway keeps in memory is bounded."""


class ReplicatingGateway(Gateway):
    """A gateway that carries messages.

    Args:
        start: see `Gateway`.
        disk: what it finds when it starts, and leaves.
        traffic: checks what it hands out.

    """

    floods_clients: ClassVar = True
    """As in `Replication`."""
    interval_s: ClassVar = REPAIR_INTERVAL_S
    """As in `Replication`."""
    origin_gone_s: ClassVar = 3.0
    """As in `Replication`."""
    redial_s: ClassVar = 0.5
    """A link that was refused is dialled again, and made, within this time."""
    kept_lives: ClassVar = 0
    """As in `Replication`; epochs are forgotten as early as may be, so that much is."""

    def __init__(self, start: Start, disk: Disk, traffic: Witness) -> None:
        super().__init__(start)
        self._disk = disk
        self._traffic = traffic
        self._forwarding: frozenset[int] = frozenset()
        self._told: set[int] = set()
        self.replication = Replication(
            start.tree.identity.gateway_id,
            start.tree.identity.boot_epoch,
            disk.start(),
            RepairSettings(
                floods_clients=self.floods_clients,
                interval_s=self.interval_s,
                origin_gone_s=self.origin_gone_s,
                kept_lives=self.kept_lives,
                unlinked_s=start.tree.parameters.silence_s + self.redial_s,
                seals=self.seals(),
            ),
            disk.told(),
        )
        if traffic.log_batches:
            self.replication.trimmed(disk.kept_from())
        disk.not_again(self.replication)
        self._unlogged: dict[Epoch, Intervals] = defaultdict(Intervals)
        self._repair_timer = self.timer(self._repair_due)

    def seals(self) -> Seals | None:
        """Return what proves its batches: nothing, where nobody lies."""
        return None

    def begin(self) -> None:
        """Let time pass for the gateway and its replication."""
        super().begin()
        self._set_timer()

    def publish(self, entries: list[Entry], flags: int) -> int:
        """Accept messages of a client; returns how many were, none if the disk is full."""
        before = self.replication.counters.published
        rows = [entry.row() for entry in entries]
        self._replicate(self.replication.publish(rows, flags, 0))
        return self.replication.counters.published - before

    def has_lost(self, lost: dict[Epoch, Intervals]) -> None:
        """It finds that its log can't read these any more."""
        for stream, numbers in lost.items():
            self._replicate(self.replication.lost(stream, numbers))
        self._set_timer()

    def waits_for(self) -> Iterator[str]:
        """Tell what this gateway waits for, or keeps another one waiting for: nothing at peace."""
        if self.replication.repair.is_waiting:
            yield "a request or a search"

    def handed(self, header: Header) -> Intervals:
        """Return the numbers of an origin and epoch that clients got, of the logged ones or
        others."""
        kind = self._disk.handed if header.logged else self._unlogged
        return kind[header.stream]

    def link_up(self, end: End) -> None:
        """Take a new connection, and begin to replicate over it."""
        super().link_up(end)
        if end.link in self.ends:
            self._told.add(end.link)
            self._replicate(self.replication.repair.link_up(end.link, self.now))
            self.changed()

    def take(self, end: End, message: object) -> None:
        """Take in a message of replication."""
        core, link, now = self.replication, end.link, self.now
        match message:
            case WireBatch(frame, repair):
                self._replicate(core.receive_batch(link, frame, repair=repair))
            case Summary():
                latest = boot_epoch.latest(self.gateway_id, message.epochs())
                if latest > self.tree.identity.boot_epoch and core.settings.seals is None:
                    self.outlived(latest)
                else:
                    self._replicate(core.repair.receive_summary(link, message, now))
            case Request():
                self._replicate(core.repair.receive_request(link, message))
            case _Done():
                self._replicate(core.repair.receive_done(link, now))
            case Seek():
                self._replicate(core.repair.receive_seek(link, message, now))
            case SearchResult():
                self._replicate(core.repair.receive_sought(link, message, now))
        self._traffic.check_bounded(self.gateway_id, core.held_bytes)
        self._set_timer()

    def changed(self) -> None:
        """Follow the tree: replication has other links now."""
        self._follow_tree()
        self._set_timer()

    def link_full(self, end: End) -> None:
        """Stop sending batches over the link."""
        self.replication.link_full(end.link)

    def link_drained(self, end: End) -> None:
        """Send the batches that waited for the link."""
        self._replicate(self.replication.link_drained(end.link))

    def joins(self, link: int) -> None:
        """Ask for what replication needs from the coming parent."""
        self._replicate(self.replication.repair.joins(link))

    def _follow_tree(self) -> None:
        """Tell replication over which links the tree forwards; stopping comes first."""
        now = self.tree.forwarding
        for link in sorted(self._forwarding - now):
            self._replicate(self.replication.repair.forwarding(link, forwards=False))
        for link in sorted(now):
            self._replicate(self.replication.repair.forwarding(link, forwards=True))
        self._forwarding = now
        for link in sorted(self._told - self.ends.keys()):
            self._told.discard(link)
            self._replicate(self.replication.repair.link_down(link, self.now))

    def _set_timer(self) -> None:
        self._repair_timer.set(self.replication.repair.next_timer())

    def _repair_due(self, now: float) -> None:
        self._replicate(self.replication.repair.handle_timer(now))
        self._set_timer()

    def _replicate(self, actions: Iterable[ReplicationAction]) -> None:
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
                    self._replicate(
                        self.replication.repair.looked(number, self._look(link, wanted))
                    )
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
        disk = self._disk
        if disk.full_until_s > self._clock.now:
            return
        disk.append(action.frame, action.header)
        self._replicate(self.replication.appended(action))
        if self._traffic.log_batches and disk.trim():
            self.log_trimmed()

    def log_trimmed(self) -> None:
        """Go on with a log that has dropped its oldest batches."""
        self._replicate(self.replication.trimmed(self._disk.kept_from()))

    def _send(self, action: ReplicationAction) -> None:
        match action:
            case SendBatch(link, frame):
                self._say(link, WireBatch(frame, repair=False))
            case SendSummary(link, summary):
                self._say(link, Summary.decode(summary.encode()))
            case SendRequest(link, request):
                self._say(link, Request.decode(request.encode()))
            case SendRepair(link, frame):
                self._say(link, WireBatch(frame, repair=True))
            case SendSeek(link, seek):
                self._say(link, Seek.decode(seek.encode()))
            case SendSought(link, sought):
                self._say(link, SearchResult.decode(sought.encode()))

    def _look(self, link: int, wanted: dict[Epoch, Intervals]) -> dict[Epoch, Intervals]:
        found: dict[Epoch, Intervals] = {}
        for stream, numbers in wanted.items():
            for frame in answer(self._disk.read(stream, numbers)):
                header = check(frame)
                found.setdefault(stream, Intervals()).add(header.first, header.last)
                self._say(link, WireBatch(frame, repair=True))
        return found

    def _say(self, link: int, message: object) -> None:
        end = self.ends.get(link)
        if end is not None:
            self._traffic.sent += 1
            self._network.send(end, message, DATA)

"""A simulated gateway that retains messages: the shell around `RetainedSync` and its clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import ClassVar, Protocol

from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.replication import Append, ReplicationAction
from tree_handler.retained.hybrid_clock import HybridClock, RetainedVersion
from tree_handler.retained.message import VERSION, Retained, stamped_version
from tree_handler.retained.sync import RetainedSync
from tree_handler.retained.sync_state import SendRetained
from tree_handler.simulation.gateway import Start
from tree_handler.simulation.network import DATA, End
from tree_handler.simulation.replicating import ReplicatingGateway, Witness
from tree_handler.simulation.retained_store import RetainedDisk, RetainedStore

SETTLE_S = 1.0


@dataclass(frozen=True, slots=True)
class _Sync:
    payload: bytes


class RetainedWitness(Witness, Protocol):
    """A witness that checks retained messages as well: `retained.RetainedTraffic`."""

    def given_as_news(self, gateway_id: str, told: Retained) -> None:
        """Check what clients are given because a neighbour told of it."""

    def wrote(
        self, gateway_id: str, topic: str, seen: RetainedVersion | None, version: RetainedVersion
    ) -> None:
        """Check the version of a write against what its gateway had seen of the topic."""


class RetainedGateway(ReplicatingGateway):
    """A gateway that retains messages.

    Args:
        start: see `ReplicatingGateway`.
        disk: see there.
        traffic: see there.
        wall_us: what its wall clock shows when the simulation begins.

    """

    settle_s: ClassVar = SETTLE_S
    """As in `RetainedSync`."""

    def __init__(
        self, start: Start, disk: RetainedDisk, traffic: RetainedWitness, wall_us: int
    ) -> None:
        super().__init__(start, disk, traffic)
        self._retained_disk = disk
        self._retained_traffic = traffic
        self._wall_at_0_us = wall_us
        self._hybrid = HybridClock()
        self._synced: set[int] = set()
        is_told = partial(traffic.given_as_news, self.gateway_id)
        self.store = RetainedStore(disk, is_told, self.now, self.gateway_id)
        for version in self.store.versions.state().values():
            self._hybrid.observe(version.stamp, self._wall_us)
        seals = self.seals()
        proofs = None if seals is None else seals.retained
        self.sync = RetainedSync(self.store, self.replication, self.settle_s, proofs)
        self._sync_timer = self.timer(self._sync_due)
        self.log_trimmed()

    @property
    def _wall_us(self) -> int:
        return self._wall_at_0_us + int(self._clock.now * 1_000_000)

    # -- writing and reading -------------------------------------------------------------------

    def write(self, topic: str, payload: bytes) -> RetainedVersion | None:
        """Accept a retained message of a client; its version, if the log has it."""
        seen = self.store.versions.version(topic)
        stamp = self._hybrid.stamp(self._wall_us, self.store.versions.stamp(topic))
        version = RetainedVersion(*stamp, self.gateway_id, self.tree.identity.boot_epoch)
        self._retained_traffic.wrote(self.gateway_id, topic, seen, version)
        number = self.replication.next_logged
        entry = Entry(topic, payload, qos=1, retain=True, properties={VERSION: tuple(stamp)})
        if not self.publish([entry], Flags.LOGGED):
            return None
        self._retained_disk.written[topic] = version
        self._retain(entry, (self.gateway_id, self.tree.identity.boot_epoch), number)
        return version

    def _retain(self, entry: Entry, stream: Epoch, number: int) -> None:
        version = stamped_version(entry.properties.get(VERSION), stream)
        self._hybrid.observe(version.stamp, self._wall_us)
        dead_s = None if entry.payload else 0.0
        self.store.has_come(entry.topic, version)
        where = entry.topic, version, number, entry.qos
        told = Retained(*where, entry.payload, {}, None, dead_s, entry.proof)
        self.store.take(told, self.now)

    # -- the shell -----------------------------------------------------------------------------

    def _replicate(self, actions: Iterable[ReplicationAction]) -> None:
        for action in actions:
            super()._replicate((action,))
            match action:
                case Deliver(frame, header, first):
                    self._hand_out(frame, header, first)
                case DeliverLogged(stream, first, last):
                    for frame, header in self._disk.read(stream, Intervals([(first, last)])):
                        self._hand_out(frame, header, max(first, header.first))
                case Append() if self._retained_disk.trim():
                    super()._replicate(self.replication.trimmed(self._retained_disk.kept_from()))

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if header.control or header.passed:
            return
        for number, entry in enumerate(batch.decode(frame, header), header.first):
            if number >= first and entry.retain:
                self._retain(entry, header.stream, number)

    def waits_for(self) -> Iterator[str]:
        """Tell what this gateway waits for, a fetch of retained messages among it."""
        yield from super().waits_for()
        if self.sync.is_fetching:
            yield "retained messages of a neighbour"

    def link_up(self, end: End) -> None:
        """Take a new connection, and begin to synchronise over it."""
        super().link_up(end)
        if end.link in self.ends:
            self._synced.add(end.link)
            self.sync.link_up(end.link, self.now)
            self._sync_timer.set(self.sync.next_timer())

    def changed(self) -> None:
        """Follow the tree, and end the synchronisation of links that have gone."""
        super().changed()
        for link in sorted(self._synced - self.ends.keys()):
            self._synced.discard(link)
            self.sync.link_down(link, self.now)
        self._sync_timer.set(self.sync.next_timer())

    def take(self, end: End, message: object) -> None:
        """Take in a message of synchronisation, or one of replication."""
        if isinstance(message, _Sync):
            self._tell(self.sync.receive(end.link, message.payload, self.now))
            self._sync_timer.set(self.sync.next_timer())
        else:
            super().take(end, message)

    def _tell(self, sends: Iterable[SendRetained]) -> None:
        for send in sends:
            end = self.ends.get(send.link)
            if end is not None:
                self._traffic.sent += 1
                self._network.send(end, _Sync(send.payload), DATA)

    def _sync_due(self, now: float) -> None:
        self._tell(self.sync.handle_timer(now))
        self._sync_timer.set(self.sync.next_timer())

"""A gateway that lives for years: its disk cannot be read for a while, or answers late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from functools import partial
from typing import ClassVar

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.replication.replication import (
    Forget,
    Look,
    Push,
    ReplicationAction,
    SendRequest,
    Serve,
)
from tree_handler.seal import Seals
from tree_handler.simulation.gateway import Start
from tree_handler.simulation.lying import TREE
from tree_handler.simulation.network import End
from tree_handler.simulation.retained_gateway import RetainedGateway, RetainedWitness
from tree_handler.simulation.retained_store import RetainedDisk
from tree_handler.simulation.years_keys import KnownKeys, KnownKeysRing, RenewedSigner, SimulatedKey

ORIGIN_GONE_S = 24 * 3600.0
KEPT_LIVES = 4
KEYS_COME_LATE_S = 3.0


@dataclass(slots=True)
class YearsDisk(RetainedDisk):
    """A disk that has bad hours.

    Attributes:
        unreadable_until_s: until this virtual time reading fails.
        stalled_until_s: until then what is read comes late.
        buried_s: when each deletion was made, as the last life knew it.
        keys: its own key, and those of others.

    """

    unreadable_until_s: float = 0.0
    stalled_until_s: float = 0.0
    buried_s: dict[str, float] = field(default_factory=dict)
    keys: KnownKeys = field(default_factory=KnownKeys)

    def grow_old(self, virtual_s: float) -> None:
        """Let the deletions be as old as they are for who starts now, by a clock that was known to
        be right."""
        for topic, told in self.graves.items():
            if topic in self.buried_s:
                age_s = max(0.0, virtual_s - self.buried_s[topic])
                self.graves[topic] = replace(told, dead_s=age_s)

    def forget(self, streams: Iterable[Epoch]) -> None:
        """Let go of what the log's index has of streams that are over, as a log does."""
        for stream in streams:
            self.have.pop(stream, None)
            self.passed.pop(stream, None)


@dataclass(frozen=True, slots=True)
class _Keys:
    """A message that tells a neighbour of keys."""

    keys: tuple[SimulatedKey, ...]


class YearsGateway(RetainedGateway):
    """One life of such a gateway.

    Args:
        start: see `Gateway`.
        disk: see `RetainedGateway`.
        traffic: likewise.
        wall_us: likewise.

    Attributes:
        requests: how often it has asked a neighbour for batches.

    """

    interval_s: ClassVar = 5.0
    origin_gone_s: ClassVar = ORIGIN_GONE_S
    kept_lives: ClassVar = KEPT_LIVES
    redial_s: ClassVar = 3.0
    settle_s: ClassVar = 5.0

    def __init__(
        self, start: Start, disk: YearsDisk, traffic: RetainedWitness, wall_us: int
    ) -> None:
        self.years_disk = disk
        self.requests = 0
        disk.keys.add((start.tree.identity.gateway_id, disk.keys.own))
        super().__init__(start, disk, traffic, wall_us)

    def seals(self) -> Seals | None:
        """Return the seals by this gateway's renewed keys."""
        keys = self.years_disk.keys
        return Seals(RenewedSigner(self.gateway_id, keys), KnownKeysRing(keys), TREE)

    def set_clock(self, wall_at_0_us: int) -> None:
        """Let its wall clock be set: to what would have been this at the beginning."""
        self._wall_at_0_us = wall_at_0_us

    def renew_key(self) -> None:
        """Have another key, and tell the neighbours."""
        self._tell_keys((self.years_disk.keys.renew(self.gateway_id),), self.ends.values())

    def link_up(self, end: End) -> None:
        """Take a new connection; each end tells the other which keys it knows."""
        super().link_up(end)
        if end.link in self.ends:
            self._tell_keys(tuple(self.years_disk.keys), (end,))

    def take(self, end: End, message: object) -> None:
        """Take in keys, and pass on new ones; or take in another message."""
        if not isinstance(message, _Keys):
            super().take(end, message)
        elif new := tuple(key for key in message.keys if self.years_disk.keys.add(key)):
            self._tell_keys(new, [one for one in self.ends.values() if one is not end])
            self._replicate(self.replication.repair.ask_anew(self.now))

    def _tell_keys(self, keys: tuple[SimulatedKey, ...], ends: Iterable[End]) -> None:
        """Tell of keys, rather behind what was signed with them."""
        for end in ends:
            later = partial(self._say_of_life, end.link, _Keys(keys))
            self._clock.at(self._clock.now + KEYS_COME_LATE_S, later)

    def _say_of_life(self, link: int, message: object) -> None:
        if self.alive:
            self._say(link, message)

    def cores(self) -> dict[str, object]:
        """Return what runs on a gateway in production too, and remembers something."""
        return {
            "tree": self.tree,
            "replication": self.replication,
            "versions": self.store.versions,
            "clock": self._hybrid,
            "sync": self.sync,
        }

    def expire(self) -> None:
        """Forget the deletions of which there are too many."""
        for topic in self.store.versions.expire(self.now):
            del self.years_disk.graves[topic]

    def stop(self, *, silently: bool) -> None:
        """End this life; what it knows of the age of deletions is on its disk."""
        super().stop(silently=silently)
        for topic in self.years_disk.graves:
            if (grave := self.store.versions.tombstone(topic)) is None:
                continue
            self.years_disk.buried_s[topic] = self._clock.now - (self.now - grave.since_s)

    def _replicate(self, actions: Iterable[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Serve() | Push() | Look() if self._is_before(
                    self.years_disk.unreadable_until_s
                ):
                    if isinstance(action, Look):
                        self._looked_in_vain(action)
                case Serve() | Look() if self._is_before(self.years_disk.stalled_until_s):
                    self._clock.at(self.years_disk.stalled_until_s, partial(self._late, action))
                case Forget(streams):
                    self.years_disk.forget(streams)
                    super()._replicate((action,))
                case _:
                    self.requests += isinstance(action, SendRequest)
                    super()._replicate((action,))

    def _is_before(self, virtual_s: float) -> bool:
        return self._clock.now < virtual_s

    def _looked_in_vain(self, look: Look) -> None:
        self._replicate(self.replication.repair.looked(look.number, {}, was_read=False))

    def _late(self, action: ReplicationAction) -> None:
        if self.alive:
            self._replicate((action,))

"""A gateway that lives for years: its disk cannot be read for a while, or answers late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from tree_handler.batch import Epoch
from tree_handler.replication.replication import Action, Forget, Look, Push, SendRequest, Serve
from tree_handler.simulation.gateway import Start
from tree_handler.simulation.retained_gateway import RetainedWitness
from tree_handler.simulation.retained_liar import SealedRetainedGateway
from tree_handler.simulation.retained_store import RetainedDisk

ORIGIN_GONE_S = 24 * 3600.0
KEPT_LIVES = 4


@dataclass(slots=True)
class YearsDisk(RetainedDisk):
    """A disk that has bad hours.

    Attributes:
        unreadable_until_s: until this virtual time reading fails.
        stalled_until_s: until then what is read comes late.
        buried_s: when each deletion was made, as the last life knew it.

    """

    unreadable_until_s: float = 0.0
    stalled_until_s: float = 0.0
    buried_s: dict[str, float] = field(default_factory=dict)

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


class YearsGateway(SealedRetainedGateway):
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
    settle_s: ClassVar = 5.0

    def __init__(
        self, start: Start, disk: YearsDisk, traffic: RetainedWitness, wall_us: int
    ) -> None:
        self.years_disk = disk
        self.requests = 0
        super().__init__(start, disk, traffic, wall_us)

    def expire(self) -> None:
        """Forget the deletions of which there are too many."""
        for topic in self.store.versions.expire(self.now):
            del self.years_disk.graves[topic]

    def stop(self, *, silently: bool) -> None:
        """See `Gateway`; what it knows of the age of deletions is on its disk."""
        super().stop(silently=silently)
        for topic in self.years_disk.graves:
            if (grave := self.store.versions.tombstone(topic)) is None:
                continue
            self.years_disk.buried_s[topic] = self._clock.now - (self.now - grave.since_s)

    def _replicate(self, actions: Iterable[Action]) -> None:
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

    def _late(self, action: Action) -> None:
        if self.alive:
            self._replicate((action,))

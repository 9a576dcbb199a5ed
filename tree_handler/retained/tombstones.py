"""Deletions that a gateway remembers, so that an older message can't bring a topic back.

For the retention each is kept. After that a tenth of all that may be kept are: those with the
greatest versions. For who was away for longer than the retention, or has an older log, brings back
what nobody remembers to have been deleted, and no fleet knows how long that may be. Which ones of
the old ones go is decided by their versions, as on all other gateways: else two of them would hand
each other what each has just forgotten, for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from tree_handler.retained.hybrid_clock import RetainedVersion

RETENTION_S: Final = 7 * 24 * 3600.0
"""Each is kept so long, and as many of those that are older as there is room for."""
TOMBSTONES_MAX: Final = 100_000
BYTES_MAX: Final = 32 << 20
"""Characters of their topics. Beyond either some go early, which is counted."""
LASTING_SHARE = 10
"""Of what may be kept, so many parts are one that may be older than the retention."""
_HEAP_SLACK: Final = 16


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A topic whose retained message was deleted or has expired.

    Attributes:
        version: of the deletion, or of the message that expired.
        number: that message's number in its origin's stream; 0 if no log has it.
        qos: of the deletion; None if the message expired.
        since_s: since when, on the monotonic clock of this gateway. The age is what gateways tell
            each other, so that a tombstone grows old everywhere at about the same time.

    """

    version: RetainedVersion
    number: int
    qos: int | None
    since_s: float


class Tombstones:
    """Those of one gateway.

    Args:
        retention_s: for so long all are kept.
        most: and so many at most.

    Attributes:
        dropped_early: those that went before their time.

    """

    def __init__(self, retention_s: float, most: int) -> None:
        self.dropped_early = 0
        self._retention_s = retention_s
        self._most = most
        self._of: dict[str, Tombstone] = {}
        self._bytes = 0
        """Of their topics."""
        self._old: set[str] = set()
        """Topics of those that are older than the retention."""
        self._old_bytes = 0
        self._ages: list[tuple[float, str]] = []
        """A heap of the others; a topic that is in it and no longer among them is passed over."""
        self._ranks: list[tuple[RetainedVersion, str]] = []
        """A heap of the old ones by version, likewise."""

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, topic: str) -> bool:
        return topic in self._of

    @property
    def by_topic(self) -> Mapping[str, Tombstone]:
        """All of them; not the caller's to change."""
        return self._of

    def has_room_for(self, topic: str, tombstone: Tombstone, now_s: float) -> bool:
        """Return whether one of a topic that has none would not go at once."""
        is_old = now_s - tombstone.since_s >= self._retention_s
        if is_old:
            is_full = self._is_over(1, len(topic)) or self._are_old_over(1, len(topic))
            return not is_full or self._is_above_least_old(tombstone.version)
        if not self._is_over(1, len(topic)) or self._least_old() is not None:
            return True
        oldest_s = self._oldest_s()
        return oldest_s is None or tombstone.since_s > oldest_s

    def lay(self, topic: str, tombstone: Tombstone) -> None:
        """Keep the one of a topic that has none."""
        self._of[topic] = tombstone
        self._bytes += len(topic)
        heappush(self._ages, (tombstone.since_s, topic))
        if len(self._ages) > 2 * len(self._of) + _HEAP_SLACK:
            young = self._of.keys() - self._old
            self._ages = [(self._of[one].since_s, one) for one in young]
            heapify(self._ages)

    def replace(self, topic: str, tombstone: Tombstone) -> None:
        """More is known of one; version and age are as they were."""
        if topic in self._of:
            self._of[topic] = tombstone

    def take_out(self, topic: str) -> Tombstone | None:
        """Keep the one of a topic no longer; return it, if there is one."""
        found = self._of.pop(topic, None)
        if found is not None:
            self._bytes -= len(topic)
            if topic in self._old:
                self._old.discard(topic)
                self._old_bytes -= len(topic)
        return found

    def next_to_go(self, now_s: float) -> str | None:
        """The topic of the one that is to go now; None while all may stay."""
        while (oldest_s := self._oldest_s()) is not None:
            if now_s - oldest_s < self._retention_s:
                break
            self._grows_old(heappop(self._ages)[1])
        is_over = self._is_over()
        least = self._least_old() if is_over or self._are_old_over() else None
        if least is not None:
            return least
        if not is_over or self._oldest_s() is None:
            return None
        self.dropped_early += 1
        return self._ages[0][1]

    def _grows_old(self, topic: str) -> None:
        self._old.add(topic)
        self._old_bytes += len(topic)
        heappush(self._ranks, (self._of[topic].version, topic))
        if len(self._ranks) > 2 * len(self._old) + _HEAP_SLACK:
            self._ranks = [(self._of[one].version, one) for one in self._old]
            heapify(self._ranks)

    def _is_over(self, more: int = 0, more_bytes: int = 0) -> bool:
        """Return whether there are, or would be, too many, or their topics too long."""
        return len(self._of) + more > self._most or self._bytes + more_bytes > BYTES_MAX

    def _are_old_over(self, more: int = 0, more_bytes: int = 0) -> bool:
        return (
            len(self._old) + more > self._most // LASTING_SHARE
            or self._old_bytes + more_bytes > BYTES_MAX // LASTING_SHARE
        )

    def _is_above_least_old(self, version: RetainedVersion) -> bool:
        least = self._least_old()
        return least is not None and version > self._of[least].version

    def _oldest_s(self) -> float | None:
        """Since when the oldest is there of those that are not old yet; None without any."""
        while self._ages:
            since_s, topic = self._ages[0]
            dead = self._of.get(topic)
            if dead is not None and topic not in self._old and dead.since_s == since_s:
                return since_s
            heappop(self._ages)
        return None

    def _least_old(self) -> str | None:
        """The topic of the least version of the old ones; None without any."""
        while self._ranks:
            version, topic = self._ranks[0]
            if topic in self._old and self._of[topic].version == version:
                return topic
            heappop(self._ranks)
        return None

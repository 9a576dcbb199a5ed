"""Deletions that a gateway remembers, so that an older message can't bring a topic back.

For the retention each is kept. After that a tenth of all that may be kept are: those with the
greatest versions. For who was away for longer than the retention, or has an older log, brings back
what nobody remembers to have been deleted, and no fleet knows how long that may be. Which ones of
the old ones go is decided by their versions, as on all other gateways: else two of them would hand
each other what each has just forgotten, for ever.

Deletions by way of one gateway have a share of the room: beyond it its own go, by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from heapq import heapify, heappop, heappush
from typing import Final

from light_dataclasses import dataclass
from tree_handler.retained.hybrid_clock import RetainedVersion

RETENTION_S: Final = 7 * 24 * 3600.0
"""Each is kept so long, and as many of those that are older as there is room for."""
TOMBSTONES_MAX: Final = 100_000
BYTES_MAX: Final = 32 << 20
"""Characters of their topics. Beyond either some go early, which is counted."""
LASTING_SHARE = 10
"""One part of so many that may be kept may be older than the retention."""
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


class _Heaps:
    """Two heaps of tombstones, which give the next to go: the oldest young, the least of the old.

    Args:
        of: all tombstones by topic.
        old: topics of those that are older than the retention.
        origin: whose tombstones they are; None for those of all gateways.

    """

    def __init__(self, of: Mapping[str, Tombstone], old: Set[str], origin: str | None) -> None:
        self._of = of
        self._old = old
        self._origin = origin
        self._ages: list[tuple[float, str]] = []
        """The young ones; a topic that is in it and no longer among them is passed over."""
        self._ranks: list[tuple[RetainedVersion, str]] = []
        """The old ones by version, likewise."""
        self._make_anew()

    def lay(self, topic: str, tombstone: Tombstone) -> None:
        """Take a young one."""
        heappush(self._ages, (tombstone.since_s, topic))
        if len(self._ages) > 2 * len(self._of) + _HEAP_SLACK:
            self._make_anew()

    def grows_old(self, topic: str) -> None:
        """A young one is old now."""
        heappush(self._ranks, (self._of[topic].version, topic))
        if len(self._ranks) > 2 * len(self._old) + _HEAP_SLACK:
            self._make_anew()

    def oldest(self) -> tuple[float, str] | None:
        """Return since when the oldest of the young is there, and its topic; None without any."""
        while self._ages:
            since_s, topic = self._ages[0]
            dead = self._of.get(topic)
            if dead is not None and dead.since_s == since_s and self._is_young(topic, dead):
                return since_s, topic
            heappop(self._ages)
        return None

    def least_old(self) -> str | None:
        """Return the topic of the least version of the old ones; None without any."""
        while self._ranks:
            version, topic = self._ranks[0]
            if topic in self._old and self._of[topic].version == version:
                return topic
            heappop(self._ranks)
        return None

    def _make_anew(self) -> None:
        these = [(topic, dead) for topic, dead in self._of.items() if self._is_of_these(dead)]
        self._ages = [(dead.since_s, topic) for topic, dead in these if topic not in self._old]
        self._ranks = [(dead.version, topic) for topic, dead in these if topic in self._old]
        heapify(self._ages)
        heapify(self._ranks)

    def _is_young(self, topic: str, dead: Tombstone) -> bool:
        return topic not in self._old and self._is_of_these(dead)

    def _is_of_these(self, dead: Tombstone) -> bool:
        return self._origin is None or dead.version.origin == self._origin


class _Room:
    """A number of tombstones, or its limit: all and old ones, and characters of topics.

    Args:
        most: so many at most; of old ones, and of characters, in proportion.
        most_bytes: characters at most.

    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.count = self.size = self.old_count = self.old_size = 0

    def is_over(self, more: int = 0, more_bytes: int = 0) -> bool:
        """Return whether there are, or would be, too many, or their topics too long."""
        return self.count + more > self._most or self.size + more_bytes > self._most_bytes

    @property
    def is_half_empty(self) -> bool:
        """Return whether there is room for as many again, and for as many old ones."""
        is_half = 2 * self.count < self._most and 2 * self.size < self._most_bytes
        return is_half and not self.are_old_over(self.old_count, self.old_size)

    def are_old_over(self, more: int = 0, more_bytes: int = 0) -> bool:
        """Return the same of the old ones."""
        return (
            self.old_count + more > self._most // LASTING_SHARE
            or self.old_size + more_bytes > self._most_bytes // LASTING_SHARE
        )


class Tombstones:
    """Those of one gateway.

    Args:
        retention_s: for so long all are kept.
        most: and so many at most.
        most_of_one: so many at most that one gateway's clients laid; None for as many as of all.

    Attributes:
        dropped_early: those that went before their time.

    """

    def __init__(self, retention_s: float, most: int, most_of_one: int | None = None) -> None:
        self.dropped_early = 0
        self._retention_s = retention_s
        self._most_of_one = most if most_of_one is None else min(most, most_of_one)
        self._bytes_of_one = BYTES_MAX * self._most_of_one // max(1, most)
        self._of: dict[str, Tombstone] = {}
        self._old: set[str] = set()
        """Topics of those that are older than the retention."""
        self._all = _Room(most, BYTES_MAX)
        self._rooms: dict[str, _Room] = {}
        """Of each gateway that accepted deletions."""
        self._heaps = _Heaps(self._of, self._old, None)
        self._of_full: dict[str, _Heaps] = {}
        """Of those gateways whose share is full, or was."""
        self._over: set[str] = set()
        """Gateways that have more than their share."""

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
        origin = tombstone.version.origin
        room = self._rooms.get(origin) or self._empty_room()
        return self._has_room(self._all, None, topic, tombstone, now_s) and self._has_room(
            room, origin, topic, tombstone, now_s
        )

    def _has_room(
        self, room: _Room, origin: str | None, topic: str, tombstone: Tombstone, now_s: float
    ) -> bool:
        is_over = room.is_over(1, len(topic))
        if now_s - tombstone.since_s >= self._retention_s:
            if not is_over and not room.are_old_over(1, len(topic)):
                return True
            least = self._heaps_of(origin).least_old()
            return least is not None and tombstone.version > self._of[least].version
        if not is_over or room.old_count:
            return True
        oldest = self._heaps_of(origin).oldest()
        return oldest is None or tombstone.since_s > oldest[0]

    def lay(self, topic: str, tombstone: Tombstone) -> None:
        """Keep the one of a topic that has none."""
        origin = tombstone.version.origin
        self._of[topic] = tombstone
        room = self._rooms.get(origin)
        if room is None:
            room = self._rooms[origin] = self._empty_room()
        for one in (self._all, room):
            one.count += 1
            one.size += len(topic)
        self._heaps.lay(topic, tombstone)
        if (heaps := self._of_full.get(origin)) is not None:
            heaps.lay(topic, tombstone)
        if room.is_over():
            self._over.add(origin)

    def replace(self, topic: str, tombstone: Tombstone) -> None:
        """More is known of one; version and age are as they were."""
        if topic in self._of:
            self._of[topic] = tombstone

    def take_out(self, topic: str) -> Tombstone | None:
        """Keep the one of a topic no longer; return it, if there is one."""
        found = self._of.pop(topic, None)
        if found is None:
            return None
        origin, was_old = found.version.origin, topic in self._old
        self._old.discard(topic)
        room = self._rooms[origin]
        for one in (self._all, room):
            one.count -= 1
            one.size -= len(topic)
            one.old_count -= was_old
            one.old_size -= len(topic) * was_old
        if not room.count:
            del self._rooms[origin]
        if room.is_half_empty:  # else each deletion of who is at its bound would make them anew
            self._of_full.pop(origin, None)
        return found

    def next_to_go(self, now_s: float) -> str | None:
        """Return the topic of the one that is to go now; None while all may stay."""
        while (oldest := self._heaps.oldest()) is not None:
            if now_s - oldest[0] < self._retention_s:
                break
            self._grows_old(oldest[1])
        while self._over:
            origin = next(iter(self._over))
            room = self._rooms.get(origin)
            topic = None if room is None else self._goes_of(room, origin)
            if topic is not None:
                return topic
            self._over.discard(origin)
        return self._goes_of(self._all, None)

    def _goes_of(self, room: _Room, origin: str | None) -> str | None:
        """Return the topic that goes for want of room; None while there is room."""
        is_over = room.is_over()
        if not is_over and not room.are_old_over():
            return None
        heaps = self._heaps_of(origin)
        least = heaps.least_old()
        if least is not None or not is_over:
            return least
        oldest = heaps.oldest()
        if oldest is None:
            return None
        self.dropped_early += 1
        return oldest[1]

    def _empty_room(self) -> _Room:
        return _Room(self._most_of_one, self._bytes_of_one)

    def _heaps_of(self, origin: str | None) -> _Heaps:
        """Return those of one gateway are made when its share is full: few are at a time."""
        if origin is None:
            return self._heaps
        heaps = self._of_full.get(origin)
        if heaps is None:
            heaps = self._of_full[origin] = _Heaps(self._of, self._old, origin)
        return heaps

    def _grows_old(self, topic: str) -> None:
        origin = self._of[topic].version.origin
        self._old.add(topic)
        room = self._rooms[origin]
        for one in (self._all, room):
            one.old_count += 1
            one.old_size += len(topic)
        self._heaps.grows_old(topic)
        if (heaps := self._of_full.get(origin)) is not None:
            heaps.grows_old(topic)
        if room.are_old_over():
            self._over.add(origin)

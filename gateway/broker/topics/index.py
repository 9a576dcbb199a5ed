"""Index of topics: finds those that a filter matches without looking at each.

The reverse of a subscription tree. For each (position, level) it keeps the set of topics that
have that level there; a filter's answer is the intersection of the sets of its literal levels,
smallest first, with those of the right depth. Any literal level narrows the search, not just
the first ones: ``+/+/temperature`` looks at temperatures only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SET_BYTES: Final = 320
"""A small set with its key. Measured, CPython 3.11, 64 bits, as is the next."""
_ENTRY_BYTES: Final = 60
"""One key's place in a set that has many."""


class TopicIndex(Generic[K]):
    """Keys by topic. A key goes with the same levels when it is added and when it is removed."""

    __slots__ = ("_by_depth", "_by_level", "_dollar", "_entry_count")

    def __init__(self) -> None:
        self._by_level: dict[tuple[int, str], set[K]] = {}
        self._by_depth: dict[int, set[K]] = {}
        self._entry_count = 0
        self._dollar: set[K] = set()
        """Topics that start with ``$``, which no leading wildcard matches."""

    @property
    def holds_dollar(self) -> bool:
        """Return whether a topic that starts with ``$`` is among them."""
        return bool(self._dollar)

    @property
    def bytes_held(self) -> int:
        """Memory of the index without the keys, estimated."""
        return len(self._by_level) * _SET_BYTES + self._entry_count * _ENTRY_BYTES

    @staticmethod
    def bytes_max(level_count: int) -> int:
        """Return the most by which a topic of so many levels can raise `bytes_held`."""
        return level_count * (_SET_BYTES + _ENTRY_BYTES) + _ENTRY_BYTES

    def add(self, key: K, levels: list[str]) -> None:
        """Take in a topic that is not there yet."""
        by_level = self._by_level
        for place in enumerate(levels):
            keys = by_level.get(place)
            if keys is None:
                by_level[place] = {key}
            else:
                keys.add(key)
        self._by_depth.setdefault(len(levels), set()).add(key)
        if levels[0][:1] == "$":
            self._dollar.add(key)
        self._entry_count += len(levels) + 1

    def remove(self, key: K, levels: list[str]) -> None:
        """Forget a topic that is there."""
        by_level = self._by_level
        for place in enumerate(levels):
            keys = by_level[place]
            keys.remove(key)
            if not keys:
                del by_level[place]
        keys = self._by_depth[len(levels)]
        keys.remove(key)
        if not keys:
            del self._by_depth[len(levels)]
        self._dollar.discard(key)
        self._entry_count -= len(levels) + 1

    def clear(self) -> None:
        """Forget all."""
        self._by_level.clear()
        self._by_depth.clear()
        self._dollar.clear()
        self._entry_count = 0

    def matching(self, topic_filter: str) -> set[K]:
        """Return the keys of the topics that an unshared filter matches, in a new set."""
        narrowing, deep = self._sets(topic_filter)
        if not narrowing:
            found = set().union(*(deep or ()))
        else:
            found = narrowing[0].intersection(*narrowing[1:])
            if deep is not None:
                found = set().union(*(found & keys for keys in deep))
        if self._dollar and topic_filter[:1] in ("+", "#"):
            found = found - self._dollar  # [MQTT-4.7.2-1]
        return found

    def walk(self, topic_filter: str, most: int) -> Iterator[K | None]:
        """Yield keys as `matching` finds them, one by one: topics may come and go meanwhile.

        The key of a topic that stays comes once, unless `most` have come before.

        Args:
            topic_filter: unshared.
            most: keys that are wanted; no more are gone through than it takes.

        Yields:
            A key that matches, or None for one that was looked at in vain.

        """
        narrowing, deep = self._sets(topic_filter)
        left_out: set[K] = set()
        if topic_filter[:1] in ("+", "#"):
            left_out = self._dollar  # [MQTT-4.7.2-1]
        if not narrowing:
            yield from _first(deep or (), left_out, most)
            return
        if len(narrowing) == 1 and deep is None:
            yield from _first(narrowing, left_out, most)
            return
        count = 0
        for key in tuple(narrowing[0]):
            if key in left_out or not _is_in(key, narrowing, deep):
                yield None
                continue
            yield key
            count += 1
            if count == most:
                return

    def _sets(self, topic_filter: str) -> tuple[list[set[K]], list[set[K]] | None]:
        """Return the sets that each key has to be in, the smallest first, and those of which one.

        The latter are None where the former say already that the topic is deep enough.
        """
        levels = topic_filter.split("/")
        goes_deeper = levels[-1] == "#"
        if goes_deeper:
            levels.pop()
        narrowing: list[set[K]] = []
        for at, level in enumerate(levels):
            if level != "+":
                keys = self._by_level.get((at, level))
                if keys is None:
                    return [], []
                narrowing.append(keys)
        if not goes_deeper:
            narrowing.append(self._by_depth.get(len(levels), set()))
        narrowing.sort(key=len)
        if narrowing and not (goes_deeper and levels[-1] == "+"):
            return narrowing, None
        return narrowing, [keys for depth, keys in self._by_depth.items() if depth >= len(levels)]


def _first(sets: Iterable[set[K]], left_out: set[K], most: int) -> list[K]:
    found: list[K] = []
    for keys in sets:
        for key in keys:
            if len(found) == most:
                return found
            if key not in left_out:
                found.append(key)
    return found


def _is_in(key: K, all_of: Sequence[set[K]], one_of: Sequence[set[K]] | None) -> bool:
    for keys in all_of:
        if key not in keys:
            return False
    return one_of is None or any(key in keys for keys in one_of)

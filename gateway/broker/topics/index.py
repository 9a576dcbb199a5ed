"""Index of topics: finds those that a filter matches without looking at each.

The reverse of a subscription tree. For each (position, level) it keeps the set of topics that
have that level there; a filter's answer is the intersection of the sets of its literal levels,
smallest first, with those of the right depth. Any literal level narrows the search, not just
the first ones: ``+/+/temperature`` looks at temperatures only.
"""

from __future__ import annotations

from collections.abc import Hashable
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
        """The most by which a topic of so many levels can raise `bytes_held`."""
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
        """The keys of the topics that an unshared filter matches, in a new set."""
        levels = topic_filter.split("/")
        goes_deeper = levels[-1] == "#"
        if goes_deeper:
            levels.pop()
        narrowing: list[set[K]] = []
        for at, level in enumerate(levels):
            if level != "+":
                keys = self._by_level.get((at, level))
                if keys is None:
                    return set()
                narrowing.append(keys)
        if not goes_deeper:
            narrowing.append(self._by_depth.get(len(levels), set()))
        deep = [keys for depth, keys in self._by_depth.items() if depth >= len(levels)]
        if not narrowing:
            found = set().union(*deep)
        else:
            narrowing.sort(key=len)
            found = narrowing[0].intersection(*narrowing[1:])
            if levels[-1] == "+" and goes_deeper:
                # No literal at the end has said yet that the topic is deep enough.
                found = set().union(*(found & keys for keys in deep))
        if self._dollar and topic_filter[:1] in ("+", "#"):
            found = found - self._dollar  # [MQTT-4.7.2-1]
        return found

"""Topics and topic filters, as routing needs them (MQTT 5.0 and 3.1.1, section 4.7).

A topic is levels between slashes; a level may be empty. A filter matches level by level: ``+``
is any one level, a last ``#`` any number of levels, none included. A wildcard never stands
for a first level that begins with ``$`` [MQTT-4.7.2-1].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SHARE = "$share/"


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter matches a topic."""
    if topic[:1] == "$" and topic_filter[:1] in ("+", "#"):
        return False
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or (level != "+" and level != levels[at]):
            return False
    return len(levels) == len(wanted)


def proper(topic_filter: str) -> str:
    """The filter of a subscription without the share name, if it has one (MQTT 5.0, 4.8.2)."""
    if topic_filter.startswith(_SHARE):
        return topic_filter.split("/", 2)[2]
    return topic_filter


def collapse(filters: Iterable[str], limit: int) -> frozenset[str]:
    """At most ``limit`` filters that match all that these match, and perhaps more.

    What another one covers goes. If too many are left, all are cut to the same number of levels,
    as many as are possible, and end with ``#``. Filters of topics that begin with ``$`` are left
    out: no client publishes to those.
    """
    kept = _without_covered({f for f in filters if f[:1] != "$"})
    depth = max((f.count("/") for f in kept), default=0)
    while len(kept) > limit and depth > 0:
        kept = _without_covered({_cut(f, depth) for f in kept})
        depth -= 1
    return frozenset(kept if len(kept) <= limit else ("#",))


def _cut(topic_filter: str, depth: int) -> str:
    levels = topic_filter.split("/")
    return topic_filter if len(levels) <= depth else "/".join([*levels[:depth], "#"])


def _without_covered(filters: set[str]) -> set[str]:
    return {f for f in filters if not any(p in filters for p in _prefixes(f) if p != f)}


def _prefixes(topic_filter: str) -> Iterable[str]:
    """The filters that end with ``#`` and cover this one, as far as its beginning tells."""
    yield "#"
    levels = topic_filter.split("/")
    for depth in range(1, len(levels) + 1):
        if levels[depth - 1] != "#":
            yield "/".join([*levels[:depth], "#"])


class FilterIndex(Generic[K]):
    """Keys by filter: which keys have a filter that matches a topic.

    One walk visits each level of the tree of filters at most once.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Level[K] = _Level()

    def add(self, topic_filter: str, key: K) -> None:
        """Note that a key has a filter."""
        level = self._root
        for name in topic_filter.split("/"):
            below = level.below.get(name)
            if below is None:
                below = level.below[name] = _Level()
            level = below
        level.keys.add(key)

    def remove(self, topic_filter: str, key: K) -> None:
        """Forget a filter of a key; levels that nothing needs any more go with it."""
        path = [self._root]
        names = topic_filter.split("/")
        for name in names:
            below = path[-1].below.get(name)
            if below is None:
                return
            path.append(below)
        path[-1].keys.discard(key)
        for name in reversed(names):
            if path[-1].keys or path[-1].below:
                return
            path.pop()
            del path[-1].below[name]

    def match(self, topic: str) -> set[K]:
        """The keys that have a filter that matches."""
        found: set[K] = set()
        front = [self._root]
        wild = topic[:1] != "$"
        for name in topic.split("/"):
            after: list[_Level[K]] = []
            for level in front:
                if wild:
                    if (rest := level.below.get("#")) is not None:
                        found |= rest.keys
                    if (any_one := level.below.get("+")) is not None:
                        after.append(any_one)
                if (below := level.below.get(name)) is not None and name not in ("#", "+"):
                    after.append(below)
            wild = True
            front = after
        for level in front:
            found |= level.keys
            if (rest := level.below.get("#")) is not None:  # "a/#" matches "a"
                found |= rest.keys
        return found

    @property
    def is_empty(self) -> bool:
        """Whether no level is in memory."""
        return not self._root.below


class _Level(Generic[K]):
    __slots__ = ("below", "keys")

    def __init__(self) -> None:
        self.below: dict[str, _Level[K]] = {}
        self.keys: set[K] = set()

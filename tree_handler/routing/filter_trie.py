"""A tree of filter levels: finds which filters match a topic (MQTT 5.0 and 3.1.1, section 4.7).

A topic is matched by one walk that visits each node at most once, so its cost follows the filters
that share the topic's beginning, not all there are. A node goes with its last filter.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Node(Generic[K, V]):
    """The filters that share a beginning: what goes on below it, and the values of what ends."""

    __slots__ = ("below", "values")

    def __init__(self) -> None:
        self.below: dict[str, _Node[K, V]] = {}
        self.values: dict[K, V] = {}


class FilterTrie(Generic[K, V]):
    """One value for each filter, which is well-formed and not shared, and key.

    Attributes:
        node_count: nodes in memory beside the root; none are left when no value is.

    """

    __slots__ = ("_root", "node_count")

    def __init__(self) -> None:
        self._root: _Node[K, V] = _Node()
        self.node_count = 0

    def get(self, topic_filter: str, key: K) -> V | None:
        """Return the value of a filter and key; None where there is none."""
        return self._path(topic_filter)[-1].values.get(key)

    def set(self, topic_filter: str, key: K, value: V) -> bool:
        """Keep a value in place of the one before; returns whether there was none."""
        node = self._root
        for level in topic_filter.split("/"):
            below = node.below.get(level)
            if below is None:
                below = node.below[level] = _Node()
                self.node_count += 1
            node = below
        is_new = key not in node.values
        node.values[key] = value
        return is_new

    def delete(self, topic_filter: str, key: K) -> bool:
        """Forget a value; returns whether there was one."""
        path = self._path(topic_filter)
        if key not in path[-1].values:
            return False
        del path[-1].values[key]
        levels = topic_filter.split("/")
        while len(path) > 1 and not path[-1].values and not path[-1].below:
            path.pop()
            del path[-1].below[levels[len(path) - 1]]
            self.node_count -= 1
        return True

    def match(self, topic: str) -> list[tuple[K, V]]:
        """Return keys and values of the filters that match; a key stands once for each such
        filter."""
        found: list[tuple[K, V]] = []
        if "+" in topic or "#" in topic:  # no topic, and not to be taken for a filter
            return found
        nodes = [self._root]
        may_be_wild = topic[:1] != "$"  # [MQTT-4.7.2-1]
        for level in topic.split("/"):
            after: list[_Node[K, V]] = []
            for node in nodes:
                below = node.below
                if may_be_wild:
                    if (rest := below.get("#")) is not None:
                        found.extend(rest.values.items())
                    if (any_level := below.get("+")) is not None:
                        after.append(any_level)
                if (same := below.get(level)) is not None:
                    after.append(same)
            if not after:
                return found
            nodes = after
            may_be_wild = True
        for node in nodes:
            found.extend(node.values.items())
            if (rest := node.below.get("#")) is not None:  # "a/#" matches "a" (section 4.7.1.2)
                found.extend(rest.values.items())
        return found

    def matching_keys(self, topic: str) -> frozenset[K]:
        """Return the keys of all filters that match a topic, each once."""
        return frozenset(dict(self.match(topic)))

    def _path(self, topic_filter: str) -> list[_Node[K, V]]:
        """Return the nodes from the root to the filter's own; one without values where it has
        none."""
        path = [self._root]
        for level in topic_filter.split("/"):
            below = path[-1].below.get(level)
            if below is None:
                return [self._root]
            path.append(below)
        return path

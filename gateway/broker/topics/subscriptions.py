"""Who subscribed to what: a tree of filter levels.

A topic is matched by one walk that visits each node at most once, so its cost follows the
filters that share the topic's beginning, not all there are. A node goes with its last
subscription.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from gateway.broker.topics.filters import FilterError, filter_levels, split_share

S = TypeVar("S", bound=Hashable)
V = TypeVar("V")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

LEVELS_MAX = 200
"""A filter of more levels is refused: each level can cost a node."""
_NODE_BYTES = 432
"""A node with its level. Measured, CPython 3.11, 64 bits, as are the next."""
_SUBSCRIPTION_BYTES = 300
_GROUP_BYTES = 400
"""What a shared subscription adds, if each is alone in its group."""


class SubscriptionTree(Generic[S, V]):
    """Subscriptions by filter: for each (filter, subscriber) one value.

    ``S`` is a subscriber, any hashable; ``V`` what is kept for the subscription, such as its
    options. Shared subscriptions, ``$share/NAME/FILTER``, are kept apart (MQTT 5.0, 4.8.2).

    Args:
        levels_max: a filter may have so many levels, the share name not counted.

    """

    __slots__ = ("_count", "_levels_max", "_plain", "_shared", "_text", "shared_count")

    def __init__(self, levels_max: int = LEVELS_MAX) -> None:
        self._levels_max = levels_max
        self._plain: _FilterTree[S, V] = _FilterTree()
        self._shared: _FilterTree[tuple[str, str], dict[S, V]] = _FilterTree()
        self._count = 0
        self._text = 0
        self.shared_count = 0
        """How many of the subscriptions are shared."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self._count

    @property
    def node_count(self) -> int:
        """Nodes in memory; none are left when no subscription is."""
        return self._plain.node_count + self._shared.node_count

    @property
    def bytes_held(self) -> int:
        """Memory of all subscriptions, estimated; the filters' text is the subscribers'."""
        return (
            self.node_count * _NODE_BYTES
            + self._count * _SUBSCRIPTION_BYTES
            + self.shared_count * _GROUP_BYTES
            + self._text
        )

    def add(self, topic_filter: str, subscriber: S, value: V) -> bool:
        """Subscribe; whether the subscription is new. Otherwise its value is replaced.

        Raises:
            FilterError: the filter is malformed or has too many levels; nothing has changed.

        """
        share_name, proper = split_share(topic_filter)
        levels = filter_levels(proper)
        if len(levels) > self._levels_max:
            raise FilterError(f"has more than {self._levels_max} levels", topic_filter)
        if share_name:
            group = (share_name, proper)
            members = self._shared.get(levels, group)
            if members is None:
                members = {}
                self._shared.set(levels, group, members)
            is_new = subscriber not in members
            members[subscriber] = value
            self.shared_count += is_new
        else:
            is_new = self._plain.set(levels, subscriber, value)
        self._count += is_new
        if is_new:
            self._text += len(topic_filter)
        return is_new

    def remove(self, topic_filter: str, subscriber: S) -> bool:
        """Unsubscribe; whether there was such a subscription.

        Raises:
            FilterError: the filter starts as a shared subscription and is none.

        """
        share_name, proper = split_share(topic_filter)
        levels = proper.split("/")
        if share_name:
            group = (share_name, proper)
            members = self._shared.get(levels, group)
            if members is None or subscriber not in members:
                return False
            del members[subscriber]
            self.shared_count -= 1
            if not members:
                self._shared.delete(levels, group)
        elif not self._plain.delete(levels, subscriber):
            return False
        self._count -= 1
        self._text -= len(topic_filter)
        return True

    def match(self, topic: str) -> list[tuple[S, V]]:
        """The unshared subscriptions whose filter matches, each once.

        A subscriber with several such filters is listed for each of them.
        """
        return self._plain.match(topic)

    def match_shared(self, topic: str) -> list[tuple[tuple[str, str], list[tuple[S, V]]]]:
        """The shared subscriptions that match: ((share name, filter), members as they joined)."""
        if not self._shared.node_count:
            return []
        return [(group, list(members.items())) for group, members in self._shared.match(topic)]


class _Node(Generic[K, T]):
    """The filters that share a beginning.

    ``here`` are those that end with it, ``deeper`` those that go on with ``#``. The wildcards
    have places of their own, so that no topic can be taken for one.
    """

    __slots__ = ("any_level", "children", "deeper", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Node[K, T]] = {}
        self.any_level: _Node[K, T] | None = None
        self.here: dict[K, T] = {}
        self.deeper: dict[K, T] = {}

    def step(self, level: str) -> _Node[K, T] | None:
        return self.any_level if level == "+" else self.children.get(level)

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.any_level or self.here or self.deeper)


class _FilterTree(Generic[K, T]):
    """Values by (filter's levels, key)."""

    __slots__ = ("_root", "node_count")

    def __init__(self) -> None:
        self._root: _Node[K, T] = _Node()
        self.node_count = 0
        """Nodes beside the root, and one for each filter ``#`` that the root itself keeps."""

    def get(self, levels: list[str], key: K) -> T | None:
        entries = self._entries(levels)
        return None if entries is None else entries.get(key)

    def set(self, levels: list[str], key: K, value: T) -> bool:
        """Whether it is new."""
        node = self._root
        for level in levels:
            if level == "#":
                break
            child = node.step(level)
            if child is None:
                child = _Node()
                self.node_count += 1
                if level == "+":
                    node.any_level = child
                else:
                    node.children[level] = child
            node = child
        entries = node.deeper if levels[-1] == "#" else node.here
        is_new = key not in entries
        entries[key] = value
        if node is self._root:
            self.node_count += is_new
        return is_new

    def delete(self, levels: list[str], key: K) -> bool:
        """Whether it was there. Nodes that nothing needs any more go with it."""
        path = [self._root]
        for level in levels:
            if level == "#":
                break
            child = path[-1].step(level)
            if child is None:
                return False
            path.append(child)
        entries = path[-1].deeper if levels[-1] == "#" else path[-1].here
        if key not in entries:
            return False
        del entries[key]
        if len(path) == 1:
            self.node_count -= 1
        while len(path) > 1 and path[-1].is_empty:
            path.pop()
            level = levels[len(path) - 1]
            if level == "+":
                path[-1].any_level = None
            else:
                del path[-1].children[level]
            self.node_count -= 1
        return True

    def match(self, topic: str) -> list[tuple[K, T]]:
        found: list[tuple[K, T]] = []
        levels = topic.split("/")
        if topic[:1] == "$":
            # No wildcard may stand for the first level [MQTT-4.7.2-1].
            first = self._root.children.get(levels[0])
            nodes = [] if first is None else [first]
            del levels[0]
        else:
            nodes = [self._root]
        for level in levels:
            below = []
            for node in nodes:
                if node.deeper:
                    found.extend(node.deeper.items())
                child = node.children.get(level)
                if child is not None:
                    below.append(child)
                if node.any_level is not None:
                    below.append(node.any_level)
            if not below:
                return found
            nodes = below
        for node in nodes:
            if node.here:
                found.extend(node.here.items())
            if node.deeper:  # "a/#" matches "a" (section 4.7.1.2)
                found.extend(node.deeper.items())
        return found

    def _entries(self, levels: list[str]) -> dict[K, T] | None:
        node: _Node[K, T] | None = self._root
        for level in levels:
            if level == "#":
                break
            node = node.step(level) if node is not None else None
        if node is None:
            return None
        return node.deeper if levels[-1] == "#" else node.here

"""Subscriptions of clients, and how many there are."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from gateway.mqtt import FilterError, check_topic_filter
from tree_handler.routing.filter_trie import FilterTrie
from tree_handler.routing.topic_filters import split_share

S = TypeVar("S", bound=Hashable)
V = TypeVar("V")

LEVELS_MAX: Final = 200
"""A filter of more levels is refused: each level can cost a node."""
_NODE_BYTES: Final = 368
"""A node with its level. Measured, CPython 3.11, 64 bits, as are the next."""
_SUBSCRIPTION_BYTES: Final = 300
_GROUP_BYTES: Final = 600
"""The memory that a shared subscription adds, if each is alone in its group."""


def bytes_max(topic_filter: str) -> int:
    """Return the most by which one subscription can raise `SubscriptionTree.bytes_held`."""
    levels = topic_filter.count("/") + 1
    group = _GROUP_BYTES if topic_filter.startswith("$share/") else 0
    return _SUBSCRIPTION_BYTES + group + levels * _NODE_BYTES + len(topic_filter)


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
        self._plain: FilterTrie[S, V] = FilterTrie()
        self._shared: FilterTrie[tuple[str, str], dict[S, V]] = FilterTrie()
        self._count = 0
        self._text = 0
        self.shared_count = 0
        """The number of shared subscriptions."""

    def __len__(self) -> int:
        """Return how many subscriptions there are."""
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
        """Subscribe; returns whether the subscription is new. Otherwise its value is replaced.

        Raises:
            FilterError: the filter is malformed or has too many levels; nothing has changed.

        """
        share_name, proper = split_share(check_topic_filter(topic_filter))
        if proper.count("/") >= self._levels_max:
            raise FilterError(f"topic filter of more than {self._levels_max} levels", topic_filter)
        if share_name:
            group = (share_name, proper)
            members = self._shared.get(proper, group)
            if members is None:
                members = {}
                self._shared.set(proper, group, members)
            is_new = subscriber not in members
            members[subscriber] = value
            self.shared_count += is_new
        else:
            is_new = self._plain.set(proper, subscriber, value)
        self._count += is_new
        if is_new:
            self._text += len(topic_filter)
        return is_new

    def remove(self, topic_filter: str, subscriber: S) -> bool:
        """Unsubscribe; returns whether there was such a subscription."""
        share_name, proper = split_share(topic_filter)
        if share_name:
            group = (share_name, proper)
            members = self._shared.get(proper, group)
            if members is None or subscriber not in members:
                return False
            del members[subscriber]
            self.shared_count -= 1
            if not members:
                self._shared.delete(proper, group)
        elif not self._plain.delete(proper, subscriber):
            return False
        self._count -= 1
        self._text -= len(topic_filter)
        return True

    def members(self, group: tuple[str, str]) -> list[tuple[S, V]]:
        """Return the members of a shared subscription, given as share name and filter, as they
        joined."""
        members = self._shared.get(group[1], group)
        return list(members.items()) if members else []

    def match(self, topic: str) -> list[tuple[S, V]]:
        """Return the unshared subscriptions whose filter matches, each once.

        A subscriber with several such filters is listed for each of them.
        """
        return self._plain.match(topic)

    def match_shared(self, topic: str) -> list[tuple[tuple[str, str], list[tuple[S, V]]]]:
        """Return the shared subscriptions that match: ((share name, filter), members as they
        joined)."""
        if not self._shared.node_count:
            return []
        return [(group, list(members.items())) for group, members in self._shared.match(topic)]

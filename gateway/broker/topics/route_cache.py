"""Remembers where a topic goes, and forgets only what a change of subscriptions touches."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Final, Generic, TypeVar

from gateway.broker.topics.index import TopicIndex
from tree_handler.routing.topic_filters import is_exact, proper

R = TypeVar("R")

TOPICS_MAX: Final = 20_000
BYTES_MAX: Final = 16 << 20
ROUTES_BYTES_MAX: Final = 32 << 20
"""Memory of the routes themselves: with many receivers that is most of it."""
_DROPS_MAX: Final = 2_000
"""Routes dropped one by one; to clear them all takes a quarter of what 20,000 drops do."""
_LOOKS_MAX: Final = 2_000_000
"""Filters times routes; beyond it the cache is cleared rather than searched."""
_ENTRY_BYTES: Final = 200
"""A route's entry in the dictionary and its key's own object."""


class RouteCache(Generic[R]):
    """Topic -> resolved route, whatever the caller makes of it.

    When it is full, the oldest eighth goes at once, so that a put costs the same on average. A
    route that is gone is resolved anew: nothing but time depends on what is kept.

    Args:
        topics_max: routes kept at most.
        bytes_max: memory of keys and index at most, as estimated.

    Attributes:
        kept: the routes by their topics' UTF-8 bytes as they came, to be read only.

    Raises:
        ValueError: ``topics_max`` is less than 1.

    """

    __slots__ = ("_bytes_max", "_index", "_key_bytes", "_routes_bytes", "_topics_max", "kept")

    def __init__(self, topics_max: int = TOPICS_MAX, bytes_max: int = BYTES_MAX) -> None:
        if topics_max < 1:
            raise ValueError(f"topics_max: {topics_max} is not 1 or more")
        self._topics_max = topics_max
        self._bytes_max = bytes_max
        self.kept: dict[bytes, R] = {}
        self._index: TopicIndex[bytes] = TopicIndex()
        self._key_bytes = 0
        self._routes_bytes = 0
        """Of all routes that were put since all were forgotten, the dropped ones too."""

    def __len__(self) -> int:
        """Return how many routes there are."""
        return len(self.kept)

    @property
    def bytes_held(self) -> int:
        """Memory of keys and index, estimated."""
        return self._key_bytes + self._index.bytes_held

    def put(self, topic: bytes, route: R, route_bytes: int = 0) -> None:
        """Keep a route. One whose topic alone is over an eighth of ``bytes_max`` is not kept.

        Args:
            topic: whose.
            route: where it goes.
            route_bytes: its memory; beyond `ROUTES_BYTES_MAX` all others are forgotten.

        Raises:
            UnicodeDecodeError: the topic is not UTF-8.

        """
        self._routes_bytes += route_bytes
        if self._routes_bytes > ROUTES_BYTES_MAX:
            self.clear()
            self._routes_bytes = route_bytes
        if topic in self.kept:
            self.kept[topic] = route
            return
        levels = topic.decode().split("/")
        cost = len(topic) + _ENTRY_BYTES + self._index.bytes_max(len(levels))
        if cost > self._bytes_max // 8:
            return
        while len(self.kept) >= self._topics_max or self.bytes_held + cost > self._bytes_max:
            for oldest in list(islice(self.kept, len(self.kept) // 8 + 1)):
                self._drop(oldest)
        self.kept[topic] = route
        self._index.add(topic, levels)
        self._key_bytes += len(topic) + _ENTRY_BYTES

    def touched(self, topic_filter: str) -> None:
        """Forget the routes of the topics that the filter, shared or not, matches."""
        matched = proper(topic_filter)
        if is_exact(matched):
            self._drop(matched.encode())
        elif matched == "#" and not self._index.holds_dollar:
            self.clear()
        else:
            topics = self._index.matching(matched)
            if len(topics) > _DROPS_MAX:
                self.clear()
                return
            for topic in topics:
                self._drop(topic)

    def touched_by(self, topic_filters: Collection[str]) -> None:
        """Forget the routes of the topics that any of many filters matches, and perhaps more."""
        self.expect(len(topic_filters))
        for topic_filter in topic_filters:
            self.touched(topic_filter)

    def expect(self, filter_count: int) -> None:
        """So many filters will be touched at once: forget all rather than look for each."""
        if filter_count * len(self.kept) > _LOOKS_MAX:
            self.clear()

    def clear(self) -> None:
        """Forget all routes."""
        self.kept.clear()
        self._index.clear()
        self._key_bytes = self._routes_bytes = 0

    def _drop(self, topic: bytes) -> None:
        if topic in self.kept:
            del self.kept[topic]
            self._index.remove(topic, topic.decode().split("/"))
            self._key_bytes -= len(topic) + _ENTRY_BYTES

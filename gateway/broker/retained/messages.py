"""The retained message of each topic (MQTT 5.0, section 3.3.1.3), with limits and expiry.

What a message is, the caller decides; here it has a topic, a size and perhaps a time from
which it is gone. Time is the caller's: seconds of one clock, passed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from gateway.broker.topics.index import TopicIndex
from tree_handler.routing.topic_filters import is_exact

M = TypeVar("M")

MESSAGES_MAX: Final = 100_000
BYTES_MAX: Final = 64 << 20
_HEAP_SLACK: Final = 64
"""Stale expiry times that are left in the heap before it is built anew."""


class RetainedLimitError(ValueError):
    """A message can't be retained; the one before it, if any, still is.

    Args:
        topic: the message's topic.
        value: what they would have come to.
        limit: what that may be.
        counted: what is too much.

    """

    def __init__(self, topic: str, value: int, limit: int, counted: str) -> None:
        shown = topic if len(topic) <= 80 else topic[:77] + "..."
        super().__init__(f"{shown!r} not retained: {value} {counted}, limit {limit}")
        self.topic = topic
        self.value = value
        self.limit = limit


class _Held(Generic[M]):
    """No dataclass: mypyc knows none that is generic."""

    __slots__ = ("expires_at_s", "message", "serial", "size_bytes")

    def __init__(self, message: M, size_bytes: int, expires_at_s: float, serial: int) -> None:
        self.message = message
        self.size_bytes = size_bytes
        self.expires_at_s = expires_at_s
        self.serial = serial


class RetainedMessages(Generic[M]):
    """At most one message a topic.

    Args:
        size_of: bytes of a message without its topic: payload and properties.
        messages_max: messages at most.
        bytes_max: bytes at most: messages, their topics, and the index as estimated.

    """

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_expiries",
        "_held",
        "_index",
        "_messages_max",
        "_serial",
        "_size_of",
    )

    def __init__(
        self,
        size_of: Callable[[M], int],
        messages_max: int = MESSAGES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._size_of = size_of
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._serial = 0
        self._held: dict[str, _Held[M]] = {}
        self._index: TopicIndex[str] = TopicIndex()
        self._expiries: list[tuple[float, int, str]] = []
        """A heap; what was replaced or deleted since is known by its serial number."""

    def __len__(self) -> int:
        """Return how many messages there are, expired ones included until `expire` has met them."""
        return len(self._held)

    @property
    def bytes_held(self) -> int:
        """Bytes that count against the limit."""
        return self._bytes + self._index.bytes_held

    def set(self, topic: str, message: M, expires_at_s: float = math.inf) -> None:
        """Retain a message in place of the topic's last one [MQTT-3.3.1-5].

        An empty payload is the caller's to turn into `delete` [MQTT-3.3.1-6].

        Args:
            topic: its topic.
            message: what `match` gives back.
            expires_at_s: from then on it is gone (MQTT 5.0, section 3.3.2.3.3).

        Raises:
            RetainedLimitError: too many messages, or too many bytes; nothing has changed.

        """
        old = self._held.get(topic)
        levels = topic.split("/")
        size = len(topic.encode()) + self._size_of(message)
        if old is None:
            grows_by = size + self._index.bytes_max(len(levels))
        else:
            grows_by = size - old.size_bytes
        count, total = len(self._held) + (old is None), self.bytes_held + grows_by
        if old is None and count > self._messages_max:
            raise RetainedLimitError(topic, count, self._messages_max, "retained messages")
        if grows_by > 0 and total > self._bytes_max:
            what = "bytes of retained messages"
            raise RetainedLimitError(topic, total, self._bytes_max, what)
        self._serial += 1
        self._held[topic] = _Held(message, size, expires_at_s, self._serial)
        self._bytes += size - (0 if old is None else old.size_bytes)
        if old is None:
            self._index.add(topic, levels)
        if expires_at_s < math.inf:
            heappush(self._expiries, (expires_at_s, self._serial, topic))
        self._trim_heap()

    def delete(self, topic: str) -> bool:
        """Forget a topic's message, and return whether there was one."""
        held = self._held.pop(topic, None)
        if held is None:
            return False
        self._bytes -= held.size_bytes
        self._index.remove(topic, topic.split("/"))
        self._trim_heap()
        return True

    def match(self, topic_filter: str, now_s: float) -> Iterator[tuple[str, M]]:
        """Return the messages whose topic an unshared filter matches, in no particular order.

        The topics are those of the moment of the call; a message that is replaced or deleted
        before the iterator comes to it is given as it is then, or not at all.
        """
        topics = [topic_filter] if is_exact(topic_filter) else self._index.matching(topic_filter)
        return self._alive(topics, now_s)

    def walk(self, topic_filter: str, now_s: float, most: int) -> Iterator[tuple[str, M] | None]:
        """Yield messages as `match` finds them, at most so many; None for what was no match.

        So who goes through very many can stop between any two, in whatever filter. Messages may
        come and go meanwhile: one that stays comes once.

        Args:
            topic_filter: unshared.
            now_s: the time; what has expired by then is none.
            most: messages that are wanted; those that have expired count until `expire` meets them.

        """
        exact: list[str | None] = [topic_filter]
        topics = exact if is_exact(topic_filter) else self._index.walk(topic_filter, most)
        for topic in topics:
            held = None if topic is None else self._held.get(topic)
            if topic is None or held is None or held.expires_at_s <= now_s:
                yield None
            else:
                yield topic, held.message

    def get(self, topic: str) -> M | None:
        """Return a topic's message, if there is one; expired or not."""
        held = self._held.get(topic)
        return None if held is None else held.message

    def expire(self, now_s: float, count_max: int = 5_000) -> list[tuple[str, M]]:
        """Delete what has expired and say what, by topic; to be called again and again.

        At most ``count_max`` times are looked at, so that no call takes long. What is left over
        takes memory until the next call, but `match` does not give it any more.
        """
        gone: list[tuple[str, M]] = []
        for _ in range(count_max):
            if not self._expiries or self._expiries[0][0] > now_s:
                break
            _, serial, topic = heappop(self._expiries)
            held = self._held.get(topic)
            if held is not None and held.serial == serial:
                self.delete(topic)
                gone.append((topic, held.message))
        return gone

    def _alive(self, topics: Iterable[str], now_s: float) -> Iterator[tuple[str, M]]:
        for topic in topics:
            held = self._held.get(topic)
            if held is not None and held.expires_at_s > now_s:
                yield topic, held.message

    def _trim_heap(self) -> None:
        # A topic that is set again and again would fill the heap with times of what is gone.
        if len(self._expiries) > 2 * len(self._held) + _HEAP_SLACK:
            self._expiries = [
                (held.expires_at_s, held.serial, topic)
                for topic, held in self._held.items()
                if held.expires_at_s < math.inf
            ]
            heapify(self._expiries)

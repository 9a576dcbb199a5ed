"""Goal: what a stolen gateway takes of others' room is what docs/trust.md lists, and no more."""

from __future__ import annotations

import logging
import time

import pytest

from gateway.broker.durability.durability import Durability
from gateway.broker.limits import Limits
from gateway.broker.outbound.message import Message
from gateway.broker.retained.retention import Retention
from gateway.event_log.counted_lines import CountedLines
from tree_handler.batch import Entry
from tree_handler.retained.message import VERSION

ROOM = 20
OWN, THIEF = "gw-a", "gw-x"
NOW_US = time.time_ns() // 1000


class Store:
    """What one gateway retains, with room for `ROOM` messages and as many deletions."""

    def __init__(self) -> None:
        lines = CountedLines(logging.getLogger(__name__), lambda: 0.0)
        limits = Limits(retained_messages=ROOM, retained_tombstones=ROOM)
        self._number = 0
        self.retention = Retention(limits, Durability((OWN, 1)), lines, self.now)

    def now(self) -> float:
        """A second passes with each message."""
        return float(self._number)

    def publish(self, origin: str, topic: str, payload: bytes) -> bool:
        self._number += 1
        stamp = {VERSION: (NOW_US + self._number, 0)}
        message = Message.of(Entry(topic, payload, 1, retain=True, properties=stamp), 0.0)
        message.ref = ((origin, 1), self._number)
        return self.retention.retain(message)

    def on(self, topic: str) -> bytes:
        found = self.retention.get(topic)
        return b"" if found is None else found.payload


@pytest.fixture
def store() -> Store:
    return Store()


def test_who_fills_what_is_retained_keeps_others_from_new_topics_alone(store: Store) -> None:
    assert store.publish(OWN, "door", b"open")
    for number in range(2 * ROOM):
        store.publish(THIEF, f"x/{number}", b"x")
    assert not store.publish(OWN, "window", b"open")
    assert store.on("door") == b"open"
    assert store.publish(OWN, "door", b"shut")
    assert store.on("door") == b"shut"
    assert store.publish(OWN, "x/0", b"")  # whoever may publish there makes room
    assert store.publish(OWN, "window", b"open")


def test_who_deletes_without_end_has_others_deletions_forgotten_and_can_bring_back_what_was_there(
    store: Store,
) -> None:
    assert store.publish(OWN, "door", b"open")
    kept = store.retention.get("door")
    assert kept is not None
    assert store.publish(OWN, "door", b"")
    assert store.retention.versions.tombstone("door") is not None
    for number in range(2 * ROOM):
        store.publish(THIEF, f"x/{number}", b"")
    store.retention.expire(store.now())
    assert store.retention.versions.tombstone("door") is None
    assert store.on("door") == b""
    assert store.retention.versions.dropped_early
    assert store.retention.retain(kept)  # which its origin has signed
    assert store.publish(OWN, "door", b"shut")
    assert not store.retention.retain(kept)
    assert store.on("door") == b"shut"

"""Goal: what a stolen gateway takes of others' room is what docs/trust.md lists, and no more."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import pytest

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.durability.persistence import Persistence
from gateway.broker.hooks import Owner
from gateway.broker.limits import Limits
from gateway.broker.outbound.message import Message
from gateway.broker.retained.retention import Retention
from tree_handler.batch import Entry
from tree_handler.retained.message import VERSION

ROOM = 20
SHARE = 15
OF_USER = 5
OWN, THIEF = "gw-a", "gw-x"
NOW_US = time.time_ns() // 1000


class Store:
    """The retained messages of one gateway, with room for `ROOM` of them and as many deletions.

    Args:
        of_one: how many of them may be by way of one gateway.
        bytes_of_one: likewise, bytes.

    """

    def __init__(self, of_one: int = SHARE, bytes_of_one: int = 1 << 20) -> None:
        self.lines = CountedLines(logging.getLogger(__name__), lambda: 0.0)
        limits = Limits(
            retained_messages=ROOM,
            retained_messages_per_gateway=of_one,
            retained_bytes_per_gateway=bytes_of_one,
            retained_tombstones=ROOM,
            retained_tombstones_per_user=OF_USER,
            retained_tombstones_per_gateway=of_one,
        )
        self._number = 0
        self.retention = Retention(limits, Persistence((OWN, 1)), self.lines, self.now)

    def now(self) -> float:
        """A second passes with each message."""
        return float(self._number)

    def publish(self, origin: str, topic: str, payload: bytes, owner: Owner | None = None) -> bool:
        self._number += 1
        stamp = {VERSION: (NOW_US + self._number, 0)}
        message = Message.of(Entry(topic, payload, 1, retain=True, properties=stamp), 0.0)
        message.ref = ((origin, 1), self._number)
        return self.retention.retain(message, owner)

    def on(self, topic: str) -> bytes:
        found = self.retention.get(topic)
        return b"" if found is None else found.payload


@pytest.fixture
def store() -> Store:
    return Store()


def test_a_deletion_that_the_log_takes_later_has_its_number_then_and_no_other_deletion_has(
    store: Store,
) -> None:
    assert store.publish(OWN, "door", b"open")
    stamp = {VERSION: (NOW_US + 100, 0)}
    deletion = Message.of(Entry("door", b"", 1, retain=True, properties=stamp), 0.0)
    store.retention.retain(deletion, None)
    before = store.retention.versions.tombstone("door")
    assert before is not None
    deletion.ref = ((OWN, 1), 7)
    store.retention.placed(deletion)
    placed = store.retention.versions.tombstone("door")
    assert placed == replace(before, number=7)
    later = {VERSION: (NOW_US + 101, 0)}
    other = Message.of(Entry("door", b"", 1, retain=True, properties=later), 0.0)
    other.ref = ((OWN, 1), 8)
    store.retention.placed(other)
    assert store.retention.versions.tombstone("door") == placed


def test_a_retained_message_that_the_log_has_now_is_saved_with_its_number(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint may have been made since it was retained, and had none."""
    to_save: list[str] = []
    monkeypatch.setattr(Persistence, "retained_changed", lambda _self, topic: to_save.append(topic))
    durability = Persistence((OWN, 1))
    retention = Retention(Limits(retained_messages=1), durability, store.lines, store.now)
    kept, over = (
        Message.of(Entry(t, b"x", 1, retain=True, properties={VERSION: (NOW_US, 0)}), 0.0)
        for t in ("kept", "over")
    )
    assert [retention.retain(one, None) for one in (kept, over)] == [True, False]
    to_save.clear()
    for number, one in enumerate((kept, over), 1):
        one.ref = ((OWN, 1), number)
        retention.placed(one)
    assert to_save == ["kept"]


FULL = "message not retained: too many retained messages of this gateway"


def test_a_gateway_has_as_many_messages_retained_as_its_share_and_the_next_one_is_refused(
    store: Store,
) -> None:
    kept = [store.publish(THIEF, f"x/{number}", b"x") for number in range(2 * ROOM)]
    assert kept == [True] * SHARE + [False] * (2 * ROOM - SHARE)
    assert store.lines.counts[FULL] == 2 * ROOM - SHARE
    assert [store.publish(OWN, f"own/{n}", b"open") for n in range(ROOM - SHARE)] == [True] * 5
    assert not store.publish(OWN, "own/more", b"open"), "now all is full"
    assert store.publish(THIEF, "x/0", b"else"), "what it has it may change"
    assert store.publish(THIEF, "x/1", b"")
    assert store.publish(THIEF, "x/new", b"x"), "and what it deletes is room again"


def test_a_gateway_whose_share_is_full_takes_no_topic_over_from_another(store: Store) -> None:
    assert store.publish(OWN, "door", b"open")
    for number in range(SHARE):
        store.publish(THIEF, f"x/{number}", b"x")
    assert not store.publish(THIEF, "door", b"shut")
    assert store.on("door") == b"open"
    assert store.publish(THIEF, "x/0", b"")
    assert store.publish(THIEF, "door", b"shut")
    assert not store.publish(THIEF, "x/0", b"x")
    assert store.publish(OWN, "door", b"open"), "what was another's is given back with its room"
    assert store.publish(THIEF, "x/0", b"x")


def test_a_gateway_s_bytes_are_counted_as_its_messages_are() -> None:
    store = Store(bytes_of_one=11_500)
    kept = [store.publish(THIEF, f"x/{number}", bytes(3_000)) for number in range(5)]
    assert kept == [True] * 3 + [False] * 2
    assert store.publish(OWN, "door", bytes(3_000))
    assert not store.publish(THIEF, "x/0", bytes(5_000))
    assert store.publish(THIEF, "x/0", bytes(1_000))
    assert store.publish(THIEF, "x/4", bytes(1_000))


def test_a_message_counts_where_it_is_accepted_as_much_as_on_all_other_gateways(
    store: Store,
) -> None:
    """Else one gateway would retain what others have no room for."""
    accepted = Message("door", b"door", b"open", 1, True, {1: 1})
    store.retention.stamp(accepted)
    assert VERSION in accepted.properties
    elsewhere = Message.of(
        Entry("door", b"open", 1, retain=True, properties=accepted.properties), 0.0
    )
    assert accepted.size_bytes == elsewhere.size_bytes


def test_a_client_of_this_gateway_is_told_that_its_gateway_s_share_is_full(store: Store) -> None:
    owner = ("anna", True)
    assert store.retention.why_full(owner, "door", 100) == ""
    for number in range(SHARE):
        assert store.publish(OWN, f"own/{number}", b"x")
    assert store.retention.why_full(owner, "door", 100) == (
        "too many retained messages of this gateway"
    )
    assert store.retention.why_full(owner, "own/0", 10) == ""


def test_a_user_s_clients_delete_as_much_as_they_may_and_the_next_deletion_is_refused(
    store: Store,
) -> None:
    anna, ben = ("anna", True), ("ben", True)
    why_full = "too many deletions of this user"
    for number in range(OF_USER):
        assert store.retention.why_full(anna, f"x/{number}", 0) == ""
        assert store.publish(OWN, f"x/{number}", b"", anna)
    assert store.retention.why_full(anna, "x/more", 0) == why_full
    assert store.retention.why_full(anna, "new", 100) == why_full, "it would be the next to delete"
    assert store.retention.why_full(ben, "x/more", 0) == ""
    assert store.publish(OWN, "door", b"open", ben)
    assert store.retention.why_full(anna, "door", 0) == "", "what is there may be deleted"
    assert store.retention.why_full(anna, "x/0", 0) == "", "and what is deleted, again"


def test_a_deletion_is_a_user_s_no_more_when_it_is_forgotten_or_something_is_retained_there(
    store: Store,
) -> None:
    anna = ("anna", True)
    for number in range(OF_USER):
        assert store.publish(OWN, f"x/{number}", b"", anna)
    assert store.retention.why_full(anna, "x/more", 0)
    assert store.publish(THIEF, "x/0", b"x")
    assert store.retention.why_full(anna, "x/more", 0) == ""
    assert store.publish(OWN, "x/more", b"", anna)
    assert store.retention.why_full(anna, "x/other", 0)
    for number in range(SHARE):
        store.publish(OWN, f"y/{number}", b"")
    store.retention.expire(store.now())
    assert store.retention.why_full(anna, "x/other", 0) == ""


def test_what_was_retained_before_a_start_stays_whatever_share_there_is_now(store: Store) -> None:
    before = Store(of_one=ROOM)
    for number in range(ROOM):
        assert before.publish(THIEF, f"x/{number}", b"x")
    for _, message in before.retention.match("#"):
        assert store.retention.retain(message, is_again=True)
    assert len(store.retention) == ROOM
    assert not store.publish(THIEF, "x/more", b"x")


def test_all_room_is_what_gateways_have_together(store: Store) -> None:
    assert store.publish(OWN, "door", b"open")
    for number in range(ROOM):
        store.publish(THIEF, f"x/{number}", b"x")
        store.publish("gw-y", f"y/{number}", b"x")
    assert not store.publish(OWN, "window", b"open")
    assert store.on("door") == b"open"
    assert store.publish(OWN, "door", b"shut")
    assert store.on("door") == b"shut"
    assert store.publish(OWN, "x/0", b"")  # whoever may publish there makes room
    assert store.publish(OWN, "window", b"open")


def test_who_deletes_without_end_has_its_own_deletions_forgotten(store: Store) -> None:
    assert store.publish(OWN, "door", b"open")
    kept = store.retention.get("door")
    assert kept is not None
    assert store.publish(OWN, "door", b"")
    for number in range(2 * ROOM):
        store.publish(THIEF, f"x/{number}", b"")
        store.retention.expire(store.now())
    assert store.retention.versions.tombstone("door") is not None
    assert not store.retention.retain(kept), "what its origin has signed is not brought back"
    assert store.retention.versions.dropped_early == 2 * ROOM - SHARE
    assert store.retention.versions.tombstones == SHARE + 1


def test_gateways_that_delete_without_end_together_have_others_deletions_forgotten(
    store: Store,
) -> None:
    """With the greatest share that there can be: as if it had none."""
    store = Store(of_one=ROOM)
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

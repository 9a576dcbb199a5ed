"""Retained messages as versions: what is kept, told and remembered of them."""

from __future__ import annotations

from typing import Any

import pytest
from loop_clock import Clock

from gateway.base import wall_clock
from gateway.broker.durability.persistence import Persistence
from gateway.broker.limits import Limits, counted_refusals
from gateway.broker.outbound.message import LearntMessage, Message
from gateway.broker.retained import retention as module
from gateway.broker.retained.retention import Retention
from tree_handler.retained.hybrid_clock import EARLIEST_US, RetainedVersion
from tree_handler.retained.message import VERSION
from tree_handler.retained.tombstones import Tombstone

OTHER = ("other", 3)


def made(**limits: Any) -> Retention:
    refusals = counted_refusals(lambda: 0.0)
    return Retention(Limits(**limits), Persistence(("gw", 1)), refusals, lambda: 0.0)


def message(
    topic: str, stamp: int, payload: bytes = b"x", *, number: int = 1, is_learnt: bool = False
) -> Message:
    """Return a message that another gateway retains."""
    kind = LearntMessage if is_learnt else Message
    one = kind(topic, topic.encode(), payload, 1, True, {VERSION: (stamp, 0)})
    one.ref = (OTHER, number)
    return one


def version(stamp: int) -> RetainedVersion:
    return RetainedVersion(stamp, 0, *OTHER)


def test_of_versions_that_were_given_and_not_kept_so_many_of_the_latest_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PUT_OFF_MAX", 2)
    retention = made(retained_messages=0)
    for stamp in (1, 2, 3):
        assert not retention.retain(message(f"t/{stamp}", stamp))
    assert [retention.was_given(version(stamp)) for stamp in (1, 2, 3)] == [False, True, True]
    assert not retention.retain(message("t/4", 4, is_learnt=True))
    assert not retention.was_given(version(4)), (
        "a neighbour told of it, and subscribers have not it"
    )
    assert retention.without_room == 4


def test_of_versions_that_were_put_off_so_many_of_the_latest_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PUT_OFF_MAX", 2)
    retention = made()
    for stamp in (1, 2, 3):
        retention.put_off(f"t/{stamp}", version(stamp))
    assert [retention.take_put_off(f"t/{stamp}") for stamp in (1, 2, 3)] == [
        None,
        version(2),
        version(3),
    ]
    assert retention.take_put_off("t/3") is None


@pytest.mark.parametrize(("stamp", "left"), [(4, 5), (5, None), (6, None)])
def test_what_was_put_off_is_so_until_the_log_brings_it_or_a_newer_one(
    stamp: int, left: int | None
) -> None:
    retention = made()
    retention.put_off("t", version(5))
    retention.retain(message("t", stamp))
    assert retention.take_put_off("t") == (None if left is None else version(left))


def test_what_a_plugin_retains_gives_way_to_what_has_a_version() -> None:
    retention = made()

    def plugins(payload: bytes) -> bool:
        return retention.retain(Message("t", b"t", payload, 0, True))

    def kept() -> bytes | None:
        found = retention.get("t")
        return None if found is None else found.payload

    assert plugins(b"of a plugin")
    assert (kept(), retention.versions.version("t")) == (b"of a plugin", None)
    assert retention.retain(message("t", 1, b"of a gateway"))
    assert not plugins(b"of a plugin")
    assert not plugins(b"")
    assert kept() == b"of a gateway"
    assert retention.retain(message("t", 2, b""))
    assert (kept(), retention.versions.version("t")) == (None, version(2))
    assert plugins(b"of a plugin")
    assert plugins(b"")
    assert kept() is None


def test_an_older_message_and_the_same_again_are_not_retained_and_the_older_counts() -> None:
    retention = made()
    assert retention.retain(message("t", 5, b"new"))
    assert not retention.retain(message("t", 4, b"old"))
    assert not retention.retain(message("t", 5, b"new"))
    assert retention.older == 1
    assert retention.retain(message("t", 6, b"newest"))
    assert len(retention) == 1


def test_a_tombstone_of_a_deletion_is_that_of_its_version_and_goes_before_older_messages() -> None:
    retention = made()
    retention.retain(message("t", 5, number=2))
    retention.bury("t", Tombstone(version(4), 1, 1, 0.0))
    assert retention.get("t") is not None
    retention.bury("t", Tombstone(version(6), 3, 1, 0.0))
    assert retention.get("t") is None
    assert retention.versions.tombstone("t") == Tombstone(version(6), 3, 1, 0.0)
    assert not retention.retain(message("t", 5, number=2))


def test_a_deletion_has_its_number_when_the_log_has_it() -> None:
    retention = made()
    mine = Message("t", b"t", b"", 1, True)
    retention.stamp(mine)
    stamp = mine.properties[VERSION]
    assert retention.retain(mine)
    own = RetainedVersion(*stamp, "gw", 1)
    assert retention.versions.tombstone("t") == Tombstone(own, 0, 1, 0.0)
    mine.ref = (("gw", 1), 9)
    retention.placed(mine)
    assert retention.versions.tombstone("t") == Tombstone(own, 9, 1, 0.0)


@pytest.mark.parametrize(
    ("stamp_us", "since_s"),
    [
        (EARLIEST_US, 0.0),
        (EARLIEST_US + 1, 2.999_999),
        (EARLIEST_US + 2_000_000, 1.0),
        (EARLIEST_US + 3_000_000, 0.0),
        (EARLIEST_US + 3_000_001, 0.0),
    ],
)
def test_it_is_told_since_when_a_message_is_retained_unless_its_clock_was_wrong(
    stamp_us: int, since_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wall_clock, "now_us", lambda: EARLIEST_US + 3_000_000)
    retention = made()
    assert retention.kept_on("t") is None
    assert retention.retain(message("t", stamp_us))
    assert retention.kept_on("t") == (b"x", since_s)
    assert retention.retain(Message("plain", b"plain", b"y", 0, True))
    assert retention.kept_on("plain") == (b"y", 0.0)


def test_what_has_expired_is_retained_no_more_though_nobody_has_taken_it_away() -> None:
    clock = Clock()
    refusals = counted_refusals(clock.time)
    retention = Retention(Limits(), Persistence(("gw", 1)), refusals, clock.time)
    for topic, expiry_s in (("t/short", 5), ("t/long", 60)):
        one = Message(topic, topic.encode(), b"x", 1, True, {2: expiry_s}, 0.0)
        assert retention.retain(one)
    found = []
    for clock.now_s in (4.9, 5.0):
        kept = [topic for topic in ("t/short", "t/long") if retention.kept_on(topic)]
        assert set(kept) == retention.payloads(["t/#"]).keys()
        found.append(kept)
    assert found == [["t/short", "t/long"], ["t/long"]]


@pytest.mark.parametrize("how", ["a message", "a tombstone"])
def test_what_is_accepted_here_is_newer_than_all_that_was_seen_of_others(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_us = EARLIEST_US + 3_000_000
    monkeypatch.setattr(wall_clock, "now_us", lambda: now_us)
    retention = made()
    if how == "a message":
        retention.retain(message("t", now_us + 1_000))
    else:
        retention.bury("t", Tombstone(version(now_us + 1_000), 3, 1, 0.0))
    mine = Message("other", b"other", b"x", 1, True)
    retention.stamp(mine)
    assert mine.properties[VERSION] > (now_us + 1_000, 0)

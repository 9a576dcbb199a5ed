"""The last-writer-wins map of retained topics: order, repetition, tombstones, digests."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.held_objects import held_objects
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import RetainedVersions, bucket_of, differing

versions = st.builds(
    RetainedVersion, st.integers(0, 5), st.integers(0, 3), st.sampled_from("abc"), st.integers(1, 2)
)
topics = st.sampled_from([f"t/{i}" for i in range(8)])
# What a version is (a message or a deletion) goes with it: two gateways can't differ in that.
updates = st.lists(st.tuples(topics, versions), max_size=40)


def is_live(version: RetainedVersion) -> bool:
    return bool((version.physical_us + version.logical) % 2)


def grave(version: RetainedVersion, since_s: float = 0.0) -> Tombstone:
    return Tombstone(version, 1, 1, since_s)


def take(map_: RetainedVersions, topic: str, version: RetainedVersion) -> bool:
    if is_live(version):
        return map_.set(topic, version)
    return map_.bury(topic, grave(version), 0.0)


def made(all_updates: list[tuple[str, RetainedVersion]]) -> RetainedVersions:
    found = RetainedVersions()
    for topic, version in all_updates:
        take(found, topic, version)
    return found


@given(updates, st.randoms(use_true_random=False))
def test_any_order_and_any_repetition_of_the_same_updates_come_to_the_same_state(
    some: list[tuple[str, RetainedVersion]], chance: random.Random
) -> None:
    again = some + [one for one in some if chance.random() < 0.5]
    chance.shuffle(again)
    one, other = made(some), made(again)
    assert one.state() == other.state()
    assert one.digest() == other.digest()
    assert all(one.tombstone(topic) == other.tombstone(topic) for topic in one.state())


@given(updates, updates)
def test_digests_are_equal_exactly_if_states_are(
    some: list[tuple[str, RetainedVersion]], others: list[tuple[str, RetainedVersion]]
) -> None:
    one, other = made(some), made(others)
    differ = {
        bucket_of(topic)
        for topic in one.state().keys() | other.state().keys()
        if one.version(topic) != other.version(topic)
    }
    assert set(differing(one.digest(), other.digest())) == differ
    assert (one.root() == other.root()) == (not differ)


@given(updates)
def test_the_greatest_version_of_a_topic_stays(some: list[tuple[str, RetainedVersion]]) -> None:
    found = made(some)
    for topic, version in found.state().items():
        assert version == max(v for t, v in some if t == topic)
        assert (found.tombstone(topic) is None) == is_live(version)


def test_an_older_message_does_not_bring_a_deleted_topic_back() -> None:
    found = RetainedVersions()
    found.set("t", RetainedVersion(1, 0, "a", 1))
    assert found.bury("t", grave(RetainedVersion(3, 0, "b", 1)), 0.0)
    assert not found.set("t", RetainedVersion(2, 0, "c", 1))
    assert found.tombstones == 1


def test_a_tombstone_without_room_for_old_ones_is_kept_for_the_retention_and_no_longer() -> None:
    found = RetainedVersions(retention_s=100.0, tombstones_max=9)
    found.bury("t", grave(RetainedVersion(1, 0, "a", 1), since_s=5.0), 5.0)
    assert found.expire(104.9) == []
    assert found.expire(105.0) == ["t"]
    assert found.version("t") is None
    assert found.digest() == RetainedVersions().digest()


def test_beyond_their_number_the_oldest_tombstones_go_early_and_are_counted() -> None:
    found = RetainedVersions(retention_s=100.0, tombstones_max=3)
    for at in range(5):
        found.bury(f"t/{at}", grave(RetainedVersion(1, at, "a", 1), since_s=float(at)), float(at))
    assert found.expire(5.0) == ["t/0", "t/1"]
    assert found.dropped_early == 2


def test_a_tombstone_that_would_go_at_once_is_not_taken() -> None:
    found = RetainedVersions(retention_s=100.0, tombstones_max=1)
    assert not found.bury("old", grave(RetainedVersion(1, 0, "a", 1), since_s=0.0), 100.0)
    assert found.bury("t", grave(RetainedVersion(1, 0, "a", 1), since_s=50.0), 100.0)
    assert not found.bury("more", grave(RetainedVersion(1, 0, "a", 1), since_s=49.0), 100.0)
    assert list(found.state()) == ["t"]


def test_what_expired_keeps_its_version_so_that_digests_stay_equal() -> None:
    one, other = (
        made([("t", RetainedVersion(1, 0, "a", 1))]),
        made([("t", RetainedVersion(1, 0, "a", 1))]),
    )
    one.expired("t", 0.0)
    assert one.digest() == other.digest()
    assert one.tombstone("t") is not None
    assert not one.set("t", RetainedVersion(1, 0, "a", 1))


def test_a_topic_deleted_and_set_over_and_over_does_not_fill_the_memory() -> None:
    found = RetainedVersions()
    for at in range(10_000):
        found.set("t", RetainedVersion(at, 0, "a", 1))
        found.bury("t", grave(RetainedVersion(at, 1, "a", 1), since_s=float(at)), float(at))
    assert len(found) == 1
    assert held_objects(found) < 2_000

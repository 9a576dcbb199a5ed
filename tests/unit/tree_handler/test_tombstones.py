"""Deletions that are remembered: for how long, how many, and which ones go."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.tombstones import LASTING_SHARE, RETENTION_S, Tombstone
from tree_handler.retained.versions import RetainedVersions

OLD = 3
"""So many old ones have room."""
YEAR_S = 365 * 24 * 3600.0


def version(number: int) -> RetainedVersion:
    return RetainedVersion(1_000 + number, 0, "gw", 1)


def bury(kept: RetainedVersions, number: int, since_s: float, now_s: float) -> bool:
    return kept.bury(f"t/{number}", Tombstone(version(number), 1, 1, since_s), now_s)


def some_room() -> RetainedVersions:
    return RetainedVersions(tombstones_max=OLD * LASTING_SHARE)


def test_what_was_deleted_years_ago_is_not_brought_back_by_who_was_away() -> None:
    kept = some_room()
    bury(kept, 7, 0.0, 0.0)
    assert kept.expire(30 * YEAR_S) == []
    assert not kept.set("t/7", version(6))
    assert kept.set("t/7", version(8))


def test_a_newcomer_is_told_of_deletions_that_are_years_old() -> None:
    kept = some_room()
    assert bury(kept, 7, -30 * YEAR_S, 0.0)
    assert kept.expire(0.0) == []
    assert not kept.set("t/7", version(6))


def test_of_old_deletions_there_are_a_tenth_at_most_and_young_ones_are_not_among_them() -> None:
    kept = some_room()
    for number in range(2 * OLD):
        bury(kept, number, 0.0, 0.0)
    for number in range(10, 10 + 2 * OLD):
        bury(kept, number, 1.0, 1.0)
    assert kept.expire(RETENTION_S - 0.5) == []
    assert kept.expire(RETENTION_S) == ["t/0", "t/1", "t/2"]
    assert kept.tombstones == 3 * OLD
    assert kept.dropped_early == 0


def test_where_there_are_too_many_old_ones_go_before_young_ones() -> None:
    kept = some_room()
    for number in range(OLD):
        bury(kept, 1_000 + number, 0.0, 0.0)
    kept.expire(RETENTION_S)
    for number in range(OLD * LASTING_SHARE):
        assert bury(kept, number, RETENTION_S + number, RETENTION_S + number)
    assert kept.expire(RETENTION_S + 100) == ["t/1000", "t/1001", "t/1002"]
    assert kept.dropped_early == 0
    assert bury(kept, 999, RETENTION_S + 100, RETENTION_S + 100)
    assert kept.expire(RETENTION_S + 100) == ["t/0"]
    assert kept.dropped_early == 1


def test_what_is_remembered_again_and_again_does_not_fill_the_memory() -> None:
    kept = some_room()
    for number in range(1_000):
        now_s = 2 * RETENTION_S * number
        kept.set("t/0", RetainedVersion(2 * number, 0, "gw", 1))
        kept.bury("t/0", Tombstone(RetainedVersion(2 * number + 1, 0, "gw", 1), 1, 1, now_s), now_s)
        kept.expire(now_s + RETENTION_S)
    assert kept.tombstones == 1
    assert len(kept._dead._ages) < 200
    assert len(kept._dead._ranks) < 200


@given(st.lists(st.integers(0, 40), unique=True, max_size=30), st.randoms(use_true_random=False))
def test_gateways_that_heard_of_the_same_in_any_order_and_at_any_time_remember_the_same(
    numbers: list[int], chance: random.Random
) -> None:
    states = []
    for _ in range(2):
        kept, now_s = some_room(), 0.0
        chance.shuffle(numbers)
        for number in numbers:
            now_s += chance.choice((0.0, 1.0, RETENTION_S))
            age_s = chance.choice((0.0, RETENTION_S, YEAR_S))
            bury(kept, number, now_s - age_s, now_s)
            if chance.random() < 0.5:
                kept.expire(now_s)
        kept.expire(now_s + RETENTION_S)
        states.append(kept.state())
    assert states[0] == states[1]
    assert set(states[0]) == {f"t/{number}" for number in sorted(numbers)[-OLD:]}

"""Deletions that are remembered: for how long, how many, and which ones go."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import parser_cost
from tests.held_objects import held_objects
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.tombstones import LASTING_SHARE, RETENTION_S, Tombstone
from tree_handler.retained.versions import RetainedVersions

OLD = 3
"""So many old ones have room."""
YEAR_S = 365 * 24 * 3600.0


OTHERS = 2_000
"""Deletions by way of other gateways, which a look at all of them looks at."""


def lines(work: Callable[[], None]) -> int:
    """The lines of Python that are carried out for something."""
    return parser_cost.lines(lambda _: work(), b"")


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
    assert held_objects(kept) < 2_000


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


# -- the share of one gateway ---------------------------------------------------------------------

ROOM = 100
SHARE = 60


def grave_of(origin: str, number: int, since_s: float) -> Tombstone:
    return Tombstone(RetainedVersion(1_000 + number, 0, origin, 1), 1, 1, since_s)


def shared_room() -> RetainedVersions:
    return RetainedVersions(tombstones_max=ROOM, tombstones_of_one_max=SHARE)


def test_a_gateway_that_deletes_without_end_has_its_own_deletions_forgotten_and_nobody_else_s() -> (
    None
):
    kept = shared_room()
    for number in range(ROOM - SHARE):
        kept.bury(f"a/{number}", grave_of("a", number, 0.0), 0.0)
    for number in range(SHARE):
        assert kept.bury(f"x/{number}", grave_of("x", number, 1.0 + number), 100.0)
    assert kept.expire(100.0) == []
    assert kept.bury("x/more", grave_of("x", 1_000, 100.0), 100.0)
    assert kept.expire(100.0) == ["x/0"]
    assert kept.dropped_early == 1
    for number in range(10 * ROOM):
        kept.bury(f"y/{number}", grave_of("x", number, 101.0 + number), 2_000.0)
    assert all(topic.startswith(("x/", "y/")) for topic in kept.expire(2_000.0))
    assert all(kept.tombstone(f"a/{number}") for number in range(ROOM - SHARE))
    assert kept.tombstones == ROOM


def test_a_deletion_that_would_go_at_once_for_want_of_its_gateway_s_room_is_none() -> None:
    kept = shared_room()
    for number in range(SHARE):
        kept.bury(f"x/{number}", grave_of("x", number, 10.0), 10.0)
    assert not kept.bury("x/older", grave_of("x", 1_000, 9.0), 10.0)
    assert kept.bury("a/older", grave_of("a", 1_000, 9.0), 10.0)


def test_of_old_deletions_a_gateway_has_its_part_alone_too() -> None:
    kept = shared_room()
    most = SHARE // LASTING_SHARE
    for number in range(2 * most):
        kept.bury(f"x/{number}", grave_of("x", number, 0.0), 0.0)
    kept.bury("a", grave_of("a", -900, 0.0), 0.0)
    assert kept.expire(RETENTION_S) == [f"x/{number}" for number in range(most)]
    assert kept.tombstone("a")


def test_topics_of_one_gateway_s_deletions_take_no_more_than_its_part_of_the_bytes() -> None:
    kept = RetainedVersions(tombstones_max=1_000, tombstones_of_one_max=500)
    kept.bury("a", grave_of("a", 1, 0.0), 0.0)
    for number in range(300):
        kept.bury(f"{number:065000}", grave_of("x", number, 1.0 + number), 1_000.0)
        kept.expire(1_000.0)
    assert kept.tombstone("a")
    assert 250 < kept.tombstones < 260


@given(st.randoms(use_true_random=False))
def test_gateways_that_heard_of_the_same_old_deletions_of_several_remember_the_same(
    chance: random.Random,
) -> None:
    """Whatever the order: else they would hand each other what each has forgotten, for ever."""
    deleted = [(origin, number) for origin in "axy" for number in range(12)]
    found = []
    for _ in range(2):
        kept = shared_room()
        chance.shuffle(deleted)
        for origin, number in deleted:
            kept.bury(f"{origin}/{number}", grave_of(origin, number, -RETENTION_S), 0.0)
            kept.expire(0.0)
        found.append(kept.state())
    assert found[0] == found[1]
    assert len(found[0]) == ROOM // LASTING_SHARE


def test_who_deletes_at_the_bound_of_its_share_does_not_have_all_others_looked_at_each_time() -> (
    None
):
    kept = RetainedVersions(tombstones_max=20_000, tombstones_of_one_max=100)
    for number in range(OTHERS):
        kept.bury(f"y/{number}", grave_of(f"y-{number // 100}", number, 1.0), 2_000.0)

    def delete(numbers: Iterable[int]) -> None:
        for number in numbers:
            kept.bury(f"x/{number}", grave_of("x", number, 1.0 + number), 2_000.0)
            kept.expire(2_000.0)

    delete(range(120))
    assert lines(lambda: delete(range(120, 320))) < 200 * OTHERS / 4
    for number in range(270, 320):
        kept.set(f"x/{number}", version(5_000 + number))
    full = held_objects(kept)
    kept.set("x/269", version(6_000))
    assert full - held_objects(kept) > 50, "what is seldom full is not kept"


def test_whose_deletions_grow_old_together_does_not_have_all_others_looked_at_for_each() -> None:
    kept = RetainedVersions(tombstones_max=20_000, tombstones_of_one_max=1_000)
    for number in range(OTHERS):
        kept.bury(f"y/{number}", grave_of(f"y-{number // 100}", number, 1.0), 1.0)
    for number in range(400):
        kept.bury(f"x/{number}", grave_of("x", number, 0.0), 0.0)
    assert kept.expire(RETENTION_S, 1) == ["x/0"]
    gone: list[str] = []

    def expire_one_by_one() -> None:
        for _ in range(299):
            gone.extend(kept.expire(RETENTION_S, 1))

    work = lines(expire_one_by_one)
    assert gone == [f"x/{number}" for number in range(1, 300)]
    assert work < 299 * OTHERS / 4
    assert kept.expire(RETENTION_S) == []
    for number in range(300, 349):
        kept.set(f"x/{number}", version(5_000 + number))
    full = held_objects(kept)
    kept.set("x/349", version(6_000))
    assert full - held_objects(kept) > 50, "what is seldom full is not kept"

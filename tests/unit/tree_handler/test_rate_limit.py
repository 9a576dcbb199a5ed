"""The rate limit of a source at its exact value, and the order in which sources are forgotten."""

from __future__ import annotations

import pytest

from tree_handler.rate_limit import RateLimit


def test_a_burst_is_allowed_to_its_last_one_and_the_next_is_refused() -> None:
    limit = RateLimit(per_second=1.0, burst=3)
    assert [limit.allow("a", 0.0) for _ in range(4)] == [True, True, True, False]


def test_one_is_allowed_again_when_the_time_for_one_is_over_and_not_before() -> None:
    limit = RateLimit(per_second=4.0, burst=1)
    assert limit.allow("a", 10.0)
    assert not limit.allow("a", 10.125)
    assert limit.allow("a", 10.25)
    assert not limit.allow("a", 10.25)


def test_a_refused_one_takes_nothing_of_what_comes_back() -> None:
    limit = RateLimit(per_second=1.0, burst=1)
    assert limit.allow("a", 0.0)
    assert not limit.allow("a", 0.5)
    assert limit.allow("a", 1.0)


def test_what_a_source_does_not_use_is_saved_up_to_a_burst_and_no_more() -> None:
    limit = RateLimit(per_second=1.0, burst=2)
    assert limit.allow("a", 0.0)
    assert [limit.allow("a", 1_000.0) for _ in range(3)] == [True, True, False]


def test_a_source_has_nothing_of_what_another_has_used() -> None:
    limit = RateLimit(per_second=1.0, burst=1)
    assert limit.allow("a", 0.0)
    assert limit.allow("b", 0.0)


def test_a_new_source_is_refused_while_all_that_are_known_are_not_rested() -> None:
    limit = RateLimit(per_second=1.0, burst=1, max_sources=2)
    assert limit.allow("a", 0.0)
    assert limit.allow("b", 0.5)
    assert not limit.allow("c", 0.75)
    assert limit.allow("c", 1.0), "the one quiet longest has all of its burst again"
    assert len(limit) == 2, "and is forgotten"


def test_a_full_table_still_allows_a_source_that_is_in_it() -> None:
    limit = RateLimit(per_second=1.0, burst=2, max_sources=1)
    assert limit.allow("a", 0.0)
    assert limit.allow("a", 0.0)
    assert not limit.allow("b", 0.0)


def test_a_source_that_goes_on_is_not_the_one_that_makes_room() -> None:
    limit = RateLimit(per_second=1.0, burst=2, max_sources=2)
    for source, now in (("a", 0.0), ("b", 1.0), ("a", 1.0), ("a", 1.0)):
        assert limit.allow(source, now)
    assert limit.allow("c", 2.0), "b made room"
    assert limit.allow("a", 2.0)
    assert not limit.allow("a", 2.0), "what a had used is still known"


def test_what_is_counted_is_over_the_limit_at_its_burst_and_asking_takes_nothing() -> None:
    limit = RateLimit(per_second=1.0, burst=2)
    limit.count("a", 0.0)
    assert not limit.is_over("a", 0.0)
    assert not limit.is_over("a", 0.0)
    limit.count("a", 0.0)
    assert limit.is_over("a", 0.0)
    limit.count("a", 0.0)
    assert limit.is_over("a", 1.0), "what was counted beyond the burst is owed"
    assert not limit.is_over("a", 2.0)


@pytest.mark.parametrize("sources", [("a", "b", "c"), ("b", "a", "b", "c")])
def test_who_was_quiet_longest_is_forgotten_when_more_are_counted_than_have_room(
    sources: tuple[str, ...],
) -> None:
    limit = RateLimit(per_second=1.0, burst=1, max_sources=2)
    for source in sources:
        limit.count(source, 0.0)
    assert len(limit) == 2
    assert not limit.is_over("a", 0.0)
    assert limit.is_over("b", 0.0)
    assert limit.is_over("c", 0.0)


def test_who_has_the_whole_burst_again_is_forgotten_and_nobody_else() -> None:
    limit = RateLimit(per_second=1.0, burst=2)
    limit.count("a", 0.0)
    limit.count("b", 0.5)
    limit.forget_rested(0.999)
    assert len(limit) == 2
    limit.forget_rested(1.0)
    assert len(limit) == 1
    limit.count("b", 1.4)
    assert limit.is_over("b", 1.4), "what b had used is still known"


def test_forgetting_who_has_rested_gives_nobody_more() -> None:
    limit, other = (RateLimit(per_second=1.0, burst=2) for _ in range(2))
    told = []
    for now in (0.0, 0.1, 0.2, 1.3, 1.9, 2.0, 4.0, 4.1, 4.2):
        limit.forget_rested(now)
        told.append((limit.allow("a", now), other.allow("a", now)))
    assert [one for one, _ in told] == [one for _, one in told]
    assert (False, False) in told

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.intervals import Intervals

ranges = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 12)).map(lambda r: (r[0], r[0] + r[1])),
    max_size=20,
)


def numbers(of: list[tuple[int, int]]) -> set[int]:
    return {n for first, last in of for n in range(first, last + 1)}


@given(ranges)
def test_holds_exactly_what_was_added_as_sorted_ranges_that_do_not_touch(
    added: list[tuple[int, int]],
) -> None:
    intervals = Intervals(added)
    assert numbers(list(intervals)) == numbers(added)
    rows = list(intervals)
    assert all(
        rows[i][1] + 1 < rows[i + 1][0] and rows[i][0] <= rows[i][1] for i in range(len(rows) - 1)
    )
    assert intervals.count() == len(numbers(added))


@given(ranges, st.integers(1, 80), st.integers(0, 20))
def test_add_returns_how_many_numbers_are_new(
    added: list[tuple[int, int]], first: int, more: int
) -> None:
    intervals = Intervals(added)
    expected = len(set(range(first, first + more + 1)) - numbers(added))
    assert intervals.add(first, first + more) == expected


@given(ranges, ranges, st.integers(1, 80), st.integers(0, 20))
def test_agrees_with_sets_of_numbers(
    one: list[tuple[int, int]], other: list[tuple[int, int]], first: int, more: int
) -> None:
    a, b = Intervals(one), Intervals(other)
    asked = set(range(first, first + more + 1))
    assert numbers(a.missing(first, first + more)) == asked - numbers(one)
    assert a.covers(first, first + more) == (asked <= numbers(one))
    assert numbers(list(a.without(b))) == numbers(one) - numbers(other)
    assert (first in a) == (first in numbers(one))
    run = first
    while run in numbers(one):
        run += 1
    assert a.contiguous_from(first) == run - 1


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 9)), max_size=3), st.booleans())
def test_a_few_ranges_of_many_agree_with_sets_of_numbers(
    few: list[tuple[int, int]], are_wide: bool
) -> None:
    rows = [(first, first + (2 if are_wide else 0)) for first in range(1, 400, 4)]
    some = [(first, first + more) for first, more in few]
    many, other = Intervals(rows), Intervals(some)
    assert numbers(list(many.without(other))) == numbers(rows) - numbers(some)
    assert many.without(other) == Intervals(list(many.without(other)))
    assert numbers(list(many)) == numbers(rows)
    for common in (many.common(other), other.common(many)):
        assert numbers(list(common)) == numbers(rows) & numbers(some)


@given(ranges, st.integers(0, 80))
def test_forgetting_takes_out_every_number_up_to_one(
    added: list[tuple[int, int]], last: int
) -> None:
    intervals = Intervals(added)
    intervals.forget_through(last)
    assert list(intervals) == list(Intervals((n, n) for n in numbers(added) if n > last))


def test_a_run_without_gaps_costs_one_range() -> None:
    intervals = Intervals()
    for n in range(1, 10_000, 3):
        intervals.add(n, n + 2)
    assert len(intervals) == 1
    assert list(intervals) == [(1, intervals.last)]


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"5\.\.4"):
        Intervals([(5, 4)])


@given(ranges, ranges)
def test_sets_may_meet_unless_one_is_behind_the_other(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    ours, theirs = numbers(one), numbers(other)
    is_apart = not (ours and theirs) or max(ours) < min(theirs) or max(theirs) < min(ours)
    assert Intervals(one).may_meet(Intervals(other)) == (not is_apart)
    assert not (Intervals(one).common(Intervals(other)) and is_apart)

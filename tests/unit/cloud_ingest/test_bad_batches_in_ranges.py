"""A batch with which reading fails is found by halves, and nothing else is set aside."""

from __future__ import annotations

from typing import Any

import pytest

from cloud_ingest.ingest.range_halves import BatchSpot, TasksFailedError, take_in_parts
from cloud_ingest.spool.segments import SpoolRange


class Taking:
    """Takes ranges, and fails while a batch that is bad is in them and not set aside."""

    def __init__(self, spool: Any, *bad: int, helps: bool = True) -> None:
        self.spots = [BatchSpot(str(spool.folder), spool.segment.name, at) for at in bad]
        self.helps = helps
        self.aside: dict[tuple[str, str, int], str] = {}
        self.taken: list[tuple[int, int]] = []
        self.ended: list[bool] = []
        self.noted: list[str] = []

    def take(self, ranges: list[SpoolRange], is_last: bool) -> None:
        for one in ranges:
            for spot in self.spots:
                if one.start <= spot.at < one.end and not (self.helps and spot in self.aside):
                    raise ZeroDivisionError("bad")
        self.taken += [(one.start, one.end) for one in ranges]
        self.ended.append(is_last)

    def run(self, ranges: list[SpoolRange]) -> None:
        take_in_parts(ranges, self.take, self.aside, self.noted.append)


@pytest.fixture
def starts(spool: Any) -> list[int]:
    """The starts of five batches, and the end of the last one."""
    for number in range(1, 6):
        spool.readings("gw-a", 1, number)
    spool.sync()
    each = spool.length // 5
    return [each * number for number in range(6)]


def one_range(spool: Any, start: int, end: int) -> SpoolRange:
    return SpoolRange(str(spool.folder), spool.segment.name, start, end)


@pytest.mark.parametrize("bad", [[0], [4], [1, 3], [0, 1, 2, 3, 4]])
def test_batches_that_are_bad_are_set_aside_and_all_is_taken_in_order(
    spool: Any, starts: list[int], bad: list[int]
) -> None:
    taking = Taking(spool, *(starts[number] for number in bad))
    taking.run([one_range(spool, 0, starts[2]), one_range(spool, starts[2], starts[5])])
    assert set(taking.aside) == set(taking.spots)
    assert set(taking.aside.values()) == set(taking.noted)
    assert len(taking.noted) == len(bad)
    assert taking.taken[0][0] == 0
    assert taking.taken[-1][1] == starts[5]
    ends = [end for _, end in taking.taken]
    assert ends[:-1] == [start for start, _ in taking.taken[1:]]
    assert taking.ended == [False] * (len(taking.ended) - 1) + [True]


def test_a_batch_without_which_it_fails_too_is_not_to_blame(spool: Any, starts: list[int]) -> None:
    taking = Taking(spool, starts[1], helps=False)
    with pytest.raises(ZeroDivisionError):
        taking.run([one_range(spool, 0, starts[5])])
    assert taking.aside == {}


def test_where_nothing_is_to_blame_the_failure_is_told(spool: Any, starts: list[int]) -> None:
    def fail(ranges: list[SpoolRange], is_last: bool) -> None:
        raise ZeroDivisionError("bad")

    for ranges in ([], [one_range(spool, 0, 0)]):
        with pytest.raises(ZeroDivisionError):
            take_in_parts(ranges, fail, {}, lambda why: None)


@pytest.mark.parametrize("error", [TasksFailedError("x"), OSError("full")])
def test_what_no_batch_is_to_blame_for_is_told_at_once(
    spool: Any, starts: list[int], error: Exception
) -> None:
    tried: list[int] = []

    def fail(ranges: list[SpoolRange], is_last: bool) -> None:
        tried.append(len(ranges))
        raise error

    with pytest.raises(type(error)):
        take_in_parts([one_range(spool, 0, starts[5])], fail, {}, lambda why: None)
    assert tried == [1]

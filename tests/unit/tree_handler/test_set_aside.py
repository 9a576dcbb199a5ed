"""Goal: a batch that a gateway refuses three times is set aside, and it is known why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tree_handler.batch import Flags, Header
from tree_handler.replication.set_aside import SetAside

HEADER = Header("gw-a", 1, 5, 3, Flags.LOGGED, 1_000, 40, 100)


def test_it_is_due_the_third_time_and_not_before() -> None:
    aside = SetAside()
    assert [aside.is_due(HEADER, "bad") for _ in range(3)] == [False, False, True]
    assert aside.why(HEADER) == "refused 3 times: bad"


def test_it_begins_anew_once_it_was_set_aside() -> None:
    aside = SetAside()
    assert [aside.is_due(HEADER, "bad") for _ in range(6)] == [False, False, True] * 2


def test_each_batch_is_counted_apart_by_its_life_and_its_numbers() -> None:
    aside = SetAside()
    assert not any(aside.is_due(HEADER, "bad") for _ in range(2))
    for other in ({"first": 6}, {"count": 4}, {"epoch": 2}, {"origin": "gw-b"}):
        assert not aside.is_due(replace(HEADER, **other), "bad")
    assert aside.is_due(HEADER, "bad")


@pytest.mark.parametrize("header", [replace(HEADER, count=1_001), replace(HEADER, flags=0)])
def test_what_no_origin_makes_is_never_set_aside(header: Header) -> None:
    aside = SetAside()
    assert not any(aside.is_due(header, "bad") for _ in range(5))
    assert aside.why(header) == ""


def test_a_batch_of_a_thousand_messages_is_one_that_an_origin_makes() -> None:
    aside = SetAside()
    header = replace(HEADER, count=1_000)
    assert [aside.is_due(header, "bad") for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("first", "count", "is_told"),
    [(5, 3, True), (5, 1, True), (7, 1, True), (4, 2, False), (7, 2, False), (6, 2, True)],
)
def test_why_is_told_of_all_numbers_within(first: int, count: int, *, is_told: bool) -> None:
    aside = SetAside()
    for _ in range(3):
        aside.is_due(HEADER, "bad")
    assert bool(aside.why(replace(HEADER, first=first, count=count))) == is_told
    assert aside.why(replace(HEADER, epoch=2)) == ""


def test_a_thousand_refusals_are_remembered_and_of_more_the_oldest_is_forgotten() -> None:
    aside = SetAside()
    headers = [replace(HEADER, first=10 * number + 1) for number in range(1_001)]
    for _ in range(2):
        for header in headers:
            assert not aside.is_due(header, "bad"), "the oldest is forgotten before its second time"
    aside = SetAside()
    for header in headers:
        for _ in range(3):
            aside.is_due(header, "bad")
    assert [aside.why(header) == "" for header in headers] == [True] + [False] * 1_000

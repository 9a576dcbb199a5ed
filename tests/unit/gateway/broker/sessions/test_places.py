"""Places in the log: when the next ones begin, and what they count for."""

from __future__ import annotations

import pytest

from gateway.broker.sessions.places import (
    AT,
    KINDS_MAX,
    NEVER,
    PACKED_BYTES_MAX,
    SINCE,
    SLACK_MS,
    Places,
    WaitingRun,
)
from tree_handler.batch import Epoch

STREAM: Epoch = ("gw", 1)
OTHER: Epoch = ("other", 1)


def run(
    first: int, last: int, key: Epoch = STREAM, timing: int = NEVER, moment_ms: int = 0
) -> WaitingRun:
    return WaitingRun((key, 2, ()), first, last, timing, moment_ms)


def test_places_of_so_many_kinds_are_full() -> None:
    places = Places()
    for number in range(KINDS_MAX):
        assert not places.is_full
        places.add(WaitingRun((STREAM, 2, (number,)), number, number))
    assert places.is_full


def test_places_of_so_many_bytes_are_full() -> None:
    """The last run is not packed, and each but the first takes three bytes here."""
    places = Places()
    count = 0
    while not places.is_full:
        places.add(run(2 * count + 1, 2 * count + 1))
        count += 1
    assert abs(count - 1 - PACKED_BYTES_MAX / 3) <= 1
    assert len(list(places.runs())) == count


def test_places_that_somebody_else_has_are_full_and_do_not_grow() -> None:
    places = Places()
    places.add(run(1, 3))
    assert not places.is_full
    places.is_shared = True
    assert places.is_full


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        (run(1, 3), run(4, 4), True),
        (run(1, 3), run(5, 5), False),
        (run(1, 3), run(3, 4), False),
        (run(1, 3), run(4, 4, OTHER), False),
        (run(1, 3), run(4, 4, timing=AT), False),
        (run(1, 3, timing=AT, moment_ms=7), run(4, 4, timing=AT, moment_ms=7), True),
        (run(1, 3, timing=AT, moment_ms=7), run(4, 4, timing=AT, moment_ms=8), False),
        (run(1, 3, timing=SINCE), run(4, 4, timing=SINCE, moment_ms=SLACK_MS - 1), True),
        (run(1, 3, timing=SINCE), run(4, 4, timing=SINCE, moment_ms=SLACK_MS), False),
        (run(1, 3, timing=SINCE, moment_ms=1), run(4, 4, timing=SINCE), False),
    ],
)
def test_a_run_takes_what_follows_it_and_expires_alike(
    first: WaitingRun, second: WaitingRun, *, is_one: bool
) -> None:
    assert first.takes(second) == is_one
    places = Places()
    places.add(first.copy())
    before = places.size_bytes
    cost = places.cost(second)
    assert (cost == 0) == is_one
    places.add(second.copy())
    assert 0 <= places.size_bytes - before <= cost
    assert places.count == first.count + second.count
    assert len(list(places.runs())) == 2 - is_one


def test_who_reads_ahead_gets_ascending_numbers_of_so_many_streams_and_messages() -> None:
    places = Places()
    for one in (run(5, 6), run(3, 9, OTHER), run(8, 9), run(10, 12, ("third", 1)), run(11, 11)):
        places.add(one)

    def ahead(messages: int, streams: int) -> tuple[int, dict[Epoch, tuple[int, int]]]:
        found, spans = places.ahead(messages, streams)
        return len(found), spans

    assert ahead(1, 9) == (1, {STREAM: (5, 6)})
    assert ahead(2, 9) == (1, {STREAM: (5, 6)})
    assert ahead(3, 9) == (2, {STREAM: (5, 6), OTHER: (3, 9)})
    assert ahead(10, 2) == (3, {STREAM: (5, 9), OTHER: (3, 9)})
    assert ahead(99, 2) == (3, {STREAM: (5, 9), OTHER: (3, 9)})
    assert ahead(99, 3)[0] == 5
    assert ahead(99, 1) == (1, {STREAM: (5, 6)})
    places.add(run(11, 11))
    assert ahead(99, 3)[0] == 5, "a number that is there again waits for those before it"
    assert places.ahead(0, 9) == ([], {})

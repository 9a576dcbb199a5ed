"""The numbers of a gateway's missing messages, and the times at which a collector listened."""

from __future__ import annotations

import itertools
import math
import random

from hypothesis import example, given
from hypothesis import strategies as st

from alerts.wear import Wear
from cloud_ingest.fleet.latency import most_ms, percentile_ms
from cloud_ingest.fleet.listening import MAX_STRETCHES, Listening
from cloud_ingest.fleet.numbers import MAX_HOLES, Numbering

S = 1_000_000
INTERVALS = st.lists(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda t: (t[0], t[0] + t[1])),
        max_size=4,
    ),
    max_size=8,
)


def numbers_of(intervals: list[tuple[int, int]]) -> set[int]:
    return {n for first, last in intervals for n in range(first, last + 1)}


@given(INTERVALS)
@example([[(5, 6)], [(1, 1), (3, 9)], [(2, 4)]])
def test_what_is_missing_is_what_has_not_come_below_the_highest(
    batches: list[list[tuple[int, int]]],
) -> None:
    numbering, come, found, closed = Numbering(), set[int](), set[int](), set[int]()
    for at, batch in enumerate(batches):
        for hole in numbering.come(batch, at):
            assert hole.found_us <= at
            filled = numbers_of([(hole.first, hole.last)])
            assert not filled & closed
            closed |= filled
        come |= numbers_of(batch)
        holes = [(hole.first, hole.last) for hole in numbering.holes]
        assert numbers_of(holes) == set(range(1, max(come, default=0) + 1)) - come
        assert numbering.missing == len(numbers_of(holes))
        assert all(a.last < b.first for a, b in itertools.pairwise(numbering.holes))
        found |= numbers_of(holes)
    assert closed & come == closed
    assert found - come == numbers_of([(hole.first, hole.last) for hole in numbering.holes])


@given(INTERVALS, st.integers(0, 2**32))
def test_the_order_in_which_numbers_come_makes_no_difference(
    batches: list[list[tuple[int, int]]], seed: int
) -> None:
    one, other = Numbering(), Numbering()
    shuffled = [each for batch in batches for each in batch]
    for batch in batches:
        one.come(batch, 0)
    random.Random(seed).shuffle(shuffled)
    for each in shuffled:
        other.come([each], 0)
    assert other.top == one.top
    assert numbers_of([(h.first, h.last) for h in other.holes]) == numbers_of(
        [(h.first, h.last) for h in one.holes]
    )


def test_of_too_many_holes_the_oldest_are_given_up_and_stay_missing() -> None:
    numbering = Numbering()
    for at in range(MAX_HOLES + 10):
        numbering.come([(2 * at + 2, 2 * at + 2)], at)
    gone = numbering.give_up()
    assert [(hole.first, hole.last) for hole in gone] == [
        (2 * at + 1, 2 * at + 1) for at in range(10)
    ]
    assert len(numbering.holes) == MAX_HOLES
    assert numbering.missing == MAX_HOLES + 10


def test_a_collector_that_was_away_has_listened_only_while_it_was_there() -> None:
    listening = Listening()
    for second in (*range(0, 100, 2), *range(3_700, 3_800, 2)):
        listening.took(second * S)
    assert listening.stretches == [(98 * S, 3_700 * S)]
    assert listening.listened_us(90 * S, 3_710 * S, 10 * S) == (8 + 10 + 10) * S
    assert listening.listened_us(200 * S, 300 * S, 10 * S) == 10 * S
    assert listening.listened_us(10 * S, 90 * S, 10 * S) == 80 * S
    listening.took(2_000 * S)  # what came late says that it was there
    assert listening.listened_us(90 * S, 3_710 * S, 10 * S) == (8 + 20 + 10) * S


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=60), st.integers(1, 60))
def test_listening_is_no_longer_than_time_and_no_shorter_for_more_that_came(
    seconds: list[int], pause: int
) -> None:
    listening, more = Listening(), Listening()
    for second in sorted(seconds):
        listening.took(second * S)
        more.took(second * S)
    span = min(seconds) * S, max(seconds) * S
    for second in seconds:
        more.took((second + 1) * S)
    heard = listening.listened_us(*span, pause * S)
    assert 0 <= heard <= more.listened_us(*span, pause * S) <= span[1] - span[0]


def test_stretches_are_bounded() -> None:
    listening = Listening()
    for at in range(MAX_STRETCHES + 50):
        listening.took(at * 10 * S)
    assert len(listening.stretches) == MAX_STRETCHES


@given(st.lists(st.floats(0.08, 1e6), min_size=1, max_size=200))
def test_a_percentile_is_right_within_a_fifth(delays_ms: list[float]) -> None:
    counts: dict[int, int] = {}
    for delay in delays_ms:
        bucket = math.floor(4 * math.log2(delay))
        counts[bucket] = counts.get(bucket, 0) + 1
    ordered = sorted(delays_ms)
    for share in (0.5, 0.95, 0.99):
        true = ordered[math.ceil(share * len(ordered)) - 1]
        assert true / 1.2 < percentile_ms(counts, share) < true * 1.2
    assert max(delays_ms) <= most_ms(counts) * 1.000001


def test_wear_is_measured_over_restarts_and_not_before_the_window_is_over() -> None:
    wear = Wear()
    assert wear.look(5_000_000, 0, 3_600 * S) is None
    assert wear.look(6_000_000, 1_800 * S, 3_600 * S) is None
    assert wear.look(500_000, 1_900 * S, 3_600 * S) is None  # the machine has started again
    pace = wear.look(1_000_000, 3_600 * S, 3_600 * S)
    assert pace == (1_000_000 + 500_000 + 500_000) * 24

"""A trim reports numbers that stand in no other segment, without a look into each segment."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.readable_log import only_in
from gateway.log.segment import Segment
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.lowest_numbers import LowestNumbers

STREAMS: tuple[Epoch, ...] = ("gw", 1), ("gw", 2), ("other", 1)
SETS = st.sets(st.integers(1, 20), min_size=1)
HOLDS = st.fixed_dictionaries({}, optional=dict.fromkeys(STREAMS, SETS))
Held = dict[Epoch, set[int]]


class NoLook(dict[Epoch, Intervals]):
    """The content of a segment into which no look is needed: each look raises an error."""

    def __contains__(self, key: object) -> bool:
        raise AssertionError(key)

    def __getitem__(self, key: Epoch) -> Intervals:
        raise AssertionError(key)


def ranges(held: Held) -> dict[Epoch, Intervals]:
    return {key: Intervals((n, n) for n in numbers) for key, numbers in held.items()}


def segment(holds: dict[Epoch, Intervals]) -> Segment:
    return Segment(Path("0.log"), 0, holds=holds)


@given(going=st.lists(HOLDS, max_size=3), kept=st.lists(HOLDS, max_size=4))
def test_only_what_no_kept_segment_holds_goes(going: list[Held], kept: list[Held]) -> None:
    found = only_in([segment(ranges(one)) for one in going], [segment(ranges(one)) for one in kept])
    expected: Held = {}
    for key in STREAMS:
        numbers = {n for one in going for n in one.get(key, set())}
        if left := numbers.difference(*(one.get(key, set()) for one in kept)):
            expected[key] = left
    assert found == ranges(expected)


@pytest.mark.parametrize("copies", [[(1, 9)], [(1, 4), (5, 9)]], ids=str)
def test_no_segment_is_asked_behind_that_where_the_last_is_found(
    copies: list[tuple[int, int]],
) -> None:
    going = [segment({STREAMS[0]: Intervals([(1, 9)])})]
    kept = [segment({STREAMS[0]: Intervals([copy])}) for copy in copies]
    assert only_in(going, [*kept, segment(NoLook({STREAMS[0]: Intervals([(1, 9)])}))]) == {}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(STREAMS), st.integers(1, 20)),  # a number comes
        st.sampled_from(["roll", "trim"]),
    ),
    max_size=40,
)


@given(before=st.lists(HOLDS, max_size=3), steps=STEPS)
def test_the_lowest_numbers_that_are_kept_are_those_of_a_look_into_each_segment(
    before: list[Held], steps: list[tuple[Epoch, int] | str]
) -> None:
    segments = [Segment(Path(), at, holds=ranges(one)) for at, one in enumerate([*before, {}])]
    lowest = LowestNumbers((one.start, one.holds) for one in segments[:-1])
    for step in steps:
        if step == "roll":
            lowest.add(segments[-1].start, segments[-1].holds)
            segments.append(Segment(Path(), segments[-1].start + 1))
        elif step == "trim":
            if len(segments) > 1:
                oldest = segments.pop(0)
                lowest.gone(oldest.start, oldest.holds)
        elif isinstance(step, tuple):
            stream, number = step
            segments[-1].holds.setdefault(stream, Intervals()).add(number, number)
        expected = {
            stream: min(next(iter(one.holds[stream]))[0] for one in segments if stream in one.holds)
            for stream in STREAMS
            if any(stream in one.holds for one in segments)
        }
        assert lowest.of_all(segments[-1].holds) == expected

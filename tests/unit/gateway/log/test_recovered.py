"""The numbers that a start finds: which it has, and which were lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.log.index import SegmentIndex
from gateway.log.loading import Loaded
from gateway.log.recovered import numbers_of
from gateway.log.segment import Segment
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

OURS: Epoch = ("gw", 7)


def loaded(
    start: int, *held: tuple[int, int], ever: tuple[int, int] | None = None, gap: int | None = None
) -> Loaded:
    """A segment of a hundred bytes.

    Args:
        start: its position.
        held: the numbers that can be read in it.
        ever: with an index, which tells of these up to its end.
        gap: with damage before a batch of the number behind this one.

    """
    holds = {OURS: Intervals(held)} if held else {}
    made = Loaded(Segment(Path(f"{start:020d}.log"), start, 100, holds))
    if ever is not None:
        made.index = SegmentIndex(start, 100, [], holds, {OURS: Intervals([ever])})
    if gap is not None:
        made.gaps.append((OURS, 0, gap))
    return made


FOUND: dict[str, tuple[list[Loaded], list[tuple[int, int]], list[tuple[int, int]]]] = {
    "nothing": ([], [], []),
    "what never came": ([loaded(0, (1, 5)), loaded(100, (9, 9))], [(1, 5), (9, 9)], []),
    "a segment is gone": ([loaded(0, (1, 5)), loaded(200, (9, 9))], [(1, 5), (9, 9)], [(6, 8)]),
    "the oldest is gone": ([loaded(100, (6, 9))], [(6, 9)], []),
    "a segment is gone and an index tells": (
        [loaded(0, (1, 5)), loaded(200, (9, 9), ever=(1, 9))],
        [(1, 5), (9, 9)],
        [(6, 8)],
    ),
    "an index tells that nothing came": (
        [loaded(0, (1, 5)), loaded(200, (12, 14), ever=(12, 14))],
        [(1, 5), (12, 14)],
        [],
    ),
    "damage within": ([loaded(0, (1, 5)), loaded(100, (9, 9), gap=8)], [(1, 5), (9, 9)], [(6, 8)]),
    "damage before all that is known": ([loaded(0, (3, 5), gap=2)], [(3, 5)], []),
    "a second copy elsewhere": (
        [loaded(0, (1, 5)), loaded(200, (9, 9)), loaded(300, (6, 8))],
        [(1, 9)],
        [],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_between_the_numbers_next_to_what_is_gone_was_lost(name: str) -> None:
    found, have, lost = FOUND[name]
    has, has_lost = numbers_of(found, {})
    assert [*has.get(OURS, ())] == have
    assert [*has_lost.get(OURS, ())] == lost


def test_what_was_deleted_to_make_room_was_not_lost_and_is_not_asked_for() -> None:
    found = [loaded(0, (1, 5)), loaded(200, (9, 9))]
    have, lost = numbers_of(found, {OURS: Intervals([(6, 7)])})
    assert [*have[OURS]] == [(1, 7), (9, 9)]
    assert [*lost[OURS]] == [(8, 8)]

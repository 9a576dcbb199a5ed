"""Finds batches of one stream in segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gateway.log.damage import Damage
from gateway.log.segment import Segment
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

IN_SEQUENCE = 1_000
"""Numbers read at once to be put into their order."""


def batches(
    segments: Iterable[Segment], key: Epoch, ranges: Intervals, damage: Damage
) -> Iterator[tuple[bytes, Header]]:
    """Return the batches of one stream that hold any number of ``ranges``, as they stand.

    What is read is fixed by the call; the reading itself may go on in a thread.

    Args:
        segments: those to be read.
        key: the stream.
        ranges: the numbers.
        damage: told of what can't be read, which is left out.

    Raises:
        LogError: a segment can't be read.

    """
    found = [
        (segment, segment.stretches(key, ranges))
        for segment in segments
        if key in segment.holds and meet(segment.holds[key], ranges)
    ]
    return _read(found, key, ranges, damage)


def _read(
    found: list[tuple[Segment, list[tuple[int, int]]]],
    key: Epoch,
    ranges: Intervals,
    damage: Damage,
) -> Iterator[tuple[bytes, Header]]:
    for segment, stretches in found:
        learnt = Segment(segment.path, segment.start) if segment.pages is None else None
        for start, end in stretches:
            data = damage.part(segment.path, start, end)
            for at, header in damage.readable(segment.path, data, start):
                if learnt is not None:
                    learnt.note(at, header)
                numbers = [(header.first, header.last)]
                if header.numbered and header.stream == key and meet(ranges, numbers):
                    yield data[at : at + header.end], header
        if learnt is not None and segment.path not in damage.segments:
            segment.pages = learnt.pages  # it was read as a whole, and is sealed


def in_sequence(
    read: Callable[[Epoch, Intervals], Iterator[tuple[bytes, Header]]],
    key: Epoch,
    first: int,
    last: int,
) -> Iterator[tuple[bytes, Header]]:
    """Yield the batches that hold any number of ``first..last``, by their numbers, a part at a
    time."""
    start = first
    while start <= last:
        end, goal = 0, start + IN_SEQUENCE - 1
        while end < goal:  # one statement may pass over more than there is time to go through
            end = goal
            found = [*read(key, Intervals([(start, min(end, last))]))]
            goal = max((header.last for _, header in found if header.passed), default=0)
        for frame, header in sorted(found, key=lambda one: one[1].first):
            if max(header.first, first) >= start:  # else it came with the part before
                yield frame, header
        start = end + 1


def meet(one: Intervals, other: Iterable[tuple[int, int]]) -> bool:
    """Return whether they have a number in common."""
    return any(one.missing(first, last) != [(first, last)] for first, last in other)

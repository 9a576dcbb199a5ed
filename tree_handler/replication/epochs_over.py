"""Epochs that are over: all that is left of streams that were forgotten.

Everything of such an epoch counts as covered: a late copy is a duplicate, and nothing of it is
asked for, sought or sent to a neighbour for whom it is over.

They are ranges of whole numbers, exact up to `MAX_RANGES` of them. More are joined where they are
nearest to each other: lives that follow each other have epochs that are near (decision 0016), so
what is between was counted past by the same gateway. They stand in the log as statements of a
stream of notes, whose numbers are the epochs: a restart finds them there, and what a log remembers
of numbers it remembers of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tree_handler import batch
from tree_handler.batch import NOTE_PREFIX, Epoch, Flags, Header
from tree_handler.intervals import Intervals

KEPT_LIVES: Final = 4
"""Of each origin: earlier epochs that are remembered though nothing else is kept of them."""
MAX_RANGES: Final = 64
"""Of epochs that are over, of clients' streams of one origin, and of its control streams."""
NUMBERED_AS: Final = 2
"""The number in the place of an epoch in the stream of such notes (1: those of `epoch_order`)."""


def note_of(name: str) -> Epoch:
    """Return the stream of notes about streams of this name."""
    return NOTE_PREFIX + name, NUMBERED_AS


def is_over(have: Mapping[Epoch, Intervals], stream: Epoch) -> bool:
    """Return whether a note among what a log has says that the epoch of a stream is over."""
    over = have.get((NOTE_PREFIX + stream[0], NUMBERED_AS))
    return over is not None and stream[1] in over


def all_over(have: Mapping[Epoch, Intervals]) -> Iterator[tuple[str, Intervals]]:
    """By name of streams, the epochs that are over."""
    for name, number in have:
        if number == NUMBERED_AS and name.startswith(NOTE_PREFIX):
            yield name.removeprefix(NOTE_PREFIX), have[name, number]


def prune(have: dict[Epoch, Intervals]) -> None:
    """Drop what a log has of streams that are over, as its own notes say."""
    for stream in [stream for stream in have if is_over(have, stream)]:
        del have[stream]


def notes(
    have: Mapping[Epoch, Intervals], name: str, ended: Iterable[int], stay: Sequence[int]
) -> Iterator[tuple[bytes, Header]]:
    """Yield what the log has to hold before streams are forgotten.

    Args:
        have: what the log covers, by stream.
        name: of the streams.
        ended: epochs that are over now.
        stay: those that are not, in order.

    """
    before = have.get(note_of(name), Intervals())
    now = Intervals(before)
    for epoch in ended:
        now.add(epoch, epoch)
    _join(now, stay)
    for first, last in now.without(before):
        yield batch.passed(note_of(name), first, last, Flags.PASSED | Flags.LOCAL)


def forget(have: dict[Epoch, Intervals], header: Header) -> list[Epoch]:
    """Drop what one of these `notes` in the log says is over; return which streams those are."""
    name = header.origin.removeprefix(NOTE_PREFIX)
    if header.count == 1:
        streams = [(name, header.first)]
    else:
        streams = [row for row in have if row[0] == name and header.first <= row[1] <= header.last]
    return [stream for stream in streams if have.pop(stream, None) is not None]


def _join(ranges: Intervals, stay: Sequence[int]) -> None:
    """Fill the narrowest gaps until there are few; never one in which an epoch stays."""
    gaps = sorted(
        (second[0] - first[1], first[1] + 1, second[0] - 1)
        for first, second in pairwise(ranges)
        if bisect_left(stay, first[1]) == bisect_left(stay, second[0])
    )
    for _, first_between, last_between in gaps[: max(0, len(ranges) - MAX_RANGES)]:
        ranges.add(first_between, last_between)

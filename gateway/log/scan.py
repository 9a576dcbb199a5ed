"""Finds batches of one stream in segments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from gateway.log.damage import Damage
from gateway.log.errors import LogError
from gateway.log.pages import Pages
from gateway.log.segment import Segment
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

IN_SEQUENCE = 1_000
"""Numbers read at once to be put into their order."""


def batches(
    candidates: Iterable[tuple[Segment, list[tuple[int, int]]]],
    key: Epoch,
    ranges: Intervals,
    damage: Damage,
) -> Iterator[tuple[bytes, Header]]:
    """The batches of one stream that hold any number of ``ranges``, as they stand.

    Args:
        candidates: segments, each with the stretches that are to be read of it.
        key: the stream.
        ranges: the numbers.
        damage: told of what can't be read, which is left out.

    Raises:
        LogError: a segment can't be read.

    """
    for segment, stretches in candidates:
        learnt = Pages() if segment.pages is None else None
        for start, end in stretches:
            data = part(segment.path, start, end)
            for at, header in damage.readable(segment.path, data, start):
                if learnt is not None and header.numbered:
                    learnt.note(at, header)
                whole = [(header.first, header.last)]
                if (
                    header.numbered
                    and header.stream == key
                    and ranges.missing(header.first, header.last) != whole
                ):
                    yield data[at : at + header.end], header
        if learnt is not None:  # it was read as a whole, and is sealed
            segment.pages = learnt


def meet(one: Intervals, other: Intervals) -> bool:
    """Whether they have a number in common."""
    return any(one.missing(first, last) != [(first, last)] for first, last in other)


def part(path: Path, start: int, end: int) -> bytes:
    """A part of a segment.

    Raises:
        LogError: it can't be read.

    """
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), end - start, start)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror}") from error

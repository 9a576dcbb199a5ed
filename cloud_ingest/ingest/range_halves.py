"""Halves what a trigger reads, down to the batch with which the driver's own steps fail.

They look at headers and not into messages, so a batch is what they find; it goes to quarantine as
bytes. Storage and tasks that fail blame none.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cloud_ingest.ingest.halving import fault_of
from cloud_ingest.spool.segments import SpoolRange, read_notes
from cloud_ingest.spool.walk import DamagedBytes, walk


class TasksFailedError(RuntimeError):
    """Tasks failed, each several times; the message is all that is known of it."""


class BatchSpot(NamedTuple):
    """A batch's spool, its segment and its first byte there."""

    spool: str
    segment: str
    at: int


def take_in_parts(
    ranges: Sequence[SpoolRange],
    take: Callable[[list[SpoolRange], bool], None],
    bad: MutableMapping[tuple[str, str, int], str],
    note: Callable[[str], None],
) -> None:
    """Take ranges, whole or in as few parts as can be.

    Args:
        ranges: what is read, in order.
        take: takes some, and hears whether they are the last.
        bad: batches that are set aside, and why, by spool, segment and position; it gets those
            with which ``take`` fails, and succeeds once they are in it.
        note: hears why.

    Raises:
        Exception: what ``take`` raises and no batch is to blame for.

    """
    left = [list(ranges)]
    while left:
        part = left.pop()
        try:
            take(part, not left)
            continue
        except TasksFailedError:
            raise
        except Exception as error:
            why = fault_of(error)
            if why is None:
                raise
            failure = error
        found = _halves(part)
        if isinstance(found, BatchSpot):
            if bad.pop(found, None) is not None:  # it fails without it, too
                raise failure
            bad[found] = why
            note(why)
            left.append(part)
        elif found is None:
            raise failure
        else:
            left += [found[1], found[0]]


def _halves(
    ranges: Sequence[SpoolRange],
) -> BatchSpot | tuple[list[SpoolRange], list[SpoolRange]] | None:
    """Two parts, each about a half; or where the only batch stands; None if there is none."""
    middle = len(ranges) // 2
    if middle:
        return list(ranges[:middle]), list(ranges[middle:])
    if not ranges:
        return None
    one = ranges[0]
    starts, is_damage = _found(one)
    if len(starts) > 1:
        cut = starts[len(starts) // 2]
        place = one.spool, one.segment
        return [SpoolRange(*place, one.start, cut)], [SpoolRange(*place, cut, one.end)]
    if not starts or is_damage:
        return None
    return BatchSpot(one.spool, one.segment, starts[0])


def _found(one: SpoolRange) -> tuple[list[int], bool]:
    """Return where batches, and what is damaged, begin, and whether the last is damage."""
    starts, is_damage = [], False
    start = int(Path(one.segment).stem)
    notes = read_notes(Path(one.spool))
    with (
        (Path(one.spool) / one.segment).open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        memoryview(mapped) as data,
    ):
        for found in walk(data, one.start, one.end, start, notes):
            is_damage = isinstance(found, DamagedBytes)
            starts.append(found.at if isinstance(found, DamagedBytes) else found[0])
    return starts, is_damage

"""Places in the log as a checkpoint has them, and their rows in its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import msgpack

from gateway.broker.durability import packed, saved_marks
from gateway.broker.durability.saved import SavedPlaces
from gateway.broker.sessions.places import AT, NEVER, SINCE, PackedWay, Places, WaitingRun

TABLES: Final = ("places", "timed")
"""Those of a session's places, and when their messages expire."""
_PLACES: Final = "REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_TIMED: Final = "REPLACE INTO timed VALUES (?, ?, ?)"
_READ: Final = """
SELECT place, origin, epoch, ranges, flags, identifiers, expires_us, times
FROM places LEFT JOIN timed USING (session, place) WHERE session = ?
"""


def saved(places: Places, ahead_s: float) -> Iterator[SavedPlaces]:
    """Give what a checkpoint has of places; for a thread, for it may be much.

    Args:
        places: no others' any more.
        ahead_s: the lasting clock less the loop's.

    """
    way: PackedWay | None = None
    ranges: list[int] = []
    times: list[tuple[int, int, int]] = []
    for run in places.runs():
        if way is not None and (run.way != way or run.first <= ranges[-1]):
            yield _one(way, ranges, times)
            ranges, times = [], []
        way = run.way
        if ranges and run.first == ranges[-1] + 1:
            ranges[-1] = run.last
        else:
            ranges += (run.first, run.last)
        lasting_us = int((run.moment_ms / 1000 + ahead_s) * 1_000_000) if run.timing else 0
        if (times[-1][1:] if times else (NEVER, 0)) != (run.timing, lasting_us):
            times.append((run.first, run.timing, lasting_us))
    if way is not None:
        yield _one(way, ranges, times)


def _one(way: PackedWay, ranges: list[int], times: list[tuple[int, int, int]]) -> SavedPlaces:
    key, flags, identifiers = way
    return SavedPlaces(key, tuple(ranges), flags, identifiers, None, tuple(times))


def places_of(one: SavedPlaces, behind_s: float) -> Places:
    """Return places of a checkpoint.

    Args:
        one: as the checkpoint has them.
        behind_s: the loop's clock less the lasting one.

    """
    way = (one.key, one.flags, one.identifiers)
    times = list(one.times)
    if one.expires_us is not None:  # of a release that knew no other
        times = [(one.ranges[0], AT, one.expires_us)]
    times.reverse()
    made = Places()
    timing, moment_ms = NEVER, 0
    for first, last in zip(one.ranges[::2], one.ranges[1::2], strict=True):
        at = first
        while at <= last:
            while times and times[-1][0] <= at:
                _, timing, lasting_us = times.pop()
                moment_ms = 0
                if timing != NEVER:
                    moment_ms = int((lasting_us / 1_000_000 + behind_s) * 1000 // 1)
            until = min(last, times[-1][0] - 1) if times else last
            made.add(WaitingRun(way, at, until, timing, moment_ms))
            at = until + 1
    return made


def write(db: sqlite3.Connection, session: int, place: int, one: SavedPlaces) -> None:
    """Write places of a session; ``place`` is where they stand in its queue."""
    ranges, identifiers = msgpack.packb(one.ranges), msgpack.packb(one.identifiers)
    where = (session, place, *one.key)
    flags = saved_marks.write(db, session, place, (one.key, one.ranges[0]), one.flags)
    db.execute(_PLACES, (*where, ranges, flags, identifiers, one.expires_us))
    if one.times:
        db.execute(_TIMED, (session, place, msgpack.packb(one.times)))


def read(
    db: sqlite3.Connection, session: int, marks: saved_marks.Marks
) -> Iterator[tuple[int, SavedPlaces]]:
    """Give the places of a session, and where they stand in its queue.

    Args:
        db: of the checkpoints.
        session: its number.
        marks: of its deliveries.

    Raises:
        sqlite3.Error, ValueError, TypeError, msgpack.UnpackException: they can't be read.

    """
    with closing(db.execute(_READ, (session,))) as rows:
        for place, origin, epoch, ranges, flags, identifiers, expires_us, times in rows:
            key, numbers = (origin, epoch), packed.ranges(ranges)
            yield (
                place,
                SavedPlaces(
                    key,
                    numbers,
                    flags | saved_marks.mark_of(marks, place, (key, numbers[0])),
                    packed.numbers(identifiers),
                    expires_us,
                    () if times is None else _times(times),
                ),
            )


def _times(column: bytes) -> tuple[tuple[int, int, int], ...]:
    found = msgpack.unpackb(column, use_list=False)
    times = tuple((int(first), int(timing), int(us)) for first, timing, us in found)
    if any(timing not in {NEVER, SINCE, AT} for _, timing, _ in times):
        raise ValueError(f"times of messages {times[:3]}")
    return times

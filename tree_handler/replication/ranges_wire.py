"""Ranges of numbers by stream, as the messages of repair and of searches have them, in msgpack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tree_handler.batch import MAX_NUMBER, Epoch
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

MAX_ORIGIN_BYTES: Final = 256
"""An origin's name of 255 bytes and the mark of its control stream."""

MAX_RANGES: Final = 10_000
"""In one part of a summary, or in one request; of a stream with more only so many are told."""
MAX_BYTES: Final = 1 << 20
"""Of one message: twice what as many ranges and streams take at most."""
MAX_STREAMS: Final = 1_000
"""In one request or search; the next one has the rest."""
ROOM: Final = 2 * (MAX_RANGES + MAX_STREAMS)
SIZE: Final = MessageSize(MAX_BYTES, 6 * ROOM + LATER_ELEMENTS, MAX_RANGES)
"""A range is an element and a list of two, a stream one and a list of four."""


def unpacked(what: str, data: bytes) -> Any:
    """Read msgpack, or raise ProtocolError."""
    return unpack(what, data, SIZE)


def rows_of(numbers: Mapping[Epoch, Intervals]) -> list[list[Any]]:
    """Return numbers by stream, ready to be packed."""
    return [[*stream, list(ranges)] for stream, ranges in numbers.items()]


def within_limits(numbers: Mapping[Epoch, Intervals]) -> dict[Epoch, Intervals]:
    """Take the first of these numbers: as many ranges and streams as one message may have."""
    found: dict[Epoch, Intervals] = {}
    room = MAX_RANGES
    for stream, ranges in numbers.items():
        if not room or len(found) == MAX_STREAMS:
            break
        found[stream] = ranges if len(ranges) <= room else Intervals(list(ranges)[:room])
        room -= len(found[stream])
    return found


class RangeRoom:
    """The ranges and streams that a message may still have; each costs the same anywhere.

    An honest one has `MAX_RANGES` and `MAX_STREAMS` at most, and in an answer as many of denials.
    """

    __slots__ = ("_left", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._left = ROOM

    def has(self, numbers: Mapping[Epoch, Intervals]) -> bool:
        """Return whether there is room for these; if so it is taken."""
        count = len(numbers) + sum(map(len, numbers.values()))
        if count > self._left:
            return False
        self._left -= count
        return True

    def take(self, count: int) -> None:
        """Raise ProtocolError where these are too many."""
        self._left -= count
        if self._left < 0:
            raise ProtocolError(self._what, ROOM - self._left)


def wanted_of(what: str, rows: object, room: RangeRoom) -> dict[Epoch, Intervals]:
    """Read what `rows_of` made.

    Raises:
        ProtocolError: it is something else, or over a limit.

    """
    if not isinstance(rows, list) or len(rows) > MAX_STREAMS:
        raise ProtocolError(f"{what} streams", rows)
    room.take(len(rows))
    wanted: dict[Epoch, Intervals] = {}
    for row in rows:
        if not isinstance(row, list) or len(row) != 3:
            raise ProtocolError(f"{what} stream", row)
        wanted[stream_of(what, row[0], row[1])] = ranges_of(what, row[2], room)
    return wanted


def is_number(value: object, most: int = MAX_NUMBER) -> bool:
    """Return whether it is a number of a message."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


def stream_of(what: str, origin: object, epoch: object) -> Epoch:
    """Take what was unpacked as a stream, or raise ProtocolError."""
    if not isinstance(origin, str) or not 0 < len(origin.encode()) <= MAX_ORIGIN_BYTES:
        raise ProtocolError(f"{what} origin", origin)
    if not isinstance(epoch, int) or not is_number(epoch) or epoch > MAX_BOOT_EPOCH:
        raise ProtocolError(f"{what} epoch", epoch)
    return origin, epoch


def ranges_of(what: str, rows: object, room: RangeRoom) -> Intervals:
    """Take what was unpacked as ranges, or raise ProtocolError."""
    if not isinstance(rows, list) or len(rows) > MAX_RANGES:
        raise ProtocolError(f"{what} ranges", rows)
    room.take(len(rows))
    ranges = Intervals()
    for row in rows:
        if type(row) is not list or len(row) != 2:
            raise ProtocolError(f"{what} range", row)
        first, last = row
        if type(first) is not int or type(last) is not int or not 0 < first <= last <= MAX_NUMBER:
            raise ProtocolError(f"{what} range", row)
        ranges.add(first, last)
    return ranges

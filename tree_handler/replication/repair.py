"""Summaries and requests by which two neighbours repair, and their wire form.

A summary says, for each stream (`Header.stream`), which logged numbers a gateway has and from
which number on its log can still send them, and which epochs are over for it. The first on a link
tells of all, in parts; later ones of what has changed. A request names ranges of some streams. Both
are msgpack; limits bound what a broken neighbour can make a gateway keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import chain
from typing import Any, Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import MAX_NUMBER, Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.proof import MAX_SIGNATURE_BYTES
from tree_handler.replication.ranges_wire import (
    MAX_BYTES,
    MAX_RANGES,
    MAX_STREAMS,
    RangeRoom,
    is_number,
    ranges_of,
    rows_of,
    stream_of,
    unpacked,
    wanted_of,
    within_limits,
)

ONE_BEHIND: Final = MAX_NUMBER + 1
"""From here on a log keeps a stream that it let go to the last number there can be."""
MAX_SUMMARY_ROWS: Final = 1_000
"""In one part of a summary."""


@dataclass(slots=True)
class Summary:
    """A summary of the numbers that a gateway has, or a part of it.

    Attributes:
        have: its logged numbers, by stream.
        kept_from: the lowest number that its log still holds, by stream; 1 where it is not named.
        over: the epochs that are over for it, by name of streams (`replication.epochs_over`).
        completes: with this part all has been told that there was when the link came up.

    """

    have: dict[Epoch, Intervals] = field(default_factory=dict)
    kept_from: dict[Epoch, int] = field(default_factory=dict)
    over: dict[str, Intervals] = field(default_factory=dict)
    completes: bool = False

    @classmethod
    def parts(
        cls,
        rows: Iterable[tuple[Epoch, Intervals, int]],
        over: Iterable[tuple[str, Intervals]],
        *,
        completes: bool,
    ) -> list[Summary]:
        """Return a snapshot, cut so that each part is within the limits: later changes do not reach
        it.

        Args:
            rows: stream, the numbers that are there, and the lowest that can be sent.
            over: epochs that are over.
            completes: what the last part is to say.

        """
        part = cls()
        found = [part]
        count = ranges = 0

        def take(numbers: Intervals) -> Intervals:
            nonlocal part, count, ranges
            told = Intervals(list(numbers)[:MAX_RANGES])
            if count == MAX_SUMMARY_ROWS or ranges + len(told) > MAX_RANGES:
                found.append(part := cls())
                count = ranges = 0
            count += 1
            ranges += len(told)
            return told

        for name, epochs in over:
            told = take(epochs)
            part.over[name] = told
        for stream, numbers, kept_from in rows:
            told = take(numbers)
            part.have[stream] = told
            if kept_from > 1:
                part.kept_from[stream] = kept_from
        part.completes = completes
        return found

    def kept(self, key: Epoch) -> Intervals:
        """Return the numbers of a stream that can still be sent."""
        return kept_from(self.have.get(key, _NOTHING), self.kept_from.get(key, 1))

    def epochs(self) -> Iterator[Epoch]:
        """Return all that are named, with the latest of those that are over."""
        return chain(self.have, ((name, epochs.last) for name, epochs in self.over.items()))

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb(
            [
                self.completes,
                [[name, list(epochs)] for name, epochs in self.over.items()],
                [
                    [*stream, self.kept_from.get(stream, 1), list(ranges)]
                    for stream, ranges in self.have.items()
                ],
            ]
        )
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        """Read the wire form.

        Raises:
            ProtocolError: not a summary, or over a limit.

        """
        fields = unpacked("summary", data)
        if (
            not isinstance(fields, list)
            or len(fields) != 3
            or not isinstance(fields[0], bool)
            or not isinstance(fields[1], list)
            or not isinstance(fields[2], list)
            or len(fields[1]) + len(fields[2]) > MAX_SUMMARY_ROWS
        ):
            raise ProtocolError("summary", fields)
        told, room = cls(completes=fields[0]), RangeRoom("summary ranges")
        for row in fields[1]:
            if not isinstance(row, list) or len(row) != 2:
                raise ProtocolError("summary of what is over", row)
            epochs = ranges_of("summary", row[1], room)
            name, _ = stream_of("summary", row[0], epochs.last or 1)
            told.over[name] = epochs
        for row in fields[2]:
            if not isinstance(row, list) or len(row) != 4 or not is_number(row[2], ONE_BEHIND):
                raise ProtocolError("summary row", row)
            stream = stream_of("summary", row[0], row[1])
            told.have[stream] = ranges_of("summary", row[3], room)
            if row[2] > 1:
                told.kept_from[stream] = row[2]
        return told


@dataclass(frozen=True, slots=True)
class Request:
    """Ask for ranges of some streams, which are sent in this order."""

    wanted: dict[Epoch, Intervals]

    @classmethod
    def of(cls, wanted: Iterable[tuple[Epoch, Intervals]], limit: int) -> Request:
        """Return the first ``limit`` numbers of what is wanted."""
        taken: dict[Epoch, Intervals] = {}
        count = 0
        for stream, numbers in wanted:
            for first, last in numbers:
                if limit <= 0 or count >= MAX_RANGES or len(taken) >= MAX_STREAMS:
                    return cls(taken)
                count += 1
                end = min(last, first + limit - 1)
                taken.setdefault(stream, Intervals()).add(first, end)
                limit -= end - first + 1
        return cls(taken)

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb(rows_of(self.wanted))
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Read the wire form.

        Raises:
            ProtocolError: not a request, or over a limit.

        """
        return cls(wanted_of("request", unpacked("request", data), RangeRoom("request ranges")))


MAX_DENIALS: Final = 64
"""In one answer to a search; more are left out, and asked for by the next one."""

_LIST_HEAD_BYTES: Final = 5
"""Of a list in msgpack, at most."""

SearchId = tuple[str, int, int]
"""The gateway that seeks: its id and boot epoch, and which of its searches it is."""


@dataclass(frozen=True, slots=True)
class Seek:
    """Ask for numbers that no neighbour of the seeker has; see `replication.search`."""

    number: SearchId
    wanted: dict[Epoch, Intervals]

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb([*self.number, rows_of(self.wanted)])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Seek:
        """Read the wire form.

        Raises:
            ProtocolError: not such a question, or over a limit.

        """
        row = unpacked("seek", data)
        if not isinstance(row, list) or len(row) != 4:
            raise ProtocolError("seek", row)
        return cls(_search_id("seek", row), wanted_of("seek", row[3], RangeRoom("seek ranges")))


@dataclass(frozen=True, slots=True)
class Denial:
    """An origin's own word, in a search, on numbers of its streams that its log has not.

    Attributes:
        origin: who says it.
        lacks: the numbers.
        seal: its signature (`tree_handler.seal.Seals.say`).

    """

    origin: str
    lacks: dict[Epoch, Intervals]
    seal: bytes = b""

    def row(self) -> list[Any]:
        """Itself in an answer, ready to be packed."""
        return [self.origin, rows_of(self.lacks), self.seal]

    def encode(self) -> bytes:
        """Return the wire form, as it stands in an answer."""
        packed: bytes = msgpack.packb(self.row())
        return packed

    def signed_part(self, number: SearchId) -> bytes:
        """Return what the seal is of, in this search."""
        packed: bytes = msgpack.packb(["denial", *number, self.origin, rows_of(self.lacks)])
        return packed


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to a search: what was found nowhere. Of what it does not name it says nothing.

    Attributes:
        number: of the search.
        left: the numbers that are still missing.
        origins: who of their origins was asked.
        complete: whether all were asked and answered.
        denials: what those origins say themselves, where gateways sign.

    """

    number: SearchId
    left: dict[Epoch, Intervals]
    origins: frozenset[str]
    complete: bool
    denials: tuple[Denial, ...] = ()

    @classmethod
    def fitting(
        cls,
        number: SearchId,
        left: Mapping[Epoch, Intervals],
        origins: frozenset[str],
        *,
        complete: bool,
        denials: Iterable[Denial] = (),
    ) -> SearchResult:
        """Make an answer that names as many numbers as it may; it says nothing of the others."""
        named = within_limits(left)
        room = RangeRoom("search result ranges")
        room.has(named)
        answer = cls(number, named, origins, complete)
        room_bytes = MAX_BYTES - len(answer.encode()) - _LIST_HEAD_BYTES
        said: list[Denial] = []
        for denial in denials:
            size_bytes = len(denial.encode())
            if size_bytes <= room_bytes and room.has(denial.lacks):
                room_bytes -= size_bytes
                said.append(denial)
        return cls(number, named, origins, complete, tuple(said))

    def encode(self) -> bytes:
        """Return the wire form."""
        denials = [one.row() for one in self.denials]
        row = [*self.number, rows_of(self.left), sorted(self.origins), self.complete]
        packed: bytes = msgpack.packb([*row, denials] if denials else row)
        return packed

    @classmethod
    def decode(cls, data: bytes) -> SearchResult:
        """Read the wire form.

        Raises:
            ProtocolError: not such an answer, or over a limit.

        """
        row = unpacked("search result", data)
        if not isinstance(row, list) or len(row) not in (6, 7) or not isinstance(row[5], bool):
            raise ProtocolError("search result", row)
        room = RangeRoom("search result ranges")
        left, origins = wanted_of("search result", row[3], room), row[4]
        if (
            not isinstance(origins, list)
            or len(origins) > MAX_STREAMS
            or not all(isinstance(origin, str) for origin in origins)
        ):
            raise ProtocolError("search result origins", origins)
        number = _search_id("search result", row)
        return cls(number, left, frozenset(origins), row[5], _denials(row[6:], room))


def _denials(fields: list[Any], room: RangeRoom) -> tuple[Denial, ...]:
    rows = fields[0] if fields and isinstance(fields[0], list) else ()
    if len(rows) > MAX_DENIALS:
        raise ProtocolError("denials", len(rows))
    found = []
    for row in rows:
        match row:
            case [str(origin), lacks, bytes(seal)] if len(seal) <= MAX_SIGNATURE_BYTES:
                found.append(Denial(origin, wanted_of("denial", lacks, room), seal))
            case _:
                raise ProtocolError("denial", row)
    return tuple(found)


def pack_numbers(numbers: Mapping[Epoch, Intervals]) -> bytes:
    """Return numbers by stream, as an index of the log has them: without limits."""
    packed: bytes = msgpack.packb([[*key, 1, list(ranges)] for key, ranges in numbers.items()])
    return packed


def unpack_numbers(data: bytes) -> dict[Epoch, Intervals]:
    """Read what `pack_numbers` made.

    Raises:
        TypeError, ValueError, msgpack.UnpackException: it did not.

    """
    rows = msgpack.unpackb(data, use_list=False)
    return {(origin, epoch): Intervals(ranges) for origin, epoch, _, ranges in rows}


def _search_id(what: str, row: list[Any]) -> SearchId:
    origin, epoch = stream_of(what, row[0], row[1])
    if not is_number(row[2]):
        raise ProtocolError(f"{what} number", row[2])
    return origin, epoch, row[2]


def kept_from(ranges: Intervals, first: int) -> Intervals:
    """Return the numbers that are not lower than ``first``."""
    if first <= 1:
        return ranges
    kept = Intervals()
    for low, high in ranges:
        if high >= first:
            kept.add(max(low, first), high)
    return kept


_NOTHING = Intervals()

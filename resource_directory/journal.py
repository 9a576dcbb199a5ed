"""Registrations as records, so that a directory outlives its process; no file is touched here.

A record says all of a registration, or until when it lasts now, or that it has gone; the last one
about a location counts. Each has a mark, its length and a checksum before it, so that one that is
torn or damaged is left out and those behind it are found all the same.

The content of a record is MessagePack: an array of its kind and the fields.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from itertools import islice
from typing import Any, Final, NamedTuple

import msgpack

from light_dataclasses import dataclass
from resource_directory.link_format import parse, serialise
from resource_directory.registration import Registration
from resource_directory.registry import Registry

MARK: Final = b"\xa5RD1"
"""Before each record; no UTF-8 text has it."""
_HEAD: Final = struct.Struct("!4sII")
_MAX_BYTES: Final = 8 << 20

WORK_OF_RECORD: Final = 10
"""As much as ten links."""

_REGISTERED, _RENEWED, _REMOVED, _CLOCKS = range(4)

_NO_RECORD = (
    *(ValueError, TypeError, LookupError, OverflowError, RecursionError),
    msgpack.UnpackException,
)
"""The errors of a record whose checksum is right and whose content is not."""

ClockMark = tuple[int, ...]
OnFailedWrite = Callable[[Registration, Exception], None]
"""Is told of a registration that has no record, and why."""


def registered(registration: Registration) -> bytes:
    """Return the record of a registration.

    Raises:
        ValueError: it is longer than records are read.

    """
    record = _record(
        [
            _REGISTERED,
            registration.location,
            registration.endpoint,
            registration.sector,
            registration.base,
            registration.base_is_explicit,
            registration.lifetime_s,
            registration.expires_at,
            registration.owner,
            registration.attributes,
            serialise(registration.links),
        ]
    )
    if len(record) > _MAX_BYTES:
        raise ValueError(f"a record of {len(record)} bytes, over {_MAX_BYTES}")
    return record


def renewed(registration: Registration) -> bytes:
    """Return the record of a registration that says the same and ends later."""
    return _record([_RENEWED, registration.location, registration.expires_at])


def removed(location: str) -> bytes:
    """Return the record of a registration that has gone."""
    return _record([_REMOVED, location])


def clocks(mark: ClockMark) -> bytes:
    """Return the record of what the clocks said when those before it were written."""
    return _record([_CLOCKS, *mark])


class RecordPlace(NamedTuple):
    """The place of a registration's record in the bytes that were read.

    Attributes:
        at: its first byte, from the beginning of all.
        length: in bytes.
        expires_at: when the registration ends, by this record or a later one of its renewal.

    """

    at: int
    length: int
    expires_at: float


@dataclass(slots=True)
class KeptRecords:
    """The content of a journal.

    Of registrations it has the places alone: a machine that has less memory than before need not
    hold all of them.

    Attributes:
        places: by location, in the order in which they were made.
        mark: the last one of the clocks; None if there is none.
        records: how many were read.
        lost_bytes: how many bytes were no whole record.
        is_damaged: whether they are none that a write that did not end can have left: there is a
            record behind them, or none at all.
        unreadable: locations of records whose body was not given, or says nothing that a
            registration may say.

    """

    places: dict[str, RecordPlace] = field(default_factory=dict)
    mark: ClockMark | None = None
    records: int = field(default_factory=int)
    lost_bytes: int = field(default_factory=int)
    is_damaged: bool = field(default_factory=bool)
    unreadable: list[str] = field(default_factory=list)

    def registrations(
        self, body: Callable[[int, int], bytes], now: float = -math.inf
    ) -> Iterator[Registration]:
        """Read those that last, one after the other; what can't be read is `unreadable`.

        Args:
            body: gives what stands from a byte on, so many bytes.
            now: those that have ended by then are passed over.

        """
        self.unreadable.clear()
        for location, place in self.places.items():
            if place.expires_at <= now:
                continue
            made = _read_registration(body(place.at, place.length))
            if made is None:
                self.unreadable.append(location)
            else:
                made.expires_at = place.expires_at
                yield made


def read(pieces: Iterable[bytes]) -> KeptRecords:
    """Read records; raises nothing, whatever the bytes are.

    Args:
        pieces: all of them as they were written, cut anywhere.

    """
    reader = _RecordReader()
    for piece in pieces:
        reader.feed(piece, is_end=False)
    reader.feed(b"", is_end=True)
    kept = reader.kept
    kept.is_damaged = kept.is_damaged or not kept.records
    return kept


class _RecordReader:
    """Finds the records in pieces; it holds no more of them than a record may take."""

    def __init__(self) -> None:
        self.kept = KeptRecords()
        self._data = b""
        self._begin = 0
        """The offset of `_data`, from the beginning of all."""

    def feed(self, piece: bytes, *, is_end: bool) -> None:
        data, at, kept = self._data + piece, 0, self.kept
        while at < len(data):
            end = _end(data, at)
            if end > len(data) and not is_end:
                break
            if end <= len(data) and end > at and self._take(data, at + _HEAD.size, end):
                kept.records += 1
                kept.is_damaged = kept.lost_bytes > 0
            else:
                found = data.find(MARK, at + 1)
                last = len(data) if is_end else max(at + 1, len(data) - len(MARK) + 1)
                end = last if found < 0 else found
                kept.lost_bytes += end - at
            at = end
        self._begin += at
        self._data = data[at:]

    def _take(self, data: bytes, at: int, end: int) -> bool:
        try:
            return _taken(self.kept, data[at:end], self._begin + at)
        except _NO_RECORD:
            return False


class RegistrationJournal:
    """Notes whose record is to be written; a `resource_directory.registry.RegistryListener`.

    However often a registration changes meanwhile, it is written once, as it is then.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, bool] = {}
        """Locations, and whether more than the end has changed."""
        self._left_out: dict[tuple[str, str], str] = {}
        """Locations by name: they have records, and there was no room for them at the start."""
        self._has_news = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_news(self) -> bool:
        """Return whether anything but renewals is noted."""
        return self._has_news

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """Note a change; see `RegistryListener`."""
        for registration in (before, after):
            if registration is not None:
                self._waiting[registration.location] = self._has_news = True
        if after is not None and self._left_out:
            replaced = self._left_out.pop((after.endpoint, after.sector), after.location)
            self._waiting[replaced] = True

    def renewed(self, registration: Registration) -> None:
        """Note a renewal."""
        self._waiting.setdefault(registration.location, False)

    def left_out(self, registration: Registration) -> None:
        """A record's registration was not taken up; it is over when its endpoint registers."""
        self._left_out[registration.endpoint, registration.sector] = registration.location

    def clear(self) -> None:
        """Forget what is noted: the file has it."""
        self._waiting.clear()
        self._has_news = False

    def take(self, registry: Registry, work: int, failed: OnFailedWrite) -> list[bytes]:
        """Return the records of some of the registrations that are noted.

        Args:
            registry: has them.
            work: so much is done at most, or one record; see `work_of`.
            failed: is told of one that has no record.

        """
        records: list[bytes] = []
        for location in list(islice(self._waiting, max(1, work // WORK_OF_RECORD))):
            if work <= 0:
                break
            is_changed = self._waiting.pop(location)
            standing = registry.at(location)
            work -= work_of(standing if is_changed else None)
            if standing is None:
                records.append(removed(location))
            elif is_changed:
                records += _records_of(standing, failed)
            else:
                records.append(renewed(standing))
        self._has_news = self._has_news and bool(self._waiting)
        return records


def some_of(
    registry: Registry, locations: Iterator[str], work: int, failed: OnFailedWrite
) -> list[bytes] | None:
    """Return the records of the next registrations, of those that are still there.

    Args:
        registry: has them.
        locations: where to go on.
        work: so much is done at most, or one record; see `work_of`.
        failed: is told of one that has no record.

    Returns:
        None if there were no locations any more.

    """
    records: list[bytes] = []
    for location in locations:
        standing = registry.at(location)
        if standing is not None:
            records += _records_of(standing, failed)
        work -= work_of(standing)
        if work <= 0:
            return records
    return records or None


def work_of(registration: Registration | None) -> int:
    """Return how much it takes to write or read a record, in microseconds, about.

    Args:
        registration: whose it is; None where its record does not have all of it.

    """
    return WORK_OF_RECORD if registration is None else WORK_OF_RECORD + len(registration.links)


def _records_of(standing: Registration, failed: OnFailedWrite) -> tuple[bytes, ...]:
    """Return the record of one; none if it has none, whatever the reason: others have theirs."""
    try:
        return (registered(standing),)
    except Exception as error:
        failed(standing, error)
        return ()


def _record(content: list[Any]) -> bytes:
    body: bytes = msgpack.packb(content)
    return _HEAD.pack(MARK, len(body), zlib.crc32(body)) + body


def _end(data: bytes, at: int) -> int:
    """Return where a record ends, perhaps behind all that is there.

    ``at`` itself if there is none.
    """
    if len(data) - at < _HEAD.size:
        begins = MARK.startswith(data[at : at + len(MARK)])
        return len(data) + 1 if begins else at
    mark, length, checksum = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + int(length)
    if mark != MARK or length > _MAX_BYTES:
        return at
    if end <= len(data) and zlib.crc32(memoryview(data)[at + _HEAD.size : end]) != checksum:
        return at
    return end


def _taken(kept: KeptRecords, body: bytes, at: int) -> bool:
    content = msgpack.unpackb(body, use_list=False)
    kind, fields = content[0], content[1:]
    if kind == _CLOCKS:
        kept.mark = tuple(int(value) for value in fields)
    elif kind == _REMOVED:
        (location,) = fields
        kept.places.pop(location, None)
    elif kind == _RENEWED:
        location, expires_at = fields
        if location in kept.places:
            kept.places[location] = kept.places[location]._replace(expires_at=_time(expires_at))
    elif kind == _REGISTERED:
        made = _registration((*fields[:9], ""))  # links are read when it is taken up
        if not isinstance(fields[9], str):
            raise TypeError("no text")
        kept.places.pop(made.location, None)  # it goes to the end, as in look-ups
        kept.places[made.location] = RecordPlace(at, len(body), made.expires_at)
    else:
        return False
    return True


def _read_registration(body: bytes) -> Registration | None:
    try:
        return _registration(msgpack.unpackb(body, use_list=False)[1:])
    except _NO_RECORD:
        return None


def _time(value: Any) -> float:
    """Return a time that a clock may tell: an infinite one would never end, and NaN is before no
    other."""
    time = float(value)
    if not math.isfinite(time):
        raise ValueError(f"no time: {value!r}")
    return time


def _registration(fields: tuple[Any, ...]) -> Registration:
    location, endpoint, sector, base, is_explicit, lifetime_s, expires_at, owner, pairs, links = (
        fields
    )
    attributes = tuple((str(name), str(value)) for name, value in pairs)
    if not all(isinstance(text, str) for text in (location, endpoint, sector, base, links)):
        raise TypeError("no text")
    return Registration(
        location=location,
        endpoint=endpoint,
        sector=sector,
        base=base,
        base_is_explicit=bool(is_explicit),
        lifetime_s=int(lifetime_s),
        expires_at=_time(expires_at),
        owner=None if owner is None else str(owner),
        attributes=attributes,
        # How many there may be the registry says, which takes it up or tells that it does not.
        links=tuple(parse(links, max_bytes=_MAX_BYTES, max_links=_MAX_BYTES)),
    )

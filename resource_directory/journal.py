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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from resource_directory.link_format import parse, serialise
from resource_directory.registration import Registration
from resource_directory.registry import Registry

MARK: Final = b"\xa5RD1"
"""Before each record; no UTF-8 text has it."""
_HEAD: Final = struct.Struct("!4sII")
_MAX_BYTES: Final = 8 << 20

_REGISTERED, _RENEWED, _REMOVED, _CLOCKS = range(4)

_NO_RECORD = (
    *(ValueError, TypeError, LookupError, OverflowError, RecursionError),
    msgpack.UnpackException,
)
"""What a record raises whose checksum is right and whose content is not."""

ClockMark = tuple[int, ...]


def registered(registration: Registration) -> bytes:
    """The record of a registration."""
    return _record(
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


def renewed(registration: Registration) -> bytes:
    """The record of a registration that says the same and ends later."""
    return _record([_RENEWED, registration.location, registration.expires_at])


def removed(location: str) -> bytes:
    """The record of a registration that has gone."""
    return _record([_REMOVED, location])


def clocks(mark: ClockMark) -> bytes:
    """The record of what the clocks said when those before it were written."""
    return _record([_CLOCKS, *mark])


@dataclass(slots=True)
class KeptRegistrations:
    """What records say.

    Attributes:
        registrations: by location, in the order in which they were made.
        mark: the last one of the clocks; None if there is none.
        records: how many were read.
        lost_bytes: how many bytes were no whole record.
        is_damaged: whether they are none that a write that did not end can have left: there is a
            record behind them, or none at all.

    """

    registrations: dict[str, Registration] = field(default_factory=dict)
    mark: ClockMark | None = None
    records: int = field(default_factory=int)
    lost_bytes: int = field(default_factory=int)
    is_damaged: bool = field(default_factory=bool)


def read(data: bytes) -> KeptRegistrations:
    """Read records; raises nothing, whatever the bytes are.

    Args:
        data: as they were written, one behind the other.

    """
    recovered, at = KeptRegistrations(), 0
    while at < len(data):
        end = _end(data, at)
        if end is None or not _take(recovered, data[at + _HEAD.size : end]):
            found = data.find(MARK, at + 1)
            end = len(data) if found < 0 else found
            recovered.lost_bytes += end - at
        else:
            recovered.records += 1
            recovered.is_damaged = recovered.lost_bytes > 0
        at = end
    recovered.is_damaged = recovered.is_damaged or not recovered.records
    return recovered


class RegistrationJournal:
    """Notes whose record is to be written; a `resource_directory.registry.RegistryListener`.

    However often a registration changes meanwhile, it is written once, as it is then.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, bool] = {}
        """Locations, and whether more than the end has changed."""
        self._has_news = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_news(self) -> bool:
        """Whether anything but renewals is noted."""
        return self._has_news

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """Note a change; see `RegistryListener`."""
        for registration in (before, after):
            if registration is not None:
                self._waiting[registration.location] = self._has_news = True

    def renewed(self, registration: Registration) -> None:
        """Note a renewal."""
        self._waiting.setdefault(registration.location, False)

    def clear(self) -> None:
        """Forget what is noted: the file has it."""
        self._waiting.clear()
        self._has_news = False

    def take(self, registry: Registry, limit: int) -> list[bytes]:
        """The records of at most ``limit`` of the registrations that are noted."""
        records: list[bytes] = []
        while self._waiting and len(records) < limit:
            location = next(iter(self._waiting))
            is_changed = self._waiting.pop(location)
            standing = registry.at(location)
            if standing is None:
                records.append(removed(location))
            else:
                records.append(registered(standing) if is_changed else renewed(standing))
        self._has_news = self._has_news and bool(self._waiting)
        return records


def all_of(registry: Registry, locations: Iterable[str]) -> Iterator[bytes]:
    """The records of those registrations that are still there."""
    for location in locations:
        standing = registry.at(location)
        if standing is not None:
            yield registered(standing)


def _record(content: list[Any]) -> bytes:
    body: bytes = msgpack.packb(content)
    return _HEAD.pack(MARK, len(body), zlib.crc32(body)) + body


def _end(data: bytes, at: int) -> int | None:
    """Where a whole record ends; None if there is none."""
    if len(data) - at < _HEAD.size:
        return None
    mark, length, checksum = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + int(length)
    if mark != MARK or length > _MAX_BYTES or end > len(data):
        return None
    if zlib.crc32(memoryview(data)[at + _HEAD.size : end]) != checksum:
        return None
    return end


def _take(recovered: KeptRegistrations, body: bytes) -> bool:
    try:
        content = msgpack.unpackb(body, use_list=False)
        kind, fields = content[0], content[1:]
        if kind == _CLOCKS:
            recovered.mark = tuple(int(value) for value in fields)
        elif kind == _REMOVED:
            (location,) = fields
            recovered.registrations.pop(location, None)
        elif kind == _RENEWED:
            location, expires_at = fields
            if location in recovered.registrations:
                recovered.registrations[location].expires_at = _time(expires_at)
        elif kind == _REGISTERED:
            made = _registration(fields)
            recovered.registrations.pop(made.location, None)  # it goes to the end, as in look-ups
            recovered.registrations[made.location] = made
        else:
            return False
    except _NO_RECORD:
        return False
    return True


def _time(value: Any) -> float:
    """A time that a clock may tell: an infinite one would never end, and NaN is before no other."""
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
        links=tuple(parse(links)),
    )

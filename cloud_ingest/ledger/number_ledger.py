"""Messages that the tables hold, as intervals of numbers: the job's memory, and no more.

A message is one number of a stream: what an origin numbers in one of its lives, apart by whether
it is between gateways and whether it is logged. What a stream has without gaps costs two integers.

The ledger is a fold of changes. Each commit of a table carries the change that its rows make, so
rows and ledger are one atomic step (decision 36). Two tables have a part each: ``held`` is what the
quarantine has, from its own commit before the telemetry's; once that one is made too, the numbers
are ``seen`` and leave ``held``.

Its size has limits (`cloud_ingest.ingest.closing`): up to a stream's floor, and in a closed life,
nobody knows which numbers the tables have.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

import msgpack

from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.member_place import UNKNOWN_PLACE, is_column
from tree_handler.intervals import Intervals

VERSION = 2
MAX_PACKED_BYTES = 1 << 30
"""A change or ledger that would unpack to more is none of ours."""
MAX_DAMAGE = 100_000
"""Damaged places of one spool that are remembered; an earlier one that is read again goes to
quarantine again."""


class LedgerError(ValueError):
    """Bytes are no ledger of this version."""


class Stream(NamedTuple):
    """One sequence of numbers.

    Attributes:
        origin: the gateway that numbers.
        epoch: its life.
        control: whether the messages are between gateways.
        logged: whether they stood in its log.

    """

    origin: str
    epoch: int
    control: bool
    logged: bool

    @classmethod
    def of_life(cls, origin: str, epoch: int) -> tuple[Stream, ...]:
        """Return all that an origin numbers in one life."""
        return tuple(cls(origin, epoch, *kind) for kind in _KINDS)


_KINDS = ((False, True), (False, False), (True, True), (True, False))


class ReportedPlace(NamedTuple):
    """The place of a gateway in the hierarchy, as it says.

    Attributes:
        time_us: when it said so.
        domain: see `cloud_ingest.member_place`.
        group: as ``domain``.
        error: why its record can't be read, or None.

    """

    time_us: int
    domain: str
    group: str
    error: str | None

    @classmethod
    def unknown(cls, time_us: int, error: str) -> ReportedPlace:
        """Return the place of a record that can't be read."""
        return cls(time_us, UNKNOWN_PLACE, UNKNOWN_PLACE, error)

    @classmethod
    def kept(cls, row: Sequence[Any]) -> ReportedPlace:
        """Read what a ledger has, which an earlier version may have made of any record."""
        told = cls(*row)
        if is_column(told.domain) and is_column(told.group):
            return told
        return cls.unknown(told.time_us, "member record, domain or group: no names")


Numbered = dict[Stream, Intervals]


@dataclass(slots=True)
class LedgerChange:
    """The change that one commit makes to the ledger.

    Attributes:
        seen: numbers that the tables have now, or that count as had.
        kept_local: numbers that stay at their origin, as it states.
        held: numbers that the quarantine has now.
        totals: counts, by gateway.
        places: what gateways said last of theirs.
        damage: damaged bytes that the quarantine has: CRC-32, by spool and position.
        done: how far each spool was read.
        floors: up to where it is not known any more which numbers the tables have.
        closed: lives of which that is not known at all, and some beside them, by gateway.
        forgotten: digests that stand for gateways (`cloud_ingest.ingest.forgotten`).

    """

    seen: Numbered = field(default_factory=dict)
    kept_local: Numbered = field(default_factory=dict)
    held: Numbered = field(default_factory=dict)
    totals: dict[str, GatewayTotals] = field(default_factory=dict)
    places: dict[str, ReportedPlace] = field(default_factory=dict)
    damage: dict[str, dict[int, int]] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    floors: dict[Stream, int] = field(default_factory=dict)
    closed: dict[str, Intervals] = field(default_factory=dict)
    forgotten: dict[str, None] = field(default_factory=dict)

    def of(self, gateway: str) -> GatewayTotals:
        """Return the counts of a gateway, to be added to."""
        found = self.totals.get(gateway)
        if found is None:
            found = self.totals[gateway] = GatewayTotals()
        return found

    def place(self, gateway: str, told: ReportedPlace) -> None:
        """Note where a gateway stands, unless it said something else later."""
        had = self.places.get(gateway)
        if had is None or had.time_us <= told.time_us:
            self.places[gateway] = told

    def pack(self) -> str:
        """Return the change as text, for the metadata of a commit."""
        return base64.b85encode(zlib.compress(msgpack.packb(_plain(self)), 1)).decode()

    @classmethod
    def unpack(cls, text: str) -> LedgerChange:
        """Read what `pack` made.

        Raises:
            LedgerError: it is something else.

        """
        try:
            return _of_plain(_unpacked(base64.b85decode(text)))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise LedgerError(f"ledger of a commit: {error}") from error


class NumberLedger:
    """The fold of all changes.

    Its size grows with gateways, their lives and the gaps in their numbers, not with messages.

    Args:
        limits: how large it may grow.

    """

    def __init__(self, limits: LedgerLimits | None = None) -> None:
        self.all = LedgerChange()
        self.limits = limits or LedgerLimits()
        self.lives: dict[str, dict[int, None]] = {}
        """Of each gateway those that are not closed; the one that was heard last is the last."""
        self.sizes: dict[str, int] = {}
        """The number of runs of numbers, by gateway."""

    def apply(self, change: LedgerChange) -> None:
        """Take in the change of a commit that is made; once or more often is the same, but for
        the counts in it.
        """
        streams = dict.fromkeys((*change.kept_local, *change.held, *change.floors, *change.seen))
        for stream in streams:
            self._resize(stream, -1)
        self._add_numbers(change)
        for stream in streams:
            self._count(stream)
        for stream in (*change.kept_local, *change.held, *change.seen):
            self._hear(stream)
        for origin, epochs in change.closed.items():
            self.all.closed.setdefault(origin, Intervals()).update(epochs)
            for epoch in [each for each in self.lives.get(origin, ()) if each in epochs]:
                self._close(origin, epoch)
        self._add_counts(change)

    def floor(self, stream: Stream) -> int | None:
        """Return up to which number it is not known what tables have; None: the whole stream."""
        closed = self.all.closed.get(stream.origin)
        if closed is not None and stream.epoch in closed:
            return None
        return self.all.floors.get(stream, 0)

    def fresh(self, stream: Stream, first: int, last: int) -> list[tuple[int, int]]:
        """Return the numbers of ``first..last`` that are not seen yet; they may be held."""
        seen = self.all.seen.get(stream)
        return [(first, last)] if seen is None else seen.missing(first, last)

    def pack(self) -> bytes:
        """Return all of it, for a snapshot."""
        return zlib.compress(msgpack.packb([VERSION, *_plain(self.all)]), 1)

    @classmethod
    def unpack(cls, data: bytes, limits: LedgerLimits | None = None) -> NumberLedger:
        """Read what `pack` made.

        Raises:
            LedgerError: it is something else, or of another version.

        """
        try:
            version, *plain = _unpacked(data)
            if version not in (1, VERSION):
                raise LedgerError(f"ledger of version {version!r}")
            ledger = cls(limits)
            ledger.apply(_of_plain(plain))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise LedgerError(f"snapshot of the ledger: {error}") from error
        return ledger

    def _add_numbers(self, change: LedgerChange) -> None:
        mine = self.all
        for stream, numbers in change.seen.items():
            _numbers(mine.seen, stream).update(numbers)
            self._let_go(stream)
        for stream, numbers in change.kept_local.items():
            _numbers(mine.kept_local, stream).update(numbers)
        for stream, numbers in change.held.items():
            _numbers(mine.held, stream).update(numbers)
            self._let_go(stream)
        for stream, floor in change.floors.items():
            mine.floors[stream] = max(floor, mine.floors.get(stream, 0))

    def _add_counts(self, change: LedgerChange) -> None:
        mine = self.all
        mine.forgotten |= change.forgotten
        for gateway, totals in change.totals.items():
            mine.of(gateway).add(totals)
        for gateway, told in change.places.items():
            mine.place(gateway, told)
        for spool, damage in change.damage.items():
            known = mine.damage.setdefault(spool, {})
            known.update(damage)
            for position in sorted(known)[: max(0, len(known) - MAX_DAMAGE)]:
                del known[position]
        for spool, position in change.done.items():
            mine.done[spool] = max(position, mine.done.get(spool, 0))

    def _hear(self, stream: Stream) -> None:
        """Note that a life was heard."""
        lives = self.lives.get(stream.origin, {})
        if stream.epoch in lives:
            lives[stream.epoch] = lives.pop(stream.epoch)
            if stream in self.all.seen:  # a snapshot has the order, too
                self.all.seen[stream] = self.all.seen.pop(stream)

    def _count(self, stream: Stream) -> None:
        """Forget what is below a stream's floor, and count its runs again."""
        mine = self.all
        floor = self.floor(stream)
        if floor is None:
            self._drop(stream)
            return
        for part in (mine.seen, mine.kept_local, mine.held):
            if stream in part and floor:
                part[stream].forget_through(floor)
        self.lives.setdefault(stream.origin, {}).setdefault(stream.epoch)
        self._resize(stream, 1)

    def _resize(self, stream: Stream, sign: int) -> None:
        mine = self.all
        runs = sum(len(part.get(stream, ())) for part in (mine.seen, mine.kept_local, mine.held))
        self.sizes[stream.origin] = self.sizes.get(stream.origin, 0) + sign * runs

    def _close(self, origin: str, epoch: int) -> None:
        del self.lives[origin][epoch]
        for stream in Stream.of_life(origin, epoch):
            self._resize(stream, -1)
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        mine = self.all
        for part in (mine.seen, mine.kept_local, mine.held, mine.floors):
            part.pop(stream, None)

    def _let_go(self, stream: Stream) -> None:
        held = self.all.held.get(stream)
        if held is None:
            return
        left = held.without(self.all.seen.get(stream, Intervals()))
        if len(left):
            self.all.held[stream] = left
        else:
            del self.all.held[stream]


def minus(ranges: Iterable[tuple[int, int]], other: Intervals | None) -> list[tuple[int, int]]:
    """Return what is in the ranges and not in ``other``."""
    if other is None:
        return list(ranges)
    return [gap for first, last in ranges for gap in other.missing(first, last)]


def _numbers(numbered: Numbered, stream: Stream) -> Intervals:
    found = numbered.get(stream)
    if found is None:
        found = numbered[stream] = Intervals()
    return found


def _plain(change: LedgerChange) -> list[Any]:
    return [
        *(list(_flat(part)) for part in (change.seen, change.kept_local, change.held)),
        {gateway: astuple(totals) for gateway, totals in change.totals.items()},
        change.places,
        {spool: list(damage.items()) for spool, damage in change.damage.items()},
        change.done,
        [[*stream, floor] for stream, floor in change.floors.items()],
        {origin: _edges(epochs) for origin, epochs in change.closed.items()},
        *([list(change.forgotten)] if change.forgotten else ()),
    ]


def _flat(numbered: Numbered) -> Iterator[list[Any]]:
    for stream, numbers in numbered.items():
        if len(numbers):
            yield [*stream, _edges(numbers)]


def _edges(numbers: Intervals) -> list[int]:
    return [edge for interval in numbers for edge in interval]


def _of_edges(edges: list[int]) -> Intervals:
    return Intervals(zip(edges[::2], edges[1::2], strict=True))


def _of_plain(plain: list[Any]) -> LedgerChange:
    seen, kept_local, held, totals, places, damage, done, *later = plain
    floors, closed, *newest = later or ((), {})
    return LedgerChange(
        _of_flat(seen),
        _of_flat(kept_local),
        _of_flat(held),
        {gateway: GatewayTotals(*values) for gateway, values in totals.items()},
        {gateway: ReportedPlace.kept(told) for gateway, told in places.items()},
        {spool: dict(pairs) for spool, pairs in damage.items()},
        done,
        {Stream(*stream): floor for *stream, floor in floors},
        {origin: _of_edges(edges) for origin, edges in closed.items()},
        dict.fromkeys(*newest) if newest else {},
    )


def _of_flat(rows: list[Any]) -> Numbered:
    return {Stream(*stream): _of_edges(edges) for *stream, edges in rows}


def _unpacked(data: bytes) -> list[Any]:
    inflate = zlib.decompressobj()
    try:
        plain = inflate.decompress(data, MAX_PACKED_BYTES)
        if not inflate.eof:
            raise LedgerError("cut short, or too large")
        found: list[Any] = msgpack.unpackb(plain, strict_map_key=False)
    except (zlib.error, msgpack.UnpackException) as error:
        raise LedgerError(str(error)) from error
    return found

"""Which messages the tables hold, as intervals of numbers: the job's memory, and no more.

A message is one number of a stream: what an origin numbers in one of its lives, apart by whether
it is between gateways and whether it is logged. What a stream has without gaps costs two integers.

The ledger is a fold of changes. Each commit of a table carries the change that its rows make, so
rows and ledger are one atomic step (decision 36). Two tables have a part each: ``held`` is what the
quarantine has, from its own commit before the telemetry's; once that one is made too, the numbers
are ``seen`` and leave ``held``.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

import msgpack

from cloud_ingest.ingest.gateway_totals import GatewayTotals
from tree_handler.intervals import Intervals

VERSION = 1
MAX_PACKED_BYTES = 1 << 30
"""A change or ledger that would unpack to more is none of ours."""


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


class ToldPlace(NamedTuple):
    """Where a gateway stands, as it says.

    Attributes:
        time_us: when it said so.
        domain: see `cloud_ingest.ingest.member_place`.
        group: as ``domain``.
        error: why its record can't be read, or None.

    """

    time_us: int
    domain: str
    group: str
    error: str | None


Numbered = dict[Stream, Intervals]


@dataclass(slots=True)
class LedgerChange:
    """What one commit adds.

    Attributes:
        seen: numbers that the tables have now, or that count as had.
        kept_local: numbers that stay at their origin, as it states.
        held: numbers that the quarantine has now.
        totals: counts, by gateway.
        places: what gateways said last of theirs.
        damage: damaged bytes that the quarantine has: CRC-32, by spool and position.
        done: how far each spool was read.

    """

    seen: Numbered = field(default_factory=dict)
    kept_local: Numbered = field(default_factory=dict)
    held: Numbered = field(default_factory=dict)
    totals: dict[str, GatewayTotals] = field(default_factory=dict)
    places: dict[str, ToldPlace] = field(default_factory=dict)
    damage: dict[str, dict[int, int]] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def of(self, gateway: str) -> GatewayTotals:
        """The counts of a gateway, to be added to."""
        found = self.totals.get(gateway)
        if found is None:
            found = self.totals[gateway] = GatewayTotals()
        return found

    def place(self, gateway: str, told: ToldPlace) -> None:
        """Note where a gateway stands, unless it said something else later."""
        had = self.places.get(gateway)
        if had is None or had.time_us <= told.time_us:
            self.places[gateway] = told

    def pack(self) -> str:
        """As text, for the metadata of a commit."""
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
    """

    def __init__(self) -> None:
        self.all = LedgerChange()

    def apply(self, change: LedgerChange) -> None:
        """Take in the change of a commit that is made; once or more often is the same, but for
        the counts in it.
        """
        mine = self.all
        for stream, numbers in change.seen.items():
            _numbers(mine.seen, stream).update(numbers)
            self._let_go(stream)
        for stream, numbers in change.kept_local.items():
            _numbers(mine.kept_local, stream).update(numbers)
        for stream, numbers in change.held.items():
            _numbers(mine.held, stream).update(numbers)
            self._let_go(stream)
        for gateway, totals in change.totals.items():
            mine.of(gateway).add(totals)
        for gateway, told in change.places.items():
            mine.place(gateway, told)
        for spool, damage in change.damage.items():
            mine.damage.setdefault(spool, {}).update(damage)
        for spool, position in change.done.items():
            mine.done[spool] = max(position, mine.done.get(spool, 0))

    def fresh(self, stream: Stream, first: int, last: int) -> list[tuple[int, int]]:
        """The numbers of ``first..last`` that are not seen yet; they may be held."""
        seen = self.all.seen.get(stream)
        return [(first, last)] if seen is None else seen.missing(first, last)

    def pack(self) -> bytes:
        """All of it, for a snapshot."""
        return zlib.compress(msgpack.packb([VERSION, *_plain(self.all)]), 1)

    @classmethod
    def unpack(cls, data: bytes) -> NumberLedger:
        """Read what `pack` made.

        Raises:
            LedgerError: it is something else, or of another version.

        """
        try:
            version, *plain = _unpacked(data)
            if version != VERSION:
                raise LedgerError(f"ledger of version {version!r}")
            ledger = cls()
            ledger.all = _of_plain(plain)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise LedgerError(f"snapshot of the ledger: {error}") from error
        return ledger

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
    """What is in the ranges and not in ``other``."""
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
    ]


def _flat(numbered: Numbered) -> Iterator[list[Any]]:
    for stream, numbers in numbered.items():
        if len(numbers):
            yield [*stream, [edge for interval in numbers for edge in interval]]


def _of_plain(plain: list[Any]) -> LedgerChange:
    seen, kept_local, held, totals, places, damage, done = plain
    return LedgerChange(
        _of_flat(seen),
        _of_flat(kept_local),
        _of_flat(held),
        {gateway: GatewayTotals(*values) for gateway, values in totals.items()},
        {gateway: ToldPlace(*told) for gateway, told in places.items()},
        {spool: dict(pairs) for spool, pairs in damage.items()},
        done,
    )


def _of_flat(rows: list[Any]) -> Numbered:
    return {
        Stream(*stream): Intervals(zip(edges[::2], edges[1::2], strict=True))
        for *stream, edges in rows
    }


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

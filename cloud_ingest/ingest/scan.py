"""Walks what a trigger reads, on the driver: headers, the messages between gateways, damage."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cloud_ingest.evidence.facts import UNTIMED_US, Activity, BatchFacts, Statement
from cloud_ingest.ingest.halving import BLAMED
from cloud_ingest.ingest.plan import YEAR_9999_US, SpoolSpot, TriggerPlan
from cloud_ingest.ingest.tasks import reason
from cloud_ingest.ledger.number_ledger import NumberLedger, ReportedPlace
from cloud_ingest.member_place import MEMBER_TOPIC, MemberError, read_place
from cloud_ingest.spool.receipts import Receipts
from cloud_ingest.spool.segments import (
    SpoolError,
    SpoolRange,
    position_of,
    read_mark,
    read_notes,
)
from cloud_ingest.spool.walk import DamagedBytes, walk
from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.errors import BatchError
from tree_handler.proof import Verdict
from tree_handler.seal import Seals

MAX_KEPT_BYTES = 1 << 20
"""Of damaged bytes, so many go to quarantine; the rest is left where it stands. A whole batch with
which the driver fails goes there whole."""


@dataclass(frozen=True, slots=True)
class DamageFound:
    """Damaged bytes of a spool.

    Attributes:
        place: where they begin.
        why: what is wrong.
        collected_us: when the collector had them, microseconds since 1970.
        data: the bytes, cut at `MAX_KEPT_BYTES`.

    """

    place: SpoolSpot
    why: str
    collected_us: int
    data: bytes

    @property
    def crc(self) -> int:
        """Return the checksum that tells these bytes from others at the same place."""
        return zlib.crc32(self.data)

    def row(self, now_us: int) -> dict[str, object]:
        """Return its row of the quarantine, found at ``now_us``."""
        place = self.place
        return {
            "found_time": now_us,
            "reason": reason(self.why),
            "collected_time": self.collected_us,
            "spool": place.spool,
            "segment": place.segment,
            "position": place.at,
            "bytes": self.data,
        }


@dataclass(slots=True)
class ScanResult:
    """The result of a trigger's scan of the spools.

    Attributes:
        plan: of its batches.
        statements: member records of gateways.
        damage: what holds no batch, and is not in quarantine yet.
        read_until_us: as in `BatchFacts`.

    """

    plan: TriggerPlan
    statements: list[Statement] = field(default_factory=list)
    damage: list[DamageFound] = field(default_factory=list)
    read_until_us: int | None = None

    def facts(self, held_before: Mapping[str, int]) -> BatchFacts:
        """Return what no task sees, of copies and of what stood in quarantine before, too.

        When those came to a collector nobody has read, and the driver's clock does not say it.

        Args:
            held_before: messages that stood in quarantine, by gateway.

        """
        activity = tuple(
            Activity(name, held, held, totals.duplicates, None, None, UNTIMED_US)
            for name, totals in self.plan.change.totals.items()
            if (held := held_before[name]) or totals.duplicates
        )
        return BatchFacts(
            statements=tuple(self.statements),
            numbers=self.plan.numbers(),
            activity=activity,
            given_up=self.plan.given_up(),
            read_until_us=self.read_until_us,
        )


BadBatches = Mapping[tuple[str, str, int], str]
"""Batches whose body turned out to be damaged: why, by spool, segment and position there."""


def scan(
    ranges: Iterable[SpoolRange], ledger: NumberLedger, bad: BadBatches, seals: Seals | None = None
) -> ScanResult:
    """Plan a trigger.

    Args:
        ranges: what it reads, in order.
        ledger: what the tables have.
        bad: batches to leave out: a copy elsewhere counts instead.
        seals: checks the batches between gateways; None: they are not checked.

    Raises:
        OSError: a segment can't be read.

    """
    scanned = ScanResult(TriggerPlan(ledger))
    ends: dict[str, SpoolRange] = {}
    for one in ranges:
        with (
            (Path(one.spool) / one.segment).open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
            memoryview(mapped) as data,
        ):
            _Segment(scanned, one, data, seals).read(bad)
        done = scanned.plan.change.done
        done[one.spool] = max(one.position, done.get(one.spool, 0))
        ends[one.spool] = one
    scanned.plan.end()
    behind = [us for one in ends.values() if (us := _read_until_us(one)) is not None]
    scanned.read_until_us = min(behind, default=None)
    return scanned


def _read_until_us(end: SpoolRange) -> int | None:
    """Return when the collector had the last that is read of its spool; None if that is all."""
    spool = Path(end.spool)
    try:
        if position_of(read_mark(spool)) <= end.position:
            return None
    except (OSError, SpoolError):
        return None
    return Receipts(spool / end.segment).time_us(end.end - 1)


class _Segment:
    """The part of one segment that is read."""

    def __init__(
        self, scanned: ScanResult, one: SpoolRange, data: memoryview, seals: Seals | None
    ) -> None:
        self._scanned = scanned
        self._range = one
        self._data = data
        self._seals = seals
        self._start = int(Path(one.segment).stem)
        self._receipts = Receipts(Path(one.spool) / one.segment)

    def read(self, bad: BadBatches) -> None:
        one, plan = self._range, self._scanned.plan
        notes = read_notes(Path(one.spool))
        for found in walk(self._data, one.start, one.end, self._start, notes):
            if isinstance(found, DamagedBytes):
                self._damaged(found.at, found.end, found.why)
                continue
            at, header = found
            why = bad.get((one.spool, one.segment, at)) or self._wrong(at, header)
            if why is not None:
                self._damaged(at, at + header.end, why)
                continue
            place = self._place(at)
            heard = plan.take(place, header)
            if heard:
                self._hear(place, header, heard)

    def _wrong(self, at: int, header: Header) -> str | None:
        """Return what is wrong with a batch whose CRC is right, if the driver has to know."""
        if not (header.passed or header.control):  # a task looks at it
            return None
        frame = self._frame(at, header)
        try:
            if self._seals is not None and not header.local:
                verdict = self._seals.check(frame, header)
                if verdict is not Verdict.PROVEN:
                    return f"{header}: its signature is {verdict.value}"
            if not header.passed:
                batch.rows(frame, header)
        except BatchError as error:
            return f"{header}: {error}"
        return None

    def _hear(self, place: SpoolSpot, header: Header, keep: Iterable[tuple[int, int]]) -> None:
        """Take the member records of a gateway from its messages to others."""
        rows = batch.rows(self._frame(place.at, header), header)
        topic = f"{MEMBER_TOPIC}{header.origin}"
        for first, last in keep:
            for sequence in range(first, last + 1):
                row = rows[sequence - header.first]
                if row[0] == topic:
                    self._member(place, header, sequence, row[2])

    def _member(self, place: SpoolSpot, header: Header, sequence: int, payload: bytes) -> None:
        origin = header.origin
        origin_us = header.origin_time_us if header.origin_time_us <= YEAR_9999_US else None
        collected_us = self._receipts.time_us(place.at)
        self._scanned.statements.append(
            Statement(origin, header.epoch, sequence, origin_us, collected_us, "member", payload)
        )
        time_us = collected_us if origin_us is None else origin_us
        try:
            told = ReportedPlace(time_us, *read_place(payload, origin), None)
        except Exception as error:  # it says nothing of rows
            what = error if isinstance(error, MemberError) else f"{type(error).__name__}: {error}"
            told = ReportedPlace.unknown(time_us, str(what))
        self._scanned.plan.change.place(origin, told)

    def _damaged(self, at: int, end: int, why: str) -> None:
        place = self._place(at)
        most = end if why.startswith(BLAMED) else at + MAX_KEPT_BYTES
        data = bytes(self._data[at : min(end, most)])
        damage = DamageFound(place, why, self._receipts.time_us(at), data)
        had = self._scanned.plan.ledger.all.damage.get(place.spool, {})
        if had.get(place.position) != damage.crc:
            self._scanned.damage.append(damage)

    def _frame(self, at: int, header: Header) -> bytes:
        return bytes(self._data[at : at + header.end])

    def _place(self, at: int) -> SpoolSpot:
        return SpoolSpot(self._range.spool, self._range.segment, at, self._start + at)

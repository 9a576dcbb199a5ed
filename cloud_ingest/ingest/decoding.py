"""One task of the job: decodes stretches of spool, writes files, and tells what it found.

What it returns is small: names of files, counts, facts. Nothing of it counts before the driver has
committed it; files of a task that died are no part of any table.
"""

from __future__ import annotations

import gc
import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cloud_ingest.ingest.delay_buckets import bucket, fine_bucket
from cloud_ingest.ingest.facts import Activity, BatchFacts, Delays, Stage, Statement, merged
from cloud_ingest.ingest.gateway_totals import GatewayTotals
from cloud_ingest.ingest.ledger import Numbered, Stream
from cloud_ingest.ingest.measured_facts import MINUTE_US, Untold, measured
from cloud_ingest.ingest.partition_columns import PartitionColumns
from cloud_ingest.ingest.plan import YEAR_9999_US, SpoolStretch, UnsureStretch
from cloud_ingest.mapping.rules import MappingRule
from cloud_ingest.record import RecordError
from cloud_ingest.spool.proof import HandedCertificates
from cloud_ingest.spool.receipts import Receipts
from cloud_ingest.tables.delta import WrittenFile
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import FILE_COLUMNS, QUARANTINE
from cloud_ingest.tables.store import TableStore
from tree_handler import batch
from tree_handler.batch import Header, Row
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals
from tree_handler.proof import Verdict
from tree_handler.seal import Seals

ROWS_AT_ONCE = 50_000
BYTES_AT_ONCE = 32 << 20
"""Rows and bytes of payload that a task holds before it writes them."""
UNSURE = "its number was given up: telemetry may have this message already"
MAX_STATEMENTS = 1_000
"""Of one gateway in one task; the latest are kept."""

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """What one task is to do.

    Attributes:
        stretches: what to decode.
        places: domain and group, by origin, of those that are known.
        telemetry: the table's folder.
        quarantine: the table's folder.
        now_us: when the trigger began.
        certificates: of gateways, as a collector keeps them; None: signatures are not checked.
        tree: the tree's name, if they are.
        mappings: how messages of other makes are read.

    """

    stretches: list[SpoolStretch]
    places: Mapping[str, tuple[str, str]]
    telemetry: TableStore
    quarantine: TableStore
    now_us: int
    certificates: bytes | None = None
    tree: str = ""
    mappings: tuple[MappingRule, ...] = ()


@dataclass(slots=True)
class TaskResult:
    """What one task did.

    Attributes:
        telemetry: files of readings.
        quarantine: files of what can't be read.
        quarantined: numbers of the messages in those.
        damaged: batches whose body is not what their origin made: spool, segment, position, why.
        facts: of the messages; without times of the commit.
        latencies: as they are added to the totals of gateways.
        to_table: fine buckets of the time up to ``now_us``: by gateway, minute and stage.
        untold: rows of telemetry of which the facts could not be told, by why.

    """

    telemetry: list[WrittenFile] = field(default_factory=list)
    quarantine: list[WrittenFile] = field(default_factory=list)
    quarantined: Numbered = field(default_factory=dict)
    damaged: list[tuple[str, str, int, str]] = field(default_factory=list)
    facts: BatchFacts | None = None
    latencies: dict[str, GatewayTotals] = field(default_factory=dict)
    to_table: dict[tuple[str, int, Stage], Counter[int]] = field(default_factory=dict)
    untold: Counter[str] = field(default_factory=Counter)


def carry_out(order: TaskOrder) -> TaskResult:
    """Decode, write and tell.

    Raises:
        OSError: a segment can't be read, or a file not written.

    """
    collects = gc.isenabled()
    gc.disable()  # rows make no cycles, and looking for some costs a third of the time
    try:
        return _Task(order).run()
    finally:
        if collects:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Found:
    """A batch where it stands, and its times."""

    stretch: SpoolStretch
    at: int
    header: Header
    origin_us: int | None
    collected_us: int


@dataclass(slots=True)
class _Counted:
    """What came of one gateway."""

    messages: int = 0
    undecodable: int = 0
    collected_us: int = 0
    times: GatewayTotals = field(default_factory=GatewayTotals)

    def activity(self, gateway: str) -> Activity:
        times = self.times
        counts = (self.messages, self.undecodable, 0)
        return Activity(gateway, *counts, times.first_us, times.last_us, self.collected_us)


class _Task:
    def __init__(self, order: TaskOrder) -> None:
        self._order = order
        self._result = TaskResult()
        self._seals = _seals(order)
        self._files = TableFiles(order.telemetry, FILE_COLUMNS)
        self._columns = PartitionColumns(order.places, order.mappings)
        self._held_rows = self._held_bytes = 0
        self._refused: list[_Row] = []
        self._refused_files: TableFiles | None = None
        self._statements: dict[str, list[Statement]] = {}
        self._activity: dict[str, _Counted] = {}
        self._delays: dict[tuple[str, int, Stage], Counter[int]] = {}
        self._measured: list[BatchFacts] = []

    def run(self) -> TaskResult:
        result = self._result
        for stretch in self._order.stretches:
            path = Path(stretch.spool) / stretch.segment
            receipts = Receipts(path)
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                for at, frame, header in _batches(data, stretch):
                    self._take(stretch, at, frame, header, receipts.time_us(at))
        self._write_rows()
        self._write_refused()
        result.telemetry = self._files.finish()
        result.quarantine = self._refused_files.finish() if self._refused_files else []
        own = BatchFacts(
            *(0, 0),
            tuple(one for told in self._statements.values() for one in told),
            (),
            tuple(one.activity(name) for name, one in self._activity.items()),
            tuple(Delays(*key, counts) for key, counts in self._delays.items()),
            (),
        )
        result.facts = merged(0, 0, [own, *self._measured])
        return result

    def _take(
        self, stretch: SpoolStretch, at: int, frame: bytes, header: Header, collected_us: int
    ) -> None:
        try:
            if self._seals is not None and not header.local:
                verdict = self._seals.check(frame, header)
                if verdict is not Verdict.PROVEN:
                    raise BatchError("batch signature", verdict.value)
            rows = batch.rows(frame, header)
        except BatchError as error:
            why = f"{header}: {error}"
            self._result.damaged.append((stretch.spool, stretch.segment, at, why))
            return
        origin = header.origin
        origin_us = header.origin_time_us if header.origin_time_us <= YEAR_9999_US else None
        found = _Found(stretch, at, header, origin_us, collected_us)
        if isinstance(stretch, UnsureStretch):
            for sequence, row in _wanted(header, stretch, rows):
                self._put_aside(found, sequence, row, UNSURE)
            counted = self._activity.setdefault(origin, _Counted())
            counted.collected_us = max(counted.collected_us, collected_us)
            if self._held_bytes >= BYTES_AT_ONCE:
                self._write_rows()
                self._write_refused()
            return
        columns = self._columns.begin(
            origin,
            header.epoch,
            logged=header.logged,
            origin_us=origin_us,
            collected_us=collected_us,
        )
        rows_before, bytes_before = columns.rows, columns.bytes
        refused = 0
        for sequence, row in _wanted(header, stretch, rows):
            try:
                if columns.add(sequence, row[0], row[1], row[2]):
                    self._state(found, sequence, row[2])
            except RecordError as error:
                refused += 1
                self._refuse(found, sequence, row, str(error))
        added = columns.rows - rows_before
        self._note(found, added + refused, refused)
        self._held_rows += added
        self._held_bytes += columns.bytes - bytes_before
        if self._held_rows >= ROWS_AT_ONCE or self._held_bytes >= BYTES_AT_ONCE:
            self._write_rows()

    def _refuse(self, found: _Found, sequence: int, row: Row, why: str) -> None:
        header = found.header
        stream = Stream(header.origin, header.epoch, control=False, logged=header.logged)
        self._result.quarantined.setdefault(stream, Intervals()).add(sequence, sequence)
        self._put_aside(found, sequence, row, why)

    def _put_aside(self, found: _Found, sequence: int, row: Row, why: str) -> None:
        header, stretch = found.header, found.stretch
        topic, flags, payload = row[:3]
        self._refused.append(
            {
                "found_time": self._order.now_us,
                "reason": why,
                "origin": header.origin,
                "boot_epoch": header.epoch,
                "logged": header.logged,
                "sequence": sequence,
                "topic": topic,
                "origin_time": found.origin_us,
                "collected_time": found.collected_us,
                "spool": stretch.spool,
                "segment": stretch.segment,
                "position": found.at,
                "bytes": payload,
                "qos": flags & 3,
                "retain": flags >= 4,
            }
        )
        self._held_bytes += len(payload)
        if len(self._refused) >= ROWS_AT_ONCE:
            self._write_refused()

    def _state(self, found: _Found, sequence: int, payload: bytes) -> None:
        header = found.header
        told = self._statements.setdefault(header.origin, [])
        stamp = (header.origin, header.epoch, sequence, found.origin_us, found.collected_us)
        told.append(Statement(*stamp, "status", payload))
        if len(told) > 2 * MAX_STATEMENTS:
            del told[:-MAX_STATEMENTS]

    def _note(self, found: _Found, kept: int, refused: int) -> None:
        """Count a batch for the fleet."""
        origin, origin_us = found.header.origin, found.origin_us
        collected_us = found.collected_us
        counted = self._activity.get(origin)
        if counted is None:
            counted = self._activity[origin] = _Counted()
        counted.messages += kept
        counted.undecodable += refused
        counted.collected_us = max(counted.collected_us, collected_us)
        minute_us = collected_us // MINUTE_US * MINUTE_US
        now_us = self._order.now_us
        open_end = self._result.to_table
        key: tuple[str, int, Stage] = (origin, minute_us, "collector-table")
        open_end.setdefault(key, Counter())[fine_bucket(now_us - collected_us)] += kept
        if origin_us is not None:
            counted.times.seen_at(origin_us)
            key = (origin, minute_us, "origin-table")
            open_end.setdefault(key, Counter())[fine_bucket(now_us - origin_us)] += kept
            key = (origin, minute_us, "origin-collector")
            self._delays.setdefault(key, Counter())[bucket(collected_us - origin_us)] += kept

    def _write_rows(self) -> None:
        for partition, table in self._columns.taken():
            self._files.write(table, partition)
            self._measure(table)
        self._measured = [merged(0, 0, self._measured)]
        self._held_rows = self._held_bytes = 0
        if len(self._refused) >= ROWS_AT_ONCE // 10:
            self._write_refused()

    def _measure(self, table: pa.Table) -> None:
        result = self._result
        for told in measured(table):
            if isinstance(told, Untold):
                result.untold[told.why] += 1
                continue
            self._measured.append(told.facts)
            for gateway, latency in told.latencies.items():
                result.latencies.setdefault(gateway, GatewayTotals()).add(latency)

    def _write_refused(self) -> None:
        if not self._refused:
            return
        if self._refused_files is None:
            self._refused_files = TableFiles(self._order.quarantine, QUARANTINE)
        self._refused_files.write(pa.Table.from_pylist(self._refused, QUARANTINE))
        self._refused = []


def _batches(data: mmap.mmap, stretch: SpoolStretch) -> Iterator[tuple[int, bytes, Header]]:
    """Each batch of a stretch; the plan has checked them."""
    at = stretch.start
    with memoryview(data) as view:
        while at < stretch.end:
            header = batch.check(view, at)
            yield at, bytes(view[at : at + header.end]), header
            at += header.end


def _wanted(
    header: Header, stretch: SpoolStretch, rows: Sequence[Row]
) -> Iterable[tuple[int, Row]]:
    if stretch.keep is None:
        return enumerate(rows, header.first)
    numbers = (number for first, last in stretch.keep for number in range(first, last + 1))
    return ((number, rows[number - header.first]) for number in numbers)


def _seals(order: TaskOrder) -> Seals | None:
    if order.certificates is None:
        return None
    return Seals(None, HandedCertificates(order.certificates), order.tree)

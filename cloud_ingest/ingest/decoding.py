"""One task of the job: decodes stretches of spool, writes files, and tells what it found.

A message with which it fails is found by halving and goes to quarantine; storage that fails is
nobody's fault, and fails the task.

What it returns is small: names of files, counts, facts. Nothing of it counts before the driver has
committed it; files of a task that died are no part of any table.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cloud_ingest.evidence.facts import Activity, BatchFacts, Delays, Stage, Statement, merged
from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.ingest.delay_buckets import bucket, fine_bucket
from cloud_ingest.ingest.halving import BLAMED, BlamedStretch, halved
from cloud_ingest.ingest.measured_facts import MINUTE_US, UnusableRow, measured
from cloud_ingest.ingest.name_bounds import NameBounds
from cloud_ingest.ingest.partition_columns import PartitionColumns
from cloud_ingest.ingest.plan import YEAR_9999_US, SpoolStretch, UnsureStretch
from cloud_ingest.ingest.tasks import TaskOrder, TaskResult, batches, proven_rows, reason
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger.number_ledger import Stream
from cloud_ingest.spool.proof import HandedCertificates
from cloud_ingest.spool.receipts import Receipts
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import FILE_COLUMNS, QUARANTINE
from record_formats.record import RecordError
from tree_handler.batch import Header, Row
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals
from tree_handler.seal import Seals

ROWS_AT_ONCE = 50_000
BYTES_AT_ONCE = 32 << 20
"""Rows and bytes of payload that a task holds before it writes them."""
UNSURE = "its number was given up: telemetry may have this message already"
MAX_STATEMENTS = 1_000
"""Of one gateway in one task; the latest are kept."""

_Row = dict[str, Any]


def carry_out(order: TaskOrder) -> TaskResult:
    """Decode, write and tell.

    Raises:
        OSError: a segment can't be read, or a file not written.

    """
    collects = gc.isenabled()
    gc.disable()  # rows make no cycles, and looking for some costs a third of the time
    try:
        return halved(order, _carry_out)
    finally:
        if collects:
            gc.enable()


def _carry_out(order: TaskOrder) -> TaskResult:
    task = _Task(order)
    try:
        return task.run()
    except BaseException:
        task.abandon()
        raise


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
    """The counts of one gateway's messages."""

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
        self._seals = seals_of(order)
        self._files = TableFiles(order.telemetry, FILE_COLUMNS)
        self._columns = PartitionColumns(order.places, order.mappings, order.births)
        self._names = NameBounds()
        self._held_rows = self._held_bytes = 0
        self._refused: list[_Row] = []
        self._refused_files: TableFiles | None = None
        self._statements: dict[str, list[Statement]] = {}
        self._activity: dict[str, _Counted] = {}
        self._delays: dict[tuple[str, int, Stage], Counter[int]] = {}
        self._measured: list[BatchFacts] = []

    def run(self) -> TaskResult:
        result = self._result
        segment, receipts = Path(), None
        for stretch in self._order.stretches:
            path = Path(stretch.spool) / stretch.segment
            if receipts is None or path != segment:
                segment, receipts = path, Receipts(path)
            for at, frame, header in batches(stretch):
                self._take(stretch, at, frame, header, receipts.time_us(at))
        self._write_rows()
        self._write_refused()
        result.telemetry = self._files.finish()
        result.quarantine = self._refused_files.finish() if self._refused_files else []
        own = BatchFacts(
            statements=tuple(one for told in self._statements.values() for one in told),
            activity=tuple(one.activity(name) for name, one in self._activity.items()),
            delays=tuple(Delays(*key, counts) for key, counts in self._delays.items()),
        )
        result.facts = merged(0, 0, [own, *self._measured])
        return result

    def abandon(self) -> None:
        """Delete what it has written."""
        self._files.abandon()
        if self._refused_files is not None:
            self._refused_files.abandon()

    def _take(
        self, stretch: SpoolStretch, at: int, frame: bytes, header: Header, collected_us: int
    ) -> None:
        try:
            rows = proven_rows(frame, header, self._seals)
        except Exception as error:  # only the bytes of the batch are in play
            what = error if isinstance(error, BatchError) else f"{type(error).__name__}: {error}"
            why = f"{header}: {what}"
            self._result.damaged.append((stretch.spool, stretch.segment, at, why))
            return
        origin = header.origin
        origin_us = header.origin_time_us if header.origin_time_us <= YEAR_9999_US else None
        found = _Found(stretch, at, header, origin_us, collected_us)
        if isinstance(stretch, UnsureStretch):
            for sequence, row in wanted_rows(header, stretch, rows):
                self._put_aside(found, sequence, row, UNSURE)
            counted = self._activity.setdefault(origin, _Counted())
            counted.collected_us = max(counted.collected_us, collected_us)
            if self._held_bytes >= BYTES_AT_ONCE:
                self._write_rows()
                self._write_refused()
            return
        if isinstance(stretch, BlamedStretch):
            self._set_aside(found, stretch, rows)
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
        for sequence, row in _not_plain(columns, header, stretch, rows):
            try:
                if columns.add(sequence, row[0], row[1], row[2]):
                    self._state(found, sequence, row[2])
            except RecordError as error:
                refused += 1
                self._refuse(found, sequence, row, str(error))
            except Exception as error:  # nothing of the message was added
                refused += 1
                self._blame(found, sequence, row, f"{BLAMED}{type(error).__name__}: {error}")
        added = columns.rows - rows_before
        self._note(found, added + refused, refused)
        self._held_rows += added
        self._held_bytes += columns.bytes - bytes_before
        if self._held_rows >= ROWS_AT_ONCE or self._held_bytes >= BYTES_AT_ONCE:
            self._write_rows()

    def _set_aside(self, found: _Found, stretch: BlamedStretch, rows: Sequence[Row]) -> None:
        """Put a message aside, if one in its place could be written: else it is the store's fault.

        Raises:
            TableError: the store fails.

        """
        self._try_store(found.collected_us)
        wanted = list(wanted_rows(found.header, stretch, rows))
        for sequence, row in wanted:
            self._blame(found, sequence, row, stretch.why)
        self._note(found, len(wanted), len(wanted))

    def _try_store(self, collected_us: int) -> None:
        columns = PartitionColumns({})
        row = columns.begin("", 0, logged=False, origin_us=None, collected_us=collected_us)
        row.add(1, "", 0, b"0")
        files = TableFiles(self._order.telemetry, FILE_COLUMNS)
        try:
            for partition, table in columns.taken():
                files.write(table, partition)
            files.finish()
        finally:
            files.abandon()

    def _blame(self, found: _Found, sequence: int, row: Row, why: str) -> None:
        self._result.blamed[reason(why)] += 1
        self._refuse(found, sequence, row, why)

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
                "reason": reason(why),
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
        _counts(open_end, key)[fine_bucket(now_us - collected_us)] += kept
        if origin_us is not None:
            counted.times.seen_at(origin_us)
            key = (origin, minute_us, "origin-table")
            _counts(open_end, key)[fine_bucket(now_us - origin_us)] += kept
            key = (origin, minute_us, "origin-collector")
            _counts(self._delays, key)[bucket(collected_us - origin_us)] += kept

    def _write_rows(self) -> None:
        for partition, whole in self._columns.taken():
            table = self._within_bounds(whole)
            self._files.write(table, partition)
            self._measure(table)
        self._measured = [merged(0, 0, self._measured)]
        self._held_rows = self._held_bytes = 0
        if len(self._refused) >= ROWS_AT_ONCE // 10:
            self._write_refused()

    def _within_bounds(self, table: pa.Table) -> pa.Table:
        """Put aside rows of names that are too many; the others."""
        refused = self._names.refused(table)
        if not refused:
            return table
        times = {name: table[name].cast(pa.int64()) for name in ("origin_time", "collected_time")}
        for at, why in refused.items():
            row = table.slice(at, 1).to_pylist()[0]
            stream = Stream(row["origin"], row["boot_epoch"], control=False, logged=row["logged"])
            number = row["sequence"]
            self._result.quarantined.setdefault(stream, Intervals()).add(number, number)
            self._activity[row["origin"]].undecodable += 1
            told = {name: row.get(name) for name in QUARANTINE.names}
            told |= {name: column[at].as_py() for name, column in times.items()}
            told |= {"found_time": self._order.now_us, "reason": why, "bytes": row["payload"]}
            self._refused.append(told)
        keep = pa.array([at not in refused for at in range(table.num_rows)])
        return table.filter(keep)

    def _measure(self, table: pa.Table) -> None:
        result = self._result
        for told in measured(table):
            if isinstance(told, UnusableRow):
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


def _counts(
    of: dict[tuple[str, int, Stage], Counter[int]], key: tuple[str, int, Stage]
) -> Counter[int]:
    """Return the counts of a key, to be added to; to make one takes longer than a look-up."""
    found = of.get(key)
    if found is None:
        found = of[key] = Counter()
    return found


def wanted_rows(
    header: Header, stretch: SpoolStretch, rows: Sequence[Row]
) -> Iterator[tuple[int, Row]]:
    """Return the rows of a batch that the plan wants, with their numbers."""
    for first, some in _wanted_runs(header, stretch, rows):
        yield from enumerate(some, first)


def _wanted_runs(
    header: Header, stretch: SpoolStretch, rows: Sequence[Row]
) -> Iterator[tuple[int, Sequence[Row]]]:
    """Yield rows that follow each other, and the number of their first."""
    if stretch.keep is None:
        yield header.first, rows
        return
    for first, last in stretch.keep:
        yield first, rows[first - header.first : last - header.first + 1]


def _not_plain(
    columns: TelemetryColumns, header: Header, stretch: SpoolStretch, rows: Sequence[Row]
) -> Iterator[tuple[int, Row]]:
    """Yield rows that are to be added one by one; the others are added at once."""
    for first, some in _wanted_runs(header, stretch, rows):
        for at in columns.add_plain(first, some):
            yield first + at, some[at]


def seals_of(order: TaskOrder) -> Seals | None:
    """Make what checks a task's batches; None: they are not checked."""
    if order.certificates is None:
        return None
    return Seals(None, HandedCertificates(order.certificates), order.tree)

"""A second reading of the quarantine, by rules that came later: what they read is telemetry.

Rows are in telemetry first and leave the quarantine then, so none is lost. Of those that are in
both, since the process died between, telemetry itself tells: they only leave. No number changes in
the ledger, which knows them from the first time, so a job may write beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from cloud_ingest.ingest.decoding import BYTES_AT_ONCE, ROWS_AT_ONCE, UNSURE
from cloud_ingest.ingest.halving import KILLED
from cloud_ingest.ingest.kept_births import KeptBirths
from cloud_ingest.ingest.kept_ledger import KEYS, KeptLedger, runs
from cloud_ingest.ingest.partition_columns import PartitionColumns
from cloud_ingest.ledger.number_ledger import Numbered, Stream
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.mapping.rules import MappingRule
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.rewriting import delete_keys
from cloud_ingest.tables.schemas import (
    FILE_COLUMNS,
    PARTITIONS,
    QUARANTINE,
    TELEMETRY,
    day_of,
    micros_of,
)
from cloud_ingest.tables.store import TableStore
from tree_handler.intervals import Intervals

STEPS: Final = ("read", "moved", "removed")
"""Between them the process may die; each is told to `QuarantineReread.watch`."""
MOST_AT_ONCE: Final = 200_000
"""Rows that are moved in one step; then the next is begun."""
SOME_ROWS: Final = 64
"""Rows of quarantine that are in memory at once; each has a message's payload."""

_TIMES: Final = ("origin_time", "collected_time")
_GONE: Final = pa.schema([QUARANTINE.field(name) for name in (*KEYS, "reason")])


@dataclass(frozen=True, slots=True)
class RereadCounts:
    """The counts of a second reading of the messages in quarantine.

    Attributes:
        moved: are in telemetry now.
        left: still can't be read.
        unsure: are left where they are since telemetry may have them already.

    """

    moved: int
    left: int
    unsure: int


class QuarantineReread:
    """Reads the quarantine of a set of tables again.

    Args:
        tables: the folder of all tables.
        mappings: how messages of other makes are read.
        limits: of the ledger.

    Raises:
        TableError: a table can't be read or written.

    """

    def __init__(
        self,
        tables: TableStore,
        mappings: Sequence[MappingRule] = (),
        limits: LedgerLimits | None = None,
    ) -> None:
        upkeep.name_places(tables)  # else files of two layouts would stand side by side
        self._quarantine = IngestTable(tables.at("quarantine"), QUARANTINE)
        self._telemetry = IngestTable(tables.at("telemetry"), TELEMETRY, PARTITIONS)
        kept = KeptLedger(tables, self._telemetry, self._quarantine, limits)
        self._ledger = kept.ledger
        self._mappings = mappings
        self._births = KeptBirths(tables).births
        self.watch: Callable[[str], None] = lambda step: None

    def run(self) -> RereadCounts:
        """Move what can be read now; begun again after a kill it ends what it had begun.

        Raises:
            TableError: a table can't be read or written.

        """
        moved = 0
        while True:
            done = self._some()
            moved += done.moved
            if done.moved < MOST_AT_ONCE:
                return RereadCounts(moved, done.left, done.unsure)
            self._quarantine.refresh()
            self._telemetry.refresh()

    def _some(self) -> RereadCounts:
        empty = partial(PartitionColumns, self._places(), self._mappings, self._births)
        moving = _Moving(self._telemetry, empty)
        had = self._had()
        left = unsure = 0
        for row in self._messages():
            stream, number = _stamp(row)
            if row["reason"] == UNSURE:
                unsure += 1
            elif number in had.get(stream, ()):
                moving.gone.append(_key(row))
            elif not self._is_settled(stream, number) or not moving.take(stream, row):
                left += 1
            if len(moving.gone) >= MOST_AT_ONCE:
                break
        files = moving.finish()
        self.watch("read")
        if files:
            self._telemetry.move_in(files)
        self.watch("moved")
        if moving.gone:
            delete_keys(self._quarantine.store, pa.Table.from_pylist(moving.gone, _GONE))
        self.watch("removed")
        return RereadCounts(len(moving.gone), left + moving.staying, unsure)

    def _places(self) -> Mapping[str, tuple[str, str]]:
        return {name: (told.domain, told.group) for name, told in self._ledger.all.places.items()}

    def _messages(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Return those of the quarantine, of the version that was opened."""
        rows = self._quarantine.rows(columns, at_once=SOME_ROWS)
        return (row for row in rows if row["origin"] is not None)

    def _had(self) -> Numbered:
        """Return the quarantine's messages that telemetry has: an earlier run has moved them."""
        origins: set[str] = set()
        days: set[date] = set()
        for row in self._messages(("origin", *_TIMES)):
            origins.add(row["origin"])
            origin_us, collected_us = _times_us(row)
            for us in (origin_us, None):  # of too many days: see `PartitionColumns`
                days.add(date.fromisoformat(day_of(us, collected_us)))
        wanted = ds.field("day").isin(list(days)) & ds.field("origin").isin(list(origins))
        found: Numbered = {}
        if days:
            batches = self._telemetry.dataset().to_batches(columns=KEYS, filter=wanted)
            for stream, first, last in runs(batches):
                found.setdefault(stream, Intervals()).add(first, last)
        return found

    def _is_settled(self, stream: Stream, number: int) -> bool:
        """Return whether the job is done with a number.

        Else it was killed, and goes on with it itself.
        """
        floor = self._ledger.floor(stream)
        return floor is None or number <= floor or number in self._ledger.all.seen.get(stream, ())


class _Moving:
    """Rows on their way."""

    def __init__(self, telemetry: IngestTable, empty: Callable[[], PartitionColumns]) -> None:
        self._files = TableFiles(telemetry.store, FILE_COLUMNS)
        self._empty = empty
        self._columns = empty()
        self._added: list[tuple[Stream, dict[str, Any]]] = []
        self._taken: Numbered = {}
        self._tried = self._bytes = 0
        self.gone: list[dict[str, Any]] = []
        """Keys of the rows that leave the quarantine."""
        self.staying = 0
        """Messages that were taken, and of which no file can be made."""

    def take(self, stream: Stream, row: dict[str, Any]) -> bool:
        """Take a message if it can be read."""
        if row["reason"].startswith(KILLED):
            return False
        if self._tried >= ROWS_AT_ONCE or self._bytes >= BYTES_AT_ONCE:
            self._write()
        self._tried += 1
        number = row["sequence"]
        if number not in self._taken.get(stream, ()):
            if not self._is_added(self._columns, stream, row):
                return False
            self._taken.setdefault(stream, Intervals()).add(number, number)
            self._bytes += len(row["bytes"])
            self._added.append((stream, row))
        self.gone.append(_key(row))
        return True

    def finish(self) -> Any:
        """Write all; the files are no part of the table yet."""
        self._write()
        return self._files.finish()

    def _write(self) -> None:
        added, self._added = self._added, []
        try:
            made = list(self._columns.taken())
        except Exception:  # of one or more of them nothing can be made that a file takes
            made = self._made_of_those_that_can_be(added)
        for partition, table in made:
            self._files.write(table, partition)
        self._tried = self._bytes = 0

    def _made_of_those_that_can_be(
        self, added: Sequence[tuple[Stream, dict[str, Any]]]
    ) -> list[tuple[dict[str, str], pa.Table]]:
        columns, staying = self._empty(), set[tuple[Any, ...]]()
        for stream, row in added:
            alone = self._empty()
            try:
                self._is_added(alone, stream, row)
                list(alone.taken())
            except Exception:  # of whatever kind: no file can be made of this one
                staying.add(tuple(_key(row).values()))
            else:
                self._is_added(columns, stream, row)
        self.gone = [key for key in self.gone if tuple(key.values()) not in staying]
        self.staying += len(staying)
        return list(columns.taken())

    @staticmethod
    def _is_added(columns: PartitionColumns, stream: Stream, row: dict[str, Any]) -> bool:
        origin_us, collected_us = _times_us(row)
        of_batch = columns.begin(
            stream.origin,
            stream.epoch,
            logged=stream.logged,
            origin_us=origin_us,
            collected_us=collected_us,
        )
        try:
            of_batch.add(row["sequence"], row["topic"], _flags(row), row["bytes"])
        except Exception:  # of whatever kind: nothing of it was added, and it stays
            return False
        return True


def _stamp(row: Mapping[str, Any]) -> tuple[Stream, int]:
    stream = Stream(row["origin"], row["boot_epoch"], control=False, logged=row["logged"])
    return stream, row["sequence"]


def _key(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _GONE.names}


def _flags(row: Mapping[str, Any]) -> int | None:
    return None if row["qos"] is None else row["qos"] + 4 * row["retain"]


def _times_us(row: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return when its origin accepted a message, and when the collector had it."""
    origin, collected = (row[name] for name in _TIMES)
    return None if origin is None else micros_of(origin), micros_of(collected)

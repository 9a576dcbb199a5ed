"""The ledger of a set of tables, as their commits tell it.

A snapshot saves reading all commits; it is no truth of its own. Without one the commits are read
from the first; where the log no longer reaches back so far, the numbers are read from the tables
themselves. What no table holds is then not known any more: messages between gateways are counted
again if the spool is read again, and so are rows that a policy has deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgpack
import pyarrow as pa

from cloud_ingest.ingest import forgotten
from cloud_ingest.ingest.closing import Closing
from cloud_ingest.ingest.ledger import LedgerChange, LedgerError, NumberLedger, Stream
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.tables.delta import IngestTable, TableError, named_errors
from cloud_ingest.tables.store import TableStore
from tree_handler.intervals import Intervals

SNAPSHOT = "_ledger/snapshot"
SNAPSHOT_EVERY = 100
"""Commits of telemetry."""
KEYS = ["origin", "boot_epoch", "logged", "sequence"]
"""Columns that are a message's stamp."""


class KeptLedger:
    """The ledger, and how far it has followed the tables.

    Args:
        tables: the folder of all tables.
        telemetry: one of them.
        quarantine: the other.
        limits: how large the ledger may grow.

    Raises:
        TableError: a table can't be read.

    """

    def __init__(
        self,
        tables: TableStore,
        telemetry: IngestTable,
        quarantine: IngestTable,
        limits: LedgerLimits | None = None,
    ) -> None:
        self._store = tables
        self._tables = (telemetry, quarantine)
        self._followed = [-1, -1]
        self._snapshot_at = 0
        self._limits = limits
        self.ledger = NumberLedger(limits)
        self._load()
        self._close()

    def catch_up(self) -> None:
        """Take in what others have committed.

        Raises:
            TableError: a table can't be read.

        """
        for table in self._tables:
            table.refresh()
        before = len(self.ledger.all.forgotten)
        self._follow()
        if len(self.ledger.all.forgotten) > before:
            where = self._store.uri
            raise TableError(f"{where}: a gateway was forgotten meanwhile: start the job again")

    def followed(self, table: IngestTable, change: LedgerChange) -> None:
        """Take in a change that has just been committed here."""
        self._apply(change)
        self._followed[self._tables.index(table)] = table.version

    def keep(self, *, now: bool = False) -> None:
        """Write a snapshot, if it is time.

        Raises:
            TableError: it can't be written.

        """
        if not now and self._followed[0] - self._snapshot_at < SNAPSHOT_EVERY:
            return
        ids = [table.identity for table in self._tables]
        packed = msgpack.packb([ids, self._followed, self.ledger.pack()])
        with named_errors(self._store):
            self._store.write(SNAPSHOT, packed)
        self._snapshot_at = self._followed[0]

    def _load(self) -> None:
        data = self._store.read(SNAPSHOT)
        if data is not None:
            try:
                ids, followed, packed = msgpack.unpackb(data)
                if ids == [table.identity for table in self._tables]:  # else of tables before
                    self.ledger = NumberLedger.unpack(packed, self._limits)
                    self._followed = list(followed)
                    self._snapshot_at = self._followed[0]
            except (ValueError, TypeError, msgpack.UnpackException):
                self._forget()
        try:
            self._follow()
        except (FileNotFoundError, LedgerError):
            self._forget()
            self._read_tables()

    def _close(self) -> None:
        """What was written under larger limits, or none, is within these from now on."""
        change = LedgerChange()
        closing = Closing(self.ledger, change)
        for origin in self.ledger.lives:
            closing.keep_within(origin, ())
        closing.keep_total({})
        self.ledger.apply(change)

    def _forget(self) -> None:
        self.ledger, self._followed = NumberLedger(self._limits), [-1, -1]

    def _follow(self) -> None:
        for i, table in enumerate(self._tables):
            for change in table.changes(self._followed[i]):
                self._apply(change)
            self._followed[i] = table.version

    def _apply(self, change: LedgerChange) -> None:
        forgotten.apply(self.ledger, change)
        self.ledger.apply(change)

    def _read_tables(self) -> None:
        telemetry, quarantine = self._tables
        change = LedgerChange()
        for stream, first, last in runs(telemetry.dataset().to_batches(columns=KEYS)):
            new = change.seen.setdefault(stream, Intervals()).add(first, last)
            totals = change.of(stream.origin)
            totals.messages += new
            totals.logged += new if stream.logged else 0
        for stream, first, last in runs(quarantine.dataset().to_batches(columns=KEYS)):
            change.held.setdefault(stream, Intervals()).add(first, last)
        self.ledger.apply(change)
        self._followed = [table.version for table in self._tables]


def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Stream, int, int]]:
    """The numbers that rows of a table have, as runs of one stream."""
    for batch in batches:
        sorted_ = pa.Table.from_batches([batch]).sort_by([(key, "ascending") for key in KEYS])
        columns = [sorted_[key].to_pylist() for key in KEYS]
        run: tuple[Stream, int, int] | None = None
        for origin, epoch, logged, sequence in zip(*columns, strict=True):
            if origin is None:
                continue
            stream = Stream(origin, epoch, control=False, logged=logged)
            if run is not None and run[0] == stream and sequence <= run[2] + 1:
                run = (stream, run[1], sequence)
            else:
                if run is not None:
                    yield run
                run = (stream, sequence, sequence)
        if run is not None:
            yield run

"""The ledger of a set of tables, as their commits tell it.

A snapshot saves reading all commits; it is no truth of its own. It names the tables and commits
that it followed. Where these are others now, a table was restored or made anew: the commits of one
may then tell what the other no longer has, so the rows of both are read. Without a snapshot the
commits are read from the first; where the log no longer reaches back so far, or Delta's RESTORE is
in it, rows are read, too. What no table holds is then not known any more: messages between
gateways are counted again if the spool is read again, and so are rows that a policy has deleted.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgpack
import pyarrow as pa

from cloud_ingest.ingest import forgotten
from cloud_ingest.ingest.closing import Closing
from cloud_ingest.ledger.number_ledger import LedgerChange, LedgerError, NumberLedger, Stream
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.tables.delta import IngestTable, TableError, TableRestoredError, named_errors
from cloud_ingest.tables.store import TableStore
from tree_handler.intervals import Intervals

SNAPSHOT = "_ledger/snapshot"
SNAPSHOT_EVERY = 100
"""Commits of both tables."""
SNAPSHOT_EVERY_S = 600.0
"""A Delta log is kept for a day: slow triggers must not outlast it."""
KEYS = ["origin", "boot_epoch", "logged", "sequence"]
"""Columns that are a message's stamp."""
DAMAGE = ["origin", "spool", "segment", "position", "bytes"]
"""Columns that tell damaged bytes from others."""
ROWS_AT_ONCE = 64
"""Rows of damage in memory; each has up to 1 MiB."""


class KeptLedger:
    """The ledger, and how far it has followed the tables.

    Args:
        tables: the folder of all tables.
        telemetry: one of them.
        quarantine: the other.
        limits: how large the ledger may grow.
        clock: seconds, monotonic.

    Raises:
        TableError: a table can't be read.

    """

    def __init__(
        self,
        tables: TableStore,
        telemetry: IngestTable,
        quarantine: IngestTable,
        limits: LedgerLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = tables
        self._tables = (telemetry, quarantine)
        self._followed = [-1, -1]
        self._snapshot_at = [-1, -1]
        self._snapshot_time = -math.inf
        self._clock = clock
        self.is_restored = False
        """True if tables lack what they once had: spools are to be read from their beginning."""
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
        """Write a snapshot, if it is time, and not before spools are read after a restore.

        Raises:
            TableError: it can't be written.

        """
        news = sum(self._followed) - sum(self._snapshot_at)
        time_s = self._clock()
        is_due = news >= SNAPSHOT_EVERY or time_s - self._snapshot_time >= SNAPSHOT_EVERY_S
        if self.is_restored or not (now or (news and is_due)):
            return
        with named_errors(self._store):
            packed = msgpack.packb(
                [self._ids(), self._followed, self.ledger.pack(), self._digests()]
            )
            self._store.write(SNAPSHOT, packed)
        self._snapshot_at, self._snapshot_time = list(self._followed), time_s

    def reads_spools_again(self) -> None:
        """Nothing vouches any longer for what the tables lack: snapshots may be kept again."""
        self.is_restored = False

    def _ids(self) -> list[str]:
        return [table.identity for table in self._tables]

    def _digests(self) -> list[str]:
        """Return the digests of the commits that were followed last."""
        return [
            table.digest(version)
            for table, version in zip(self._tables, self._followed, strict=True)
        ]

    def _load(self) -> None:
        data = self._store.read(SNAPSHOT)
        self.is_restored = not self._has_what_was_beside()
        if data is not None:
            try:
                ids, followed, packed, *digests = msgpack.unpackb(data)
                self._followed = list(followed)
                self.is_restored |= not self._fits(ids, *digests)
                self.ledger = NumberLedger.unpack(packed, self._limits)
                self._snapshot_at, self._snapshot_time = list(followed), self._clock()
            except (ValueError, TypeError, msgpack.UnpackException):
                self._forget()
        if not self.is_restored:
            try:
                self._follow()
            except TableRestoredError:
                self.is_restored = True
            except (FileNotFoundError, LedgerError):
                self._forget()
                self._read_tables()
        if self.is_restored:
            self._forget()
            self._read_tables()

    def _fits(self, ids: list[str], digests: Sequence[str] = ("", "")) -> bool:
        """Return whether a snapshot is of these tables, and these have all that it knows."""
        return ids == self._ids() and all(
            version <= table.version and (not was or table.digest(version) in ("", was))
            for table, version, was in zip(self._tables, self._followed, digests, strict=True)
        )

    def _has_what_was_beside(self) -> bool:
        """Return whether the quarantine has what it had when telemetry was written last."""
        telemetry, quarantine = self._tables
        mark = telemetry.beside()
        return not mark or quarantine.has(mark)

    def _close(self) -> None:
        """Bring a ledger that was written under larger limits, or none, within the present ones."""
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
        for row in quarantine.rows(DAMAGE, at_once=ROWS_AT_ONCE):
            if row["origin"] is None and row["segment"] is not None:
                position = int(row["segment"].partition(".")[0]) + row["position"]
                change.damage.setdefault(row["spool"], {})[position] = zlib.crc32(row["bytes"])
        self.ledger.apply(change)
        self._followed = [table.version for table in self._tables]


def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Stream, int, int]]:
    """Yield the numbers that rows of a table have, as runs of one stream."""
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

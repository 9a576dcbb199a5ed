"""A Delta table that takes rows and the ledger's change in one commit.

Two jobs may not write one set of tables at once: each commit has a transaction of the same name,
and of two that were planned over the same state the second is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from cloud_ingest.ledger.number_ledger import LedgerChange
from cloud_ingest.tables.dataset import dataset
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.synced import sync_commit

KEY = "hedgerow"
"""Of the ledger's change in a commit's metadata."""
BESIDE = "hedgerow-beside"
"""The key in a commit's metadata of a mark of the other table, as the commit knew it."""
WRITERS = "hedgerow-ingest"
"""The transaction that all our writers share."""
MOVERS = "hedgerow-again"
"""The transaction that those share who read the quarantine again."""
_QUOTED = re.compile(r"(?:TableError|TableRestoredError|OtherWriterError): (.+)")
_CONFIGURATION = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.enableExpiredLogCleanup": "true",
}


class TableError(OSError):
    """A table can't be read or written; the message names it and why."""

    @classmethod
    def quoted_in(cls, text: str) -> TableError | None:
        """Return the error that a longer text quotes: Spark hands on what its callers raise as
        text."""
        found = _QUOTED.search(text)
        return cls(found[1]) if found else None


class TableRestoredError(TableError):
    """A table was set back to a version before: its commits no longer say which rows it has."""


class OtherWriterError(TableError):
    """Another job has written the same tables since this one looked."""


@contextmanager
def named_errors(store: TableStore) -> Iterator[None]:
    """Raise what a store refuses within as an error that names the store.

    Raises:
        TableError: whatever deltalake or the file system said.

    """
    try:
        yield
    except TableError:
        raise
    except (DeltaError, OSError) as error:
        raise TableError(f"{store.uri}: {error}") from error


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that is no part of the table yet.

    Attributes:
        path: in the table's folder.
        size: in bytes.
        rows: how many.
        partition: values of the partition columns; empty where there are none.

    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]

    def added(self, now_ms: int, *, changes_rows: bool = True) -> AddAction:
        """Return the action that makes it a part of a table.

        It has no least and greatest values: of some columns alone, they hide rows from filters.

        Args:
            now_ms: since 1970.
            changes_rows: whether the table has other rows then.

        """
        stats = json.dumps({"numRecords": self.rows})
        return AddAction(self.path, self.size, self.partition, now_ms, changes_rows, stats)


class IngestTable:
    """One table, opened or made.

    Args:
        store: its folder.
        schema: its columns; those that a table lacks are added to it.
        partitions: names of the partition columns.

    Raises:
        TableError: it can't be opened or made.

    """

    def __init__(
        self, store: TableStore, schema: pa.Schema, partitions: Sequence[str] = ()
    ) -> None:
        self.store = store
        self._schema = schema
        self._partitions = list(partitions)
        self._marked: tuple[int, str] | None = None
        with named_errors(store):
            self._table = self._open()
            self._evolve()

    @property
    def version(self) -> int:
        """Number of its newest commit that is known here."""
        return int(self._table.version())

    @property
    def identity(self) -> str:
        """Return the identifier that tells this table from another one in the same place."""
        return str(self._table.metadata().id)

    def dataset(self) -> Any:
        """Return its rows, as a data set of pyarrow."""
        return dataset(self._table)

    def rows(
        self, columns: Sequence[str] | None = None, *, at_once: int
    ) -> Iterator[dict[str, Any]]:
        """Yield each row, with little memory where rows are large.

        Args:
            columns: names of those that are read; None: all.
            at_once: rows that are in memory.

        """
        names = None if columns is None else list(columns)
        ahead = {"batch_readahead": 1, "fragment_readahead": 1}
        for batch in self.dataset().to_batches(names, batch_size=at_once, **ahead):
            yield from batch.to_pylist()

    def last_batch(self, query: str) -> int:
        """Return the last micro-batch that a query has committed here, -1 if none."""
        found = self._table.transaction_version(query)
        return -1 if found is None else int(found)

    @staticmethod
    def is_at(store: TableStore) -> bool:
        """Return whether there is a table.

        Raises:
            TableError: the store does not answer.

        """
        with named_errors(store):
            return bool(DeltaTable.is_deltatable(store.uri, dict(store.options) or None))

    def refresh(self) -> None:
        """Learn of commits of others.

        Raises:
            TableError: the table can't be read.

        """
        with named_errors(self.store):
            self._table.update_incremental()

    def changes(self, since: int) -> Iterator[LedgerChange]:
        """Yield what commits after a version tell the ledger.

        Raises:
            FileNotFoundError: the log does not reach back so far.
            LedgerError: a commit's metadata is not ours.
            TableRestoredError: one of them set the table back.

        """
        log = self.store.at("_delta_log")
        filesystem = log.filesystem()
        for version in range(since + 1, self.version + 1):
            with filesystem.open_input_stream(f"{version:020d}.json") as file:
                commit = file.read()
            if _is_restore(commit):
                what = f"was restored by version {version}; start the job again, it reads the rows"
                raise TableRestoredError(f"{self.store.uri}: {what}")
            told = _told(commit, KEY)
            if told is not None:
                yield LedgerChange.unpack(told)

    def digest(self, version: int) -> str:
        """Return what tells a commit from another of the same number.

        Empty if the log has it no more.
        """
        data = self.store.at("_delta_log").read(f"{version:020d}.json")
        return "" if data is None else hashlib.blake2b(data, digest_size=16).hexdigest()

    def mark(self) -> str:
        """Return what tells this table, as it is now, from older copies of it."""
        if self._marked is None or self._marked[0] != self.version:
            mark = json.dumps([self.identity, self.version, self.digest(self.version)])
            self._marked = (self.version, mark)
        return self._marked[1]

    def has(self, mark: str) -> bool:
        """Return whether this is the table of which `mark` was made, and no older copy of it."""
        identity, version, digest = json.loads(mark)
        return (
            identity == self.identity
            and version <= self.version
            and (not digest or self.digest(version) in ("", digest))
        )

    def beside(self) -> str:
        """Return the mark of the other table that our newest commit has; empty if none is in the
        log."""
        log = self.store.at("_delta_log")
        for version in range(self.version, -1, -1):
            commit = log.read(f"{version:020d}.json")
            if commit is None:
                break
            mark = _told(commit, BESIDE)
            if mark is not None:
                return mark
        return ""

    def commit(
        self,
        files: Sequence[WrittenFile],
        change: LedgerChange,
        query: str,
        batch: int | None,
        beside: str = "",
    ) -> None:
        """Make files a part of the table, together with what they change in the ledger.

        Args:
            files: what was written.
            change: of the ledger.
            query: whose micro-batch it is.
            batch: the micro-batch that is done with it; None: more of it comes.
            beside: the mark of the other table, which has its part already; empty: there is none.

        Raises:
            OtherWriterError: another job was faster.
            TableError: it can't be written; nothing is changed.

        """
        own = [] if batch is None else [Transaction(query, batch)]
        told = {KEY: change.pack()} | ({BESIDE: beside} if beside else {})
        self._append(files, WRITERS, own, told)

    def move_in(self, files: Sequence[WrittenFile]) -> None:
        """Make files a part of the table that hold what another has, of which the ledger knows.

        A job that writes beside it is not disturbed.

        Raises:
            OtherWriterError: another process has moved something since this one looked.
            TableError: it can't be written; nothing is changed.

        """
        self._append(files, MOVERS)

    def _append(
        self,
        files: Sequence[WrittenFile],
        writers: str,
        transactions: Sequence[Transaction] = (),
        metadata: dict[str, str] | None = None,
    ) -> None:
        number = int(self._table.transaction_version(writers) or 0) + 1
        properties = CommitProperties(
            custom_metadata=metadata,
            app_transactions=[Transaction(writers, number), *transactions],
        )
        now_ms = time.time_ns() // 1_000_000
        actions: list[Any] = [one.added(now_ms) for one in files]
        with named_errors(self.store):
            self._check_there(files)
            try:
                self._table.create_write_transaction(
                    actions, "append", self._schema, self._partitions, commit_properties=properties
                )
            except CommitFailedError as error:
                if "Concurrent transaction" not in str(error):
                    raise
                what = "another job writes these tables"
                raise OtherWriterError(f"{self.store.uri}: {what}") from error
            self.refresh()
            self.sync_log()

    def _check_there(self, files: Sequence[WrittenFile]) -> None:
        """Refuse to name a file that upkeep took for a leftover, by a clock that was wrong."""
        if files:
            found = self.store.filesystem().get_file_info([one.path for one in files])
            gone = [each.path for each in found if each.type.name != "File"]
            if gone:
                raise TableError(
                    f"{self.store.uri}: {gone[0]} is gone before its commit: nothing is written"
                )

    def sync_log(self) -> None:
        """Force the newest commit to the disk: what the job notes as read must not outlive it."""
        sync_commit(self.store, self.version)

    def _open(self) -> DeltaTable:
        try:
            return self.store.table()
        except TableNotFoundError:
            return DeltaTable.create(
                self.store.uri,
                self._schema,
                partition_by=self._partitions,
                configuration=_CONFIGURATION,
                storage_options=dict(self.store.options) or None,
            )

    def _evolve(self) -> None:
        """Add the columns that it lacks; nothing is written again, they are null."""
        wanted = Schema.from_arrow(self._schema).fields
        there = {field.name for field in self._table.schema().fields}
        lacking = [field for field in wanted if field.name not in there]
        if lacking:
            self._table.alter.add_columns(lacking)
            self.refresh()


def _is_restore(commit: bytes) -> bool:
    """Return whether Delta's RESTORE wrote a commit, from whichever program."""
    return b"RESTORE" in commit and any(
        json.loads(line).get("commitInfo", {}).get("operation") == "RESTORE"
        for line in commit.splitlines()
    )


def _told(commit: bytes, key: str) -> str | None:
    """Return what our metadata of a commit say under a key."""
    if key.encode() not in commit:
        return None
    for line in commit.splitlines():
        told = json.loads(line).get("commitInfo")
        if told is not None and key in told:
            return str(told[key])
    return None

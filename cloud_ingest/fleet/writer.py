"""Writes the fleet's tables, as Delta tables, from what the watch makes of each batch.

A batch is in the state when `FleetWriter.after` returns, and in the tables a few seconds later. A
kill at any moment loses and doubles nothing: the state is replaced as a whole, rows that are
appended carry the number of the write that they belong to, and a writer that starts ends what the
one before began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from cloud_ingest.evidence.facts import BatchFacts, Numbers
from cloud_ingest.evidence.signs import IngestSigns
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.state import StateError
from cloud_ingest.fleet.state_file import store_of
from cloud_ingest.fleet.tables import FleetChanges
from cloud_ingest.fleet.watch import FleetWatch
from cloud_ingest.fleet.way_out_thread import WayOutThread
from cloud_ingest.tables import registry

APPLICATION: Final = "hedgerow-fleet"
"""The owner of the watch's transactions in Delta's log."""
WRITE_INTERVAL_S: Final = 5.0
LAST_WAIT_S: Final = 5.0
"""For a way out that is at work when its writer ends; what it takes later comes once more."""
UPKEEP_WRITES: Final = 200
"""After so many writes small files are made one, and old ones are deleted."""
KEPT_HOURS: Final = 1
"""Files of earlier versions stay so long, for those who read them."""
_TABLES: Final = registry.written_by("watch")
_APPENDED: Final = tuple(name for name, table in _TABLES.items() if table.partitions)
"""Tables that rows are appended to; the others are replaced as a whole."""
_CONFIGURATION: Final = {
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.checkpointInterval": "50",
}


class FleetWriter:
    """The tables of one fleet; there is one writer of them at a time.

    Args:
        uri: the tables' folder.
        storage_options: as `deltalake` takes them.
        query: whose batches come; another one counts them anew.
        rules: when alerts are raised.
        write_interval_s: from one write to the next, by the times of batches.
        way_out: is told of alerts; None: there is none.

    Raises:
        StateError: the state can't be read; the message names the file.
        OSError: likewise.

    """

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        query: str,
        rules: AlertRules | None = None,
        write_interval_s: float = WRITE_INTERVAL_S,
        way_out: WayOutThread | None = None,
    ) -> None:
        self._uri = uri.rstrip("/")
        self._options = dict(storage_options or {})
        self._query = query
        self._interval_us = round(write_interval_s * 1e6)
        self._rules = rules or AlertRules()
        self._way_out = way_out
        self._file = store_of(uri, storage_options)
        remembered = self._file.read()
        after = 0 if remembered is not None else max(map(self._written, _APPENDED))
        try:
            self._watch = FleetWatch(
                self._rules, remembered, after=after, hands_out=way_out is not None
            )
        except StateError as error:
            raise StateError(f"{self._file.where}: {error}") from error
        self._is_kept = True
        self._last_us: int | None = None
        self._now_us = 0
        self._writes = 0
        self._has_tables = False
        self._end_what_was_begun()

    def after(self, facts: BatchFacts) -> None:
        """Take what a batch tells, once its rows are in their tables; one it has had is dropped.

        Raises:
            OSError, DeltaError: the state or a table can't be written; the batch may come again.

        """
        if self._watch.has_taken(self._query, facts.batch_id):
            if not self._is_kept:
                self._keep()
            return
        self._end_what_was_begun()
        self._is_kept = False
        self._watch.take(facts, self._query)
        if not self.tick(facts.committed_us):
            self._keep()

    def try_out(self, facts: BatchFacts) -> None:
        """Fail as `after` would, on a copy of what is kept: nothing changes, nothing is written."""
        watch = FleetWatch(self._rules, self._file.read())
        watch.take(facts)
        watch.changes(max(self._now_us, facts.committed_us))
        watch.state()

    def tables_have(self, all_numbers: Iterable[Numbers]) -> None:
        """Learn which numbers have come, whether their batches were told or not.

        Raises:
            OSError, DeltaError: the state can't be written.

        """
        if self._watch.tables_have(all_numbers):
            self._keep()

    def progressed(self, collected_us: int, now_us: int) -> None:
        """A collector says that it had taken all that there was by a time of its clock.

        Args:
            collected_us: that time.
            now_us: by the clock that batches are committed by.

        """
        self._watch.progressed(collected_us, now_us)

    def ingest_says(self, signs: IngestSigns, now_us: int) -> None:
        """Take what the job sees of itself and of its collectors.

        Args:
            signs: what it saw since it last said so.
            now_us: by the clock that batches are committed by.

        """
        self._watch.ingest_says(signs, now_us)
        if signs.has_started or signs.begun_again:  # the next kill may come before the next write
            self._keep()

    def tick(self, now_us: int) -> bool:
        """Write if it is time to; return whether that was so.

        Args:
            now_us: by the clock that batches are committed by.

        """
        self._now_us = max(self._now_us, now_us)
        if self._last_us is not None and 0 <= now_us - self._last_us < self._interval_us:
            return False
        self._end_what_was_begun()
        self._last_us = now_us
        changes = self._watch.changes(self._now_us)
        if changes:
            self._watch.begin_writing()
            self._keep()
            self._write(changes)
        self._hand_out()
        return bool(changes)

    def close(self) -> None:
        """Write what has not been written; wait for the way out, twice `LAST_WAIT_S` at most."""
        self._last_us = None
        self.tick(self._now_us)
        if self._way_out is None:
            return
        self._way_out.wait(LAST_WAIT_S)
        if self._way_out.is_free():
            self._hand_out()  # what came while it was at work
            self._way_out.wait(LAST_WAIT_S)
            self._note_taken()

    def ingest_ends(self) -> None:
        """Keep that the job ends and was not killed, and write what has not been written."""
        self._watch.ingest_ends()
        self.close()
        self._keep()

    def _hand_out(self) -> None:
        """Have the way out told what it was not told yet; what it does not take waits."""
        if self._way_out is None:
            return
        self._note_taken()
        pending = self._watch.outgoing.pending
        if pending and self._way_out.is_free():
            self._keep()  # what was told is never taken back by a kill
            self._way_out.offer(pending)

    def _note_taken(self) -> None:
        taken = [] if self._way_out is None else self._way_out.taken()
        if taken:
            self._watch.outgoing.handed(frozenset(taken))
            self._keep()

    def _keep(self) -> None:
        self._file.replace(self._watch.state())
        self._is_kept = True

    def _end_what_was_begun(self) -> None:
        """Rows that a write was to append when it failed, or its process was killed."""
        if (left := self._watch.unwritten()) is not None:
            self._write(left)

    # -- tables ----------------------------------------------------------------------------------

    def _write(self, changes: FleetChanges) -> None:
        self._make_tables()
        for name, rows in changes.append.items():
            if self._written(name) < changes.number:
                self._append(name, rows, changes.number)
        for name, rows in changes.replace.items():
            write_deltalake(
                self._table_uri(name),
                rows,
                mode="overwrite",
                schema_mode="overwrite",  # columns that a later version has
                storage_options=self._options,
            )
        self._watch.written(changes)
        self._keep()
        self._writes += 1
        if self._writes % UPKEEP_WRITES == 0:
            self._keep_up()

    def _append(self, name: str, rows: pa.Table, number: int) -> None:
        transaction = Transaction(APPLICATION, number)
        write_deltalake(
            self._table_uri(name),
            rows,
            mode="append",
            schema_mode="merge",  # columns that a later version has
            partition_by=list(_TABLES[name].partitions),
            storage_options=self._options,
            commit_properties=CommitProperties(app_transactions=[transaction]),
        )

    def _make_tables(self) -> None:
        """All tables are there once anything is, so that readers need not ask."""
        if self._has_tables:
            return
        for name, table in _TABLES.items():
            DeltaTable.create(
                self._table_uri(name),
                table.schema,
                mode="ignore",
                partition_by=list(table.partitions) or None,
                configuration=_CONFIGURATION,
                storage_options=self._options,
            )
        self._has_tables = True

    def _written(self, name: str) -> int:
        """Return the number of the last rows that were appended to a table; 0 if there are none."""
        try:
            table = DeltaTable(self._table_uri(name), storage_options=self._options)
        except TableNotFoundError:
            return 0
        return table.transaction_version(APPLICATION) or 0

    def _keep_up(self) -> None:
        self._file.keep_up(KEPT_HOURS)
        for name in _TABLES:
            table = DeltaTable(self._table_uri(name), storage_options=self._options)
            if name in _APPENDED:
                table.optimize.compact()
            table.vacuum(KEPT_HOURS, dry_run=False, enforce_retention_duration=False)

    def _table_uri(self, name: str) -> str:
        return f"{self._uri}/{name}"

"""Leaves nothing of a gateway in a folder of tables: no row, no state, no count, no name.

No job may run meanwhile: what it remembers it would write again. One that does is refused at its
next commit, and knows of it when it starts again. Killed, and begun again, this ends what it began.

Left are a digest in the ledger (`cloud_ingest.ingest.forgotten`), what other gateways say of it in
messages and rows of their own, and for a day what the log of a table says of the past: its commits
and checkpoints. `GatewayErasure.purge_logs` ends that at once, and with it all earlier versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.fleet import state as fleet_state
from cloud_ingest.fleet.state import StateError
from cloud_ingest.fleet.state_file import FOLDER, store_of
from cloud_ingest.ingest.facts_notes import FactsNotes, QueryFacts
from cloud_ingest.ingest.forgotten import digest_of
from cloud_ingest.ingest.kept_births import KeptBirths
from cloud_ingest.ingest.kept_ledger import KeptLedger
from cloud_ingest.ledger.number_ledger import LedgerChange
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.tables import registry, upkeep
from cloud_ingest.tables.delta import IngestTable, TableError, named_errors
from cloud_ingest.tables.leftovers import tables_in
from cloud_ingest.tables.rewriting import delete_rows
from cloud_ingest.tables.schemas import PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from tree_handler import batch
from tree_handler.errors import BatchError

QUERY: Final = "hedgerow/forget"
"""The writer of the ledger's changes that forget."""
_LOG_ENTRY: Final = re.compile(r"(\d{20})\..*")
_GoesOut = Callable[[pa.Table], pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class ForgottenGateway:
    """The outcome of forgetting one gateway.

    Attributes:
        rows: that were deleted, of all tables.
        unsure_files: that no commit names, that have rows of it, and that a task may be about to
            commit, as far as anybody can tell.

    """

    rows: int
    unsure_files: int


class GatewayErasure:
    """Forgets gateways of a folder of tables.

    Args:
        tables: the folder of all tables.
        limits: of the ledger.

    """

    def __init__(self, tables: TableStore, limits: LedgerLimits | None = None) -> None:
        self._tables = tables
        self._limits = limits

    def forget(self, gateway: str, *, is_alone: bool = False) -> ForgottenGateway:
        """Leave nothing of a gateway but what the module names.

        Args:
            gateway: its id.
            is_alone: nobody writes or reads the tables: the logs are purged, and files that no
                commit names go, however young.

        Raises:
            TableError: a table can't be read or written.

        """
        if IngestTable.is_at(self._tables.at("telemetry")):
            self._number_by_digest(gateway)
        rows = self._delete_rows(gateway)
        self._forget_state(gateway)
        self._forget_facts(gateway)
        KeptBirths(self._tables).forget(gateway)
        unsure = 0
        for store in tables_in(self._tables):
            unsure += self._vacuum(store, gateway, is_alone=is_alone)
        if IngestTable.is_at(self._tables.at("telemetry")):
            self._kept()[1].keep(now=True)
        if is_alone:
            self.purge_logs()
        return ForgottenGateway(rows, unsure)

    def purge_logs(self) -> None:
        """Delete from each table's log all but its newest version.

        Raises:
            TableError: a table can't be read or written.

        """
        for store in tables_in(self._tables):
            with named_errors(store):
                table = store.table()
                table.create_checkpoint()
                newest = table.version()
                log = store.at("_delta_log").filesystem()
                for each in log.get_file_info(pyarrow.fs.FileSelector("")):
                    found = _LOG_ENTRY.fullmatch(each.base_name)
                    if found and int(found[1]) < newest:
                        log.delete_file(each.path)

    def _kept(self) -> tuple[IngestTable, KeptLedger]:
        telemetry = IngestTable(self._tables.at("telemetry"), TELEMETRY, PARTITIONS)
        quarantine = IngestTable(self._tables.at("quarantine"), QUARANTINE)
        return telemetry, KeptLedger(self._tables, telemetry, quarantine, self._limits)

    def _number_by_digest(self, gateway: str) -> None:
        telemetry, kept = self._kept()
        digest = digest_of(gateway)
        if digest not in kept.ledger.all.forgotten:
            change = LedgerChange(forgotten={digest: None})
            telemetry.commit([], change, QUERY, telemetry.last_batch(QUERY) + 1)
            kept.followed(telemetry, change)
        kept.keep(now=True)

    def _delete_rows(self, gateway: str) -> int:
        upkeep.name_places(self._tables)
        alert = rf"^[^:]*:{re.escape(gateway)}[/:]"
        what: Mapping[str, tuple[list[str], _GoesOut]] = {
            **{
                each.name: ([each.gateway], _is(each.gateway, gateway))
                for each in registry.DECLARED
                if each.gateway is not None
            },
            "quarantine": (["origin", "bytes"], lambda rows: _of_quarantine(rows, gateway)),
            "acknowledgements": (
                ["alert"],
                lambda rows: pc.fill_null(
                    pc.match_substring_regex(rows["alert"], alert), fill_value=False
                ),
            ),
        }
        return sum(
            delete_rows(store, columns, goes_out)
            for name, (columns, goes_out) in what.items()
            if IngestTable.is_at(store := self._tables.at(name))
        )

    def _forget_state(self, gateway: str) -> None:
        file = store_of(self._tables.uri, self._tables.options)
        with named_errors(self._tables.at(FOLDER)):
            data = file.read()
            if data is not None:
                try:
                    state = fleet_state.decode(data)
                except StateError as error:
                    raise TableError(f"{file.where}: {error}") from error
                state.forget(gateway)
                file.replace(state.encode())
                file.keep_up(0)

    def _forget_facts(self, gateway: str) -> None:
        notes = FactsNotes(self._tables)
        noted = notes.read()
        if noted:
            kept = [QueryFacts(query, _without(facts, gateway)) for query, facts in noted]
            with named_errors(self._tables):
                notes.write(noted[-1].query, kept)

    def _vacuum(self, store: TableStore, gateway: str, *, is_alone: bool) -> int:
        """Delete what is no part of a table any more; return how many files are left of those
        that no commit names and that have its rows."""
        with named_errors(store):
            table = store.table()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=is_alone)
            left = table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
            filesystem = store.filesystem()
            return sum(_has_rows_of(filesystem, path, gateway) for path in left)


def _is(column: str, gateway: str) -> _GoesOut:
    return lambda rows: pc.fill_null(pc.equal(rows[column], gateway), fill_value=False)


def _of_quarantine(rows: pa.Table, gateway: str) -> pa.ChunkedArray:
    """Return messages of a gateway, and damaged bytes that it has made, as far as these say so."""
    pairs: Iterable[tuple[str | None, bytes | None]] = zip(
        rows["origin"].to_pylist(), rows["bytes"].to_pylist(), strict=True
    )
    return pa.chunked_array(
        [
            pa.array(
                [
                    origin == gateway if origin is not None else _is_made_by(data or b"", gateway)
                    for origin, data in pairs
                ],
                pa.bool_(),
            )
        ]
    )


def _is_made_by(data: bytes, gateway: str) -> bool:
    try:
        return batch.check(data).origin == gateway
    except BatchError:  # whose it is nobody can tell
        return gateway.encode() in data


def _has_rows_of(filesystem: Any, path: str, gateway: str) -> bool:
    try:
        with filesystem.open_input_file(path) as opened:
            read = pq.ParquetFile(opened)
            columns = {"origin", "gateway"} & set(read.schema_arrow.names)
            return any(
                gateway in batch[column].to_pylist()
                for batch in read.iter_batches(columns=sorted(columns))
                for column in columns
            )
    except FileNotFoundError:  # it was listed since its commit is still known
        return False
    except (OSError, pa.ArrowInvalid):  # torn: nobody can read it, and it goes when it is old
        return True


def _without(facts: BatchFacts, gateway: str) -> BatchFacts:
    kept = {
        name: tuple(one for one in getattr(facts, name) if one.gateway != gateway)
        for name in BatchFacts.__dataclass_fields__
        if isinstance(getattr(facts, name), tuple)
    }
    return replace(facts, **cast(dict[str, Any], kept))

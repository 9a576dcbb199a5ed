"""Looks after tables beside those who write and read them: small files, old days, a gateway's rows.

A domain is a part of the paths of files that are rewritten. Earlier versions wrote rows of domains
that no file system takes, so that nothing of the table could be joined or deleted any more: such
rows are first moved to where rows of unknown places stand.

Each step is a commit of the table's own, so a reader sees all of it or nothing, and goes on with
the files that it has begun to read until `UpkeepSettings.vacuum_hours` have passed. The library
that writes these commits forces nothing to the disk: `synced` does, right behind each, and before
any file that held the same rows is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cloud_ingest.member_place import UNKNOWN_PLACE, is_column
from cloud_ingest.tables import registry
from cloud_ingest.tables.delta import TableError, named_errors
from cloud_ingest.tables.leftovers import delete_leftovers
from cloud_ingest.tables.lone_rewriter import lone_rewriter
from cloud_ingest.tables.rewriting import carry_over
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.synced import synced

BESIDE = tuple(registry.written_by("job"))
"""The tables that the job appends to; who replaces or appends others looks after them."""
TARGET_BYTES = 128 << 20
"""Of a file, when small ones are joined."""
SHOWN = 80
"""Characters of a domain that are told."""

_log = logging.getLogger(__name__)

_Partition = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """The times for which rows and files are kept.

    Attributes:
        keep_days: days of telemetry, today not counted; None: all.
        vacuum_hours: files that are no part of a table stay so long.

    """

    keep_days: int | None = None
    vacuum_hours: int = 168


def compact(tables: TableStore, *, looks_inside: bool = False) -> int:
    """Join small files, partition by partition; return how many went into others.

    Files that an earlier version put elsewhere go to their partition's folder.

    Args:
        tables: the folder of all tables.
        looks_inside: whether each file is opened, to mend what earlier versions left behind
            where they deleted a gateway; it takes a look at each.

    Raises:
        TableError: a table can't be read or written.

    """
    removed = 0
    for name in BESIDE:
        with _table(tables, name) as table:
            if table is not None:
                store = tables.at(name)
                removed += carry_over(store, _named_places(store), looks_inside=looks_inside)
                with lone_rewriter(store):
                    table.update_incremental()
                    with synced(store, table):
                        done = table.optimize.compact(target_size=TARGET_BYTES)
                removed += int(done["numFilesRemoved"])
    return removed


def clean(tables: TableStore, settings: UpkeepSettings, now: datetime | None = None) -> int:
    """Delete days that are not kept, and files that are no part of a table; return how many files.

    Of those that no commit names only what no running task can have written goes.

    Raises:
        TableError: a table can't be read or written.

    """
    gone = 0
    name_places(tables)
    with _table(tables, "telemetry") as table:
        if table is not None and settings.keep_days is not None:
            first = (now or datetime.now(UTC)).date() - timedelta(days=settings.keep_days)
            with synced(tables.at("telemetry"), table):
                table.delete(f"day < '{first.isoformat()}'")
    for name in BESIDE:
        with _table(tables, name) as table:
            if table is not None:
                gone += len(
                    table.vacuum(
                        settings.vacuum_hours, dry_run=False, enforce_retention_duration=False
                    )
                )
    return gone + delete_leftovers(tables, settings.vacuum_hours)


def name_places(tables: TableStore) -> None:
    """Bring files to their partition's folder, and rows of domains that are no names; see above.

    Raises:
        TableError: a table can't be read or written.

    """
    for name in BESIDE:
        with _table(tables, name) as table:
            if table is not None:
                carry_over(tables.at(name), _named_places(tables.at(name)))


def _named_places(store: TableStore) -> Callable[[_Partition], _Partition]:
    """Return rows whose domain is no name get the domain of unknown places; see above."""
    told: set[str] = set()

    def moved(partition: _Partition) -> _Partition:
        domain = partition.get("domain")
        if domain is None or is_column(domain):
            return partition
        if domain not in told:
            told.add(domain)
            _log.warning(
                "%s: rows of the domain %r, which is no name, are of an unknown place from now on",
                store.uri,
                domain[:SHOWN],
            )
        return {**partition, "domain": UNKNOWN_PLACE}

    return moved


def every(count: int, act: Callable[[], object]) -> Callable[[], None]:
    """Return a call that acts every so many calls."""
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls >= count:
            calls = 0
            act()

    return call


@contextmanager
def _table(tables: TableStore, name: str) -> Iterator[DeltaTable | None]:
    store = tables.at(name)
    try:
        table = store.table()
    except TableNotFoundError:
        yield None
        return
    except (DeltaError, OSError) as error:
        raise TableError(f"{store.uri}: {error}") from error
    with named_errors(store):
        yield table

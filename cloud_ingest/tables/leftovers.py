"""Files that no commit names: of tasks, compactions and writers that were killed.

Nobody can tell such a file from one that a task is about to commit, but by its age. So only what
is older than any trigger goes. Should a clock have been wrong, the commit itself finds that a file
is gone and is refused (`cloud_ingest.tables.delta`), so no table ever names a file that is not
there.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.fs

from cloud_ingest.tables.delta import IngestTable, named_errors
from cloud_ingest.tables.store import TableStore

SAFE_HOURS: Final = 24
"""The age below which a file may be a running writer's."""

_HALF: Final = re.compile(r".*\.parquet#\d+|_commit_.*\.tmp|.*\.new")
"""Names of files that are renamed when they are whole: they are parts of no table, ever."""


def delete_leftovers(tables: TableStore, hours: int = SAFE_HOURS) -> int:
    """Delete files that no commit names from all tables of a folder; return how many.

    Args:
        tables: the folder of all tables.
        hours: younger ones stay; never less than `SAFE_HOURS`.

    Raises:
        TableError: a table can't be read or written.

    """
    hours = max(hours, SAFE_HOURS)
    gone = 0
    for store in tables_in(tables):
        with named_errors(store):
            table = store.table()
            found = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
            if found:  # what it deletes it tells in two commits, so it is asked first
                gone += len(
                    table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
                )
    if tables.folder is not None:
        with named_errors(tables):
            gone += _delete_halves(tables.folder, time.time() - hours * 3600)
    return gone


def tables_in(tables: TableStore) -> Iterator[TableStore]:
    """Yield the tables of a folder, whoever has made them.

    Raises:
        TableError: the store does not answer.

    """
    with named_errors(tables):
        if tables.folder is not None and not tables.folder.is_dir():
            return
        found = tables.filesystem().get_file_info(pyarrow.fs.FileSelector("", recursive=False))
        names = sorted(Path(each.path).name for each in found if each.type.name == "Directory")
        for name in names:
            store = tables.at(name)
            if IngestTable.is_at(store):
                yield store


def _delete_halves(folder: Path, before: float) -> int:
    gone = 0
    for path in folder.rglob("*"):
        if _HALF.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):  # it is whole by now
                if path.is_file() and path.stat().st_mtime < before:
                    path.unlink()
                    gone += 1
    return gone

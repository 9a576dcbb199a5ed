"""Sync of what a commit of the Delta library adds to a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable

from cloud_ingest.tables.store import TableStore, sync_file


@contextmanager
def synced(store: TableStore, table: DeltaTable) -> Iterator[None]:
    """Make the files last that are added inside, and then the commit that names them.

    The library forces nothing. A store of objects has done so when it answers.

    Raises:
        OSError: the disk fails; the commit stands.

    """
    before = set(table.file_uris())
    yield
    if store.folder is None:
        return
    added = [Path(uri) for uri in table.file_uris() if uri not in before]
    for path in (*added, *{each.parent for each in added}):
        sync_file(path)
    sync_commit(store, table.version())


def sync_commit(store: TableStore, version: int) -> None:
    """Force a commit to the disk, in a folder of this machine."""
    if store.folder is not None:
        log = store.folder / "_delta_log"
        sync_file(log / f"{version:020d}.json")
        sync_file(log)

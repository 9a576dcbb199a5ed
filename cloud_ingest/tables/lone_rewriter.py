"""One process at a time replaces a table's files by others.

The library takes a commit that joins files for one that changes nothing, and lets another commit
that takes the same files out stand beside it (delta-rs 1.3 and later). So two that join files at
once, or one that joins and one that deletes rows, would both put the rows in: each would be in the
table twice. Who takes files out of a table looks at it anew when it has its turn.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cloud_ingest.tables.store import TableStore


@contextmanager
def lone_rewriter(store: TableStore) -> Iterator[None]:
    """Wait until no other process of this machine replaces a table's files, and keep it so.

    A store of objects has no locks, nor has every network's file system: there it is on whoever
    starts these processes.

    Args:
        store: the folder of a table that is there.

    Raises:
        OSError: the folder can't be opened.

    """
    if store.folder is None:
        yield
        return
    folder = os.open(store.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)

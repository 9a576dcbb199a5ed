"""Folders in /tmp that go with their process, and those of processes that were killed.

Each holds a file that its process has locked: as long as somebody lives, nobody else gets the lock,
also out of another container. A folder without such a file is not ours to judge, and stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = "in-use"


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """Yield a folder ``hedgerow-KIND-...`` for as long as it takes; those that nobody uses are
    deleted.

    Args:
        kind: a word for the name.

    Raises:
        OSError: it can't be made.

    """
    prefix = f"hedgerow-{kind}-"
    _sweep(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        fresh = folder / f"{LOCK}.new"
        lock = os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh.rename(folder / LOCK)  # it is never there unlocked
            yield folder
        finally:
            os.close(lock)


def _sweep(prefix: str) -> None:
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            if _is_left(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_left(path: Path) -> bool:
    """Return whether a folder is this user's, and its process is gone."""
    try:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True

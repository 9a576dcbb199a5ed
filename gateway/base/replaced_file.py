"""Small files that are written anew as a whole: a reader sees the old or the new one."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

_UNFINISHED = re.compile(r".+\.(\d{1,10})\.new", re.DOTALL)
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def replace(
    path: Path,
    data: bytes,
    *,
    is_durable: bool = False,
    keeps_owner: bool = False,
    mode: int = 0o666,
    note: Callable[[int], None] | None = None,
) -> None:
    """Write a small file so that it is there as a whole at every moment.

    Processes, and threads of one, may do it at the same time: the last one's content stays.

    Args:
        path: where it stands; its folder is there.
        data: all of its new content.
        is_durable: after a power cut too it is the new one, once this has returned. Without it, it
            may be the old one or damaged: for what is made again, or carries a checksum.
        keeps_owner: a file that is there keeps its mode and, where that is allowed, its owner.
        mode: permission bits of a new file, less the process's umask.
        note: called with the descriptor of the file when all is written and nobody sees it yet.

    Raises:
        OSError: it can't be written; it names the file. The old one stands, or the new one does
            and the disk may lose that: who must know which looks.

    """
    # The kernel numbers threads and processes together, so that no other writes this file now.
    fresh = path.with_name(f"{path.name}.{threading.get_native_id()}.new")
    try:
        descriptor = os.open(fresh, _FRESH, mode)
        with os.fdopen(descriptor, "wb") as file:
            if keeps_owner and path.exists():
                _make_alike(descriptor, path.stat())
            file.write(data)
            file.flush()
            if note is not None:
                note(descriptor)
            if is_durable:
                os.fsync(descriptor)
        fresh.rename(path)
        if is_durable:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _make_alike(descriptor: int, old: os.stat_result) -> None:
    os.fchmod(descriptor, old.st_mode & 0o7777)
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)


def remove_unfinished(folder: Path) -> None:
    """Remove what threads and processes that are gone have left: each would leave one more."""
    with contextlib.suppress(OSError):
        for path in list(folder.iterdir()):
            found = _UNFINISHED.fullmatch(path.name)
            if found is not None and not Path("/proc", found[1]).exists():
                path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk.

    Raises:
        OSError: the disk does not take them.

    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

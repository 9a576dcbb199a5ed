"""Tables that change in one step: a reader sees all of one version or all of the next.

A folder of tables looks like this::

    tables/
      v00000007/telemetry/*.parquet
      v00000007/fleet/*.parquet
      current -> v00000007

A writer fills a new folder, forces it to the disk and then renames a fresh symbolic link over
``current``: that rename is the switch, for all tables at once. A reader opens
``tables/current/telemetry``; one that opens many files over time resolves ``current`` once
(`current`). The version before stays until the next switch, for readers that still have it open.
What a killed writer left is removed by the next.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LINK_NAME = "current"

_FRESH_LINK_NAME = ".current.new"
_VERSION_NAME = re.compile(r"v(\d{8,18})")


class VersionError(OSError):
    """The tables can't be written; the message names the folder and the reason."""


def current(tables: Path) -> Path | None:
    """The folder of the version that readers should see; None before the first."""
    link = tables / LINK_NAME
    return link.resolve() if link.exists() else None


@contextmanager
def next_version(tables: Path) -> Iterator[Path]:
    """A new folder to write tables into; becomes ``current`` if the block ends without an error.

    Args:
        tables: made if missing; locked for other writers until the block ends.

    Raises:
        VersionError: not a folder, not writable, or another writer is at work.

    """
    lock = _lock(tables)
    try:
        folder = _make_folder(tables)
        try:
            yield folder
            before = current(tables)
            _sync(folder)
            _switch(tables, folder)
            os.fsync(lock)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _remove_others(tables, {folder.name, before.name if before else ""})
    finally:
        os.close(lock)


def _lock(tables: Path) -> int:
    try:
        tables.mkdir(parents=True, exist_ok=True)
        lock = os.open(tables, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise VersionError(f"{tables}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise VersionError(f"{tables}: in use by another writer") from error
    return lock


def _make_folder(tables: Path) -> Path:
    folder = tables / f"v{max(_numbers(tables), default=0) + 1:08d}"
    try:
        folder.mkdir()
    except OSError as error:
        raise VersionError(f"{folder}: {error.strerror}") from error
    return folder


def _numbers(tables: Path) -> list[int]:
    found = (_VERSION_NAME.fullmatch(path.name) for path in tables.iterdir())
    return [int(match[1]) for match in found if match]


def _sync(folder: Path) -> None:
    """Force all files and folders below to the disk: the switch must not outlive its data."""
    for path in (folder, *folder.rglob("*")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _switch(tables: Path, folder: Path) -> None:
    fresh = tables / _FRESH_LINK_NAME
    with suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(folder.name)
    fresh.replace(tables / LINK_NAME)


def _remove_others(tables: Path, kept: set[str]) -> None:
    for path in tables.iterdir():
        if _VERSION_NAME.fullmatch(path.name) and path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)

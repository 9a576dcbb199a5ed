"""The watch's state beside the tables: in a file, or where there are none in a table.

Either is replaced as a whole: after a kill there is the new state or the one before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

FOLDER: Final = "_fleet"
"""Below the tables' folder."""
FILE: Final = "state"


class StateStore(Protocol):
    """Keeps the state of one fleet's watch.

    Attributes:
        where: for messages.

    """

    where: str

    def read(self) -> bytes | None:
        """Return what was kept last; None if nothing was.

        Raises:
            OSError, DeltaError: it can't be read.

        """

    def replace(self, data: bytes) -> None:
        """Keep this from now on.

        Raises:
            OSError, DeltaError: it can't be written.

        """

    def keep_up(self, hours: int) -> None:
        """Delete what is older and nobody reads."""


def store_of(uri: str, options: Mapping[str, str] | None = None) -> StateStore:
    """Return what keeps the state beside these tables.

    Args:
        uri: the tables' folder: a path, ``file://...``, or that of an object store.
        options: as `deltalake` takes them.

    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return StateFile(Path(unquote(parts.path)) / FOLDER / FILE)
    if "://" not in uri:
        return StateFile(Path(uri) / FOLDER / FILE)
    return StateTable(f"{uri.rstrip('/')}/{FOLDER}", options)


class StateFile:
    """A file.

    Args:
        path: it; its folder is made when it is needed.

    """

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path

    def read(self) -> bytes | None:
        """Return the file's content; None if there is no file."""
        return self._path.read_bytes() if self._path.exists() else None

    def replace(self, data: bytes) -> None:
        """Replace the file in one step, and sync it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def keep_up(self, hours: int) -> None:
        """Delete nothing: there is nothing older."""


class StateTable:
    """A Delta table of one row: whatever object store has the tables can do that, too.

    Args:
        uri: of the table.
        options: as `deltalake` takes them.

    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        self.where = uri
        self._options = dict(options or {})

    def read(self) -> bytes | None:
        """Return the state in the table's row; None if there is no table."""
        try:
            table = DeltaTable(self.where, storage_options=self._options)
        except TableNotFoundError:
            return None
        rows = table.to_pyarrow_table().column("state").to_pylist()
        return rows[0] if rows else None

    def replace(self, data: bytes) -> None:
        """Overwrite the table with one row."""
        row = pa.table({"state": pa.array([data], pa.binary())})
        write_deltalake(self.where, row, mode="overwrite", storage_options=self._options)

    def keep_up(self, hours: int) -> None:
        """Write a checkpoint of the table, and delete what is older and nobody reads."""
        table = DeltaTable(self.where, storage_options=self._options)
        table.create_checkpoint()
        table.cleanup_metadata()
        table.vacuum(hours, dry_run=False, enforce_retention_duration=False)

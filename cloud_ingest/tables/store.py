"""Stores of tables: a folder, or a URI of an object store. One set of options serves all."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

_URI = re.compile(r"[a-z][a-z0-9+.-]+://")


@dataclass(frozen=True)
class TableStore:
    """A folder of tables.

    Attributes:
        uri: a path, or a URI such as ``s3://bucket/tables``.
        options: of the object store, as ``deltalake`` names them; secrets come better from the
            environment.

    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path | None:
        """The folder, where it is one on this machine."""
        return None if _URI.match(self.uri) else Path(self.uri)

    def at(self, name: str) -> TableStore:
        """Return a folder within."""
        return TableStore(f"{self.uri.rstrip('/')}/{name}", self.options)

    def filesystem(self) -> pyarrow.fs.FileSystem:
        """Reads and writes below `uri`.

        Raises:
            OSError: the store can't be reached, or its options are wrong.

        """
        folder = self.folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            return pyarrow.fs.SubTreeFileSystem(str(folder.resolve()), _LOCAL)
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))

    def table(self) -> DeltaTable:
        """Open the Delta table that stands here.

        Raises:
            TableNotFoundError: there is none.
            DeltaError, OSError: it can't be read.

        """
        return DeltaTable(self.uri, storage_options=dict(self.options) or None)

    def read(self, name: str) -> bytes | None:
        """Return a small file; None if there is none."""
        with contextlib.suppress(FileNotFoundError):
            with self.filesystem().open_input_stream(name) as file:
                data: bytes = file.read()
            return data
        return None

    def write(self, name: str, data: bytes) -> None:
        """Replace a small file in one step.

        Raises:
            OSError: it can't be written, and the old one stands.

        """
        folder = self.folder
        if folder is None:
            # Behind a buffer, since the stores' own files take bytes and no buffers of Arrow.
            stream = self.filesystem().open_output_stream(name)
            with pa.BufferedOutputStream(stream, len(data) + 1) as file:
                file.write(data)
            return
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{threading.get_native_id()}.new")
        try:
            fresh.write_bytes(data)
            sync_file(fresh)
            fresh.replace(path)
            sync_file(path.parent)
        finally:
            fresh.unlink(missing_ok=True)


_LOCAL = pyarrow.fs.LocalFileSystem()


def sync_file(path: Path) -> None:
    """Force a file or folder of this machine to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

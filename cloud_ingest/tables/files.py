"""Writes rows into Parquet files of a table's folder, which a commit makes a part of it."""

from __future__ import annotations

import contextlib
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cloud_ingest.tables.delta import WrittenFile, named_errors
from cloud_ingest.tables.layout import folder_of
from cloud_ingest.tables.store import TableStore, sync_file

MAX_OPEN = 32
"""Files that one task writes at a time; with one more, that which waited longest is closed."""

_Key = tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class _OpenFile:
    path: str
    stream: Any
    writer: Any
    rows: int = 0


class TableFiles:
    """The files that one task writes into one table.

    Args:
        store: the table's folder.
        schema: of the files.

    """

    def __init__(self, store: TableStore, schema: pa.Schema) -> None:
        self._store = store
        self._schema = schema
        self._filesystem = store.filesystem()
        self._open: OrderedDict[_Key, _OpenFile] = OrderedDict()
        self._written: list[WrittenFile] = []

    def write(self, table: pa.Table, partition: Mapping[str, str | None] = {}) -> None:
        """Append rows to the file of a partition, as a group of rows of their own.

        Raises:
            TableError: disk full or failing.

        """
        with named_errors(self._store):
            self._append(table, partition)

    def finish(self) -> list[WrittenFile]:
        """Close all, forced to the disk where it is one of this machine.

        Raises:
            TableError: disk full or failing.

        """
        with named_errors(self._store):
            while self._open:
                self._close(*self._open.popitem())
        return self._written

    def abandon(self) -> None:
        """Delete what was written, as far as that can be done: it will be no part of the table."""
        paths = [each.path for each in self._open.values()]
        paths += [each.path for each in self._written]
        for file in self._open.values():
            for close in (file.writer.close, file.stream.close):
                with contextlib.suppress(Exception):  # it is what failed
                    close()
        self._open.clear()
        for path in paths:
            with contextlib.suppress(Exception):
                self._filesystem.delete_file(path)

    def _append(self, table: pa.Table, partition: Mapping[str, str | None]) -> None:
        key: _Key = tuple(partition.items())
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= MAX_OPEN:
                self._close(*self._open.popitem(last=False))
            file = self._open[key] = self._begin(partition)
        self._open.move_to_end(key)
        file.writer.write_table(table)
        file.rows += table.num_rows

    def _begin(self, partition: Mapping[str, str | None]) -> _OpenFile:
        name = f"part-{uuid.uuid4()}.parquet"
        folder = folder_of(partition)
        path = f"{folder}/{name}" if folder else name
        if folder and self._store.folder is not None:
            self._filesystem.create_dir(folder)
        stream = self._filesystem.open_output_stream(path)
        writer = pq.ParquetWriter(stream, self._schema, compression="zstd", compression_level=1)
        return _OpenFile(path, stream, writer)

    def _close(self, key: _Key, file: _OpenFile) -> None:
        file.writer.close()
        size = file.stream.tell()
        file.stream.close()
        folder = self._store.folder
        if folder is not None:
            path = folder / file.path
            sync_file(path)
            sync_file(path.parent)
        self._written.append(WrittenFile(file.path, size, file.rows, dict(key)))

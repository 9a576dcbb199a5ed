"""Files of a table are replaced by others: without some rows, or in the place where they belong.

Delta's library can delete rows itself, but its files then hold types that Arrow's filters do not
know (``string_view``), and its commits quote what was asked for. Each step here is a commit that
takes some files out and puts others in, so a reader sees all of it or nothing. What is taken out
stays on the disk until upkeep deletes it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from cloud_ingest.tables.delta import WrittenFile, named_errors
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.layout import TableFile, files_of, folder_of
from cloud_ingest.tables.lone_rewriter import lone_rewriter
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.synced import synced

FILES_AT_ONCE: Final = 64
"""Of one commit: what a kill in between throws away."""
TRIES: Final = 5
"""To commit beside others who join or delete the same files."""
ROWS_AT_ONCE: Final = 1_000
GROUP_BYTES: Final = 32 << 20
GROUP_ROWS: Final = 100_000
"""Of a file that is rewritten, read at once, and in memory until they are written."""

_GoesOut = Callable[[pa.Table], pa.ChunkedArray]
"""Of rows, which ones leave the table: a column of booleans, none null."""
_Moved = Callable[[Mapping[str, str | None]], Mapping[str, str | None]]
_Step = tuple[list[TableFile], list[WrittenFile], int]
"""Files that go, files that come instead, and how many rows the table has less."""


def delete_rows(store: TableStore, columns: Sequence[str], goes_out: _GoesOut) -> int:
    """Delete rows; return how many.

    Args:
        store: the table's folder.
        columns: what tells rows that go.
        goes_out: which ones, by these columns.

    Raises:
        TableError: the table can't be read or written; what was committed stays.

    """

    def step(table: DeltaTable, done: set[str]) -> _Step | None:
        old: list[TableFile] = []
        new: list[WrittenFile] = []
        gone = 0
        filesystem = store.filesystem()
        for file in files_of(table):
            if file.path in done or len(old) >= FILES_AT_ONCE:
                continue
            count = _count(filesystem, file.path, columns, goes_out)
            if not count:
                done.add(file.path)
                continue
            old.append(file)
            gone += count
            new += _copy_without(store, file, goes_out, columns)
            done.update(each.path for each in new)
        return (old, new, gone) if old else None

    return _in_steps(store, step)


def delete_keys(store: TableStore, keys: pa.Table) -> int:
    """Delete the rows whose columns have the values of a row of ``keys``, none null.

    Raises:
        TableError: the table can't be read or written; what was committed stays.

    """
    names = keys.column_names
    keys = keys.group_by(names).aggregate([])

    def goes_out(rows: pa.Table) -> pa.ChunkedArray:
        numbered = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
        found = numbered.join(keys, names, join_type="left semi")["row"]
        return pc.is_in(numbered["row"], value_set=found.combine_chunks())

    return delete_rows(store, names, goes_out)


def carry_over(
    store: TableStore, moved: _Moved = lambda partition: partition, *, looks_inside: bool = False
) -> int:
    """Bring files that stand elsewhere to their partition's folder; return how many.

    Args:
        store: the table's folder.
        moved: the partition that a file of a partition belongs to.
        looks_inside: whether files are rewritten that hold types which Arrow's filters do not
            know, as earlier versions left them behind where they deleted rows.

    Raises:
        TableError: the table can't be read or written; what was committed stays.

    """

    def step(table: DeltaTable, done: set[str]) -> _Step | None:
        old: list[TableFile] = []
        new: list[WrittenFile] = []
        filesystem = store.filesystem()
        for file in files_of(table):
            if file.path in done or len(old) >= FILES_AT_ONCE:
                continue
            partition = moved(file.partition)
            if looks_inside and any(map(_has_views, _schema(filesystem, file.path).types)):
                placed = TableFile(file.path, file.size, file.rows, partition)
                made = _copy_without(store, placed)
            elif file.is_in_place and partition == file.partition:
                done.add(file.path)
                continue
            else:
                made = [_copied(store, file, partition)]
            old.append(file)
            new += made
            done.update(each.path for each in made)
        return (old, new, 0) if old else None

    return _in_steps(store, step, counts_files=True)


def _in_steps(
    store: TableStore,
    step: Callable[[DeltaTable, set[str]], _Step | None],
    *,
    counts_files: bool = False,
) -> int:
    count, left = 0, TRIES
    done: set[str] = set()
    with named_errors(store), lone_rewriter(store):
        table = store.table()
        while (found := step(table, done)) is not None:
            old, new, gone = found
            try:
                _replace(store, table, old, new, changes_rows=bool(gone))
            except CommitFailedError:  # somebody joined these files, or deleted from them
                left -= 1
                if not left:
                    raise
            else:
                count += len(old) if counts_files else gone
            table.update_incremental()
    return count


def _replace(
    store: TableStore,
    table: DeltaTable,
    old: Sequence[TableFile],
    new: Sequence[WrittenFile],
    *,
    changes_rows: bool,
) -> None:
    now_ms = time.time_ns() // 1_000_000
    actions: list[Any] = [
        RemoveAction(file.path, changes_rows, now_ms, file.size, dict(file.partition))
        for file in old
    ]
    actions += [made.added(now_ms, changes_rows=changes_rows) for made in new]
    columns = table.metadata().partition_columns
    with synced(store, table):
        table.create_write_transaction(actions, "append", table.schema(), columns)
        table.update_incremental()


def _copied(store: TableStore, file: TableFile, partition: Mapping[str, str | None]) -> WrittenFile:
    folder = folder_of(partition)
    path = f"{folder}/part-{uuid.uuid4()}.parquet"
    filesystem = store.filesystem()
    if store.folder is not None:
        filesystem.create_dir(folder)
    filesystem.copy_file(file.path, path)
    rows = file.rows
    if rows is None:
        with filesystem.open_input_file(path) as opened:
            rows = pq.ParquetFile(opened).metadata.num_rows
    return WrittenFile(path, file.size, rows, partition)


def _copy_without(
    store: TableStore,
    file: TableFile,
    goes_out: _GoesOut | None = None,
    columns: Sequence[str] = (),
) -> list[WrittenFile]:
    """Write a file's rows anew but for those that go; none is written if none is left."""
    filesystem = store.filesystem()
    files: TableFiles | None = None
    with filesystem.open_input_file(file.path) as opened:
        read = pq.ParquetFile(opened)
        schema = _plain(read.schema_arrow)
        for rows in _groups(read, schema):
            kept = rows
            if goes_out is not None:
                kept = rows.filter(pc.invert(goes_out(rows.select(columns))))
            if kept.num_rows:
                files = files or TableFiles(store, schema)
                files.write(kept, file.partition)
    return [] if files is None else files.finish()


def _groups(read: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in read.iter_batches(ROWS_AT_ONCE, columns=schema.names):
        held.append(batch)
        if sum(one.num_rows for one in held) >= GROUP_ROWS or (
            sum(one.nbytes for one in held) >= GROUP_BYTES
        ):
            yield pa.Table.from_batches(held).select(schema.names).cast(schema)
            held = []
    if held:
        yield pa.Table.from_batches(held).select(schema.names).cast(schema)


def _count(filesystem: Any, path: str, columns: Sequence[str], goes_out: _GoesOut) -> int:
    with filesystem.open_input_file(path) as opened:
        read = pq.ParquetFile(opened)
        schema = _plain(read.schema_arrow)
        if not set(columns) <= set(schema.names):
            return 0
        schema = pa.schema([schema.field(name) for name in columns])
        return sum(int(pc.sum(goes_out(rows)).as_py() or 0) for rows in _groups(read, schema))


def _schema(filesystem: Any, path: str) -> pa.Schema:
    with filesystem.open_input_file(path) as opened:
        return pq.ParquetFile(opened).schema_arrow


def _has_views(kind: Any) -> bool:
    if kind in (pa.string_view(), pa.binary_view()):
        return True
    return any(_has_views(kind.field(i).type) for i in range(kind.num_fields))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without ``string_view`` and ``binary_view``, and without a reader's
    metadata."""
    return pa.schema([pa.field(each.name, _plain_type(each.type)) for each in schema])


def _plain_type(kind: Any) -> Any:
    if kind in (pa.string_view(), pa.large_string()):
        return pa.string()
    if kind in (pa.binary_view(), pa.large_binary()):
        return pa.binary()
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, _plain_type(each.type)) for each in fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind

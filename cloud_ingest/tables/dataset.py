"""The rows of a Delta table as a data set: filters find all of them, and the process can end."""

from __future__ import annotations

import re
from functools import reduce
from operator import and_
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
from deltalake import DeltaTable

_LOCAL: Final = pyarrow.fs.LocalFileSystem()
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://")


def dataset(table: DeltaTable) -> ds.Dataset:
    """Return a table's rows, in the version that is open.

    Files of this machine are read by Arrow itself. The library's own file system is an object of
    Python, whose files Arrow's threads let go of after the last row: a program that ends then is
    aborted (delta-rs issue 2184, Arrow issue 34314: 37 of 60 runs of the shortest program).

    Of a file only its partition is promised to Arrow. What a commit says of least and greatest
    values the library hands on as ``sensor >= null`` for each column that it says nothing of, and
    of a column that it does speak of, as if no row were null: filters then pass over files that
    have what they look for.

    Raises:
        DeltaError: the version can't be read.
        OSError: a file can't.

    """
    where = table.table_uri
    scheme = _SCHEME.match(where)
    folder = where if scheme is None else unquote(where[scheme.end() :])
    is_local = scheme is None or scheme[1] == "file"
    filesystem = pyarrow.fs.SubTreeFileSystem(folder, _LOCAL) if is_local else None
    made = table.to_pyarrow_dataset(filesystem=filesystem)
    columns = table.metadata().partition_columns
    fragments = [
        made.format.make_fragment(
            fragment.path, fragment.filesystem, _partition(fragment, columns, made.schema)
        )
        for fragment in made.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, made.schema, made.format, made.filesystem)


def _partition(fragment: ds.Fragment, columns: list[str], schema: pa.Schema) -> ds.Expression:
    known = ds.get_partition_keys(fragment.partition_expression)
    promised = [
        ds.field(name).is_null()
        if known[name] is None
        else ds.field(name) == pa.scalar(known[name], schema.field(name).type)
        for name in columns
        if name in known
    ]
    return reduce(and_, promised, ds.scalar(True))

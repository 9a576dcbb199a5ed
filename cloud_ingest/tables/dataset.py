"""The rows of a Delta table as a data set that lets the process end."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import pyarrow.dataset as ds
import pyarrow.fs
from deltalake import DeltaTable

_LOCAL: Final = pyarrow.fs.LocalFileSystem()
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://")


def dataset(table: DeltaTable) -> ds.Dataset:
    """A table's rows, in the version that is open.

    Files of this machine are read by Arrow itself. The library's own file system is an object of
    Python, whose files Arrow's threads let go of after the last row: a program that ends then is
    aborted (delta-rs issue 2184, Arrow issue 34314: 37 of 60 runs of the shortest program).

    Raises:
        DeltaError: the version can't be read.
        OSError: a file can't.

    """
    where = table.table_uri
    scheme = _SCHEME.match(where)
    if scheme is None:
        return _local(table, where)
    if scheme[1] == "file":
        return _local(table, unquote(where[scheme.end() :]))
    return table.to_pyarrow_dataset()


def _local(table: DeltaTable, folder: str) -> ds.Dataset:
    return table.to_pyarrow_dataset(filesystem=pyarrow.fs.SubTreeFileSystem(folder, _LOCAL))

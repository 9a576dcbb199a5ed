"""The Delta tables below one folder or URI, opened for reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import duckdb
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cloud_ingest.given_folder import folder_fault
from cloud_ingest.tables import registry
from cloud_ingest.tables.dataset import dataset

TABLES: Final = registry.NAMES
"""The tables that can be asked."""

_Result = TypeVar("_Result")


class LakeError(Exception):
    """Tables that can't be read; the message names where they are.

    Args:
        place: folder or URI.
        why: what is wrong.

    """

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place
        self.why = why


class Lake:
    """The tables.

    Args:
        tables: a folder, or a URI of an object store (``s3://...``), as the job was given it.
        storage_options: of the object store, as `deltalake` names them; what is not here it takes
            from the environment.

    """

    def __init__(
        self, tables: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
    ) -> None:
        self.place = os.fspath(tables).rstrip("/")
        self.storage_options = dict(storage_options or {})

    def check(self) -> None:
        """Look whether there is a folder; one of an object store is there once it has a table.

        Raises:
            LakeError: there is none.

        """
        if "://" not in self.place and (fault := folder_fault(self.place)):
            raise LakeError(
                self.place, f"{fault}: --tables is the one that `hedgerow ingest` writes"
            )

    def uri(self, name: str) -> str:
        """Return where a table is."""
        return f"{self.place}/{name}"

    def open(self, name: str) -> DeltaTable | None:
        """Return a table as it stands now; None if nothing was written to it yet.

        Raises:
            LakeError: it is there and can't be read, or the store does not answer.

        """
        uri, options = self.uri(name), self.storage_options or None
        if "://" not in uri and not os.path.isdir(uri):  # noqa: PTH112  # may be relative
            return None
        return self.guarded(
            name,
            lambda: (
                DeltaTable(uri, storage_options=options)
                if DeltaTable.is_deltatable(uri, storage_options=options)
                else None
            ),
        )

    def dataset(self, name: str) -> ds.Dataset | None:
        """Return a table as a dataset of pyarrow's, in its present version; None as `open`.

        Raises:
            LakeError: see `open`.

        """
        table = self.open(name)
        return None if table is None else self.guarded(name, lambda: dataset(table))

    def guarded(self, name: str, read: Callable[[], _Result]) -> _Result:
        """Return what a function returns that reads a table.

        Args:
            name: of the table, for errors.
            read: the function.

        Raises:
            LakeError: it failed.

        """
        try:
            return read()
        except (DeltaError, duckdb.Error, OSError, ValueError) as error:
            lines = str(error).splitlines() or [type(error).__name__]
            raise LakeError(self.uri(name), lines[0]) from error


def required(lake: Lake, name: str) -> Any:
    """Return a table's dataset.

    Raises:
        LakeError: it is not there, or can't be read.

    """
    found = lake.dataset(name)
    if found is None:
        raise LakeError(lake.uri(name), "there is no such table yet")
    return found

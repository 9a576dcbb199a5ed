"""Folders of a partitioned table's files: one for each partition, as Hive names them.

Delta's log says the partition of a file wherever the file stands (Delta protocol, "Partition
Values"), but some readers take it from the path: Polars does. Earlier versions put a file into its
day's folder alone, and what joins files puts them here. So the job writes here too, and
`cloud_ingest.tables.rewriting` brings what earlier versions wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null in a path."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that the log names.

    Attributes:
        path: in the table's folder.
        size: in bytes.
        rows: how many; None if the log does not say it.
        partition: values of the partition columns; empty where there are none.

    """

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, str | None]

    @property
    def is_in_place(self) -> bool:
        """Return whether it stands in its partition's folder."""
        return self.path.rpartition("/")[0] == folder_of(self.partition)


def folder_of(partition: Mapping[str, str | None]) -> str:
    """Return the folder of a partition's files, as ``day=2026-11-23/domain=%3F``; empty for
    none."""
    return "/".join(
        f"{name}={NO_VALUE if value is None else quote(value, safe='')}"
        for name, value in partition.items()
    )


def files_of(table: DeltaTable) -> list[TableFile]:
    """Return the files of a table, in the version that is open."""
    columns = table.metadata().partition_columns
    found = []
    for action in pa.table(table.get_add_actions(flatten=False)).to_pylist():
        values = action.get("partition") or {}
        partition = {
            name: None if (value := values[name]) is None else str(value) for name in columns
        }
        path = unquote(action["path"])  # the log has it encoded as in URLs
        found.append(TableFile(path, action["size_bytes"], action["num_records"], partition))
    return found

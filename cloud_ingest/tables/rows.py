"""The clients' messages of a set of tables, one by one: those that can be read and the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cloud_ingest.tables import registry
from cloud_ingest.tables.dataset import dataset
from cloud_ingest.tables.store import TableStore


def messages(tables: TableStore, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield each message that the job has committed, in telemetry or in quarantine.

    Args:
        tables: the folder of all tables.
        columns: of telemetry; those that the quarantine lacks are None there.

    """
    for name in registry.written_by("job"):
        store = tables.at(name)
        table = store.table()
        there = {field.name for field in table.schema().fields}
        wanted = ["origin", *(name for name in columns if name in there and name != "origin")]
        for batch in dataset(table).to_batches(columns=wanted):
            for row in batch.to_pylist():
                if row["origin"] is not None:  # else damaged bytes, which are no message
                    yield {column: row.get(column) for column in columns}

"""All tables, each declared once: a new one is a line here, and a module that writes its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from cloud_ingest.tables import fleet_schemas, schemas

TableWriter = Literal["job", "watch", "dashboard"]
"""The writer of a table, which tends its files: `tables.upkeep` tends those of the job alone."""


@dataclass(frozen=True, slots=True)
class TableDeclaration:
    """One table.

    Attributes:
        name: of its folder, below that of all tables.
        schema: its columns.
        written_by: who appends to it or replaces it.
        partitions: columns whose values stand in paths.
        gateway: the column that says whose rows they are; None: a row's text says so.

    """

    name: str
    schema: pa.Schema
    written_by: TableWriter
    partitions: tuple[str, ...] = ()
    gateway: str | None = "gateway"


DECLARED: Final = (
    TableDeclaration(
        "telemetry", schemas.TELEMETRY, "job", partitions=schemas.PARTITIONS, gateway="origin"
    ),
    TableDeclaration("quarantine", schemas.QUARANTINE, "job", gateway=None),
    TableDeclaration("gateways", fleet_schemas.GATEWAYS, "watch"),
    TableDeclaration("gaps", fleet_schemas.GAPS, "watch"),
    TableDeclaration("latency", fleet_schemas.LATENCY, "watch", partitions=("day",)),
    TableDeclaration("topology", fleet_schemas.TOPOLOGY, "watch", partitions=("day",)),
    TableDeclaration("alerts", fleet_schemas.ALERTS, "watch"),
    TableDeclaration("acknowledgements", fleet_schemas.ACKNOWLEDGEMENTS, "dashboard", gateway=None),
)
NAMES: Final = tuple(each.name for each in DECLARED)


def written_by(writer: TableWriter) -> Mapping[str, TableDeclaration]:
    """Return the tables that somebody writes, by name."""
    return {each.name: each for each in DECLARED if each.written_by == writer}

"""Columns of a table as JSON has them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def columns(table: pa.Table, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return some columns as lists, times as milliseconds since 1970 under ``NAME_ms``.

    Args:
        table: any.
        names: those that the table lacks are all null.

    """
    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in table.column_names:
            found[name] = [None] * table.num_rows
            continue
        column = table[name]
        if pa.types.is_timestamp(column.type):
            found[f"{name}_ms"] = times_ms(column)
        elif pa.types.is_floating(column.type):
            found[name] = [_short(value) for value in column.to_pylist()]
        else:
            found[name] = column.to_pylist()
    return found


def times_ms(column: Any) -> list[int | None]:
    """Return a column of timestamps as milliseconds since 1970."""
    micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return list(pc.divide(micros, 1000).to_pylist())


def _short(value: float | None) -> float | None:
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None

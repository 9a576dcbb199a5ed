"""Readings as a file to take away, CSV or Parquet, made piece by piece."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cloud_ingest.dashboard.rollups import BUCKET_S, Rollups, SensorSeries
from cloud_ingest.query.frames import readings

Form = Literal["csv", "parquet"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
CONTENT_TYPES: Final[Mapping[Form, str]] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
ROWS_MAX: Final = 2_000_000
_BUCKET_US: Final = BUCKET_S * 1_000_000
_COUNTED: Final = """
SELECT CAST(coalesce(sum(readings), 0) AS BIGINT) FROM readings
WHERE series IN (SELECT unnest(?)) AND bucket >= ? AND bucket <= ?
"""
_COLUMNS: Final = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        *((name, pa.string()) for name in ("gateway", "sensor", "unit")),
        *(("value", pa.float64()), ("value_text", pa.string()), ("value_bool", pa.bool_())),
        ("quality", pa.string()),
    ]
)
_TEXTS: Final = ("gateway", "sensor", "unit", "value_text", "quality")
_FORMULA: Final = "^[=+@\\t\\r-]"
"""The start of a text that a program for tables takes for a formula; a stranger may publish one."""


class TooManyReadingsError(ValueError):
    """More readings are wanted than a file may have."""


@dataclass(frozen=True, slots=True)
class WantedReadings:
    """A request for a file of readings: which sensors, from when to when.

    Attributes:
        series: of which sensors, one after the other in the file.
        start_us: microseconds since 1970.
        end_us: exclusive.

    """

    series: Sequence[SensorSeries]
    start_us: int
    end_us: int


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class _Pieces:
    """A file that keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._written = bytearray()
        self._before = 0

    def write(self, data: Any) -> int:
        self._written += memoryview(data)
        return len(data)

    def tell(self) -> int:
        return self._before + len(self._written)

    def flush(self) -> None:
        """Do nothing: nothing waits elsewhere."""

    def close(self) -> None:
        """Do nothing: what is left can still be taken."""

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._before += len(taken)
        self._written.clear()
        return taken


def pieces(
    rollups: Rollups, wanted: WantedReadings, form: Form, rows_max: int = ROWS_MAX
) -> Iterator[bytes]:
    """Yield the file, a piece for each sensor and day.

    Bad readings are in it, too, as ``quality`` says. In CSV a text that begins as a formula does
    has an apostrophe before it.

    Args:
        rollups: know which files of the table to read.
        wanted: what it holds.
        form: of the file.
        rows_max: see `ROWS_MAX`.

    Raises:
        LakeError: the table can't be read.
        TooManyReadingsError: there are more readings than ``rows_max``; before the first piece,
            unless more than those that the roll-ups know have come.

    """
    begin, end = wanted.start_us // _BUCKET_US, wanted.end_us // _BUCKET_US
    numbers = [each.number for each in wanted.series]
    known = rollups.rows(_COUNTED, numbers, begin, end)[0][0]
    if known > rows_max:
        raise TooManyReadingsError(
            f"{known} readings are more than {rows_max}: choose a shorter span or fewer sensors"
        )
    return _made(rollups, wanted, form, rows_max)


def _made(rollups: Rollups, wanted: WantedReadings, form: Form, rows_max: int) -> Iterator[bytes]:
    sink = _Pieces()
    writer: _Writer = (
        pq.ParquetWriter(sink, _COLUMNS, compression="zstd")
        if form == "parquet"
        else pyarrow.csv.CSVWriter(sink, _as_text(_COLUMNS.empty_table()).schema)
    )
    left = rows_max
    start, end = (_moment(each) for each in (wanted.start_us, wanted.end_us))
    for series in wanted.series:
        for day in rollups.days_of([series.number], wanted.start_us, wanted.end_us):
            files = rollups.dataset("telemetry", [day])
            if files is None:
                continue
            read = partial(readings, files, [series.sensor], [series.gateway], start, end)
            table = rollups.lake.guarded("telemetry", read)
            left -= table.num_rows
            if left < 0:
                raise TooManyReadingsError(f"more than {rows_max} readings")
            kept = table.select(_COLUMNS.names).cast(_COLUMNS)
            writer.write_table(kept if form == "parquet" else _as_text(kept))
            yield sink.take()
    writer.close()
    yield sink.take()


def _as_text(table: pa.Table) -> pa.Table:
    """Return rows with times as ISO 8601 has them, and no text that is a formula."""
    columns = {name: table[name] for name in table.column_names}
    columns["time"] = pc.strftime(table["time"], format="%Y-%m-%dT%H:%M:%SZ")
    for name in _TEXTS:
        is_formula = pc.match_substring_regex(table[name], _FORMULA)
        marked = pc.binary_join_element_wise("'", table[name], "")
        columns[name] = pc.if_else(is_formula, marked, table[name])
    return pa.table(columns)


def _moment(at_us: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=at_us)

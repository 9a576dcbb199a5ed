"""Rollups of readings and delays, a row for each quarter of an hour.

A year of a sensor is 35,000 such rows, which are looked up in milliseconds where the readings
themselves would take seconds. They are made in the background, each file of the tables read once,
and live in memory: a row of readings takes some 50 bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import duckdb
import pyarrow.dataset as ds

from cloud_ingest.dashboard.day_files import DayChange, DayFiles, by_day
from cloud_ingest.dashboard.day_rows import TABLES, DayRows
from cloud_ingest.query.lake import Lake

BUCKET_S: Final = 900
ROWS_MAX: Final = 12_000_000
"""Of readings; of the oldest days a row is then of six hours."""
SERIES_MAX: Final = 200_000
"""Sensors; further ones are not shown, since whoever publishes makes up their names."""
SERIES_MAX_A_GATEWAY: Final = 20_000
"""Likewise, of one gateway, so that none takes the room of others."""
LATENCY_DAYS: Final = 7
MEMORY: Final = "1GB"

_BUCKET_US: Final = BUCKET_S * 1_000_000
_BUCKETS: Final = f"""
CREATE MACRO bucket_of(moment) AS CAST(epoch_us(moment) // {_BUCKET_US} AS INTEGER);
CREATE MACRO begin_us(bucket) AS CAST(bucket AS BIGINT) * {_BUCKET_US};
"""
_TABLES: Final = """
CREATE SEQUENCE numbers;
CREATE TABLE series (
    id INTEGER DEFAULT nextval('numbers'), gateway VARCHAR, sensor VARCHAR,
    PRIMARY KEY (gateway, sensor)
);
CREATE TABLE spans (
    day DATE, series INTEGER, unit VARCHAR, first_us BIGINT, last_us BIGINT, readings BIGINT
);
CREATE TABLE readings (
    day DATE, series INTEGER, bucket INTEGER,
    low DOUBLE, high DOUBLE, total DOUBLE, readings INTEGER
);
CREATE TABLE far (
    day DATE, series INTEGER, bucket INTEGER,
    low DOUBLE, high DOUBLE, total DOUBLE, readings INTEGER
);
CREATE TABLE delays (
    day DATE, gateway VARCHAR, stage VARCHAR, bucket INTEGER,
    messages BIGINT, p50_ms DOUBLE, p95_ms DOUBLE, p99_ms DOUBLE, max_ms DOUBLE
);
"""
_MEASURED: Final = """
CREATE OR REPLACE TEMP TABLE measured AS
WITH each AS (
    SELECT origin AS gateway, coalesce(sensor, topic) AS sensor, unit, value,
           coalesce(device_time, origin_time) AS moment
    FROM batch WHERE measurements IS NULL AND value IS NOT NULL AND quality IS DISTINCT FROM 'bad'
    UNION ALL
    SELECT gateway, coalesce(one.sensor, topic), one.unit, one.value,
           coalesce(one.device_time, origin_time)
    FROM (SELECT origin AS gateway, topic, origin_time, unnest(measurements) AS one FROM batch
          WHERE measurements IS NOT NULL AND quality IS DISTINCT FROM 'bad')
    WHERE one.value IS NOT NULL
)
SELECT gateway, sensor, bucket_of(moment) AS bucket,
       any_value(unit) AS unit, min(value) AS low, max(value) AS high, sum(value) AS total,
       count(*) AS readings, min(epoch_us(moment)) AS first_us, max(epoch_us(moment)) AS last_us
FROM each WHERE isfinite(value) AND moment IS NOT NULL GROUP BY ALL
"""
_NAMED: Final = """
INSERT INTO series (gateway, sensor)
WITH new AS (
    SELECT DISTINCT gateway, sensor FROM measured ANTI JOIN series USING (gateway, sensor)
), had AS (SELECT gateway, count(*) AS count FROM series GROUP BY gateway)
SELECT gateway, sensor FROM new LEFT JOIN had USING (gateway)
QUALIFY row_number() OVER (PARTITION BY gateway ORDER BY sensor) + coalesce(had.count, 0) <= ?
ORDER BY gateway, sensor LIMIT greatest(0, ? - (SELECT count(*) FROM series))
"""
_DELAYED: Final = """
INSERT INTO delays
WITH last AS (
    SELECT gateway, stage, minute, coalesce({part}, 0) AS part, arg_max(
        {{'count': "count", 'p50': p50_ms, 'p95': p95_ms, 'p99': p99_ms, 'max': max_ms}}, "count"
    ) AS row FROM batch GROUP BY ALL
)
SELECT CAST(? AS DATE), gateway, stage, bucket_of(minute),
       sum(row."count"), sum(row.p50 * row."count") / sum(row."count"),
       max(row.p95), max(row.p99), max(row."max")
FROM last GROUP BY gateway, stage, 4
"""


@dataclass(frozen=True, slots=True)
class SensorSeries:
    """One sensor of one gateway.

    Attributes:
        number: of the series in the rollup.
        gateway: whose.
        sensor: its name there.
        unit: as its latest day says.
        first_us: its first reading, microseconds since 1970.
        last_us: its last.
        readings: how many.

    """

    number: int
    gateway: str
    sensor: str
    unit: str | None
    first_us: int
    last_us: int
    readings: int


class FollowsTelemetry(Protocol):
    """Takes up files of `telemetry`, day by day."""

    def take(self, batch: ds.Dataset | None, change: DayChange) -> None:
        """Take up files of a day; None where it has none any longer."""


class Rollups:
    """The rollups of `telemetry` and `latency`.

    One thread at a time may call `follow`; all else may be called from any.

    Args:
        lake: the tables.
        rows_max: see `ROWS_MAX`.
        beside: who takes up the same files of `telemetry`; may be given them again after a failure.

    """

    def __init__(
        self, lake: Lake, rows_max: int = ROWS_MAX, beside: Sequence[FollowsTelemetry] = ()
    ) -> None:
        self.lake = lake
        self._beside = beside
        self._day_rows = DayRows(rows_max)
        self._base = duckdb.connect(config={"memory_limit": MEMORY})
        self._base.execute("SET TimeZone = 'UTC'")
        self._base.execute(_BUCKETS + _TABLES + TABLES)
        self._lock = threading.Lock()
        self._files: Mapping[str, DayFiles] = {
            "telemetry": DayFiles(),
            "latency": DayFiles(is_whole=True, days_max=LATENCY_DAYS),
        }
        self._fragments: dict[str, Mapping[str, Sequence[ds.Fragment]]] = {}
        self._schemas: dict[str, Any] = {}

    def follow(self, name: str, dataset: ds.FileSystemDataset, changes_max: int = 8) -> bool:
        """Take up some of what is new of a table.

        Args:
            name: ``telemetry`` or ``latency``.
            dataset: the table as it is now.
            changes_max: so many days in this call.

        Returns:
            Whether there is more to take up.

        Raises:
            LakeError: a file can't be read.

        """
        files = {fragment.path: fragment for fragment in dataset.get_fragments()}
        days = by_day(files)
        self._fragments[name] = {
            day: [files[path] for path in paths] for day, paths in days.items()
        }
        self._schemas[name] = dataset.schema
        wanted = self._files[name].changes(files)
        for change in wanted[:changes_max]:
            self.lake.guarded(
                name, partial(self._take, name, self._of(name, files, change.files), change)
            )
            self._files[name].done(change)
        return len(wanted) > changes_max

    def _take(self, name: str, batch: ds.Dataset | None, change: DayChange) -> None:
        if name == "telemetry":
            for each in self._beside:
                each.take(batch, change)
        with self._base.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            if batch is not None:
                cursor.register("batch", batch)
            cursor.execute("BEGIN")
            if name == "latency":
                if change.is_anew:
                    cursor.execute("DELETE FROM delays WHERE day = ?", [change.day])
                if batch is not None:
                    # Tables that an earlier version wrote last have no parts.
                    part = "part" if "part" in batch.schema.names else "0"
                    cursor.execute(_DELAYED.format(part=part), [change.day])
            else:
                self._take_readings(cursor, batch, change)
            cursor.execute("COMMIT")

    def _take_readings(
        self, cursor: duckdb.DuckDBPyConnection, batch: ds.Dataset | None, change: DayChange
    ) -> None:
        if change.is_anew:
            self._day_rows.forget(cursor, change.day, is_gone=batch is None)
        if batch is None:
            return
        cursor.execute(_MEASURED)
        cursor.execute(
            _NAMED,
            [SERIES_MAX_A_GATEWAY, SERIES_MAX],
        )
        cursor.execute(
            "INSERT INTO spans SELECT CAST(? AS DATE), id, any_value(unit), min(first_us), "
            "max(last_us), sum(readings) FROM measured JOIN series USING (gateway, sensor) "
            "GROUP BY id",
            [change.day],
        )
        self._day_rows.add(cursor, change.day)

    def series(self) -> list[SensorSeries]:
        """Return all sensors that have been found, by gateway and name."""
        found = self.rows(
            "SELECT id, gateway, sensor, arg_max(unit, day), min(first_us), max(last_us), "
            "CAST(sum(readings) AS BIGINT) FROM series JOIN spans ON id = series "
            "GROUP BY ALL ORDER BY gateway, sensor"
        )
        return [SensorSeries(*row) for row in found]

    def days_of(self, numbers: Sequence[int], start_us: int, end_us: int) -> list[str]:
        """Return the days whose files have readings of any of some series in a span of time."""
        found = self.rows(
            "SELECT DISTINCT CAST(day AS VARCHAR) FROM spans "
            "WHERE series IN (SELECT unnest(?)) AND first_us < ? AND last_us >= ?",
            list(numbers),
            end_us,
            start_us,
        )
        return sorted({row[0] for row in found})

    def dataset(self, name: str, days: Sequence[str]) -> ds.Dataset | None:
        """Return the table's files of some days, None if there are none."""
        known = self._fragments.get(name, {})
        return self._chosen(name, [each for day in days for each in known.get(day, ())])

    def _of(
        self, name: str, files: Mapping[str, ds.Fragment], paths: Sequence[str]
    ) -> ds.Dataset | None:
        return self._chosen(name, [files[path] for path in paths])

    def _chosen(self, name: str, fragments: Sequence[ds.Fragment]) -> ds.Dataset | None:
        if not fragments:
            return None
        first = fragments[0]
        schema = self._schemas[name]
        return ds.FileSystemDataset(fragments, schema, first.format, first.filesystem)

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return what a query of the rollups gives."""
        with self._lock:
            cursor = self._base.cursor()
        with cursor:
            return cursor.execute(statement, list(values)).fetchall()

    def arrays(self, statement: str, *values: Any) -> Mapping[str, Any]:
        """Return the same as `rows`, as one numpy array a column."""
        with self._lock:
            cursor = self._base.cursor()
        with cursor:
            return cursor.execute(statement, list(values)).fetchnumpy()

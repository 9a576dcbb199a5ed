"""The rollups' rows are few whatever files come, and the newest days stay fine."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from synthetic_tables import TELEMETRY, rows

from cloud_ingest.dashboard import day_rows
from cloud_ingest.dashboard.rollups import BUCKET_S, Rollups
from cloud_ingest.query.lake import Lake

NEWEST = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
SENSORS = 10


class Tables:
    """Files of telemetry, and rollups that follow them."""

    def __init__(self, folder: Path, rows_max: int = 1_000_000) -> None:
        self.folder, self.count = folder, 0
        self.rollups = Rollups(Lake(folder), rows_max)

    def put(self, day: int, minute: int, value: float = 1.0, readings: int = 1) -> Path:
        """Write a file with readings of each sensor, of one minute of a day, and take it up."""
        at = NEWEST + datetime.timedelta(days=day, minutes=minute)
        folder = self.folder / "telemetry" / f"day={at.date()}"
        folder.mkdir(parents=True, exist_ok=True)
        row = {"origin": "gw", "topic": "t", "unit": "V", "value": value, "day": at.date()}
        told = [
            row | {"sensor": f"s{number}", "origin_time": at + datetime.timedelta(seconds=part)}
            for number in range(SENSORS)
            for part in range(readings)
        ]
        self.count += 1
        path = folder / f"{self.count:05}.parquet"
        pq.write_table(rows(TELEMETRY, told).drop_columns(["day"]), path)
        self.follow()
        return path

    def follow(self) -> None:
        dataset = ds.dataset(sorted((self.folder / "telemetry").rglob("*.parquet")), TELEMETRY)
        while self.rollups.follow("telemetry", dataset):
            pass

    def rows_of(self, day: int) -> int:
        date = (NEWEST + datetime.timedelta(days=day)).date()
        return self.rollups.rows("SELECT count(*) FROM readings WHERE day = ?", date)[0][0]

    @property
    def totals(self) -> tuple[int, float, float, float]:
        told = "sum(readings), min(low), max(high), sum(total)"
        (found,) = self.rollups.rows(f"SELECT {told} FROM readings")
        return found


@pytest.fixture(autouse=True)
def few_rows_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_rows, "LEAST_ROWS", 3 * SENSORS)


def test_a_file_each_few_seconds_leaves_a_row_for_each_quarter_of_an_hour(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    for minute in range(30):
        tables.put(0, minute, value=float(minute))
    needed = SENSORS * 30 * 60 // BUCKET_S
    assert tables.rows_of(0) <= 2 * needed + 3 * SENSORS
    assert tables.totals == (30 * SENSORS, 0.0, 29.0, SENSORS * sum(range(30)))
    spans = tables.rollups.rows("SELECT count(*), sum(readings) FROM spans")[0]
    assert spans[0] <= 2 * needed + 3 * SENSORS
    assert spans[1] == 30 * SENSORS
    assert [one.readings for one in tables.rollups.series()] == [30] * SENSORS


def test_where_there_are_too_many_the_oldest_days_become_coarse_and_the_newest_stay_fine(
    tmp_path: Path,
) -> None:
    tables = Tables(tmp_path, rows_max=8 * SENSORS)
    for day in range(3):
        for quarter in range(5):
            tables.put(day, 15 * quarter)
    assert [tables.rows_of(day) for day in range(3)] == [SENSORS, SENSORS, 5 * SENSORS]
    assert tables.totals[0] == 3 * 5 * SENSORS
    tables.put(0, 200)  # late, of a day that is coarse
    assert tables.rows_of(2) == 5 * SENSORS
    assert tables.rows_of(0) <= 2 * SENSORS


def test_a_day_that_is_compacted_or_deleted_is_counted_anew(tmp_path: Path) -> None:
    tables = Tables(tmp_path, rows_max=6 * SENSORS)
    old = [tables.put(day, 15 * quarter) for day in range(2) for quarter in range(4)]
    before = tables.totals
    for path in old[:4]:
        path.unlink()
    for quarter in range(4):
        tables.put(0, 15 * quarter)
    assert tables.totals == before
    assert tables.rows_of(1) == 4 * SENSORS, "the newest day stays fine"
    for path in (tmp_path / "telemetry" / "day=2026-11-20").iterdir():
        path.unlink()
    tables.follow()
    assert tables.rows_of(0) == 0
    assert tables.rollups.rows("SELECT CAST(day AS VARCHAR) FROM days") == [("2026-11-21",)]


def test_rows_of_a_day_are_merged_as_soon_as_as_many_have_come_as_there_were(
    tmp_path: Path,
) -> None:
    tables = Tables(tmp_path)
    found = []
    for minute in (0, 15, 30, 0, 15, 30, 30):
        tables.put(0, minute)
        found.append(tables.rows_of(0) // SENSORS)
    # As few as are not worth it first, and then twice as many as are needed.
    assert found == [1, 2, 3, 4, 5, 3, 4]
    assert tables.totals[0] == 7 * SENSORS


def test_a_day_with_few_rows_is_merged_once_it_is_worth_it(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    found = []
    for _ in range(6):
        tables.put(0, 0)
        found.append(tables.rows_of(0) // SENSORS)
    assert found == [1, 2, 1, 2, 1, 2]


def test_days_fill_the_room_to_its_last_row_before_one_becomes_coarse(tmp_path: Path) -> None:
    for rows_max, left in ((4 * SENSORS, 2), (4 * SENSORS - 1, 1)):
        tables = Tables(tmp_path / str(rows_max), rows_max)
        for day in (-1, 0):
            for minute in (0, 15):
                tables.put(day, minute)
        assert (tables.rows_of(-1) // SENSORS, tables.rows_of(0) // SENSORS) == (left, 2)

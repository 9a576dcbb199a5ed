"""Tables are read so that filters find all rows, and a program that has read them can end."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from cloud_ingest.ledger.number_ledger import LedgerChange
from cloud_ingest.query import Lake, frame
from cloud_ingest.tables.dataset import dataset
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import FILE_COLUMNS, PARTITIONS, TELEMETRY
from cloud_ingest.tables.store import TableStore

PROGRAM = """
import sys
from cloud_ingest.query import Lake
assert Lake(sys.argv[1]).dataset("telemetry").to_table().num_rows == 3000
"""


def table_in(folder: Path) -> DeltaTable:
    for day in ("2026-11-22", "2026-11-23", "a day"):
        rows = pa.table({"day": [day] * 1000, "value": [float(i) for i in range(1000)]})
        write_deltalake(str(folder / "telemetry"), rows, mode="append", partition_by=["day"])
    return DeltaTable(str(folder / "telemetry"))


@pytest.mark.parametrize("name", ["tables", "my tables", "Tabellen für alle"])
def test_files_of_this_machine_are_read_by_arrow_itself_whatever_their_folder_is_called(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    found = dataset(table_in(folder))
    assert isinstance(found.filesystem, pyarrow.fs.SubTreeFileSystem)
    assert isinstance(found.filesystem.base_fs, pyarrow.fs.LocalFileSystem)
    days = found.to_table().column("day").value_counts().to_pylist()
    assert sorted((each["values"], each["counts"]) for each in days) == [
        ("2026-11-22", 1000),
        ("2026-11-23", 1000),
        ("a day", 1000),
    ]


FILTERS = {
    "sensor = 'a'": (pc.field("sensor") == "a", 2),
    "sensor IN ('a', 'b')": (pc.field("sensor").isin(["a", "b"]), 3),
    "unit IS NULL": (pc.field("unit").is_null(), 3),
    "origin_time IS NULL": (pc.field("origin_time").is_null(), 1),
    "day = '2026-11-23'": (pc.field("day") == datetime.date(2026, 11, 23), 3),
    "day = '2026-11-22'": (pc.field("day") == datetime.date(2026, 11, 22), 0),
    "domain IS NULL": (pc.field("domain").is_null(), 3),
}


@pytest.mark.parametrize("statistics", ["as the job writes them", "as it wrote them once"])
def test_a_filter_finds_all_rows_that_the_job_has_written(statistics: str, tmp_path: Path) -> None:
    table = IngestTable(TableStore(str(tmp_path)).at("telemetry"), TELEMETRY, PARTITIONS)
    files = TableFiles(table.store, FILE_COLUMNS)
    at = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
    rows = [("a", at), ("a", None), ("b", at)]
    made = [{"origin": "gw", "sensor": sensor, "origin_time": time} for sensor, time in rows]
    partition = {"day": "2026-11-23", "domain": None}
    files.write(pa.Table.from_pylist(made, FILE_COLUMNS), cast(Any, partition))
    written = files.finish()
    if statistics == "as the job writes them":
        table.commit(written, LedgerChange(), "job", 0)
    else:
        known = {"origin_time": "2026-11-23T12:00:00.000Z"}
        text = json.dumps({"numRecords": 3, "minValues": known, "maxValues": known})
        actions = [AddAction(file.path, file.size, partition, 0, True, text) for file in written]
        opened = DeltaTable(table.store.uri)
        opened.create_write_transaction(actions, "append", TELEMETRY, list(PARTITIONS))
    found = dataset(DeltaTable(table.store.uri))
    with duckdb.connect() as connection:
        connection.register("telemetry", found)
        for said, (wanted, count) in FILTERS.items():
            assert found.to_table(filter=wanted).num_rows == count, said
            select = f"SELECT count(*) FROM telemetry WHERE {said}"
            assert connection.execute(select).fetchone() == (count,), said
    assert frame(tmp_path, "a", gateway="gw").num_rows == 2


def test_a_relative_folder_is_one_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_in(tmp_path / "tables")
    monkeypatch.chdir(tmp_path)
    found = Lake("tables").dataset("telemetry")
    assert found is not None
    assert found.count_rows() == 3000


def test_a_program_that_ends_when_it_has_read_a_table_ends_well(tmp_path: Path) -> None:
    table_in(tmp_path)
    for _ in range(6):  # six in ten such programs were aborted
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

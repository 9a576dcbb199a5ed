"""Files that no commit names are deleted when no writer can want them any more, and no others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from readers import rows_of, write_tables

from cloud_ingest.job.command import main
from cloud_ingest.ledger.number_ledger import LedgerChange
from cloud_ingest.tables.delta import IngestTable, TableError
from cloud_ingest.tables.files import MAX_OPEN, TableFiles
from cloud_ingest.tables.leftovers import delete_leftovers
from cloud_ingest.tables.schemas import FILE_COLUMNS, PARTITIONS, TELEMETRY
from cloud_ingest.tables.store import TableStore

DAY_S = 86_400
LEFT = (
    "telemetry/day=2026-11-01/domain=%3F/part-orphan.parquet",
    "telemetry/day=2026-11-01/part-orphan.parquet",
    "telemetry/day=2026-11-01/domain=%3F/part-1-c000.parquet#2",
    "telemetry/_delta_log/_commit_0f.json.tmp",
    "quarantine/part-orphan.parquet",
    "gaps/part-orphan.parquet",
    "_ledger/snapshot.4711.new",
)
"""Files that a killed task, compaction or writer leaves."""


def aged(folder: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def leave(folder: Path) -> list[Path]:
    made = [folder / name for name in LEFT]
    for path in made:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    return made


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    made = write_tables(tmp_path, as_before=True)
    DeltaTable.create(str(tmp_path / "gaps"), TELEMETRY)
    return made


def test_what_was_left_ten_days_ago_goes_at_a_compaction_and_no_row_with_it(
    store: TableStore, tmp_path: Path
) -> None:
    rows = rows_of(store)
    left = leave(tmp_path)
    aged(tmp_path, 10)
    assert main(["--tables", str(tmp_path), "--compact"]) == 0
    assert [path for path in left if path.exists()] == []
    assert rows_of(store) == rows


@pytest.mark.parametrize("hours", ["0", "168"])
def test_what_is_young_stays_however_soon_files_of_the_past_are_to_go(
    store: TableStore, tmp_path: Path, hours: str
) -> None:
    left = leave(tmp_path)
    aged(tmp_path, 0.9)
    assert main(["--tables", str(tmp_path), "--compact", "--vacuum-hours", hours]) == 0
    assert [path for path in left if not path.exists()] == []


def test_a_file_that_a_commit_took_out_stays_for_those_who_read_it(
    store: TableStore, tmp_path: Path
) -> None:
    before = DeltaTable(store.at("telemetry").uri)
    aged(tmp_path, 10)
    assert main(["--tables", str(tmp_path), "--compact"]) == 0
    assert all(Path(uri).exists() for uri in before.file_uris())


def test_where_nothing_was_left_no_commit_tells_of_it(store: TableStore) -> None:
    version = DeltaTable(store.at("telemetry").uri).version()
    assert delete_leftovers(store) == 0
    assert DeltaTable(store.at("telemetry").uri).version() == version


def test_a_commit_of_a_file_that_was_deleted_as_left_is_refused(
    store: TableStore, tmp_path: Path
) -> None:
    rows = rows_of(store)
    table = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    files = TableFiles(table.store, FILE_COLUMNS)
    files.write(FILE_COLUMNS.empty_table(), {"day": "2026-11-01", "domain": "?"})
    written = files.finish()
    aged(tmp_path, 10)  # as a clock that is set right shows it
    assert delete_leftovers(store) == 1
    with pytest.raises(TableError, match="is gone before its commit"):
        table.commit(written, LedgerChange(), "job", 10**6)
    assert rows_of(store) == rows


def test_a_folder_without_tables_has_nothing_left(tmp_path: Path) -> None:
    assert delete_leftovers(TableStore(str(tmp_path / "none"))) == 0
    assert not (tmp_path / "none").exists()


def test_of_the_files_that_a_task_writes_the_one_that_waited_longest_is_closed_for_another(
    tmp_path: Path,
) -> None:
    files = TableFiles(TableStore(str(tmp_path)), FILE_COLUMNS)

    def write(*days: int) -> list[int]:
        """Write a row of each day; return how many files there are of it."""
        row = pa.Table.from_pylist([{"origin": "gw-a"}], FILE_COLUMNS)
        for day in days:
            files.write(row, {"day": f"day-{day}", "domain": "d"})
        return [len(list((tmp_path / f"day=day-{day}" / "domain=d").iterdir())) for day in days]

    assert write(*range(MAX_OPEN)) == [1] * MAX_OPEN
    assert write(0) == [1]
    assert write(MAX_OPEN) == [1]  # for which that of day 1 is closed
    assert write(0, *range(2, MAX_OPEN)) == [1] * (MAX_OPEN - 1)
    assert write(1) == [2]
    done = {(one.partition["day"], one.rows) for one in files.finish()}
    twos = {(f"day-{day}", 2) for day in range(2, MAX_OPEN)}
    assert done == {("day-0", 3), ("day-1", 1), (f"day-{MAX_OPEN}", 1), *twos}

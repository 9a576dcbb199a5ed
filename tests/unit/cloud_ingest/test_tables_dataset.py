"""Tables are read so that a program that has read them can end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest
from deltalake import DeltaTable, write_deltalake

from cloud_ingest.query import Lake
from cloud_ingest.tables.dataset import dataset

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

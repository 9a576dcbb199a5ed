"""A gateway that claims without end, through the job to the tables: bounded, told, none lost."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake

PROGRAM = Path(__file__).with_name("ingest_in_steps.py")


def rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = deltalake.DeltaTable(table).to_pyarrow_table().to_pylist()
    return found


def test_what_comes_below_a_floor_is_in_quarantine_and_the_tables_tell_what_was_given_up(
    spool: Any, tmp_path: Path
) -> None:
    for number in range(1, 200, 2):
        spool.payloads("gw-x", 1, number, [b"%d" % number])
    spool.payloads("gw-a", 1, 1, [b"1", b"2"])
    spool.roll()
    spool.payloads("gw-x", 1, 1, [b"1", b"2"])  # a copy, and one that was given up
    spool.payloads("gw-x", 1, 200, [b"200"])
    spool.payloads("gw-a", 1, 2, [b"2", b"3"])
    spool.roll()
    spool.sync()
    tables = tmp_path / "tables"
    command = [PROGRAM, spool.folder, tables, tmp_path / "state", "", "-1", "", "20"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    telemetry = Counter((row["origin"], row["sequence"]) for row in rows(tables / "telemetry"))
    assert telemetry == Counter(
        [("gw-x", n) for n in (*range(1, 200, 2), 200)] + [("gw-a", n) for n in (1, 2, 3)]
    )
    aside = [(row["origin"], row["sequence"], row["bytes"]) for row in rows(tables / "quarantine")]
    assert sorted(aside) == [("gw-x", 1, b"1"), ("gw-x", 2, b"2")]
    assert all("given up" in row["reason"] for row in rows(tables / "quarantine"))
    given_up = [row for row in rows(tables / "gaps") if row["state"] == "given up"]
    assert {row["gateway"] for row in given_up} == {"gw-x"}
    assert (2, 2) in {(row["first"], row["last"]) for row in given_up}
    assert [(row["kind"], row["gateway"]) for row in rows(tables / "alerts")] == [
        ("given-up", "gw-x")
    ]

"""The job is killed with SIGKILL between any two of its steps: each record once, none missing."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pytest

from cloud_ingest.job.micro_batches import MOMENTS
from cloud_ingest.ledger.number_ledger import LedgerChange
from cloud_ingest.tables.delta import IngestTable, OtherWriterError
from cloud_ingest.tables.schemas import PARTITIONS, TELEMETRY
from cloud_ingest.tables.store import TableStore

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("ingest_in_steps.py")
SEGMENTS = 3


def fill(spool: Any) -> None:
    """Readings that come twice and cut otherwise, payloads that hold none, and damage."""
    for number in range(SEGMENTS):
        first = 1 + number * 10
        spool.readings("gw-a", 1, first, 10)
        spool.payloads("gw-b", 1, 1 + number * 2, [b"no reading", b"7"])
        spool.append(bytes(20) + bytes((number,)))
        spool.readings("gw-a", 1, max(1, first - 4), 6)
        if number < SEGMENTS - 1:
            spool.roll()
    spool.sync()


def run(spool: Any, tables: Path, state: Path, *killed: str) -> int:
    command = [sys.executable, PROGRAM, spool.folder, tables, state, *killed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def check(tables: Path) -> None:
    rows = deltalake.DeltaTable(tables / "telemetry").to_pyarrow_dataset().to_table().to_pylist()
    found = Counter((row["origin"], row["sequence"]) for row in rows)
    assert found == Counter(
        [
            *(("gw-a", number) for number in range(1, 10 * SEGMENTS + 1)),
            *(("gw-b", number) for number in range(2, 2 * SEGMENTS + 1, 2)),
        ]
    )
    aside = deltalake.DeltaTable(tables / "quarantine").to_pyarrow_dataset().to_table().to_pylist()
    assert Counter((row["origin"], row["sequence"], row["bytes"]) for row in aside) == Counter(
        [
            *(("gw-b", number, b"no reading") for number in range(1, 2 * SEGMENTS, 2)),
            *((None, None, bytes(20) + bytes((number,))) for number in range(SEGMENTS)),
        ]
    )


@pytest.mark.drawn(2)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_is_killed_at_a_step_loses_and_doubles_nothing(
    moment: str, spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables, state = tmp_path / "tables", tmp_path / "state"
    assert run(spool, tables, state, moment, "1") == -signal.SIGKILL
    assert run(spool, tables, state) == 0
    check(tables)


def test_a_job_that_is_killed_again_and_again_and_forgets_loses_and_doubles_nothing(
    spool: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fill(spool)
    tables, state = tmp_path / "tables", tmp_path / "state"
    moments = MOMENTS if request.config.getoption("--soak") else ("quarantined", "committed")
    for (moment, batch), forgets in zip(
        itertools.product(moments, "012"), itertools.cycle((None, state, tables / "_ledger"))
    ):
        run(spool, tables, state, moment, batch)
        if forgets is not None:
            shutil.rmtree(forgets, ignore_errors=True)
    assert run(spool, tables, state) == 0
    check(tables)


def test_of_two_jobs_over_the_same_tables_the_slower_one_is_refused(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path / "telemetry"))
    one, other = (IngestTable(store, TELEMETRY, PARTITIONS) for _ in range(2))
    one.commit([], LedgerChange(), "one", 0)
    with pytest.raises(OtherWriterError, match="another job"):
        other.commit([], LedgerChange(), "other", 0)
    other.refresh()
    other.commit([], LedgerChange(), "other", 0)
    assert (other.last_batch("one"), other.last_batch("other")) == (0, 0)


def test_columns_that_come_with_a_later_version_are_null_in_the_rows_of_before(
    spool: Any, tmp_path: Path
) -> None:
    store = TableStore(str(tmp_path / "tables" / "telemetry"))
    short = [field for field in TELEMETRY if field.name not in ("more", "tags")]
    IngestTable(store, TELEMETRY.empty_table().select([f.name for f in short]).schema, PARTITIONS)
    fill(spool)
    assert run(spool, tmp_path / "tables", tmp_path / "state") == 0
    names = IngestTable(store, TELEMETRY, PARTITIONS).dataset().schema.names
    assert sorted(names) == sorted(TELEMETRY.names)
    check(tmp_path / "tables")


def test_tables_at_a_uri_are_written_and_followed_as_those_in_a_folder(
    spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables, state = tmp_path / "tables", tmp_path / "state"
    tables.mkdir()
    program = [sys.executable, PROGRAM, spool.folder, tables.as_uri(), state]
    killed = subprocess.run([*program, "quarantined", "1"], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):
        subprocess.run(program, timeout=120, check=True)
        shutil.rmtree(state)  # the second run reads all again, by the snapshot
    assert (tables / "_ledger" / "snapshot").is_file()
    check(tables)

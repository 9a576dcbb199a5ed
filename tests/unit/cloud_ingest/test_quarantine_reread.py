"""Later rules read the quarantine again: each message arrives once, even if the job is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloud_ingest.ingest import quarantine_reread
from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.ingest.decoding import UNSURE
from cloud_ingest.ingest.quarantine_reread import STEPS, QuarantineReread, RereadCounts
from cloud_ingest.job.command import main
from cloud_ingest.ledger.number_ledger import LedgerChange, Stream
from cloud_ingest.mapping import rules
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.delta import IngestTable, OtherWriterError
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from tree_handler.intervals import Intervals

HERE = Path(__file__).parent
RULES = """
[[mapping]]
topic = "plant/{line}/data"
format = "json"
measurements = [{sensor = "{line}/t", value = "$.t"}]
"""
READ = [("gw-a", 2, 21.5), ("gw-a", 4, 22.5), ("gw-b", 1, 23.5)]
"""Origin, number and value of each message that the rule reads."""


def fill(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    texts = [b'{"t": 21.5}', b"nothing", b'{"t": 22.5}']
    spool.payloads("gw-a", 1, 2, texts, topic="plant/1/data")
    spool.append(bytes(20))
    spool.roll()
    spool.payloads("gw-b", 1, 1, [b'{"t": 23.5}'], topic="plant/1/data", origin_time_us=2**60)
    spool.sync()


def ingested(spool: Any, tmp_path: Path, *killed: str) -> Path:
    tables = tmp_path / "tables"
    command = [HERE / "ingest_in_steps.py", spool.folder, tables, tmp_path / "state", *killed]
    subprocess.run([sys.executable, *command], timeout=120, check=not killed)
    return tables


def read_again(tables: Path) -> RereadCounts:
    return QuarantineReread(TableStore(str(tables)), rules.read(RULES)).run()


def rows(table: Path) -> list[dict[str, Any]]:
    read = deltalake.DeltaTable(table).to_pyarrow_dataset().to_table()
    return read.sort_by([("origin", "ascending"), ("sequence", "ascending")]).to_pylist()


def stamps(table: Path) -> list[tuple[Any, Any]]:
    return [(row["origin"], row["sequence"]) for row in rows(table)]


def check(tables: Path) -> None:
    told = [(row["origin"], row["sequence"], row["value"]) for row in rows(tables / "telemetry")]
    assert told == sorted([("gw-a", 1, 1.5), *READ])
    assert stamps(tables / "quarantine") == [("gw-a", 3), (None, None)]


def test_what_a_later_rule_reads_goes_to_telemetry_as_it_came_and_the_rest_stays(
    spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    before = {(row["origin"], row["sequence"]): row for row in rows(tables / "quarantine")}
    assert read_again(tables) == RereadCounts(3, 1, 0)
    check(tables)
    moved = {(row["origin"], row["sequence"]): row for row in rows(tables / "telemetry")}
    for origin, number, _ in READ:
        row, was = moved[origin, number], before[origin, number]
        assert row["payload"] == was["bytes"]
        assert (row["sensor"], row["qos"], row["retain"]) == ("1/t", 1, False)
        for name in ("boot_epoch", "logged", "topic", "origin_time", "collected_time"):
            assert row[name] == was[name]
    beyond = moved["gw-b", 1]  # a clock that is absurd
    assert beyond["day"] == beyond["collected_time"].date()
    assert read_again(tables) == RereadCounts(0, 1, 0)
    check(tables)


def test_a_message_of_which_no_row_can_be_made_stays_and_the_others_go(
    spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    table = TelemetryColumns.table

    def failing(self: TelemetryColumns) -> pa.Table:
        made = table(self)
        if 22.5 in made["value"].to_pylist():
            raise pa.ArrowInvalid("no 22.5")
        return made

    monkeypatch.setattr(TelemetryColumns, "table", failing)
    assert read_again(tables) == RereadCounts(2, 2, 0)
    assert stamps(tables / "quarantine") == [("gw-a", 3), ("gw-a", 4), (None, None)]
    monkeypatch.undo()
    assert read_again(tables) == RereadCounts(1, 1, 0)
    check(tables)


def test_the_command_reads_it_again_without_a_spool_or_spark(
    spool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(spool)
    tables, mappings = ingested(spool, tmp_path), tmp_path / "mappings.toml"
    mappings.write_text(RULES)
    assert main(["--tables", str(tables), "--again", "--mappings", str(mappings)]) == 0
    told = capsys.readouterr().out
    assert told == "quarantine: 3 messages are in telemetry now, 1 can't be read\n"
    check(tables)


def test_where_there_are_no_tables_none_are_made(tmp_path: Path) -> None:
    assert main(["--tables", str(tmp_path / "tables"), "--again"]) == 0
    assert not (tmp_path / "tables").exists()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("step", STEPS)
def test_killed_between_two_steps_and_begun_again_each_message_is_there_once(
    step: str, spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables, mappings = ingested(spool, tmp_path), tmp_path / "mappings.toml"
    mappings.write_text(RULES)
    command = [sys.executable, HERE / "read_again.py", tables, mappings, step]
    killed = subprocess.run(command, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    told = {*stamps(tables / "telemetry"), *stamps(tables / "quarantine")}
    assert {(origin, number) for origin, number, _ in READ} <= told
    if step == "moved":  # the ledger's loss in between changes nothing, nor does a spool read anew
        shutil.rmtree(tables / "_ledger")
        shutil.rmtree(tmp_path / "state")
        ingested(spool, tmp_path)
    read_again(tables)
    check(tables)
    shutil.rmtree(tmp_path / "state")
    ingested(spool, tmp_path)
    check(tables)


def test_what_a_killed_job_has_put_aside_and_not_ended_is_left_to_it(
    spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path, "quarantined", "1")  # between its two commits
    assert read_again(tables) == RereadCounts(2, 2, 0)
    ingested(spool, tmp_path)
    assert read_again(tables) == RereadCounts(1, 1, 0)
    check(tables)


def test_more_than_is_moved_at_once_is_moved_in_steps(
    spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    monkeypatch.setattr(quarantine_reread, "MOST_AT_ONCE", 1)
    assert read_again(tables) == RereadCounts(3, 1, 0)
    check(tables)


def test_beside_a_compaction_and_a_job_that_commits_nothing_is_lost_or_doubled(
    spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    store = TableStore(str(tables))
    again = QuarantineReread(store, rules.read(RULES))

    def beside(step: str) -> None:
        job = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
        aside = IngestTable(store.at("quarantine"), QUARANTINE)
        if step == "read":
            job.commit([], LedgerChange(), "job", 1)
            aside.commit([], LedgerChange(), "job", 1)
        upkeep.compact(store)

    again.watch = beside
    assert again.run() == RereadCounts(3, 1, 0)
    check(tables)


def test_of_two_that_move_the_same_the_slower_one_is_refused(spool: Any, tmp_path: Path) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    slower = QuarantineReread(TableStore(str(tables)), rules.read(RULES))
    assert read_again(tables).moved == 3
    with pytest.raises(OtherWriterError):
        slower.run()
    check(tables)


def test_what_telemetry_may_have_already_stays_and_rows_of_before_have_no_qos(
    spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    table = IngestTable(TableStore(str(tables)).at("quarantine"), QUARANTINE)
    (was,) = (row for row in rows(tables / "quarantine") if row["sequence"] == 2)
    old = {**was, "sequence": 9, "qos": None, "retain": None}
    files = TableFiles(table.store, QUARANTINE)
    files.write(pa.Table.from_pylist([{**was, "reason": UNSURE}, old, old], QUARANTINE))
    change = LedgerChange()
    telemetry = IngestTable(TableStore(str(tables)).at("telemetry"), TELEMETRY, PARTITIONS)
    stream = Stream("gw-a", was["boot_epoch"], control=False, logged=was["logged"])
    change.seen[stream] = Intervals([(9, 9)])
    table.commit(files.finish(), LedgerChange(), "old", 1)
    telemetry.commit([], change, "old", 1)
    assert read_again(tables) == RereadCounts(5, 1, 1)
    assert [row["reason"] for row in rows(tables / "quarantine") if row["sequence"] == 2] == [
        UNSURE
    ]
    (row,) = (row for row in rows(tables / "telemetry") if row["sequence"] == 9)
    assert (row["value"], row["qos"], row["retain"]) == (21.5, None, None)


def test_files_of_both_tables_are_the_plain_parquet_that_they_were(
    spool: Any, tmp_path: Path
) -> None:
    fill(spool)
    tables = ingested(spool, tmp_path)
    read_again(tables)
    read = deltalake.DeltaTable(tables / "quarantine")
    for file in read.file_uris():
        assert pq.read_schema(file).field("found_time").type == QUARANTINE.field("found_time").type

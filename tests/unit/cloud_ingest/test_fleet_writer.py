"""The fleet's Delta tables: each row once, wherever the writer is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from watched_fleet import WatchedFleet, at

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.fleet import writer as writing
from cloud_ingest.fleet.state import StateError
from cloud_ingest.fleet.state_file import StateFile, StateTable, store_of
from cloud_ingest.fleet.writer import FleetWriter
from cloud_ingest.tables import registry

SCHEMAS = {name: table.schema for name, table in registry.written_by("watch").items()}


class KilledError(Exception):
    """Stands for SIGKILL."""


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(folder / name)).to_pyarrow_table().to_pylist()
    return found


def batches(seconds: float) -> list[BatchFacts]:
    fleet = WatchedFleet(3)
    fleet[1].loses = True
    fleet.when(70, lambda: setattr(fleet[2], "root", "gw-0001"))
    return list(fleet.batches(seconds))


def test_all_tables_are_there_with_their_columns_after_the_first_batch(tmp_path: Path) -> None:
    (facts,) = batches(10)
    writer = FleetWriter(str(tmp_path), query="q")
    writer.after(facts)
    for name, schema in SCHEMAS.items():
        table = DeltaTable(str(tmp_path / name)).to_pyarrow_table()
        assert table.schema.names == schema.names, name
    assert [row["gateway"] for row in rows(tmp_path, "gateways")] == [
        "gw-0000",
        "gw-0001",
        "gw-0002",
    ]


def test_a_table_of_before_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    before = SCHEMAS["gaps"].remove(SCHEMAS["gaps"].get_field_index("state"))
    DeltaTable.create(str(tmp_path / "gaps"), before)
    writer = FleetWriter(str(tmp_path), query="q")
    for facts in batches(100):
        writer.after(facts)
    writer.close()
    assert {row["state"] for row in rows(tmp_path, "gaps")} == {"missing"}


def test_an_appended_table_of_before_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    before = SCHEMAS["latency"].remove(SCHEMAS["latency"].get_field_index("part"))
    DeltaTable.create(str(tmp_path / "latency"), before, partition_by="day")
    writer = FleetWriter(str(tmp_path), query="q")
    for facts in batches(160):
        writer.after(facts)
    writer.close()
    assert {row["part"] for row in rows(tmp_path, "latency")} == {0}


def test_tables_are_written_at_most_every_few_seconds_and_at_the_end(tmp_path: Path) -> None:
    writer = FleetWriter(str(tmp_path), query="q", write_interval_s=25.0)
    for facts in batches(100):
        writer.after(facts)
    assert DeltaTable(str(tmp_path / "gateways")).version() == 4  # made, at 10, 40, 70 and 100 s
    before = rows(tmp_path, "gateways")
    writer.close()
    assert rows(tmp_path, "gateways") == before


class Killer:
    """Ends a writer at the n-th step that leaves a trace on the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self._write = writing.write_deltalake
        monkeypatch.setattr(writing, "write_deltalake", self._written)
        replace = StateFile.replace

        def replaced(store: StateFile, data: bytes) -> None:
            self._step()
            replace(store, data)
            self._step()

        monkeypatch.setattr(StateFile, "replace", replaced)

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KilledError

    def _written(self, *given: Any, **more: Any) -> None:
        self._step()
        self._write(*given, **more)
        self._step()


def test_whenever_the_writer_is_killed_each_row_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = batches(160)
    whole = tmp_path / "whole"
    writer = FleetWriter(str(whole), query="q")
    for facts in taken:
        writer.after(facts)
    writer.close()
    wanted = {name: Counter(map(repr, rows(whole, name))) for name in SCHEMAS}
    assert all(wanted[name] for name in ("gateways", "topology", "latency", "gaps", "alerts"))
    killed, folder = 0, tmp_path / "killed"
    killer = Killer(monkeypatch)
    waiting, writer, kill_at = list(taken), FleetWriter(str(folder), query="q"), 1
    while waiting:
        killer.left = kill_at
        try:
            writer.after(waiting[0])
        except KilledError:
            killed, kill_at = killed + 1, kill_at % 11 + 1
            killer.left = -1
            writer = FleetWriter(str(folder), query="q")
            continue
        waiting.pop(0)
    killer.left = -1
    writer.close()
    assert killed >= 10
    for name, expected in wanted.items():
        assert Counter(map(repr, rows(folder, name))) == expected, name


def test_a_write_that_fails_is_ended_by_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = batches(160)
    killer = Killer(monkeypatch)
    writer = FleetWriter(str(tmp_path), query="q")
    for number, facts in enumerate(taken):
        killer.left = number % 9 if number % 2 else -1
        try:
            writer.after(facts)
        except KilledError:
            killer.left = -1
            writer.after(facts)
    killer.left = -1
    writer.close()
    topology = Counter((row["gateway"], row["time"]) for row in rows(tmp_path, "topology"))
    assert set(topology.values()) == {1}
    minutes = Counter((row["gateway"], row["minute"]) for row in rows(tmp_path, "latency"))
    assert set(minutes.values()) == {1}
    assert sum(row["messages"] for row in rows(tmp_path, "gateways")) == 3 * 16 * 5


def test_a_checkpoint_that_was_deleted_counts_its_batches_anew(tmp_path: Path) -> None:
    taken = batches(40)
    writer = FleetWriter(str(tmp_path), query="one")
    for facts in taken:
        writer.after(facts)
        writer.after(facts)
    other = FleetWriter(str(tmp_path), query="other")
    other.after(BatchFacts(committed_us=at(50), activity=taken[0].activity))
    other.close()
    assert sum(row["messages"] for row in rows(tmp_path, "gateways")) == 3 * 5 * 5


def test_a_state_that_was_deleted_finds_no_gaps_before_it_and_goes_on_appending(
    tmp_path: Path,
) -> None:
    taken = [facts for facts in batches(400) if facts]
    writer = FleetWriter(str(tmp_path), query="q")
    for facts in taken[:20]:
        writer.after(facts)
    before = len(rows(tmp_path, "topology"))
    (tmp_path / "_fleet" / "state").unlink()
    writer = FleetWriter(str(tmp_path), query="q")
    for facts in taken[20:]:
        writer.after(facts)
    writer.close()
    found = {row["gateway"]: row["gaps"] for row in rows(tmp_path, "gateways")}
    assert found["gw-0000"] == found["gw-0002"] == 0
    assert len(rows(tmp_path, "topology")) > before


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    store_of(str(tmp_path)).replace(b"\x00damaged")
    said = f"{tmp_path}/_fleet/state: .*: move it away, and the watch begins anew"
    with pytest.raises(StateError, match=said):
        FleetWriter(str(tmp_path), query="q")


def test_small_files_are_made_one_and_readers_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "UPKEEP_WRITES", 10)
    taken = batches(200)
    writer = FleetWriter(f"file://{tmp_path}", query="q")
    writer.after(taken[0])
    reader = DeltaTable(str(tmp_path / "gateways"))
    for facts in taken[1:]:
        writer.after(facts)
    assert reader.to_pyarrow_table().num_rows == 3
    assert len(DeltaTable(str(tmp_path / "topology")).file_uris()) == 1


def test_where_there_are_no_files_the_state_is_a_table_of_one_row(tmp_path: Path) -> None:
    store = StateTable(str(tmp_path / "_fleet"))
    assert store.read() is None
    for state in (b"one", b"two"):
        store.replace(state)
        assert store.read() == state
    store.keep_up(1)
    assert store.read() == b"two"
    assert isinstance(store_of("s3://bucket/tables", {"region": "x"}), StateTable)

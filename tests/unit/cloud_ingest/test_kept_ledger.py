"""The ledger writes its snapshot by time, and learns of changes from rows of the tables alone."""

from __future__ import annotations

import zlib
from pathlib import Path

import deltalake
import msgpack
import pyarrow as pa
import pytest

from cloud_ingest.ingest import forgotten
from cloud_ingest.ingest.kept_ledger import SNAPSHOT, SNAPSHOT_EVERY_S, KeptLedger
from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger, Stream
from cloud_ingest.tables.delta import IngestTable, TableError, TableRestoredError
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from tree_handler.intervals import Intervals


class World:
    """Tables, a ledger that follows them, and a time."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000.0
        self.store = TableStore(str(folder))
        self.telemetry = IngestTable(self.store.at("telemetry"), TELEMETRY, PARTITIONS)
        self.quarantine = IngestTable(self.store.at("quarantine"), QUARANTINE)
        self.kept = self.open()

    def open(self) -> KeptLedger:
        return KeptLedger(self.store, self.telemetry, self.quarantine, clock=lambda: self.now)

    def commit(self, table: IngestTable) -> None:
        table.commit([], LedgerChange(), "q", table.last_batch("q") + 1)
        self.kept.followed(table, LedgerChange())
        self.kept.keep()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("name", ["telemetry", "quarantine"])
def test_a_snapshot_comes_by_time_however_seldom_a_table_is_written(
    world: World, name: str
) -> None:
    world.commit(world.telemetry)
    first = world.store.read(SNAPSHOT)
    world.commit(getattr(world, name))
    assert world.store.read(SNAPSHOT) == first
    world.now += SNAPSHOT_EVERY_S
    world.commit(getattr(world, name))
    assert world.store.read(SNAPSHOT) != first


def test_a_snapshot_is_not_written_again_while_nothing_is_committed(world: World) -> None:
    world.commit(world.telemetry)
    first = world.store.read(SNAPSHOT)
    (Path(world.store.uri) / SNAPSHOT).unlink()
    world.now += SNAPSHOT_EVERY_S
    world.kept.keep()
    assert first is not None
    assert world.store.read(SNAPSHOT) is None


def test_damage_in_the_quarantine_is_known_by_its_rows(world: World) -> None:
    files = TableFiles(world.quarantine.store, QUARANTINE)
    row = {"spool": "/s", "segment": f"{700:020d}.log", "position": 5, "bytes": b"torn"}
    files.write(pa.Table.from_pylist([row], QUARANTINE))
    world.quarantine.commit(files.finish(), LedgerChange(), "q", 0)
    world.kept.keep(now=True)
    (log,) = (Path(world.store.uri) / "telemetry" / "_delta_log").glob("*.json")
    log.write_bytes(log.read_bytes() + b"\n")  # as of a copy
    found = world.open()
    assert found.is_restored
    assert found.ledger.all.damage == {"/s": {705: zlib.crc32(b"torn")}}


def test_a_restore_beside_a_running_job_ends_it_with_a_line_that_says_what_to_do(
    world: World,
) -> None:
    for _ in range(3):
        world.commit(world.telemetry)
    before = world.store.read(SNAPSHOT)
    deltalake.DeltaTable(world.telemetry.store.uri).restore(1)
    with pytest.raises(TableError):  # in a micro-batch, when it has caught up
        world.commit(world.telemetry)
    with pytest.raises(TableRestoredError) as caught:
        world.kept.catch_up()
    name = f"{TableRestoredError.__module__}.{TableRestoredError.__name__}"
    assert "start the job again" in str(TableError.quoted_in(f"... {name}: {caught.value}"))
    assert world.store.read(SNAPSHOT) == before
    assert world.open().is_restored


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb(7), None])
def test_a_snapshot_that_is_damaged_is_made_again_of_the_tables(
    world: World, data: bytes | None
) -> None:
    stream = Stream("gw-a", 1, control=False, logged=True)
    change = LedgerChange(seen={stream: Intervals([(1, 5)])})
    world.telemetry.commit([], change, "q", 0)
    world.kept.keep(now=True)
    if data is None:  # of these tables, and the ledger in it is none
        ids, followed, _, *digests = msgpack.unpackb(world.store.read(SNAPSHOT) or b"")
        data = msgpack.packb([ids, followed, b"no ledger", *digests])
    world.store.write(SNAPSHOT, data)
    found = world.open()
    assert not found.is_restored
    assert found.ledger.fresh(stream, 1, 6) == [(6, 6)]


def test_where_a_commit_is_no_longer_in_the_log_the_ledger_is_made_of_the_rows(
    world: World,
) -> None:
    files = TableFiles(world.quarantine.store, QUARANTINE)
    row = {"spool": "/s", "segment": f"{700:020d}.log", "position": 5, "bytes": b"torn"}
    files.write(pa.Table.from_pylist([row], QUARANTINE))
    world.quarantine.commit(files.finish(), LedgerChange(), "q", 0)
    world.commit(world.telemetry)
    (Path(world.store.uri) / SNAPSHOT).unlink()
    (Path(world.telemetry.store.uri) / "_delta_log" / f"{1:020d}.json").unlink()
    found = world.open()
    assert not found.is_restored
    assert found.ledger.all.damage == {"/s": {705: zlib.crc32(b"torn")}}


def test_a_gateway_that_is_known_or_never_was_recalls_nothing() -> None:
    ledger = NumberLedger()
    stream = Stream("gw-a", 1, control=False, logged=True)
    ledger.apply(LedgerChange(seen={stream: Intervals([(1, 5)])}))
    for origin in ("gw-a", "gw-b"):
        forgotten.recall(ledger, origin)
    assert ledger.all.seen == {stream: Intervals([(1, 5)])}
    assert set(ledger.lives) == {"gw-a"}

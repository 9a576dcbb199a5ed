"""Of a gateway that is forgotten nothing is left, and nothing of it comes back."""

from __future__ import annotations

import datetime
import io
import json
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from spark_runs import member

from cloud_ingest.dashboard.acknowledging import acknowledge
from cloud_ingest.evidence.facts import Delays
from cloud_ingest.fleet.alerts import AlertBook
from cloud_ingest.fleet.flapping import Flap, Flaps
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.latency import Minutes
from cloud_ingest.fleet.outgoing import OutgoingAlerts
from cloud_ingest.fleet.state import FleetState, GapRow, LatencyRow, RowOutbox, TopologyRow
from cloud_ingest.fleet.writer import FleetWriter
from cloud_ingest.ingest import forgotten
from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.ingest.forgotten import digest_of
from cloud_ingest.ingest.kept_ledger import KeptLedger
from cloud_ingest.job.command import main
from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger, Stream
from cloud_ingest.query.lake import Lake
from cloud_ingest.tables import registry, upkeep
from cloud_ingest.tables.delta import IngestTable, TableError
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import FILE_COLUMNS, PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from record_formats.status_record import StatusRecord
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals

HERE = Path(__file__).parent
GONE, STAYS = "gw-south", "gw-north"
NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)


def fill(spool: Any, first: int) -> None:
    """Readings, what can't be read, damage, a place, a status and gaps, of both gateways."""
    for origin in (GONE, STAYS):
        member(spool, origin, 1, first, "south")
        spool.readings(origin, 1, first, 5)
        spool.payloads(origin, 1, first + 7, [b"no reading", b"21.5"])
        hot = StatusRecord(interval_s=10.0, temperature_cel=99.0).encode()
        topic = f"campus/south/{origin}/$status"
        spool.payloads(origin, 1, first + 9, [hot], topic=topic)
        spool.readings(origin, 1, first, 2, flags=Flags.NONE)
        frame = bytearray(
            batch.encode(
                origin,
                1,
                900 + first,
                [Entry("t", b"1", qos=1)],
                flags=Flags.LOGGED,
                origin_time_us=1,
            )
        )
        frame[-1] ^= 0xFF
        spool.append(bytes(frame))


def ingested(spool: Any, tmp_path: Path) -> Path:
    spool.sync()
    tmp_path.mkdir(exist_ok=True)
    tables = tmp_path / "tables"
    command = [HERE / "ingest_in_steps.py", spool.folder, tables, tmp_path / "state"]
    subprocess.run([sys.executable, *command], timeout=120, check=True)
    return tables


def strings(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All bytes of a folder: as they stand, and what is packed in them."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name, data = str(path.relative_to(folder)), path.read_bytes()
        yield name, name.encode() + data
        if path.suffix == ".parquet":
            read = pq.ParquetFile(io.BytesIO(data))
            yield name, repr(read.read().to_pylist()).encode() + repr(read.metadata).encode()
        elif name == "_ledger/snapshot":
            yield name, zlib.decompress(msgpack.unpackb(data)[2])
        elif path.suffix == ".json":
            yield from ((name, repr(one).encode()) for one in changes(path))


def changes(commit: Path) -> Iterator[LedgerChange]:
    for line in commit.read_text().splitlines():
        told = json.loads(line).get("commitInfo", {})
        if "hedgerow" in told:
            yield LedgerChange.unpack(told["hedgerow"])


def where_named(folder: Path, gateway: str) -> set[str]:
    return {name for name, data in strings(folder) if gateway.encode() in data}


def rows(tables: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(tables / name).to_pyarrow_table().to_pylist()
    return found


def of_telemetry(tables: Path, gateway: str) -> list[int]:
    found = [row["sequence"] for row in rows(tables, "telemetry") if row["origin"] == gateway]
    return sorted(found)


def made(spool: Any, tmp_path: Path) -> Path:
    fill(spool, 1)
    spool.roll()
    fill(spool, 31)
    tables = ingested(spool, tmp_path)
    upkeep.compact(TableStore(str(tables)))
    for gateway in (GONE, STAYS):
        acknowledge(Lake(tables), f"hot:{gateway}:1", "console:anna", "seen", NOW)
        for name in ("gaps", "latency", "topology"):
            table = registry.written_by("watch")[name]
            row = pa.Table.from_pylist([{"gateway": gateway}], table.schema)
            parts = list(table.partitions) or None
            write_deltalake(tables / name, row, mode="append", partition_by=parts)
    return tables


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("template") / "tables"


@pytest.fixture
def tables(spool: Any, tmp_path: Path, template: Path) -> Path:
    if not template.exists():
        shutil.copytree(made(spool, tmp_path / "made"), template)
    shutil.copytree(template, tmp_path / "tables")
    return tmp_path / "tables"


NAMED = (
    *("telemetry", "quarantine", "gateways", "gaps", "latency", "topology", "alerts"),
    *("acknowledgements", "_fleet", "_ledger"),
)
"""Tables in which both gateways are named before one of them is forgotten."""


def test_nothing_is_left_of_a_gateway_that_is_forgotten_while_nobody_uses_the_tables(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name.split("/")[0] for name in where_named(tables, GONE)}
    assert before >= set(NAMED)
    assert main(["--tables", str(tables), "--forget-gateway", GONE, "--vacuum-hours", "0"]) == 0
    assert re.fullmatch(rf"{GONE}: \d\d rows deleted\n", capsys.readouterr().out)
    assert where_named(tables, GONE) == set()
    after = {name.split("/")[0] for name in where_named(tables, STAYS)}
    assert after >= set(NAMED)
    assert of_telemetry(tables, STAYS) == sorted(
        [*range(1, 6), 9, 10, 1, 2, *range(31, 36), 39, 40, 31, 32]
    )


def test_beside_readers_only_the_logs_of_the_past_have_its_name_for_a_day(tables: Path) -> None:
    assert main(["--tables", str(tables), "--forget-gateway", GONE]) == 0
    assert {name.split("/")[1] for name in where_named(tables, GONE)} == {"_delta_log"}
    GatewayErasure(TableStore(str(tables))).purge_logs()
    assert where_named(tables, GONE) == set()


def test_what_a_spool_still_holds_of_it_does_not_come_back_and_what_it_says_later_is_read(
    spool: Any, tmp_path: Path
) -> None:
    tables = made(spool, tmp_path)
    stays = of_telemetry(tables, STAYS)
    assert main(["--tables", str(tables), "--forget-gateway", GONE, "--vacuum-hours", "0"]) == 0
    for done in (tmp_path / "state").glob("done-*"):
        done.unlink()  # all is read once more, as after a checkpoint was lost
    (tmp_path / "state" / "query").unlink()
    ingested(spool, tmp_path)
    assert of_telemetry(tables, GONE) == []
    assert of_telemetry(tables, STAYS) == stays
    spool.roll()
    spool.readings(GONE, 1, 100, 2)
    ingested(spool, tmp_path)
    assert of_telemetry(tables, GONE) == [100, 101]


def test_files_of_a_killed_task_that_are_young_are_told_or_go_if_nobody_is_at_work(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = TableFiles(TableStore(str(tables)).at("telemetry"), FILE_COLUMNS)
    left = pa.Table.from_pylist([{"origin": GONE}, {"origin": STAYS}], FILE_COLUMNS)
    files.write(left, {"day": "2026-11-01", "domain": "?"})
    (written,) = files.finish()
    path = tables / "telemetry" / written.path
    assert main(["--tables", str(tables), "--forget-gateway", GONE]) == 0
    assert "1 files of tasks that were killed, or are at work" in capsys.readouterr().out
    assert path.exists()
    assert main(["--tables", str(tables), "--forget-gateway", GONE, "--vacuum-hours", "0"]) == 0
    assert not path.exists()
    assert where_named(tables, GONE) == set()


def test_a_job_that_runs_is_told_that_a_gateway_was_forgotten_and_starts_without_it(
    tables: Path,
) -> None:
    store = TableStore(str(tables))

    def kept() -> KeptLedger:
        telemetry = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
        return KeptLedger(store, telemetry, IngestTable(store.at("quarantine"), QUARANTINE))

    running = kept()
    assert running.ledger.lives[GONE]
    GatewayErasure(store).forget(GONE)
    with pytest.raises(TableError, match="a gateway was forgotten meanwhile: start the job again"):
        running.catch_up()
    for again in (running, kept()):
        again.catch_up()
        assert {GONE, digest_of(GONE)} & set(again.ledger.lives) == {digest_of(GONE)}
        assert GONE not in again.ledger.all.totals


def test_forgotten_twice_or_never_heard_of_is_no_error(tables: Path) -> None:
    for gateway in (GONE, GONE, "gw-nobody"):
        assert main(["--tables", str(tables), "--forget-gateway", gateway]) == 0
    writer = FleetWriter(str(tables), query="q")
    writer.close()
    assert [row["gateway"] for row in rows(tables, "gateways")] == [STAYS]


def test_a_folder_without_tables_has_nothing_to_forget(tmp_path: Path) -> None:
    assert GatewayErasure(TableStore(str(tmp_path / "none"))).forget(GONE, is_alone=True).rows == 0


# -- the ledger ------------------------------------------------------------------------------------


def ledger() -> NumberLedger:
    made = NumberLedger()
    for origin in (GONE, STAYS):
        change = LedgerChange()
        stream = Stream(origin, 7, control=False, logged=True)
        change.seen[stream] = Intervals([(1, 9), (20, 29)])
        change.kept_local[stream] = Intervals([(10, 11)])
        change.floors[stream] = 3
        change.of(origin).messages = 19
        change.closed[origin] = Intervals([(5, 5)])
        made.apply(change)
    return made


def test_numbers_stand_under_a_digest_until_the_gateway_is_heard() -> None:
    made = ledger()
    whole = ledger()
    change = LedgerChange(forgotten={digest_of(GONE): None})
    for _ in range(2):
        forgotten.apply(made, LedgerChange.unpack(change.pack()))
        made.apply(change)
    packed = zlib.decompress(made.pack())
    assert GONE.encode() not in packed
    read = NumberLedger.unpack(made.pack())
    stream = Stream(GONE, 7, control=False, logged=True)
    assert read.fresh(stream, 1, 40) == [(1, 40)]
    forgotten.recall(read, "gw-other")
    assert digest_of(GONE) in read.all.forgotten
    forgotten.recall(read, GONE)
    assert not read.all.forgotten
    assert read.fresh(stream, 1, 40) == whole.fresh(stream, 1, 40)
    assert read.floor(stream) == 3
    assert read.floor(stream._replace(epoch=5)) is None
    assert read.sizes == whole.sizes
    assert GONE not in read.all.totals
    assert read.all.totals[STAYS] == whole.all.totals[STAYS]


def test_a_later_change_of_its_numbers_makes_them_its_own_again() -> None:
    made = ledger()
    forgotten.apply(made, LedgerChange(forgotten={digest_of(GONE): None}))
    stream = Stream(GONE, 7, control=False, logged=True)
    later = LedgerChange(seen={stream: Intervals([(12, 19)])})
    forgotten.apply(made, later)
    made.apply(later)
    assert made.fresh(stream, 4, 29) == [(10, 11)]


@pytest.mark.parametrize("name", ["_fleet/state", "_ledger/facts"])
def test_what_can_not_be_read_is_named_and_not_forgotten_in_silence(
    name: str, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / name).write_bytes(b"\xc1")
    assert main(["--tables", str(tables), "--forget-gateway", GONE]) == 1
    assert str(tables / name) in capsys.readouterr().err


def test_a_watch_that_forgets_a_gateway_has_its_name_nowhere_and_all_of_others() -> None:
    names = (GONE, STAYS)
    alerts, minutes = AlertBook(), Minutes()
    for name in names:
        alerts.judge(("hot", name, ""), True, 1, "")
        alerts.judge(("silent", name, ""), True, 1, "")
        alerts.judge(("silent", name, ""), False, 2, "")
        minutes.take(Delays(name, 60_000_000, "origin-table", {0: 1}))
    state = FleetState(
        gateways={name: GatewayState(name, 1, 1) for name in names},
        departed={name: {1: 1} for name in names},
        alerts=alerts,
        minutes=minutes,
        flaps=Flaps({("hot", name, ""): Flap("hot", [1], 2, 3, 4) for name in names}),
        gaps=[GapRow(name, 1, 1, 1, 1, None) for name in names],
        outbox=RowOutbox(
            latency=[LatencyRow(name, 1, "s", 1, 1.0, 1.0, 1.0, 1.0) for name in names],
            topology=[TopologyRow(1, name, 1, "", None, None, (), 1) for name in names],
        ),
    )
    OutgoingAlerts(alerts, state.outgoing, 0, is_used=True).look(3)
    count = state.encode().count(GONE.encode())
    assert state.encode().count(STAYS.encode()) == count
    state.forget(GONE)
    assert GONE.encode() not in state.encode()
    assert state.encode().count(STAYS.encode()) == count

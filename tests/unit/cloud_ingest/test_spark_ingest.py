"""The spool through a real Spark session to the tables, as any reader of Parquet finds them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgpack
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cloud_ingest import fleet, job, source, tables
from cloud_ingest.fleet import FleetRow
from cloud_ingest.record import Record
from cloud_ingest.spool import SpoolError, read_mark
from tree_handler import batch
from tree_handler.batch import Flags
from tree_handler.intervals import Intervals

pytestmark = pytest.mark.slow

CONTROL = Flags.LOGGED | Flags.CONTROL


@pytest.fixture(autouse=True, scope="module")
def _started(spark: SparkSession) -> None:
    """Start Spark outside of the first test's time limit."""


def ingest(spark: SparkSession, spool: Any, target: Path) -> dict[str, FleetRow]:
    found = job.run(spark, spool.folder, read_mark(spool.folder), target)
    return {gateway.gateway: gateway for gateway in found}


def table(target: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(target / "current" / name).to_pylist()
    return rows


def member(spool: Any, origin: str, epoch: int, number: int, group: str) -> None:
    fields = {"id": origin, "domain": "campus", "group": group, "epoch": epoch}
    topic = f"$hedgerow/member/{origin}"
    spool.payloads(origin, epoch, number, [msgpack.packb(fields)], topic=topic, flags=CONTROL)


def test_a_fleet_with_every_fault_is_counted_and_none_is_hidden(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    member(spool, "gw-a", 1, 1, "south")
    member(spool, "gw-a", 1, 5, "south")  # a gap among its records, which are no telemetry
    spool.readings("gw-a", 1, 1, 9)
    spool.readings("gw-a", 1, 5, 3)  # three duplicates, in a batch cut otherwise
    spool.readings("gw-a", 1, 1, 4, flags=Flags.NONE)  # QoS 0: a sequence of its own
    spool.roll()
    member(spool, "gw-a", 2, 1, "north")
    spool.readings("gw-a", 2, 1)
    spool.readings("gw-a", 2, 4, 2)  # 2 and 3 are missing
    spool.payloads("gw-b", 1, 1, [b"\xc1", b"", b"open"])  # no readings, but no gaps either
    spool.sync()
    spool.readings("gw-a", 2, 6, 50)  # not safe yet
    spool.append(b"torn")

    found = ingest(spark, spool, tmp_path / "tables")
    a, b = found["gw-a"], found["gw-b"]
    assert a.boot_epochs == [1, 2]
    assert (a.messages, a.logged, a.control) == (16, 12, 3)
    assert (a.duplicates, a.gaps, a.undecodable) == (3, 2, 0)
    assert (a.domain, a.group) == ("campus", "north")
    assert a.accept_latency_mean_ms == pytest.approx(250.0)
    assert (b.messages, b.gaps, b.undecodable, b.domain) == (3, 0, 3, None)

    telemetry = table(tmp_path / "tables", "telemetry")
    names = [name for name in tables.STAMP if name in tables.TELEMETRY.names]
    stamps = {tuple(row[name] for name in names) for row in telemetry}
    assert len(telemetry) == len(stamps) == 19
    assert {row["payload"] for row in telemetry if row["origin"] == "gw-b"} == {
        b"\xc1",
        b"",
        b"open",
    }
    assert not any(row["topic"].startswith("$") for row in telemetry)
    rows = {row["gateway"]: row for row in table(tmp_path / "tables", "fleet")}
    assert rows["gw-a"]["gaps"] == 2
    assert rows["gw-a"]["last_seen"] == a.last_seen


def test_what_a_gateway_keeps_to_itself_is_no_gap_and_what_was_given_up_is(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1, 2)
    for first, last in ((3, 6), (5, 9), (3, 6), (5, 6), (15, 20)):
        spool.append(batch.passed(("gw-a", 1), first, last)[0])
    lost = Flags.PASSED | Flags.LOST | Flags.LOCAL
    spool.append(batch.passed(("gw-a", 1), 10, 12, lost)[0])
    spool.readings("gw-a", 1, 13, 2)
    spool.sync()
    a = ingest(spark, spool, tmp_path / "tables")["gw-a"]
    assert (a.messages, a.logged, a.gaps, a.kept_local, a.duplicates) == (4, 4, 3, 13, 0)
    assert len(table(tmp_path / "tables", "telemetry")) == 4


def test_json_senml_and_plain_numbers_are_readings_in_the_table(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    pack = b'[{"bn":"m/","bt":1760000000,"n":"u","u":"V","v":230},{"n":"i","u":"A","v":2}]'
    door = Record("door", "", "ajar", 1e9, 1, "uncertain", {"floor": "1"}, {"r": 3, "x": 1})
    payloads = [b"21.5", b'{"value": 3}', pack, b"open", door.encode()]
    spool.payloads("gw-a", 1, 1, payloads)
    spool.payloads("gw-a", 1, 1, payloads)  # a copy
    spool.sync()
    a = ingest(spark, spool, tmp_path / "tables")["gw-a"]
    assert (a.messages, a.duplicates, a.undecodable) == (5, 5, 1)
    rows = sorted(table(tmp_path / "tables", "telemetry"), key=lambda row: row["sequence"])
    assert [row["value"] for row in rows] == [21.5, 3.0, 230.0, None, None]
    last = rows[4]
    assert (last["value_text"], last["quality"], last["tags"]) == (
        *("ajar", "uncertain"),
        [("floor", "1")],
    )
    assert json.loads(last["more"]) == {"r": 3, "x": 1}
    assert [(row["sensor"], row["unit"]) for row in rows[1:3]] == [(None, None), ("m/u", "V")]
    assert [each["sensor"] for each in rows[2]["measurements"]] == ["m/u", "m/i"]
    assert rows[3]["record_error"].startswith("neither a number nor JSON")


def test_plain_pyarrow_reads_the_tables_with_their_types(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1)
    spool.sync()
    ingest(spark, spool, tmp_path / "tables")
    schema = pq.read_table(tmp_path / "tables" / "current" / "telemetry").schema
    assert schema.names == tables.TELEMETRY.names
    assert str(schema.field("origin_time").type) == "timestamp[us, tz=UTC]"
    (row,) = table(tmp_path / "tables", "telemetry")
    assert (row["sensor"], row["unit"], row["value"]) == ("host/load1", "/", 1.5)
    assert (row["device_number"], row["sequence"], row["qos"]) == (1, 1, 1)
    assert (row["origin_time"] - row["device_time"]).total_seconds() == 0.25
    fleet_schema = pq.read_table(tmp_path / "tables" / "current" / "fleet").schema
    assert fleet_schema.names == tables.FLEET.names


def test_an_empty_spool_makes_empty_tables_that_can_be_read(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    assert ingest(spark, spool, tmp_path / "tables") == {}
    assert table(tmp_path / "tables", "telemetry") == []
    assert table(tmp_path / "tables", "fleet") == []


def test_a_second_run_over_a_grown_spool_replaces_the_tables_in_one_step(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1, 5)
    spool.sync()
    ingest(spark, spool, tmp_path / "tables")
    spool.readings("gw-a", 1, 6, 5)
    spool.sync()
    assert ingest(spark, spool, tmp_path / "tables")["gw-a"].messages == 10
    assert len(table(tmp_path / "tables", "telemetry")) == 10
    before = pq.read_table(tmp_path / "tables" / "v00000001" / "telemetry")
    assert before.num_rows == 5


def test_a_corrupt_frame_stops_the_job_names_its_place_and_leaves_the_tables(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1, 5)
    spool.sync()
    ingest(spark, spool, tmp_path / "tables")
    at = spool.readings("gw-a", 1, 6, 5)
    spool.sync()
    data = bytearray(spool.segment.read_bytes())
    data[at + 20] ^= 1
    spool.segment.write_bytes(data)
    with pytest.raises(SpoolError) as raised:
        ingest(spark, spool, tmp_path / "tables")
    assert (raised.value.file, raised.value.at) == (spool.segment.name, at)
    assert len(table(tmp_path / "tables", "telemetry")) == 5


def test_a_missing_segment_found_while_planning_is_named_as_well(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1)
    spool.sync()
    mark = read_mark(spool.folder)
    spool.segment.unlink()
    with pytest.raises(SpoolError, match="is missing"):
        job.run(spark, spool.folder, mark, tmp_path / "tables")


def test_a_pinned_mark_shows_the_same_messages_while_the_collector_writes_on(
    spark: SparkSession, spool: Any
) -> None:
    spool.readings("gw-a", 1, 1, 5)
    spool.sync()
    mark = read_mark(spool.folder)
    assert source.messages(spark, spool.folder, mark).count() == 5
    spool.readings("gw-a", 1, 6, 5)
    spool.sync()
    assert source.messages(spark, spool.folder, mark).count() == 5
    assert spark.read.format(source.FORMAT).load(str(spool.folder)).count() == 10


def test_a_session_is_closed_to_the_network_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_gaps_are_what_interval_sets_say_for_any_order_and_loss(
    spark: SparkSession, spool: Any
) -> None:
    """Random batches of three boots, shuffled, some lost, some twice: the same gaps both ways."""
    choice = random.Random(20)
    batches = [
        (epoch, first, choice.randint(1, 4)) for epoch in (1, 2, 3) for first in range(1, 80, 4)
    ]
    kept = [b for b in batches if choice.random() < 0.8]
    kept += choice.sample(kept, 5)
    choice.shuffle(kept)
    seen: dict[int, Intervals] = {}
    for epoch, first, count in kept:
        spool.readings("gw-a", epoch, first, count)
        seen.setdefault(epoch, Intervals()).add(first, first + count - 1)
    spool.sync()
    unique = tables.without_duplicates(
        source.messages(spark, spool.folder, read_mark(spool.folder))
    )
    found = {row["boot_epoch"]: row["missing"] for row in fleet.sequences(unique).collect()}
    assert found == {epoch: numbers.last - numbers.count() for epoch, numbers in seen.items()}
    total = sum(numbers.count() for numbers in seen.values())
    assert unique.count() == total


def test_an_error_that_is_not_the_spools_is_not_taken_for_one(
    spark: SparkSession, spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "sequences", lambda unique: unique.select("no_such_column"))
    with pytest.raises(PySparkException, match="no_such_column"):
        job.run(spark, spool.folder, read_mark(spool.folder), tmp_path / "tables")

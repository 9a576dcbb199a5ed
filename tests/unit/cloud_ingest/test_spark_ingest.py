"""The spool through a real Spark session to the tables, as any reader of Delta finds them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import msgpack
import pytest
from authority import Authority
from pyspark.sql import SparkSession
from readers import COLUMNS, MAINTENANCE, WHERE, filtered, rows_of, write_tables
from spark_runs import ingest, member, table

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.evidence.signs import IngestSigns
from cloud_ingest.ingest import after_commit
from cloud_ingest.ingest.after_commit import FactsTeller
from cloud_ingest.ingest.set_aside import AsideCounts
from cloud_ingest.mapping import rules as mapping_rules
from cloud_ingest.query import frame
from cloud_ingest.spool.segments import SpoolError
from cloud_ingest.tables.schemas import PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from gateway.node.signing.own import OwnKey
from gateway.node.signing.ring import CertificateRing
from gateway.node.signing.trust import Trust
from record_formats.record import Record
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.seal import Seals

pytestmark = pytest.mark.slow

STAMP = ("origin", "boot_epoch", "logged", "sequence")


@pytest.fixture(autouse=True, scope="module")
def _started(spark: SparkSession) -> None:
    """Start Spark outside of the first test's time limit."""


def stamps(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in STAMP) for row in rows)


def test_a_fleet_with_every_fault_is_counted_and_none_is_hidden(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    target = tmp_path / "tables"
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
    spool.append(batch.passed(("gw-b", 1), 4, 9)[0])
    spool.sync()
    spool.readings("gw-a", 2, 6, 50)  # not safe yet
    spool.append(b"torn")

    found = ingest(spark, spool, target, max_bytes=1)  # a segment a trigger
    a, b = found["gw-a"], found["gw-b"]
    assert a.boot_epochs == [1, 2]
    assert (a.messages, a.logged, a.control) == (16, 12, 3)
    assert (a.duplicates, a.gaps, a.undecodable) == (3, 2, 0)
    assert (a.domain, a.group) == ("campus", "north")
    assert a.accept_latency_mean_ms == pytest.approx(250.0)
    assert (b.messages, b.gaps, b.undecodable, b.kept_local, b.domain) == (3, 0, 3, 6, None)

    telemetry = table(target, "telemetry")
    assert set(stamps(telemetry).values()) == {1}
    assert len(telemetry) == 16
    assert not any(row["topic"].startswith("$") for row in telemetry)
    assert {row["domain"] for row in telemetry} == {"campus"}
    assert {(row["boot_epoch"], row["group"]) for row in telemetry} == {(1, "south"), (2, "north")}
    aside = table(target, "quarantine")
    assert {row["bytes"]: row["reason"][:7] for row in aside} == {
        b"\xc1": "neither",
        b"": "empty",
        b"open": "neither",
    }
    assert {row["segment"] for row in aside} == {spool.segment.name}
    mark = (spool.folder / "committed.ingest").read_text()
    assert mark == (spool.folder / "synced").read_text()


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
    assert [row["value"] for row in rows] == [21.5, 3.0, 230.0, None]
    last = rows[3]
    assert (last["value_text"], last["quality"], last["tags"]) == (
        *("ajar", "uncertain"),
        [("floor", "1")],
    )
    assert json.loads(last["more"]) == {"r": 3, "x": 1}
    assert [(row["sensor"], row["unit"]) for row in rows[1:3]] == [(None, None), ("m/u", "V")]
    assert [each["sensor"] for each in rows[2]["measurements"]] == ["m/u", "m/i"]


def test_readers_of_arrow_find_the_columns_with_their_types_and_partitions(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    day_us = 86_400_000_000
    spool.readings("gw-a", 1, 1)
    spool.readings("gw-a", 1, 2, origin_time_us=1_760_000_000_000_000 - 40 * day_us)  # late
    spool.readings("gw-a", 1, 3, origin_time_us=5)  # its clock was never set
    spool.sync()
    ingest(spark, spool, tmp_path / "tables")
    found = deltalake.DeltaTable(tmp_path / "tables" / "telemetry")
    schema = found.to_pyarrow_dataset().schema
    assert schema.names == TELEMETRY.names
    assert str(schema.field("origin_time").type) == "timestamp[us, tz=UTC]"
    assert found.metadata().partition_columns == list(PARTITIONS)
    rows = sorted(table(tmp_path / "tables", "telemetry"), key=lambda row: row["sequence"])
    days = [row["day"].isoformat() for row in rows]
    assert days == ["2025-10-09", "2025-08-30", rows[2]["collected_time"].date().isoformat()]
    assert (rows[0]["sensor"], rows[0]["unit"], rows[0]["value"]) == ("host/load1", "/", 1.5)
    assert (rows[0]["origin_time"] - rows[0]["device_time"]).total_seconds() == 0.25
    names = deltalake.DeltaTable(tmp_path / "tables" / "quarantine").to_pyarrow_dataset().schema
    assert names.names == QUARANTINE.names


def test_a_run_reads_what_is_new_and_one_without_news_changes_nothing(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    target = tmp_path / "tables"
    assert ingest(spark, spool, target) == {}
    assert table(target, "telemetry") == []
    spool.readings("gw-a", 1, 1, 5)
    spool.sync()
    ingest(spark, spool, target)
    spool.readings("gw-a", 1, 6, 5)
    spool.sync()
    assert ingest(spark, spool, target)["gw-a"].messages == 10
    version = deltalake.DeltaTable(target / "telemetry").version()
    assert ingest(spark, spool, target)["gw-a"].messages == 10
    assert deltalake.DeltaTable(target / "telemetry").version() == version
    assert len(table(target, "telemetry")) == 10


def test_records_that_came_over_two_collectors_are_one_row_each(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    other = type(spool)(tmp_path / "other")
    for number in range(1, 40, 3):
        spool.readings("gw-a", 1, number, 3)
        other.readings("gw-a", 1, number, 2)
    other.readings("gw-a", 1, 40, 5)
    for each in (spool, other):
        each.sync()
    found = ingest(spark, [spool, other], tmp_path / "tables")["gw-a"]
    assert (found.messages, found.gaps, found.duplicates) == (44, 0, 26)
    rows = stamps(table(tmp_path / "tables", "telemetry"))
    assert (len(rows), set(rows.values())) == (44, {1})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("lost", ["checkpoint", "ledger", "both", "all but the rows"])
def test_what_the_job_remembers_may_be_deleted_and_nothing_is_doubled(
    spark: SparkSession, spool: Any, tmp_path: Path, lost: str
) -> None:
    target = tmp_path / "tables"
    spool.readings("gw-a", 1, 1, 30)
    spool.payloads("gw-a", 1, 31, [b"no reading"] * 3)
    spool.append(b"damaged")
    spool.sync()
    ingest(spark, spool, target)
    if lost != "ledger":
        shutil.rmtree(tmp_path / "c")
    if lost != "checkpoint":
        shutil.rmtree(target / "_ledger", ignore_errors=True)
    if lost == "all but the rows":
        for name in ("telemetry", "quarantine"):
            deltalake.DeltaTable(target / name).create_checkpoint()
            (target / name / "_delta_log" / f"{0:020d}.json").unlink()
    spool.length -= len(b"damaged")
    spool.segment.write_bytes(spool.segment.read_bytes()[: spool.length])
    spool.append(b"damaged")
    spool.readings("gw-a", 1, 34, 10)
    spool.sync()
    found = ingest(spark, spool, target)["gw-a"]
    assert found.messages == 43
    rows = stamps(table(target, "telemetry"))
    assert (len(rows), set(rows.values())) == (40, {1})
    messages = [row for row in table(target, "quarantine") if row["origin"] is not None]
    assert len(messages) == 3


def test_damaged_bytes_go_to_quarantine_a_copy_elsewhere_counts_and_the_job_goes_on(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    target = tmp_path / "tables"
    spool.readings("gw-a", 1, 1, 5)
    at = spool.readings("gw-a", 1, 6, 5)
    end = spool.readings("gw-a", 1, 11, 5)
    body: list[Any] = [Entry(5, b"1")]  # type: ignore[arg-type]  # the fault
    wrong = batch.encode("gw-a", 1, 16, body, flags=Flags.LOGGED, origin_time_us=0)
    wrong_at = spool.append(wrong)
    spool.readings("gw-a", 1, 16, 1)  # as it came over another link
    spool.readings("gw-a", 1, 8, 1)
    spool.sync()
    data = bytearray(spool.segment.read_bytes())
    data[at + 20] ^= 1
    spool.segment.write_bytes(data)
    found = ingest(spark, spool, target)["gw-a"]
    assert (found.messages, found.gaps) == (12, 4)
    rows = {row["sequence"] for row in table(target, "telemetry")}
    assert rows == {*range(1, 6), 8, *range(11, 17)}
    aside = sorted(table(target, "quarantine"), key=lambda row: row["position"])
    assert [row["position"] for row in aside] == [at, wrong_at]
    assert [row["bytes"] for row in aside] == [bytes(data[at:end]), wrong]
    assert "CRC" in aside[0]["reason"]
    assert "wrong type" in aside[1]["reason"]


def test_a_batch_that_is_not_its_origins_goes_to_quarantine(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    a, b = (authority.issue(name, is_gateway=True) for name in ("gw-a", "gw-b"))
    for number, issued in ((1, a), (2, b), (3, a)):
        signer = OwnKey.read(issued.certificate, issued.key).signer
        seal = Seals(signer, CertificateRing(Trust([]), 0.0), "t").seal
        rows = [Entry("t", b"1", 1).row()]
        spool.append(
            batch.make("gw-a", 1, number, rows, flags=Flags.LOGGED, origin_time_us=0, seal=seal)[0]
        )
    spool.sync()
    certificates = msgpack.packb([[a.der], [b.der]])
    ingest(spark, spool, tmp_path / "tables", certificates=certificates, tree="t")
    assert {row["sequence"] for row in table(tmp_path / "tables", "telemetry")} == {1, 3}
    (aside,) = table(tmp_path / "tables", "quarantine")
    assert "signature" in aside["reason"]


def test_a_spool_with_a_hole_ends_the_job_with_its_place(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1)
    spool.sync()
    spool.segment.unlink()
    with pytest.raises(SpoolError, match="is missing"):
        ingest(spark, spool, tmp_path / "tables")


def test_the_facts_of_a_batch_are_told_though_the_job_died_before_it_told_them(
    spark: SparkSession, spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BatchFacts] = []

    class Follower:
        def after(self, facts: BatchFacts) -> None:
            told.append(facts)

        def try_out(self, facts: BatchFacts) -> None:
            pass

        def tables_have(self, all_numbers: object) -> None:
            pass

        def progressed(self, collected_us: int, now_us: int) -> None:
            pass

        def ingest_says(self, signs: IngestSigns, now_us: int) -> None:
            pass

        def tick(self, now_us: int) -> bool:
            return False

        def ingest_ends(self) -> None:
            pass

        def close(self) -> None:
            pass

    def dies(self: FactsTeller, facts: BatchFacts) -> None:
        raise OSError("the job dies here")

    def teller(
        tables: TableStore, _: Any, last_batch: Any, numbers: Any, aside: AsideCounts, __: Any
    ) -> FactsTeller:
        return FactsTeller(tables, lambda query: Follower(), last_batch, numbers, aside)

    monkeypatch.setattr(after_commit, "teller", teller)
    member(spool, "gw-a", 1, 1, "south")
    spool.readings("gw-a", 1, 1, 4)
    spool.readings("gw-a", 1, 4, 2)
    spool.payloads("gw-a", 1, 6, [b"\xc1"])
    spool.payloads("gw-a", 1, 7, [b"\x80"], topic="campus/south/gw-a/$status")
    spool.sync()
    with monkeypatch.context() as dying:
        dying.setattr(FactsTeller, "committed", dies)
        with pytest.raises(Exception, match="the job dies here"):
            ingest(spark, spool, tmp_path / "tables")
    ingest(spark, spool, tmp_path / "tables")
    (facts,) = told
    assert [(one.kind, one.sequence) for one in facts.statements] == [("member", 1), ("status", 7)]
    client = next(one for one in facts.numbers if not one.control)
    assert client.seen == ((1, 7),)
    (activity,) = facts.activity
    assert (activity.messages, activity.undecodable, activity.duplicates) == (7, 1, 1)
    (sensor,) = facts.sensors
    assert (sensor.count, sensor.low, sensor.high, sensor.changes) == (5, 1.5, 5.5, 4)
    counts = {one.stage: sum(one.counts.values()) for one in facts.delays}
    assert counts == dict.fromkeys(("origin-collector", "collector-table", "origin-table"), 7) | {
        "device-origin": 5
    }
    (bucket,) = next(one for one in facts.delays if one.stage == "device-origin").counts
    assert 2 ** (bucket / 4) <= 250 < 2 ** ((bucket + 1) / 4)
    assert len(table(tmp_path / "tables", "telemetry")) == 6


def test_rules_reach_the_tasks_of_spark_and_messages_of_other_makes_are_rows(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    rules = mapping_rules.read(
        """
        [[mapping]]
        topic = "plant/{line}/data"
        format = "json"
        measurements = [{sensor = "{line}/t", value = "$.t", unit = "Cel"}]
        """
    )
    spool.payloads("gw-a", 1, 1, [b'{"t": 21.5}', b'{"u": 1}'], topic="plant/1/data")
    spool.payloads("gw-a", 1, 1, [b'{"t": 21.5}', b'{"u": 1}'], topic="plant/1/data")
    spool.readings("gw-a", 1, 3)
    spool.sync()
    a = ingest(spark, spool, tmp_path / "tables", mappings=rules)["gw-a"]
    assert (a.messages, a.duplicates, a.undecodable, a.gaps) == (3, 2, 1, 0)
    read = sorted(table(tmp_path / "tables", "telemetry"), key=lambda row: row["sequence"])
    assert [(row["sensor"], row["value"], row["unit"]) for row in read] == [
        ("1/t", 21.5, "Cel"),
        ("host/load1", 3.5, "/"),
    ]
    (aside,) = table(tmp_path / "tables", "quarantine")
    assert (aside["sequence"], aside["reason"]) == (2, "value: $.t: missing")


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    "maintenance",
    [
        name
        if name in ("compaction", "restored", "all of it")
        else pytest.param(name, marks=pytest.mark.soak("the other readers read after it, too"))
        for name in MAINTENANCE
    ],
)
def test_spark_reads_the_files_that_the_log_names_after_each_kind_of_maintenance(
    spark: SparkSession, maintenance: str, tmp_path: Path
) -> None:
    store = write_tables(tmp_path, as_before=True)
    MAINTENANCE[maintenance](store)
    table = deltalake.DeltaTable(store.at("telemetry").uri)
    # As docs/data.md says it.
    read = spark.read.option("basePath", table.table_uri).parquet(*table.file_uris())
    found = read.select(*COLUMNS).collect()
    assert sorted((tuple(row) for row in found), key=str) == rows_of(store)
    found = read.where(WHERE).select(*COLUMNS).collect()
    assert sorted((tuple(row) for row in found), key=str) == filtered(rows_of(store))
    assert frame(store.uri, "hall/t", as_="spark").count() == len(
        [row for row in rows_of(store) if row[1] % 10 < 2]
    )

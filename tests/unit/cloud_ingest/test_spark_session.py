"""The session that the job makes, and its tables while they are looked after beside it."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.sql import SparkSession
from spark_runs import ingest, table

from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.upkeep import UpkeepSettings

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _started(spark: SparkSession) -> None:
    """Start Spark outside of the first test's time limit."""


def test_a_session_is_closed_to_the_network_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_sparks_own_python_imports_the_installed_pyspark_and_compiles_none(spark: Any) -> None:
    def where(_: int) -> str:
        return str(importlib.import_module("pyspark").__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert Path(found).is_file()  # in an archive it would be none


def test_a_checkpoint_has_sparks_own_files_alone(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    spool.readings("gw-a", 1, 1, 5)
    spool.sync()
    ingest(spark, spool, tmp_path / "tables")
    place = tmp_path / "c"
    files = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert files == {"metadata", "offsets/0", "commits/0"}  # and no checksums of Hadoop's


def test_a_forgotten_gateway_stays_forgotten_and_goes_on(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    target = tmp_path / "tables"
    spool.readings("gw-a", 1, 1, 5)
    spool.readings("gw-b", 1, 1, 5)
    spool.payloads("gw-a", 1, 6, [b"private"])
    spool.sync()
    ingest(spark, spool, target)
    assert GatewayErasure(TableStore(str(target))).forget("gw-a").rows > 6  # also of the fleet's
    shutil.rmtree(tmp_path / "c")
    spool.readings("gw-a", 1, 7, 1)
    spool.sync()
    ingest(spark, spool, target)
    rows = {(row["origin"], row["sequence"]) for row in table(target, "telemetry")}
    assert rows == {("gw-a", 7), *(("gw-b", number) for number in range(1, 6))}
    assert table(target, "quarantine") == []
    files = [path for path in target.rglob("*.parquet") if "_delta_log" not in path.parts]
    assert not any(b"private" in path.read_bytes() for path in files)


def test_readers_in_mid_query_see_their_version_while_small_files_are_joined(
    spark: SparkSession, spool: Any, tmp_path: Path
) -> None:
    target = tmp_path / "tables"
    for number in range(1, 6):
        spool.readings("gw-a", 1, number)
        spool.sync()
        ingest(spark, spool, target)
    store = TableStore(str(target))
    reading = deltalake.DeltaTable(target / "telemetry").to_pyarrow_dataset().to_batches()
    seen = next(reading).num_rows
    assert upkeep.compact(store) == 5
    upkeep.clean(store, UpkeepSettings())
    assert seen + sum(part.num_rows for part in reading) == 5
    assert len(deltalake.DeltaTable(target / "telemetry").file_uris()) == 1
    spool.readings("gw-a", 1, 6)
    spool.sync()
    assert ingest(spark, spool, target)["gw-a"].messages == 6
    assert len(table(target, "telemetry")) == 6
    upkeep.clean(store, UpkeepSettings(keep_days=1))
    assert table(target, "telemetry") == []  # of October 2025
    assert ingest(spark, spool, target, checkpoint="another")["gw-a"].messages == 6
    assert table(target, "telemetry") == []  # its numbers are kept

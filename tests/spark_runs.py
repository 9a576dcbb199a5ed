"""The job in one Spark session, run to the end of what a spool has, and the tables after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
from pyspark.sql import SparkSession

from cloud_ingest.job import command as job
from cloud_ingest.job import report
from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.job.report import FleetRow
from cloud_ingest.tables.store import TableStore
from tree_handler.batch import Flags
from tree_handler.members.member import MemberRecord

CONTROL = Flags.LOGGED | Flags.CONTROL


def ingest(
    spark: SparkSession, spools: Any, target: Path, checkpoint: str = "c", **settings: Any
) -> dict[str, FleetRow]:
    """Read what is there and end."""
    max_bytes = settings.pop("max_bytes", 256 << 20)
    taking = Ingest(IngestSettings(TableStore(str(target)), **settings))
    folders = [spool.folder for spool in (spools if isinstance(spools, list) else [spools])]
    place = str(target.parent / checkpoint)
    job.ended(lambda: job.start(spark, taking, folders, place, max_bytes=max_bytes))
    return {row.gateway: row for row in report.fleet_of(taking.ledger)}


def table(target: Path, name: str) -> list[dict[str, Any]]:
    dataset = deltalake.DeltaTable(target / name).to_pyarrow_dataset()
    rows: list[dict[str, Any]] = dataset.to_table().to_pylist()
    return rows


def member(spool: Any, origin: str, epoch: int, number: int, group: str) -> None:
    record = MemberRecord(origin, epoch, 1, "campus", group, "10.0.0.1", 1883)
    topic = f"$hedgerow/member/{origin}"
    spool.payloads(origin, epoch, number, [record.encode()], topic=topic, flags=CONTROL)

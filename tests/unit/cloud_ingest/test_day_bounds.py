"""A gateway whose clock jumps makes the job write a few files, not one for each of its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cloud_ingest.ingest.decoding import carry_out
from cloud_ingest.ingest.partition_columns import MAX_DAYS
from cloud_ingest.ingest.plan import SpoolStretch
from cloud_ingest.ingest.tasks import TaskOrder
from cloud_ingest.tables.schemas import YEAR_2020_US
from cloud_ingest.tables.store import TableStore

DAY_US = 86_400_000_000
DAYS = 3 * MAX_DAYS


def test_messages_of_more_days_than_a_task_takes_stand_in_the_day_when_they_were_collected(
    spool: Any, tmp_path: Path
) -> None:
    for day in range(DAYS):
        told_us = YEAR_2020_US + day * DAY_US
        spool.payloads("gw-a", 1, 1 + day, [b"21.5"], origin_time_us=told_us)
    spool.payloads("gw-b", 1, 1, [b"7"], origin_time_us=YEAR_2020_US + DAYS * DAY_US)
    spool.sync()
    stretch = SpoolStretch(str(spool.folder), spool.segment.name, 0, spool.length, None)
    store = TableStore(str(tmp_path / "tables"))
    order = TaskOrder([stretch], {}, store.at("telemetry"), store.at("quarantine"), 7)
    result = carry_out(order)
    assert len(result.telemetry) == MAX_DAYS + 2
    rows = [
        (row["origin"], row["sequence"], row["origin_time"])
        for file in result.telemetry
        for row in pq.read_table(tmp_path / "tables/telemetry" / file.path).to_pylist()
    ]
    assert {row[:2] for row in rows} == {("gw-b", 1), *(("gw-a", 1 + day) for day in range(DAYS))}
    assert len(rows) == DAYS + 1
    assert len({row[2] for row in rows}) == DAYS + 1

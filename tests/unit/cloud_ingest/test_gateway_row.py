"""One gateway's row as the page gets it, and latencies of tables with parts and without."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from synthetic_tables import GATEWAYS, LATENCY, NOW, rows

from cloud_ingest.dashboard import fleet_view
from cloud_ingest.dashboard.rollups import Rollups
from cloud_ingest.query.lake import Lake

TABLE = rows(
    GATEWAYS,
    [
        {"gateway": "gw-a", "health": "good", "boot_epoch": 2**62 + 1, "counters": []},
        {"gateway": "gw-b", "counters": [("z", 1), ("a", 2)], "messages": 7},
        {"gateway": "gw-b", "messages": 8},
    ],
)


def test_a_gateway_s_row_has_numbers_that_javascript_reads_and_counters_in_order() -> None:
    one = fleet_view.gateway(TABLE, "gw-a")
    assert one is not None
    assert (one["boot_epoch"], one["counters"]) == ("4611686018427387905", [])
    other = fleet_view.gateway(TABLE, "gw-b")
    assert other is not None
    assert (other["boot_epoch"], other["messages"]) == (None, 7)
    assert other["counters"] == [("a", 2), ("z", 1)]


def test_a_gateway_that_has_no_row_has_none() -> None:
    assert fleet_view.gateway(TABLE, "gw-c") is None
    assert fleet_view.gateway(None, "gw-a") is None


@pytest.mark.parametrize(("has_parts", "messages", "p50_ms"), [(True, 4, 4.0), (False, 3, 5.0)])
def test_parts_of_a_minute_are_added_up_and_what_has_none_is_told_once(
    tmp_path: Path, has_parts: bool, messages: int, p50_ms: float
) -> None:
    minute: dict[str, Any] = {"gateway": "gw", "minute": NOW, "stage": "origin-table"}
    minute |= {"p95_ms": 1.0, "p99_ms": 1.0, "max_ms": 1.0}
    told = [
        minute | {"part": 0, "count": 1, "p50_ms": 1.0},
        minute | {"part": 0, "count": 1, "p50_ms": 1.0},
        minute | {"part": 1, "count": 3, "p50_ms": 5.0},
    ]
    left = ["day"] if has_parts else ["day", "part"]
    table = rows(LATENCY, told).drop_columns(left)
    folder = tmp_path / "latency" / f"day={NOW.date()}"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "a.parquet")
    schema = LATENCY if has_parts else LATENCY.remove(LATENCY.get_field_index("part"))
    rollups = Rollups(Lake(tmp_path))
    dataset = ds.dataset([str(folder / "a.parquet")], schema)
    assert not rollups.follow("latency", dataset)  # there is no further day
    (found,) = rollups.rows("SELECT day, messages, p50_ms FROM delays")
    assert found == (datetime.date(2026, 11, 20), messages, p50_ms)

"""Numbers that are missing, and how long messages took."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cloud_ingest.dashboard.plain import columns
from cloud_ingest.dashboard.rollups import BUCKET_S, Rollups

GAPS_MAX: Final = 2_000
_GAPS: Final = (
    *("gateway", "boot_epoch", "logged", "first", "last", "found_time", "closed_time"),
    "state",
)
_OF_ALL: Final = """
SELECT stage, bucket, sum(messages) AS messages, median(p50_ms) AS p50_ms,
       median(p95_ms) AS p95_ms, max(p99_ms) AS p99_ms
FROM delays WHERE bucket >= ? GROUP BY stage, bucket ORDER BY stage, bucket
"""
_OF_ONE: Final = """
SELECT stage, bucket, messages, p50_ms, p95_ms, p99_ms
FROM delays WHERE gateway = ? AND bucket >= ? ORDER BY stage, bucket
"""
_SLOWEST: Final = """
SELECT gateway, CAST(sum(messages) AS BIGINT), max(p95_ms), max(p99_ms), max(max_ms)
FROM delays WHERE stage = ? AND bucket >= ? GROUP BY gateway ORDER BY 3 DESC LIMIT 20
"""


def gaps(table: pa.Table | None) -> dict[str, Any]:
    """Return gaps as columns, those that are open first, and how much is missing."""
    if table is None:
        return {"open": 0, "missing": 0, "gaps": {}}
    is_open = pc.is_null(table["closed_time"])
    still = table.filter(is_open)
    counts = pc.add(pc.subtract(still["last"], still["first"]), 1)
    newest = [("found_time", "descending")]
    ordered = pa.concat_tables(
        [still.sort_by(newest), table.filter(pc.invert(is_open)).sort_by(newest)]
    )
    found = columns(ordered.slice(0, GAPS_MAX), _GAPS)
    # 64 bits, and a number of JavaScript has 53.
    found["boot_epoch"] = [None if each is None else str(each) for each in found["boot_epoch"]]
    return {"open": still.num_rows, "missing": pc.sum(counts).as_py() or 0, "gaps": found}


def latency(rollups: Rollups, hours: float, gateway: str | None = None) -> dict[str, Any]:
    """Return by stage how many messages came a second, and how long they took.

    Of the whole fleet ``p50_ms`` and ``p95_ms`` are those of the gateway in the middle, ``p99_ms``
    is of the slowest.

    Args:
        rollups: what has been read of the table.
        hours: so many before the newest row.
        gateway: only of this one.

    """
    first = _first(rollups, hours)
    if gateway is None:
        rows = rollups.rows(_OF_ALL, first)
    else:
        rows = rollups.rows(_OF_ONE, gateway, first)
    stages: dict[str, dict[str, list[Any]]] = {}
    for stage, bucket, messages, *took_ms in rows:
        told = stages.setdefault(
            stage, {name: [] for name in ("time_ms", "rate_per_s", "p50_ms", "p95_ms", "p99_ms")}
        )
        told["time_ms"].append(bucket * BUCKET_S * 1000)
        told["rate_per_s"].append(float(f"{int(messages) / BUCKET_S:.6g}"))
        for name, value in zip(("p50_ms", "p95_ms", "p99_ms"), took_ms, strict=True):
            told[name].append(None if value is None else float(f"{value:.4g}"))
    return {"part_s": BUCKET_S, "stages": stages}


def slowest(rollups: Rollups, hours: float, stage: str = "origin-table") -> dict[str, Any]:
    """Return the gateways whose messages took longest over a stage, as columns."""
    rows = rollups.rows(_SLOWEST, stage, _first(rollups, hours))
    names = ("gateway", "messages", "p95_ms", "p99_ms", "max_ms")
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def _first(rollups: Rollups, hours: float) -> int:
    newest = rollups.rows("SELECT coalesce(max(bucket), 0) FROM delays")[0][0]
    return int(newest - hours * 3600 // BUCKET_S + 1)

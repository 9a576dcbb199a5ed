"""History of gateways' status, a row for each quarter of an hour of the last days.

The table `gateways` says how each one is now. What it was like is in its statuses, which are rows
of `telemetry` as other messages are. One of each quarter of an hour is kept in memory, the last.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cloud_ingest.dashboard.day_files import DayChange, oldest_recent
from record_formats.status_record import MAX_BYTES, SUFFIX, StatusError, decode

PART_S: Final = 900
_PART_US: Final = PART_S * 1_000_000
LINKS_MAX: Final = 16
"""Of a status; those that forward stand first in it."""
PEERS_SHOWN_MAX: Final = 8
ROWS_MAX: Final = 1_000_000
"""Statuses, some 200 bytes each; the oldest day goes when there are more."""
MEMORY: Final = "512MB"
FIGURES: Final = (
    *("temperature_cel", "load1", "memory_bytes", "memory_available_bytes"),
    *("disk_free_bytes", "disk_total_bytes", "mqtt_clients", "queue_messages"),
    *("clock_offset_ms", "root_cost_ms"),
)
"""Of a status record, and how the columns are called that `StatusHistory.of` tells."""

# The origin's clock counts unless it is absurd, as for the day of a row (`tables.schemas.day_of`);
# which topic is a gateway's status is the job's rule (`ingest.columns.is_status_of`).
_NEWEST: Final = """
WITH each AS (
    SELECT origin, payload, epoch_us(CASE
        WHEN origin_time >= TIMESTAMPTZ '2020-01-01 00:00:00+00'
        AND origin_time <= coalesce(collected_time, origin_time) + INTERVAL 2 day THEN origin_time
        ELSE collected_time END) AS at_us
    FROM batch
    WHERE len(string_split(topic, '/')) = 4 AND split_part(topic, '/', 3) = origin
)
SELECT origin, CAST(at_us // ? AS INTEGER) AS part, max(at_us), arg_max(payload, at_us)
FROM each WHERE at_us IS NOT NULL GROUP BY 1, 2
"""
_NEWER: Final = """
CREATE OR REPLACE TEMP TABLE newer AS SELECT * FROM fresh WHERE NOT EXISTS (
    FROM statuses WHERE statuses.gateway = fresh.gateway AND statuses.part = fresh.part
    AND statuses.at_us >= fresh.at_us
)
"""
_REPLACE: Final = """
DELETE FROM statuses USING newer
WHERE statuses.gateway = newer.gateway AND statuses.part = newer.part
"""
_DROP_OLDEST: Final = """
DELETE FROM statuses WHERE day < (
    SELECT min(day) FROM (
        SELECT day, sum(count(*)) OVER (ORDER BY day DESC) AS with_newer
        FROM statuses GROUP BY day
    ) WHERE with_newer <= ?
)
"""
_OF_ONE: Final = """
SELECT * EXCLUDE (day, gateway) FROM statuses WHERE gateway = $1
AND part > (SELECT max(part) FROM statuses WHERE gateway = $1) - $2 ORDER BY part
"""
_READ: Final = ("origin", "topic", "payload", "origin_time", "collected_time")
_KINDS: Final = pa.schema(
    [
        *(("day", pa.string()), ("gateway", pa.string()), ("part", pa.int32())),
        *(("at_us", pa.int64()), *((name, pa.float64()) for name in FIGURES)),
        ("links", pa.list_(pa.struct([("peer", pa.string()), ("rtt_ms", pa.float64())]))),
    ]
)


class StatusHistory:
    """The statuses of the last days.

    One thread at a time may call `take`; `of` may be called from any.

    Args:
        rows_max: see `ROWS_MAX`.

    """

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._base = duckdb.connect(config={"memory_limit": MEMORY})
        self._base.register("fresh", _KINDS.empty_table())
        self._base.execute("CREATE TABLE statuses AS SELECT * FROM fresh")
        self._base.unregister("fresh")
        self._lock = threading.Lock()
        self._newest_day = ""

    def take(self, batch: ds.Dataset | None, change: DayChange) -> None:
        """Take up what files of `telemetry` say; what was taken up before is not told twice.

        Args:
            batch: the files; None where the day has none any longer.
            change: the day, and whether it is to be forgotten first.

        Raises:
            OSError: a file can't be read.

        """
        self._newest_day = max(self._newest_day, change.day)
        oldest = oldest_recent(self._newest_day)
        with self._cursor() as cursor:
            found = list[Any]()
            if batch is not None and change.day >= oldest:
                cursor.register("batch", _statuses(batch))
                found = cursor.execute(_NEWEST, [_PART_US]).fetchall()
            cursor.register("fresh", _decoded(change.day, found))
            cursor.execute("BEGIN")
            if change.is_anew:
                cursor.execute("DELETE FROM statuses WHERE day = ?", [change.day])
            cursor.execute("DELETE FROM statuses WHERE day < ?", [oldest])
            cursor.execute(_NEWER)
            cursor.execute(_REPLACE)
            cursor.execute("INSERT INTO statuses SELECT * FROM newer")
            cursor.execute(_DROP_OLDEST, [self._rows_max])
            cursor.execute("COMMIT")

    def of(self, gateway: str, hours: int) -> dict[str, Any]:
        """Return how a gateway was.

        Args:
            gateway: its id; one that is not known has said nothing.
            hours: so many before its newest status.

        Returns:
            ``part_s``, ``time_ms`` and `FIGURES` as columns, null where a status did not say; and
            ``links``: of each peer ``peer`` and the column ``rtt_ms``, those that were there
            longest first; ``peer_count`` says how many there were.

        """
        with self._cursor() as cursor:
            rows = cursor.execute(_OF_ONE, [gateway, hours * 3600 // PART_S]).fetchall()
        told: dict[str, Any] = {"part_s": PART_S, "time_ms": [row[1] // 1000 for row in rows]}
        for at, name in enumerate(FIGURES, 2):
            told[name] = [_short(row[at]) for row in rows]
        rtts: dict[str, list[float | None]] = {}
        for at, row in enumerate(rows):
            for link in row[-1] or ():
                of_peer = rtts.setdefault(link["peer"], [None] * len(rows))
                of_peer[at] = _short(link["rtt_ms"])
        longest = sorted(rtts, key=lambda peer: (rtts[peer].count(None), peer))
        told["peer_count"] = len(longest)
        told["links"] = [{"peer": peer, "rtt_ms": rtts[peer]} for peer in longest[:PEERS_SHOWN_MAX]]
        return told

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            cursor = self._base.cursor()
        cursor.execute("SET TimeZone = 'UTC'")
        return cursor


def _statuses(batch: ds.Dataset) -> pa.RecordBatchReader:
    """Return rows that may be statuses, a few at a time; what an old table lacks is null."""
    known = set(batch.schema.names)
    columns = {
        name: pc.field(name)
        if name in known
        else pc.scalar(pa.scalar(None, pa.timestamp("us", "UTC")))
        for name in _READ
    }
    is_status = pc.ends_with(pc.field("topic"), pattern=f"/{SUFFIX}")
    is_short = pc.binary_length(pc.field("payload")) <= MAX_BYTES
    return batch.scanner(columns=columns, filter=is_status & is_short).to_reader()


def _decoded(day: str, found: list[Any]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for gateway, part, at_us, payload in found:
        try:
            record = decode(payload)
        except StatusError:
            continue  # the watch tells of it
        row = {"day": day, "gateway": gateway, "part": part, "at_us": at_us}
        row |= {name: getattr(record, name) for name in FIGURES}
        row["links"] = [
            {"peer": link.peer, "rtt_ms": link.rtt_ms} for link in record.links[:LINKS_MAX]
        ]
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_KINDS)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")

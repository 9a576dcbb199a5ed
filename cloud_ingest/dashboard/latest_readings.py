"""The latest reading of each sensor: what it says now, in which unit, and what it is good for."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cloud_ingest.dashboard.day_files import DayChange, oldest_recent

SENSORS_MAX: Final = 200_000
MEMORY: Final = "512MB"
_READ: Final = (
    *("origin", "topic", "sensor", "unit", "value", "quality", "measurements"),
    *("device_time", "origin_time", "collected_time", "boot_epoch", "sequence"),
)
# A device whose clock is ahead would stay the latest for ever, so what was accepted last counts. A
# reading is as old as its device says, unless that is in the future. All messages of a batch were
# accepted at one time, so of those that name no other the number counts.
_LATEST: Final = """
WITH accepted AS (
    SELECT *, CASE WHEN origin_time <= coalesce(collected_time, origin_time) + INTERVAL 2 day
        THEN origin_time ELSE coalesce(collected_time, origin_time) END AS moment
    FROM batch
), each AS (
    SELECT origin, coalesce(sensor, topic) AS sensor, moment, boot_epoch, sequence, device_time,
        value, unit, quality
    FROM accepted WHERE measurements IS NULL
    UNION ALL
    SELECT origin, coalesce(one.sensor, topic), moment, boot_epoch, sequence, one.device_time,
        one.value, one.unit, quality
    FROM (SELECT origin, topic, moment, boot_epoch, sequence, quality, unnest(measurements) AS one
          FROM accepted WHERE measurements IS NOT NULL)
), latest AS (
    SELECT origin, sensor, max({
        'accepted_us': epoch_us(moment),
        'time_us': epoch_us(least(coalesce(device_time, moment), moment)),
        'boot_epoch': boot_epoch, 'sequence': sequence,
        'value': value, 'unit': unit, 'quality': quality
    }) AS last
    FROM each WHERE moment IS NOT NULL
    AND ((value IS NOT NULL AND isfinite(value)) OR quality = 'bad')
    GROUP BY 1, 2
)
SELECT origin, sensor, last.accepted_us, last.time_us, coalesce(last.boot_epoch, 0),
    coalesce(last.sequence, 0), last.value, last.unit, last.quality
FROM latest
"""


class ReadingPlace(NamedTuple):
    """The place of a reading among those of its sensor; a later one has a greater place.

    Attributes:
        accepted_us: when a gateway had it, microseconds since 1970.
        time_us: when it was read.
        boot_epoch: of the gateway's life in which it had it.
        sequence: its number in that life.

    """

    accepted_us: int
    time_us: int
    boot_epoch: int
    sequence: int


class Latest(NamedTuple):
    """A reading.

    Attributes:
        place: when it was, and which one of that time.
        value: None where the reading has none that could be used.
        unit: None where it says none.
        quality: ``good``, ``uncertain`` or ``bad``; None where it does not say.
        day: of its row.

    """

    place: ReadingPlace
    value: float | None
    unit: str | None
    quality: str | None
    day: str


class LatestReadings:
    """The latest readings.

    One thread at a time may call `take`; `of` may be called from any.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], Latest] = {}
        self._newest_day = ""

    def take(self, batch: ds.Dataset | None, change: DayChange) -> None:
        """Take up what files of `telemetry` say.

        Args:
            batch: the files; None where the day has none any longer.
            change: the day, and whether it is to be forgotten first.

        Raises:
            OSError: a file can't be read.

        """
        self._newest_day = max(self._newest_day, change.day)
        oldest = oldest_recent(self._newest_day)
        kept = self._latest
        if change.is_anew:
            kept = {key: each for key, each in kept.items() if each.day != change.day}
        if batch is not None and change.day >= oldest:
            kept = dict(kept)
            for gateway, sensor, *place, value, unit, quality in _read(batch):
                found = Latest(ReadingPlace(*place), value, unit, quality, change.day)
                before = kept.get((gateway, sensor))
                is_new = before is None and len(kept) < SENSORS_MAX
                if is_new or (before is not None and before.place <= found.place):
                    kept[gateway, sensor] = found
        self._latest = kept

    def of(self, gateway: str, sensor: str) -> Latest | None:
        """Return the latest reading of a sensor, None if it has none of the last days."""
        return self._latest.get((gateway, sensor))


def _read(batch: ds.Dataset) -> list[Any]:
    known = set(batch.schema.names)
    null = {
        "quality": pa.scalar(None, pa.string()),
        "collected_time": pa.scalar(None, pa.timestamp("us", "UTC")),
    }
    columns = {name: pc.field(name) if name in known else pc.scalar(null[name]) for name in _READ}
    said = pc.field("value").is_valid() | pc.field("measurements").is_valid()
    if "quality" in known:
        said |= pc.field("quality") == "bad"
    with duckdb.connect(config={"memory_limit": MEMORY}) as base:
        base.execute("SET TimeZone = 'UTC'")
        base.register("batch", batch.scanner(columns=columns, filter=said).to_reader())
        return base.execute(_LATEST).fetchall()

"""A sensor's readings over any span of time, with as many points as a screen has."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cloud_ingest.dashboard.day_rows import FAR
from cloud_ingest.dashboard.latest_readings import LatestReadings
from cloud_ingest.dashboard.rollups import BUCKET_S, Rollups, SensorSeries
from cloud_ingest.query.frames import readings

POINTS_MAX: Final = 4_000
NEAR_US: Final = 2 * 86_400 * 1_000_000
"""A shorter span is read from the table itself, reading by reading."""
CURRENT_MAX: Final = 500
HOURS: Final = 24
HOUR_US: Final = 3_600_000_000
_BUCKET_US: Final = BUCKET_S * 1_000_000
_EXACT: Final = 22
_HOURLY: Final = """
SELECT series, begin_us(bucket) // ? AS hour, sum(total) / sum(readings)
FROM readings WHERE series IN (SELECT unnest(?)) AND bucket >= ? GROUP BY 1, 2
"""
_GROUPED: Final = """
SELECT (begin_us(bucket) - ?) // ? AS place, min(low) AS low,
       max(high) AS high, sum(total) / sum(readings) AS mean
FROM {table} WHERE series = ? AND bucket >= ? AND bucket <= ? GROUP BY 1 ORDER BY 1
"""


def catalogue(found: Sequence[SensorSeries]) -> dict[str, Any]:
    """Return all sensors, as columns."""
    return {
        "gateway": [each.gateway for each in found],
        "sensor": [each.sensor for each in found],
        "unit": [each.unit for each in found],
        "first_ms": [each.first_us // 1000 for each in found],
        "last_ms": [each.last_us // 1000 for each in found],
        "readings": [each.readings for each in found],
    }


def current(
    rollups: Rollups, latest: LatestReadings, found: Sequence[SensorSeries]
) -> dict[str, Any]:
    """Return what sensors say now, and how they went in the day before the newest reading.

    Args:
        rollups: what has been read of the table.
        latest: their latest readings.
        found: which sensors; the first `CURRENT_MAX` are told.

    Returns:
        ``gateway``, ``sensor``, ``unit``, ``value``, ``quality``, ``time_ms`` (null where the last
        days have no reading) and ``hours``: of each sensor the mean of each of 24 hours.

    """
    shown = found[:CURRENT_MAX]
    last_hour = max((each.last_us for each in shown), default=0) // HOUR_US
    hours: dict[int, list[float | None]] = {each.number: [None] * HOURS for each in shown}
    numbers = [each.number for each in shown]
    first = (last_hour - HOURS + 1) * HOUR_US
    for series, hour, mean in rollups.rows(_HOURLY, HOUR_US, numbers, first // _BUCKET_US):
        place = int(hour) - last_hour + HOURS - 1
        if 0 <= place < HOURS:
            hours[series][place] = float(f"{mean:.6g}")
    said = [latest.of(each.gateway, each.sensor) for each in shown]
    return {
        "count": len(found),
        "gateway": [each.gateway for each in shown],
        "sensor": [each.sensor for each in shown],
        "unit": [one.unit if one else each.unit for one, each in zip(said, shown, strict=True)],
        "value": [one.value if one else None for one in said],
        "quality": [one.quality if one else None for one in said],
        "time_ms": [one.place.time_us // 1000 if one else None for one in said],
        "last_ms": [each.last_us // 1000 for each in shown],
        "hours": [hours[each.number] for each in shown],
    }


def window(
    rollups: Rollups, series: SensorSeries, start_us: int, end_us: int, points: int
) -> dict[str, Any]:
    """Return readings in a span of time: least, greatest and mean of each of so many parts.

    Args:
        rollups: what has been read of the table.
        series: which sensor.
        start_us: microseconds since 1970.
        end_us: exclusive; after the start.
        points: at most so many parts; readings that are fewer come as they are.

    Returns:
        ``kind`` (``readings`` as they are, ``parts`` of so many seconds ``part_s``), and
        ``time_ms``, ``low``, ``high``, ``mean`` as columns.

    Raises:
        LakeError: the table can't be read.
        ValueError: the span is empty, or there are too few or too many points.

    """
    steps = steps_of(start_us, end_us, points)
    if steps is None:
        return _near(rollups, series, start_us, end_us, points)
    begin_us, step_us = steps.begin_us, steps.step_us
    first, last = begin_us // _BUCKET_US, end_us // _BUCKET_US
    statement = _GROUPED.format(table=steps.table)
    found = rollups.arrays(statement, begin_us, step_us, series.number, first, last)
    times_us = begin_us + found["place"].astype(np.int64) * step_us + step_us // 2
    return _told("parts", step_us, times_us, found)


@dataclass(frozen=True, slots=True)
class TimeSteps:
    """Equal parts of a span of time, of whole quarters of an hour.

    Attributes:
        begin_us: of the first, microseconds since 1970.
        step_us: how long each is.
        table: of `Rollups`, which has them in the fewest rows.

    """

    begin_us: int
    step_us: int
    table: str


def steps_of(start_us: int, end_us: int, points: int) -> TimeSteps | None:
    """Return the parts of a span of time, None where the readings themselves are to be read.

    Args:
        start_us: microseconds since 1970.
        end_us: exclusive; after the start.
        points: so many parts about.

    Raises:
        ValueError: the span is empty, or there are too few or too many points.

    """
    if end_us <= start_us:
        raise ValueError(f"end: {end_us} us is not after start, {start_us} us")
    if not 2 <= points <= POINTS_MAX:
        raise ValueError(f"points: {points} is not 2 to {POINTS_MAX}")
    part_us = (end_us - start_us) / points
    if part_us < _BUCKET_US and end_us - start_us < NEAR_US:
        return None
    wide = max(1, -(-int(part_us) // _BUCKET_US))
    # Where it makes parts no more than half as long again, a twelfth of the rows does.
    is_far = wide > 2 * FAR
    step_us = (-(-wide // FAR) * FAR if is_far else wide) * _BUCKET_US
    return TimeSteps(start_us // step_us * step_us, step_us, "far" if is_far else "readings")


def usable(
    rollups: Rollups, found: Sequence[SensorSeries], start_us: int, end_us: int
) -> pa.Table | None:
    """Return the readings of sensors in a span, but those that are bad or no number.

    Returns:
        `frame`'s columns, in the order of time; None where no file has any.

    Raises:
        LakeError: the table can't be read.

    """
    days = rollups.days_of([each.number for each in found], start_us, end_us)
    dataset = rollups.dataset("telemetry", days)
    if dataset is None:
        return None
    sensors = list(dict.fromkeys(each.sensor for each in found))
    gateways = list(dict.fromkeys(each.gateway for each in found))
    start, end = _moment(start_us), _moment(end_us)
    read = partial(readings, dataset, sensors, gateways, start, end)
    rows = rollups.lake.guarded("telemetry", read)
    is_bad = pc.equal(pc.fill_null(rows["quality"], ""), "bad")
    return rows.filter(pc.and_(pc.is_valid(rows["value"]), pc.invert(is_bad)))


def _near(
    rollups: Rollups, series: SensorSeries, start_us: int, end_us: int, points: int
) -> dict[str, Any]:
    kept = usable(rollups, [series], start_us, end_us)
    if kept is None:
        none = np.array([])
        return _told("readings", 0, none, {"low": none, "high": none, "mean": none})
    times_us = kept["time"].cast("int64").to_numpy()
    values = kept["value"].to_numpy()
    if len(times_us) <= points:
        return _told("readings", 0, times_us, {"low": values, "high": values, "mean": values})
    return parts(times_us, values, start_us, end_us, points)


def parts(times_us: Any, values: Any, start_us: int, end_us: int, count: int) -> dict[str, Any]:
    """Return readings as the least, greatest and mean of so many equal parts of a span.

    Args:
        times_us: of the readings, in order.
        values: the readings.
        start_us: of the span.
        end_us: of the span, exclusive.
        count: of the parts; those without a reading are left out.

    """
    step_us = (end_us - start_us) / count
    found = grouped(times_us, values, start_us, step_us)
    return _told("parts", step_us, start_us + (found["place"] + 0.5) * step_us, found)


def grouped(times_us: Any, values: Any, begin_us: int, step_us: float) -> dict[str, Any]:
    """Return readings, in the order of time, as equal parts: their ``place``, ``low``, ``high``...

    Returns:
        columns of numpy; ``total`` and ``readings`` are sums, ``mean`` is one by the other. Parts
        without a reading are left out.

    """
    place = ((times_us - begin_us) / step_us).astype(np.int64)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    total = np.add.reduceat(values, first) if len(first) else values
    many = np.diff(first, append=len(values))
    return {
        "place": place[first],
        "low": np.minimum.reduceat(values, first) if len(first) else values,
        "high": np.maximum.reduceat(values, first) if len(first) else values,
        "total": total,
        "readings": many,
        "mean": total / many,
    }


def _told(kind: str, step_us: float, times_us: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "part_s": step_us / 1e6,
        "time_ms": (np.asarray(times_us) // 1000).astype(np.int64).tolist(),
        **{name: rounded(found[name]).tolist() for name in ("low", "high", "mean")},
    }


def rounded(values: Any) -> Any:
    """Return numbers with the six digits that a chart shows; what is no number stays as it is."""
    found = np.asarray(values, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = 5 - np.floor(np.log10(np.abs(found)))
        # Powers of ten up to 10^22 are exact: small numbers are multiplied, large ones divided.
        finer, coarser = (10.0 ** np.clip(each, 0, _EXACT) for each in (places, -places))
        short = np.where(
            places >= 0, np.round(found * finer) / finer, np.round(found / coarser) * coarser
        )
    for at in np.argwhere(np.isfinite(found) & (np.abs(places) > _EXACT) & (found != 0)):
        short[tuple(at)] = float(f"{found[tuple(at)]:.6g}")
    return np.where(np.isfinite(found), short, found)


def _moment(at_us: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=at_us)

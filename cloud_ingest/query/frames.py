"""One sensor's readings as a frame of the library that one works with."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from cloud_ingest.query.lake import Lake, required

Library = Literal["arrow", "polars", "pandas", "spark"]
TIME: Final = pa.timestamp("us", tz="UTC")
_KINDS: Final = ("value", "value_text", "value_bool")
_READ: Final = (
    *("origin", "topic", "origin_time", "sensor", "unit", "device_time", "quality"),
    *(*_KINDS, "measurements"),
)
_CLOCKS_APART: Final = datetime.timedelta(days=2)
_SHOWN: Final = ("time", "gateway", "sensor", "unit", *_KINDS, "quality")


def frame(
    tables: str | os.PathLike[str] | Lake,
    sensor: str,
    *,
    gateway: str | None = None,
    start: datetime.datetime | None = None,
    end: datetime.datetime | None = None,
    as_: Library = "arrow",
    storage_options: Mapping[str, str] | None = None,
) -> Any:
    """Return all readings of a sensor, in the order of their time.

    A message with several measurements gives a row for each that is the sensor's. A payload that
    names no sensor goes by its topic.

    Args:
        tables: folder or URI of the tables, or a `Lake`.
        sensor: its name at its gateway, as ``host/load1``, or a topic.
        gateway: only this one's; None for all that have a sensor of that name.
        start: none before this time; one without a zone is in UTC.
        end: none at this time or later.
        as_: a table of pyarrow, a frame of Polars or pandas, or one of Spark in the session that
            is active (or else a local one).
        storage_options: see `Lake`.

    Returns:
        ``time`` (the device's where it says one, else its gateway's), ``gateway``, ``sensor``,
        ``unit``, ``value``, ``value_text``, ``value_bool``, ``quality``.

    Raises:
        LakeError: there is no table `telemetry`, or it can't be read.
        ValueError: ``as_`` is none of the four, or ``end`` is before ``start``.

    """
    if as_ not in get_args(Library):
        raise ValueError(f"as_: {as_!r} is none of {', '.join(get_args(Library))}")
    begin, until = _utc(start), _utc(end)
    if begin is not None and until is not None and until < begin:
        raise ValueError(f"end: {until} is before start, {begin}")
    lake = tables if isinstance(tables, Lake) else Lake(tables, storage_options)
    gateways = () if gateway is None else (gateway,)
    found = readings(required(lake, "telemetry"), (sensor,), gateways, begin, until)
    if as_ == "polars":
        import polars  # noqa: PLC0415  # of use here alone

        return polars.from_arrow(found)
    if as_ == "pandas":
        return found.to_pandas()
    return _in_spark(found) if as_ == "spark" else found


def readings(
    telemetry: Any,
    sensors: Sequence[str],
    gateways: Sequence[str],
    start: datetime.datetime | None,
    end: datetime.datetime | None,
) -> pa.Table:
    """Return what `frame` does, of a dataset, and of one or several sensors.

    Args:
        telemetry: the dataset.
        sensors: their names at their gateways; at least one.
        gateways: of these all that have a sensor of such a name; none for all gateways.
        start: with a zone, or None.
        end: with a zone, or None.

    """
    field = pc.field
    is_named = _is_one_of("sensor", sensors) | (
        field("sensor").is_null() & _is_one_of("topic", sensors)
    )
    is_pack = field("measurements").is_valid()
    if start is not None:
        # What a pack measured it measured before its gateway had it, but for clocks that differ.
        accepted = field("origin_time")
        is_pack &= accepted.is_null() | (accepted >= pa.scalar(start - _CLOCKS_APART, TIME))
    for moment, is_in in ((start, pc.greater_equal), (end, pc.less)):
        if moment is not None:
            at = pa.scalar(moment, TIME)
            by_origin = field("device_time").is_null() & is_in(field("origin_time"), at)
            is_named &= is_in(field("device_time"), at) | by_origin
    wanted = is_named | is_pack
    if gateways:
        wanted &= _is_one_of("origin", gateways)
    rows = telemetry.to_table(columns=list(_READ), filter=wanted)
    has_several = pc.is_valid(rows["measurements"])
    single = _named(rows.filter(pc.invert(has_several)))
    packs = _opened(rows.filter(has_several))
    found = pa.concat_tables([single, packs]) if packs.num_rows else single
    keep = pc.is_in(found["sensor"], value_set=pa.array(sensors, pa.string()))
    for moment, is_in in ((start, pc.greater_equal), (end, pc.less)):
        if moment is not None:
            keep = pc.and_(keep, is_in(found["time"], pa.scalar(moment, TIME)))
    return found.filter(keep).sort_by([("time", "ascending"), ("gateway", "ascending")])


def _is_one_of(column: str, names: Sequence[str]) -> pc.Expression:
    field = pc.field(column)
    # Files are passed over by their statistics where there is one name.
    return field == names[0] if len(names) == 1 else field.isin(list(names))


def _named(rows: pa.Table) -> pa.Table:
    """Return rows of one measurement each, with the names that are shown."""
    columns = {name: rows[name] for name in rows.column_names}
    columns["time"] = pc.coalesce(rows["device_time"], rows["origin_time"]).cast(TIME)
    columns["gateway"] = rows["origin"]
    columns["sensor"] = pc.coalesce(rows["sensor"], rows["topic"])
    return pa.table({name: columns[name] for name in _SHOWN})


def _opened(packs: pa.Table) -> pa.Table:
    """Packs with a row for each measurement."""
    if not packs.num_rows:
        return _named(packs)
    lists = packs["measurements"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks)
    of_row = pc.list_parent_indices(lists)
    inner = pc.list_flatten(lists)
    outer = packs.select(["origin", "topic", "origin_time", "quality"]).take(of_row)
    columns = {name: outer[name] for name in outer.column_names}
    for name in ("sensor", "unit", "device_time", *_KINDS):
        columns[name] = pc.struct_field(inner, name)
    return _named(pa.table(columns))


def _in_spark(found: pa.Table) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only who asks for Spark waits for it

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return session.createDataFrame(found)


def _utc(moment: datetime.datetime | None) -> datetime.datetime | None:
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=datetime.UTC)

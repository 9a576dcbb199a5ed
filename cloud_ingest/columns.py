"""From batches to Arrow: one row a message, what it measured decoded. Without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cloud_ingest.measurements import Measurement, decode
from cloud_ingest.record import RecordError
from cloud_ingest.spool import Batch, SpoolError
from tree_handler.batch import Header

ROWS_PER_ARROW_BATCH = 4_000
"""Rows are handed on from so many; one batch of an origin is never cut."""
PAYLOAD_BYTES_PER_ARROW_BATCH = 8 << 20
"""Rows are handed on from so many bytes of payload: what bounds a worker's memory."""

LONG_MAX = 2**63 - 1
YEAR_1_S = -62_135_596_800
YEAR_9999_S = 253_402_300_799
"""The last second that Spark, Parquet's readers and Python's datetime all can hold."""

_NO_PACKET = (None, None, None, None, None)
_NO_RECORD = (None, None, None, None, None, None)
_Row = tuple[Any, ...]


def arrow_batches(batches: Iterable[Batch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The messages of ``batches``, in their order.

    Args:
        batches: from `cloud_ingest.spool.batches`.
        schema: `cloud_ingest.tables.MESSAGES` as Arrow has it.

    Raises:
        SpoolError: a batch can't be decoded, or its numbers pass 63 bits.

    """
    rows: list[_Row] = []
    payload_bytes = 0
    for batch in batches:
        payload_bytes += batch.header.end - batch.header.body_at
        rows += rows_of(batch)
        if len(rows) >= ROWS_PER_ARROW_BATCH or payload_bytes >= PAYLOAD_BYTES_PER_ARROW_BATCH:
            yield _to_arrow(rows, schema)
            rows, payload_bytes = [], 0
    if rows:
        yield _to_arrow(rows, schema)


def rows_of(batch: Batch) -> list[_Row]:
    """The messages of a batch as rows of `cloud_ingest.tables.MESSAGES`.

    Times are microseconds since 1970.

    Raises:
        SpoolError: the batch can't be decoded, or its numbers pass 63 bits.

    """
    header = batch.header
    if header.last > LONG_MAX:
        raise SpoolError(batch.segment, batch.at, f"{header}: sequence passes {LONG_MAX}")
    control = header.control
    if header.passed:
        return [] if header.local else [_statement(header)]
    in_range = header.origin_time_us <= YEAR_9999_S * 1_000_000
    origin_time_us = header.origin_time_us if in_range else None
    return [
        (
            header.origin,
            header.epoch,
            header.logged,
            control,
            sequence,
            entry.qos,
            entry.retain,
            entry.topic,
            origin_time_us,
            entry.payload,
            None,
            *((*_NO_RECORD, None) if control else _record_of(entry.payload, header.origin)),
        )
        for sequence, entry in enumerate(batch.entries(), header.first)
    ]


def _statement(header: Header) -> _Row:
    """What a gateway keeps to itself; what it gave up as lost stays a gap."""
    stamp = (header.origin, header.epoch, True, header.control, header.first)
    return (*stamp, *_NO_PACKET, header.count, *_NO_RECORD, None)


def _record_of(payload: bytes, origin: str) -> _Row:
    """Sensor, unit, value, device time, device number, all measurements if there are several,
    and what is wrong with the payload.
    """
    try:
        found = [_as_at(origin, each) for each in decode(payload)]
        times_us = [_time_us(each.time_s) for each in found]
    except RecordError as error:
        return (*_NO_RECORD, str(error))
    first = found[0]
    if first.number is not None and not -LONG_MAX <= first.number <= LONG_MAX:
        return (*_NO_RECORD, f"i (number): {first.number!r}")
    several = None if len(found) == 1 else list(map(_member, found, times_us))
    return first.sensor, first.unit, first.value, times_us[0], first.number, several, None


def _as_at(origin: str, found: Measurement) -> Measurement:
    """With the sensor's name as it is at its gateway.

    In SenML a gateway names a sensor for the whole world, ``gw-a/host/load1`` (RFC 8428, section
    4.5.1), and in a telemetry record for itself. The row says the gateway, so both are one name.
    """
    prefix = f"{origin}/"
    if found.sensor is None or not found.sensor.startswith(prefix) or found.sensor == prefix:
        return found
    return replace(found, sensor=found.sensor.removeprefix(prefix))


def _time_us(time_s: float | None) -> int | None:
    if time_s is None:
        return None
    if not YEAR_1_S <= time_s <= YEAR_9999_S:  # nor NaN
        raise RecordError(f"t (time): {time_s!r}")
    return round(time_s * 1_000_000)


def _member(each: Measurement, time_us: int | None) -> dict[str, Any]:
    """An item of `cloud_ingest.tables.SEVERAL`."""
    return {
        "sensor": each.sensor,
        "unit": each.unit,
        "value": each.value,
        "device_time": time_us,
    }


def _to_arrow(rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

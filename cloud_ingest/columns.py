"""From batches to Arrow: one row a message, what it measured decoded. Without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from cloud_ingest.measurements import Measurement, decode
from cloud_ingest.record import RecordError, Value
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
_NO_RECORD = (None,) * 6
_NO_KINDS = (None,) * 6
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
            *(_nothing(None) if control else _record_of(entry.payload, header.origin)),
        )
        for sequence, entry in enumerate(batch.entries(), header.first)
    ]


def _statement(header: Header) -> _Row:
    """What a gateway keeps to itself; what it gave up as lost stays a gap."""
    stamp = (header.origin, header.epoch, True, header.control, header.first)
    return (*stamp, *_NO_PACKET, header.count, *_nothing(None))


def _nothing(error: str | None) -> _Row:
    """The columns of a payload that holds no reading, and why, if it should hold one."""
    return (*_NO_RECORD, error, *_NO_KINDS)


def _record_of(payload: bytes, origin: str) -> _Row:
    """Sensor, unit, number, device time, device number, all measurements if there are several,
    what is wrong with the payload, and what version 2 of the record adds.
    """
    try:
        found = [_as_at(origin, each) for each in decode(payload)]
        times_us = [_time_us(each.time_s) for each in found]
    except RecordError as error:
        return _nothing(str(error))
    first = found[0]
    if first.number is not None and not -LONG_MAX <= first.number <= LONG_MAX:
        return _nothing(f"i (number): {first.number!r}")
    several = None if len(found) == 1 else list(map(_member, found, times_us))
    number, *kinds = _typed(first.value)
    tags = list(first.tags.items()) or None
    return (
        *(first.sensor, first.unit, number, times_us[0], first.number, several, None),
        *(*kinds, first.quality, tags, _as_text(first.more)),
    )


def _typed(value: Value | None) -> tuple[float | None, str | None, bool | None, bytes | None]:
    """A value in the column of its kind; a boolean is 1 or 0 among the numbers, too."""
    if isinstance(value, bool):
        return float(value), None, value, None
    if isinstance(value, str):
        return None, value, None, None
    if isinstance(value, bytes):
        return None, None, None, value
    return value, None, None, None


def _as_text(more: Mapping[str, Any]) -> str | None:
    """Keys of later versions as JSON, bytes in base64; what JSON can't say is shown as it reads."""
    if not more:
        return None
    try:
        return msgspec.json.encode(more, enc_hook=_extension).decode()
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode({key: repr(value) for key, value in more.items()}).decode()


def _extension(value: object) -> object:
    """An extension type of msgpack: its code and its bytes."""
    return (
        [value.code, bytes(value.data)] if isinstance(value, msgspec.msgpack.Ext) else repr(value)
    )


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
    number, text, truth, data = _typed(each.value)
    return {
        "sensor": each.sensor,
        "unit": each.unit,
        "value": number,
        "device_time": time_us,
        "value_text": text,
        "value_bool": truth,
        "value_bytes": data,
    }


def _to_arrow(rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

"""From batches to Arrow: the columns of telemetry, what was measured decoded. Without Spark.

What a batch says of all its messages is kept once and repeated in one step at the end; what few
messages have is kept by their number. So a message costs a few appends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cloud_ingest.mapping.births import MessageStamp
from cloud_ingest.mapping.reading import Mappings
from cloud_ingest.measurements import MAP_HEADS, Measurement, decode, of_record
from cloud_ingest.tables.schemas import FILE_COLUMNS
from record_formats import record
from record_formats.record import (
    LONG_MAX,
    PLAIN_HEAD,
    YEAR_1_S,
    YEAR_9999_S,
    RecordError,
    plain_records,
)
from record_formats.value import GOOD, Value
from tree_handler.batch import Row

STATUS_TOPIC_END = "/$status"
MAX_TOPIC_LENGTH = 1_000
"""In characters."""
_PLAIN_HEADS = {PLAIN_HEAD}

_ONCE = ("origin", "boot_epoch", "logged", "origin_time", "collected_time", "group")
_DENSE = ("sequence", "topic", "payload", "sensor", "unit", "value", "device_time", "device_number")
_RARE = ("measurements", "value_text", "value_bool", "value_bytes", "tags", "more", "quality")


class TelemetryColumns:
    """Rows of telemetry, column by column, until they are taken as a table.

    Args:
        mappings: how messages of other makes are read; None: there are no rules.

    """

    def __init__(self, mappings: Mappings | None = None) -> None:
        self._mappings = mappings
        self.rows = 0
        self.bytes = 0
        """Of payloads; what bounds the memory of a task."""
        self._once: dict[str, list[Any]] = {name: [] for name in _ONCE}
        self._batch: list[int] = []
        self._flags: list[int | None] = []
        self._dense: dict[str, list[Any]] = {name: [] for name in _DENSE}
        self._rare: dict[str, dict[int, Any]] = {name: {} for name in _RARE}
        self._good: list[bool] = []

    def batch(self, **values: Any) -> None:
        """Begin a batch; the rows that are added next are of it.

        Args:
            values: its value for each of the columns that all its messages share.

        """
        for name, column in self._once.items():
            column.append(values[name])

    def add(self, sequence: int, topic: str, flags: int | None, payload: bytes) -> bool:
        """Add a message; return whether it is its gateway's status.

        Args:
            sequence: its number.
            topic: its topic.
            flags: its QoS, with 4 added for RETAIN; None if not known.
            payload: its payload.

        Raises:
            RecordError: the payload holds no reading; nothing is added.

        """
        if len(topic) > MAX_TOPIC_LENGTH:
            raise RecordError(
                f"topic: {len(topic)} characters, at most {MAX_TOPIC_LENGTH} are read"
            )
        origin = self._once["origin"][-1]
        is_status = is_status_of(topic, origin)
        if is_status:
            told: tuple[Any, ...] = (None, None, None, None, None)
            rare: Mapping[str, Any] = {}
            is_good = False
        else:
            told, rare, is_good = _plain_told(payload, origin) or self._told(
                sequence, topic, payload
            )
        for name, value in rare.items():
            if value is not None:
                self._rare[name][self.rows] = value
        dense = self._dense
        dense["sequence"].append(sequence)
        dense["topic"].append(topic)
        dense["payload"].append(payload)
        dense["sensor"].append(told[0])
        dense["unit"].append(told[1])
        dense["value"].append(told[2])
        dense["device_time"].append(told[3])
        dense["device_number"].append(told[4])
        self._flags.append(flags)
        self._good.append(is_good)
        self._batch.append(len(self._once["origin"]) - 1)
        self.rows += 1
        self.bytes += len(payload)
        return is_status

    def add_plain(self, first: int, rows: Sequence[Row]) -> Sequence[int]:
        """Add at once those messages of a batch that hold a plain telemetry record.

        Args:
            first: number of the first message; those of the others follow without gaps.
            rows: the messages.

        Returns:
            Which rows are not added, by their place among them; `add` takes them.

        """
        origin = self._once["origin"][-1]
        odd = {topic for topic in {row[0] for row in rows} if _is_odd(topic, origin)}
        others: list[int] = []
        if odd or {row[2][:1] for row in rows} != _PLAIN_HEADS:
            others = [
                at
                for at, (topic, _, payload, *_) in enumerate(rows)
                if topic in odd or payload[:1] != PLAIN_HEAD
            ]
        sequences: Sequence[int] = range(first, first + len(rows))
        chosen = rows
        if others:
            left = set(others)
            places = [at for at in range(len(rows)) if at not in left]
            sequences, chosen = [first + at for at in places], [rows[at] for at in places]
        if not chosen or not self._add_records(sequences, chosen, origin):
            return range(len(rows))
        return others

    def _add_records(self, sequences: Sequence[int], rows: Sequence[Row], origin: str) -> bool:
        """Add messages, if each holds a plain telemetry record."""
        payloads = [row[2] for row in rows]
        found = plain_records(payloads)
        if found is None:
            return False
        sensors = {name: _at_gateway(origin, name) for name in set(found.names)}
        dense, count = self._dense, len(rows)
        dense["sequence"].extend(sequences)
        dense["topic"].extend([row[0] for row in rows])
        dense["payload"].extend(payloads)
        dense["sensor"].extend([sensors[name] for name in found.names])
        dense["unit"].extend(found.units)
        dense["value"].extend(found.values)
        dense["device_time"].extend(map(_micros, found.times_s))
        dense["device_number"].extend(found.numbers)
        self._flags.extend([row[1] for row in rows])
        self._good.extend(repeat(True, count))
        self._batch.extend(repeat(len(self._once["origin"]) - 1, count))
        self.rows += count
        self.bytes += sum(map(len, payloads))
        return True

    def _told(self, sequence: int, topic: str, payload: bytes) -> _Read:
        """Read a message in any form.

        Raises:
            RecordError: the payload holds no reading.

        """
        once = self._once
        origin = once["origin"][-1]
        if self._mappings is None:
            found = decode(payload)
        else:
            sender = MessageStamp(origin, once["collected_time"][-1], sequence)
            found = _mapped(topic, payload, sender, self._mappings)
        return _of_any_form(found, origin, once["origin_time"][-1])

    def table(self) -> pa.Table:
        """Return the rows as `cloud_ingest.tables.schemas.FILE_COLUMNS`."""
        at = pa.array(self._batch, pa.int32())
        flags = pa.array(self._flags, pa.int8())
        made = {
            name: pa.array(column, FILE_COLUMNS.field(name).type).take(at)
            for name, column in self._once.items()
        }
        for name, column in self._dense.items():
            made[name] = pa.array(column, FILE_COLUMNS.field(name).type)
        for name, sparse in self._rare.items():
            made[name] = self._spread(sparse, FILE_COLUMNS.field(name).type)
        made["qos"] = pc.bit_wise_and(flags, pa.scalar(3, pa.int8()))
        made["retain"] = pc.greater_equal(flags, pa.scalar(4, pa.int8()))
        made["record_error"] = pa.nulls(self.rows, pa.string())
        if not self._rare["quality"]:
            good = pa.scalar(GOOD), pa.scalar(None, pa.string())
            made["quality"] = pc.if_else(pa.array(self._good), *good)
        else:
            quality = self._rare["quality"]
            words = [quality.get(i, "good" if good else None) for i, good in enumerate(self._good)]
            made["quality"] = pa.array(words, pa.string())
        return pa.Table.from_arrays(
            [made[name] for name in FILE_COLUMNS.names], schema=FILE_COLUMNS
        )

    def _spread(self, sparse: Mapping[int, Any], kind: pa.DataType) -> pa.Array:
        if not sparse:
            return pa.nulls(self.rows, kind)
        return pa.array([sparse.get(i) for i in range(self.rows)], kind)


def is_status_of(topic: str, origin: str) -> bool:
    """Return whether a gateway's status has this topic: ``<domain>/<group>/<gateway>/$status``."""
    if not topic.endswith(STATUS_TOPIC_END):
        return False
    parts = topic.split("/")
    return len(parts) == 4 and parts[2] == origin


def _is_odd(topic: str, origin: str) -> bool:
    """Return whether a message on a topic is read for itself, whatever it holds."""
    return len(topic) > MAX_TOPIC_LENGTH or is_status_of(topic, origin)


_Told = tuple[Any, ...]
_Read = tuple[_Told, Mapping[str, Any], bool]
"""Sensor, unit, number, device time and device number; what few messages have; whether it is a
telemetry record of good quality."""


def _plain_told(payload: bytes, origin: str) -> _Read | None:
    """Read the commonest telemetry record; None of any other payload."""
    if (plain := record.plain(payload)) is None:
        return None
    name, unit, time_s, number, value = plain
    return (_at_gateway(origin, name), unit, value, _micros(time_s), number), _NOTHING, True


_NOTHING: Mapping[str, Any] = {}


def _mapped(
    topic: str, payload: bytes, sender: MessageStamp, mappings: Mappings
) -> list[Measurement]:
    """Read a telemetry record as one on any topic, and by a rule what is none."""
    if payload and payload[0] in MAP_HEADS:
        with suppress(RecordError):
            return [of_record(payload)]
    found = mappings.read(topic, payload, sender)
    return decode(payload) if found is None else found


def _of_any_form(read: list[Measurement], origin: str, origin_us: int | None) -> _Read:
    found = [_as_at(origin, each) for each in read]
    times_us = [_measured_us(each, origin_us) for each in found]
    first = found[0]
    if first.number is not None and not -LONG_MAX <= first.number <= LONG_MAX:
        raise RecordError(f"i (number): {first.number!r}")
    number, text, truth, data = _typed(first.value)
    rare = {
        "measurements": None if len(found) == 1 else list(map(_member, found, times_us)),
        "value_text": text,
        "value_bool": truth,
        "value_bytes": data,
        "tags": list(first.tags.items()) or None,
        "more": _as_text(first.more),
        "quality": first.quality,
    }
    return (first.sensor, first.unit, number, times_us[0], first.number), rare, False


def _typed(value: Value | None) -> tuple[float | None, str | None, bool | None, bytes | None]:
    """Return a value in the column of its kind; a boolean is 1 or 0 among the numbers, too.

    An integer that no float says is the nearest one there, and its digits are text.
    """
    if isinstance(value, bool):
        return float(value), None, value, None
    if isinstance(value, str):
        return None, value, None, None
    if isinstance(value, bytes):
        return None, None, None, value
    if isinstance(value, int):
        return float(value), str(value), None, None
    return value, None, None, None


def _as_text(more: Mapping[str, Any]) -> str | None:
    """Return keys of later versions as JSON, bytes in base64; what JSON can't say is shown as it
    reads."""
    if not more:
        return None
    try:
        return msgspec.json.encode(more, enc_hook=_extension).decode()
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode({key: repr(value) for key, value in more.items()}).decode()


def _extension(value: object) -> object:
    """Return an extension type of msgpack: its code and its bytes."""
    return (
        [value.code, bytes(value.data)] if isinstance(value, msgspec.msgpack.Ext) else repr(value)
    )


def _at_gateway(origin: str, sensor: str) -> str:
    """Return a sensor's name as it is at its gateway.

    In SenML a gateway names a sensor for the whole world, ``gw-a/host/load1`` (RFC 8428, section
    4.5.1), and in a telemetry record for itself. The row says the gateway, so both are one name.
    """
    return sensor.removeprefix(f"{origin}/") or sensor


def _as_at(origin: str, found: Measurement) -> Measurement:
    """With the sensor's name as it is at its gateway."""
    if found.sensor is None:
        return found
    return replace(found, sensor=_at_gateway(origin, found.sensor))


def _measured_us(found: Measurement, origin_us: int | None) -> int | None:
    """Return when it was measured: as it says, or from when its message was accepted."""
    if found.since_arrival_s is None or origin_us is None:
        return _time_us(found.time_s)
    return _time_us(origin_us / 1_000_000 + found.since_arrival_s)


def _time_us(time_s: float | None) -> int | None:
    if time_s is None:
        return None
    if not YEAR_1_S <= time_s <= YEAR_9999_S:  # nor NaN
        raise RecordError(f"t (time): {time_s!r}")
    return _micros(time_s)


def _micros(time_s: float) -> int:
    return round(time_s * 1_000_000)


def _member(each: Measurement, time_us: int | None) -> dict[str, Any]:
    """Return an item of `cloud_ingest.tables.schemas.SEVERAL`."""
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

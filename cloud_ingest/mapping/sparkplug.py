"""Measurements of a Sparkplug B message: NBIRTH, DBIRTH, NDATA and DDATA.

What a metric does not say itself, its name or its type, the birth before it says
(`cloud_ingest.mapping.births`). Where none is known a metric without a name is ``alias:N``, and an
integer without a type is one without a sign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from cloud_ingest.mapping.births import Alias, Birth, Births, MessageStamp
from cloud_ingest.mapping.rules import SparkplugRule
from cloud_ingest.mapping.sources import Template
from cloud_ingest.mapping.sparkplug_messages import Payload
from cloud_ingest.mapping.tags import TemplateTags
from cloud_ingest.mapping.values import MAX_NAME_LENGTH, MAX_VALUE_LENGTH, bounded
from cloud_ingest.measurements import Measurement
from record_formats.record import RecordError, closest
from record_formats.value import BAD, UNCERTAIN, Value

MAX_PAYLOAD_BYTES: Final = 1 << 20
MAX_METRICS: Final = 4_096
"""Of one message."""

PREFIX: Final = "spBv1.0/"
_BIRTHS: Final = frozenset(("NBIRTH", "DBIRTH"))
_NODE_MESSAGES: Final = frozenset(("NBIRTH", "NDATA"))
_DEVICE_MESSAGES: Final = frozenset(("DBIRTH", "DDATA"))
_SIGNED_BITS: Final = {1: 8, 2: 16, 3: 32, 4: 64}
"""By datatype: Int8, Int16, Int32, Int64 (Sparkplug 3.0.0, section 6.4.16)."""
_FIELD_BITS: Final = {"int_value": 32, "long_value": 64}


class SparkplugReader:
    """Reads messages by a rule.

    Args:
        rule: how.
        births: what aliases stand for.

    """

    def __init__(self, rule: SparkplugRule, births: Births) -> None:
        self._births = births
        self._sensor = Template(rule.sensor, rule.names())
        self._tags = TemplateTags(rule.tags, rule.names())

    def read(
        self, topic: str, payload: bytes, parts: Mapping[str, str], sender: MessageStamp
    ) -> list[Measurement]:
        """Read a message; its metrics in their order.

        Raises:
            RecordError: it can't be read; the message names the metric.

        """
        place, tags = _placed(topic)
        tags |= self._tags.fill(parts)
        message = _decoded(payload)
        sent_ms = message.timestamp if message.HasField("timestamp") else None
        found = []
        for at, metric in enumerate(message.metrics):
            where = f"metrics[{at}]"
            born = self._born(metric, place, sender)
            measured = _measured(
                where, metric, sent_ms, metric.datatype or (born[1] if born else 0)
            )
            if measured is None:
                continue
            names = {**parts, "place": place, "name": _name(where, metric, born)}
            sensor = bounded(f"{where}.name", self._sensor.fill(names), MAX_NAME_LENGTH)
            found.append(replace(measured, sensor=sensor, tags=tags))
        if not found:
            raise RecordError("Sparkplug: no metric with a value that has a column")
        if found[0].quality is None and any(each.quality for each in found):
            found[0] = replace(found[0], quality=UNCERTAIN)
        return found

    def _born(self, metric: Any, place: str, sender: MessageStamp) -> Alias | None:
        """Find a metric's alias in the birth of its device, or of its node, which share aliases."""
        if not metric.HasField("alias"):
            return None
        node = "/".join(place.split("/")[:2])
        found = self._births.find(sender, place, metric.alias)
        return found or self._births.find(sender, node, metric.alias)


def birth_of(topic: str, payload: bytes, sender: MessageStamp) -> Birth | None:
    """Return what a message says of aliases; None if it is no birth, or none that can be read."""
    if not topic.startswith(PREFIX) or not _BIRTHS.intersection(topic.split("/")[2:3]):
        return None
    try:
        place, _ = _placed(topic)
        message = _decoded(payload)
    except RecordError:  # it goes to quarantine with the reason
        return None
    aliases = {
        metric.alias: (metric.name, metric.datatype)
        for metric in message.metrics
        if metric.HasField("alias")
        and isinstance(metric.name, str)
        and 0 < len(metric.name) <= MAX_NAME_LENGTH
    }
    return Birth(place, sender, aliases)


def _placed(topic: str) -> tuple[str, dict[str, str]]:
    """Group, node and device with slashes between, and the same as tags.

    Raises:
        RecordError: the topic is not of a message that measures (Sparkplug 3.0.0, section 4).

    """
    levels = topic.split("/")
    if levels[0] != "spBv1.0" or len(levels) < 4:
        raise RecordError("Sparkplug: not on a topic spBv1.0/GROUP/MESSAGE/NODE[/DEVICE]")
    _, group, message, node, *device = levels
    length = {**dict.fromkeys(_NODE_MESSAGES, 0), **dict.fromkeys(_DEVICE_MESSAGES, 1)}.get(message)
    if length is None:
        raise RecordError(f"Sparkplug: {message[:40]!r} is no birth and no data")
    if len(device) != length:
        raise RecordError(f"Sparkplug: {message} on a topic of {len(levels)} levels")
    names = ("sparkplug_group", "sparkplug_message", "sparkplug_node", "sparkplug_device")
    texts = (group, message, node, *device)
    tags = {
        name: bounded(f"topic ({name})", text, MAX_NAME_LENGTH)
        for name, text in zip(names, texts, strict=False)
    }
    return "/".join((group, node, *device)), tags


def _decoded(payload: bytes) -> Any:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RecordError(f"Sparkplug: {len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} are read")
    try:
        message = Payload.FromString(payload)
    except (DecodeError, UnicodeDecodeError) as error:
        raise RecordError("Sparkplug: not the protobuf message") from error
    if len(message.metrics) > MAX_METRICS:
        raise RecordError(
            f"Sparkplug: {len(message.metrics)} metrics, at most {MAX_METRICS} are read"
        )
    return message


def _name(where: str, metric: Any, born: Alias | None) -> str:
    if metric.HasField("name") and metric.name:
        return _text(f"{where}.name", metric, "name", MAX_NAME_LENGTH)
    if born is not None:
        return born[0]
    if metric.HasField("alias"):
        return f"alias:{metric.alias}"
    raise RecordError(f"{where}: neither name nor alias")


def _measured(where: str, metric: Any, sent_ms: int | None, datatype: int) -> Measurement | None:
    """Return the value and its time; None if it is of a kind that has no column."""
    time_ms = metric.timestamp if metric.HasField("timestamp") else sent_ms
    time_s = None if time_ms is None else time_ms / 1_000
    kind = metric.WhichOneof("value")
    if metric.is_null:
        return Measurement(None, time_s=time_s, quality=BAD)
    if kind is None:
        return None
    value: Value
    if kind in _FIELD_BITS:
        raw = getattr(metric, kind)
        value, is_sure = _integer(raw, datatype, _FIELD_BITS[kind])
        return Measurement(value, time_s=time_s, quality=None if is_sure else UNCERTAIN)
    if kind == "string_value":
        value = _text(f"{where}.{kind}", metric, kind, MAX_VALUE_LENGTH)
    else:
        value = getattr(metric, kind)
    if isinstance(value, float) and not math.isfinite(value):
        return Measurement(None, time_s=time_s, quality=BAD)
    return Measurement(value, time_s=time_s)


def _integer(raw: int, datatype: int, field_bits: int) -> tuple[float, bool]:
    """Return the number, and whether its sign is sure; some write as many bits as the type has."""
    bits = _SIGNED_BITS.get(datatype)
    if bits is None:
        return closest(raw), datatype != 0 or not raw >> (field_bits - 1)
    low = raw & ((1 << bits) - 1)
    return closest(low - (1 << bits) if low >> (bits - 1) else low), True


def _text(where: str, metric: Any, field: str, limit: int) -> str:
    text = getattr(metric, field)
    if not isinstance(text, str):  # proto2's runtime hands over the bytes
        raise RecordError(f"{where}: not UTF-8")
    return bounded(where, text, limit)

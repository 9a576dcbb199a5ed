"""Measurements of messages that need no path: a text, bytes, a SenML pack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cloud_ingest.mapping.births import MessageStamp
from cloud_ingest.mapping.rules import RawRule, SenmlRule, TextRule
from cloud_ingest.mapping.sources import Template
from cloud_ingest.mapping.tags import TemplateTags
from cloud_ingest.mapping.values import MAX_NAME_LENGTH, MAX_VALUE_LENGTH, bounded, value_of
from cloud_ingest.measurements import NUMBER, TRUTHS, Measurement, json_of, senml_pack, text_of
from cloud_ingest.senml_cbor import is_cbor_pack, senml_records
from record_formats.record import RecordError

MAX_RAW_BYTES: Final = 1 << 20


class TextReader:
    """Reads a value as text."""

    def __init__(self, rule: TextRule) -> None:
        names = rule.names()
        self._sensor = Template(rule.sensor, names)
        self._unit = None if rule.unit is None else Template(rule.unit, names)
        self._kind = rule.kind
        self._tags = TemplateTags(rule.tags, names)

    def read(
        self, topic: str, payload: bytes, parts: Mapping[str, str], sender: MessageStamp
    ) -> list[Measurement]:
        """Read a message.

        Raises:
            RecordError: it is no text, or not of the kind that the rule says.

        """
        del topic, sender  # the rule's parts have the one, and nothing is of the other
        text = text_of(payload)
        kind = self._kind
        if kind is None:
            kind = "number" if NUMBER.fullmatch(text) else "boolean" if text in TRUTHS else "text"
        value = value_of("text", text, kind)
        unit = None
        if self._unit is not None:
            unit = bounded("unit", self._unit.fill(parts), MAX_NAME_LENGTH)
        return [Measurement(value, _named(self._sensor, parts), unit, tags=self._tags.fill(parts))]


class RawReader:
    """Keeps bytes as they are."""

    def __init__(self, rule: RawRule) -> None:
        self._sensor = Template(rule.sensor, rule.names())
        self._tags = TemplateTags(rule.tags, rule.names())

    def read(
        self, topic: str, payload: bytes, parts: Mapping[str, str], sender: MessageStamp
    ) -> list[Measurement]:
        """Take a message.

        Raises:
            RecordError: it is longer than `MAX_RAW_BYTES`.

        """
        del topic, sender  # the rule's parts have the one, and nothing is of the other
        if len(payload) > MAX_RAW_BYTES:
            raise RecordError(f"raw: {len(payload)} bytes, at most {MAX_RAW_BYTES} are read")
        return [Measurement(payload, _named(self._sensor, parts), tags=self._tags.fill(parts))]


class SenmlReader:
    """Reads SenML packs in JSON and CBOR (RFC 8428)."""

    def __init__(self, rule: SenmlRule) -> None:
        self._sensor = Template(rule.sensor, rule.names())
        self._tags = TemplateTags(rule.tags, rule.names())

    def read(
        self, topic: str, payload: bytes, parts: Mapping[str, str], sender: MessageStamp
    ) -> list[Measurement]:
        """Read a message; its measurements in their order.

        Raises:
            RecordError: it is no pack, or holds what can't be read.

        """
        del topic, sender  # the rule's parts have the one, and nothing is of the other
        if is_cbor_pack(payload):
            found = senml_pack(senml_records(payload), data=bytes)
        else:
            document = json_of(text_of(payload))
            if not isinstance(document, list):
                raise RecordError(f"SenML: {type(document).__name__} is no pack")
            found = senml_pack(document)
        tags = self._tags.fill(parts)
        return [self._placed(each, tags, parts) for each in found]

    def _placed(
        self, found: Measurement, tags: Mapping[str, str], parts: Mapping[str, str]
    ) -> Measurement:
        sensor = _named(self._sensor, {**parts, "name": found.sensor or ""})
        if found.unit is not None:
            bounded("unit", found.unit, MAX_NAME_LENGTH)
        if isinstance(found.value, str):
            bounded("vs", found.value, MAX_VALUE_LENGTH)
        return replace(found, sensor=sensor, tags=tags)


def _named(sensor: Template, parts: Mapping[str, str]) -> str:
    name = bounded("sensor", sensor.fill(parts), MAX_NAME_LENGTH)
    if not name:
        raise RecordError("sensor: empty")
    return name

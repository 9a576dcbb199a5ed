"""Measurements of a JSON document, by paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloud_ingest.mapping.births import MessageStamp
from cloud_ingest.mapping.rules import JsonRule, MeasurementRule
from cloud_ingest.mapping.sources import JsonPath, TextSource
from cloud_ingest.mapping.tags import JsonTags
from cloud_ingest.mapping.values import MAX_NAME_LENGTH, quality_of, time_of, value_of
from cloud_ingest.measurements import Measurement, json_of, text_of
from record_formats.record import RecordError
from record_formats.value import Quality


class JsonReader:
    """Reads messages by a rule."""

    def __init__(self, rule: JsonRule) -> None:
        names = rule.names()
        self._rule = rule
        self._measurements = [
            (
                each,
                TextSource(each.sensor, names),
                JsonPath(each.value),
                None if each.unit is None else TextSource(each.unit, names),
            )
            for each in rule.measurements
        ]
        self._time = None if rule.time is None else JsonPath(rule.time)
        self._quality = None if rule.quality is None else TextSource(rule.quality, names)
        self._tags = JsonTags(rule.tags, names)

    def read(
        self, topic: str, payload: bytes, parts: Mapping[str, str], sender: MessageStamp
    ) -> list[Measurement]:
        """Read a message; its measurements in the order of the rule.

        Raises:
            RecordError: it can't be read; the message names the key of the rule and the path.

        """
        del topic, sender  # the rule's parts have the one, and nothing is of the other
        document = json_of(text_of(payload))
        time_s = self._time_s(document)
        quality = self._told_quality(document, parts)
        tags = self._tags.fill(document, parts)
        found = []
        for each, sensor, path, unit in self._measurements:
            value = path.find(document)
            if value is None:
                _check_optional(each)
                continue
            name = sensor.text("sensor", document, parts, MAX_NAME_LENGTH)
            if not name:
                raise RecordError(f"sensor: {each.sensor}: missing or empty")
            told = None if unit is None else unit.text("unit", document, parts, MAX_NAME_LENGTH)
            measured = value_of(f"value: {each.value}", value, each.kind)
            found.append(Measurement(measured, name, told, time_s, None, quality, tags))
        if not found:
            raise RecordError("JSON: none of the rule's values is there")
        return found

    def _time_s(self, document: Any) -> float | None:
        if self._time is None:
            return None
        where = f"time: {self._rule.time}"
        if (told := self._time.find(document)) is None:
            raise RecordError(f"{where}: missing")
        return time_of(where, told, self._rule.time_unit)

    def _told_quality(self, document: Any, parts: Mapping[str, str]) -> Quality | None:
        if self._quality is None:
            return None
        where = f"quality: {self._rule.quality}"
        if (word := self._quality.text("quality", document, parts, MAX_NAME_LENGTH)) is None:
            raise RecordError(f"{where}: missing")
        return quality_of(where, word, self._rule.quality_words)


def _check_optional(rule: MeasurementRule) -> None:
    if not rule.optional:
        raise RecordError(f"value: {rule.value}: missing")

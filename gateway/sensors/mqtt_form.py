"""Form of a sensor's readings on MQTT: their format, and whether the last one is retained."""

from __future__ import annotations

from gateway.sensors import senml, values
from light_dataclasses import dataclass
from record_formats.record import Record

MSGPACK = "msgpack"
"""The telemetry record (`record_formats.record`): the smallest, and the only one with a number."""
JSON = "json"
"""SenML JSON (RFC 8428), the same as over CoAP."""
TEXT = "text"
"""The value alone."""
FORMATS = (MSGPACK, JSON, TEXT)


@dataclass(frozen=True, slots=True)
class MqttForm:
    """The form in which one sensor's readings are published.

    Attributes:
        format: one of `FORMATS`.
        retain: whether whoever subscribes gets the last reading at once.

    """

    format: str = MSGPACK
    retain: bool = False

    def payload(self, record: Record, base_name: str, resolution: float = 0.0) -> bytes | None:
        """Return the payload that says a reading; None where the format has no way to say it.

        That is a reading without a value, in SenML and in text.

        Args:
            record: the reading.
            base_name: SenML base name, which makes the sensor's name unique in the fleet.
            resolution: of the sensor; what is written in decimal has no more decimals.

        """
        if self.format == MSGPACK:
            return record.encode()
        if record.value is None:
            return None
        value = values.shown(record.value, resolution)
        if self.format == TEXT:
            return plain(value).encode()
        told = (record.unit, record.time_s, record.quality, record.tags)
        return senml.encode(base_name, [senml.SenmlRecord(record.name, value, *told)])


plain = values.as_text
"""A value as text, a number as a person writes it."""

"""How a sensor's readings look on MQTT: their format, and whether the last one is retained."""

from __future__ import annotations

from dataclasses import dataclass

from cloud_ingest.record import Record
from gateway.sensors import senml

MSGPACK = "msgpack"
"""The telemetry record (`cloud_ingest.record`): the smallest, and the only one with a number."""
JSON = "json"
"""SenML JSON (RFC 8428), the same as over CoAP."""
TEXT = "text"
"""The value alone."""
FORMATS = (MSGPACK, JSON, TEXT)

_EXACT_BELOW = 2**53


@dataclass(frozen=True, slots=True)
class MqttForm:
    """How one sensor's readings are published.

    Attributes:
        format: one of `FORMATS`.
        retain: whether whoever subscribes gets the last reading at once.

    """

    format: str = MSGPACK
    retain: bool = False

    def payload(self, record: Record, base_name: str) -> bytes:
        """The payload that says a reading.

        Args:
            record: the reading.
            base_name: SenML base name, which makes the sensor's name unique in the fleet.

        """
        if self.format == MSGPACK:
            return record.encode()
        if self.format == TEXT:
            return plain(record.value).encode()
        return senml.encode(base_name, record.name, record.unit, record.value, record.time_s)


def plain(value: float) -> str:
    """A finite number as a person writes it, read back as the same: ``21.5``, and ``1`` for 1.0."""
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT_BELOW else repr(value)

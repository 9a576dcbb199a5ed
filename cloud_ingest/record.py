"""The telemetry record: what a sensor's message carries, on a gateway and in Spark alike.

A record is one reading as a msgpack map whose keys are SenML's labels (RFC 8428, table 4), so
that it reads the same over CoAP: ``n`` name, ``u`` unit, ``v`` value, ``t`` time. Two keys are
ours: ``r`` the version of this form, and ``i`` the reading's number at its device, counted
from 1 without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

VERSION = 1


class RecordError(ValueError):
    """A payload is no telemetry record; the message names the field."""


@dataclass(frozen=True, slots=True)
class Record:
    """One reading.

    Attributes:
        name: the sensor, unique at its gateway (``host/load1``).
        unit: a unit of the SenML registry (``Cel``, ``W/m2``, ``B``), or ``""``.
        value: the reading.
        time_s: the device's wall clock, seconds since 1970.
        number: the reading's number at its device, from 1.

    """

    name: str
    unit: str
    value: float
    time_s: float
    number: int

    def encode(self) -> bytes:
        """The msgpack form."""
        packed: bytes = msgpack.packb(
            {
                "r": VERSION,
                "n": self.name,
                "u": self.unit,
                "v": self.value,
                "t": self.time_s,
                "i": self.number,
            }
        )
        return packed


def decode(payload: bytes) -> Record:
    """Read a record.

    Raises:
        RecordError: not msgpack, another version, a field missing or of a wrong type.

    """
    try:
        fields = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException) as error:
        raise RecordError(f"not msgpack: {error}") from error
    if not isinstance(fields, dict):
        raise RecordError(f"not a map: {type(fields).__name__}")
    if fields.get("r") != VERSION:
        raise RecordError(f"r (version): {fields.get('r')!r}")
    name, unit = fields.get("n"), fields.get("u")
    value, time_s, number = fields.get("v"), fields.get("t"), fields.get("i")
    if not isinstance(name, str):
        raise RecordError(f"n (name): {name!r}")
    if not isinstance(unit, str):
        raise RecordError(f"u (unit): {unit!r}")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RecordError(f"v (value): {value!r}")
    if not isinstance(time_s, int | float) or isinstance(time_s, bool):
        raise RecordError(f"t (time): {time_s!r}")
    if not isinstance(number, int) or isinstance(number, bool):
        raise RecordError(f"i (number): {number!r}")
    return Record(name, unit, float(value), float(time_s), number)

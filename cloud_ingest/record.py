"""The telemetry record: what a sensor's message carries, on a gateway and in Spark alike.

A record is one reading as a msgpack map whose keys are SenML's labels (RFC 8428, table 4), so
that it reads the same over CoAP: ``n`` name, ``u`` unit, ``v`` value, ``t`` time. Two keys are
ours: ``r`` the version of this form, and ``i`` the reading's number at its device, counted
from 1 without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec


class RecordError(ValueError):
    """A payload is no telemetry record; the message names the field by its key, as ``$.n``."""


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
        return msgspec.msgpack.encode(
            _Form(1, self.name, self.unit, self.value, self.time_s, self.number)
        )


class _Form(msgspec.Struct):
    """The map on the wire. All keys are required, so none has a default."""

    r: Literal[1]
    n: str
    u: str
    v: float
    t: float
    i: int


_decoder = msgspec.msgpack.Decoder(_Form)


def decode(payload: bytes) -> Record:
    """Read a record; keys of later versions are ignored.

    Raises:
        RecordError: not msgpack, another version, a field missing or of a wrong type.

    """
    try:
        form = _decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise RecordError(str(error)) from error
    return Record(form.n, form.u, form.v, form.t, form.i)

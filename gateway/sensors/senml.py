"""A reading as SenML JSON (RFC 8428): what a sensor answers and an actuator is set by.

An actuator also takes the number alone, as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

CONTENT_FORMAT = 110
"""application/senml+json (RFC 8428, section 12.3.1)."""
MAX_BYTES = 1024
MAX_TEXT_BYTES = 64
"""Longest number in plain text that an actuator takes."""

_NUMBERS = frozenset({"bt", "t", "ut", "bver"})


class SenmlError(ValueError):
    """A payload does not say one value; the message names the field."""


def encode(base_name: str, name: str, unit: str, value: float, time_s: float) -> bytes:
    """Write one reading.

    Args:
        base_name: what makes ``name`` unique, with its separator at the end.
        name: the sensor.
        unit: its SenML unit; ``""`` for none.
        value: the reading, finite.
        time_s: when it was taken, seconds since 1970.

    """
    return encode_pack(base_name, [record(name, unit, value, time_s)])


def record(name: str, unit: str, value: float, time_s: float) -> dict[str, Any]:
    """One reading for `encode_pack`; arguments as for `encode`."""
    made: dict[str, Any] = {"n": name, "v": value, "t": time_s}
    if unit:
        made["u"] = unit
    return made


def encode_pack(base_name: str, records: Sequence[dict[str, Any]]) -> bytes:
    """Write readings of sensors that have a base name in common (RFC 8428, section 4.1.1)."""
    first = [{"bn": base_name, **one} for one in records[:1]]
    return json.dumps([*first, *records[1:]], separators=(",", ":"), allow_nan=False).encode()


def decode_value(payload: bytes, base_name: str, name: str, unit: str) -> float:
    """Read the value an actuator is to take: one record with ``v``, or ``vb`` for on and off.

    Name and unit may be left out; if they are there, they must be the actuator's.

    Args:
        payload: the SenML pack.
        base_name: as for ``encode``.
        name: the actuator.
        unit: its unit.

    Raises:
        SenmlError: not JSON, not one record, no value, another name or unit, or a field that
            must be understood and is not (section 4.4).

    """
    if len(payload) > MAX_BYTES:
        raise SenmlError(f"longer than {MAX_BYTES} bytes")
    try:
        pack = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise SenmlError(f"not JSON: {error}") from error
    if not isinstance(pack, list) or len(pack) != 1 or not isinstance(pack[0], dict):
        raise SenmlError("not an array of one record")
    record: dict[str, Any] = pack[0]
    _check_others(record, base_name, name, unit)
    if isinstance(record.get("vb"), bool) and "v" not in record:
        return float(record["vb"])
    try:
        value = float(_number(record, "v"))
    except OverflowError as error:
        raise SenmlError("v: out of range") from error
    if not math.isfinite(value):
        raise SenmlError(f"v: {value} is not finite")
    return value


def decode_text(payload: bytes) -> float:
    """Read the value an actuator is to take from plain text.

    Raises:
        SenmlError: not a finite number.

    """
    try:
        value = float(payload[: MAX_TEXT_BYTES + 1].decode())
    except ValueError as error:
        raise SenmlError("the payload is not a number") from error
    if len(payload) > MAX_TEXT_BYTES or not math.isfinite(value):
        raise SenmlError("the payload is not a finite number")
    return value


def _check_others(record: dict[str, Any], base_name: str, name: str, unit: str) -> None:
    """Check every field that is not the value."""
    for field in record:
        if field.endswith("_"):
            raise SenmlError(f"{field}: must be understood and is not")
    if "bv" in record:
        raise SenmlError("bv: a base value is not taken")
    for field in _NUMBERS & record.keys():
        _number(record, field)
    given_name = f"{record.get('bn', '')}{record.get('n', '')}"
    if given_name not in ("", name, base_name + name):
        raise SenmlError(f"n: {given_name[:80]!r} is not {name!r}")
    given_unit = record.get("u", record.get("bu", unit))
    if given_unit != unit:
        raise SenmlError(f"u: {given_unit!r} is not {unit!r}")


def _number(record: dict[str, Any], field: str) -> int | float:
    value = record.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SenmlError(f"{field}: {value!r} is not a number")
    return value

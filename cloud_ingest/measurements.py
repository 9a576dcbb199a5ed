"""Measurements of a client's message, in whichever form a device writes them.

Five forms are read, told apart by their first bytes:

- a telemetry record, a msgpack map (`record_formats.record`);
- a plain number as text, as Home Assistant and ``mosquitto_pub`` write it: ``21.5``; or ``true``
  and ``false``;
- a JSON object with a numeric ``value``: ``{"value": 21.5}``;
- a SenML pack in JSON, an array of records with base fields (RFC 8428, sections 4 and 5);
- a SenML pack in CBOR (section 6).

All else is refused with what is wrong with it, and so is what readers of such a message could
take for different things: a value that is not finite, an object with one key twice, text that is
not UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from cloud_ingest.senml_cbor import is_cbor_pack, senml_records
from record_formats import record
from record_formats.record import MAX_NAME_LENGTH, MAX_UNIT_LENGTH, RecordError, closest
from record_formats.value import Quality, Value

MAX_TEXT_BYTES = 64 * 1024
"""Longer text is refused unread: no sensor writes it, and reading it costs memory."""
SENML_VERSION = 10
"""The version that is understood; a pack of a later one must not be used (section 4.4)."""
ABSOLUTE_FROM_S = 1 << 28
"""Times from here on are seconds since 1970, those below are relative to now (section 4.5.3)."""

MAP_HEADS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
"""First bytes of a msgpack map. Neither a number nor JSON begins with one of them; a pack in CBOR
does, of 15 records or fewer."""
_BLANKS = " \t\r\n"
SURE_DIGITS: Final = 15
"""A float says each integer of so many digits."""
NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
TRUTHS: Final = {"true": True, "false": False}
_TEXT_FIELDS = ("bn", "bu", "n", "u", "vs")
_DATA: Final = {str: "text", bytes: "byte string"}
_NUMBER_FIELDS = ("bt", "bv", "bver", "t", "v")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value that a message holds, and what it says of it.

    Attributes:
        value: a number is finite, and an ``int`` only where no float says it; None only in a
            telemetry record that has none.
        sensor: its name, resolved where it is SenML's; None if the message names none.
        unit: None if the message names none.
        time_s: the device's wall clock, seconds since 1970; None if it gives no such time.
        number: the reading's number at its device; None but in a telemetry record.
        quality: as the record's; None but in a telemetry record.
        tags: as the record's.
        more: as the record's.
        since_arrival_s: when it was measured, seconds after the message was accepted, mostly
            before; None if ``time_s`` says it, or nothing does (RFC 8428, section 4.5.3).

    """

    value: Value | None
    sensor: str | None = None
    unit: str | None = None
    time_s: float | None = None
    number: int | None = None
    quality: Quality | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    since_arrival_s: float | None = None


def decode(payload: bytes) -> list[Measurement]:
    """Read what a message says: at least one measurement, several from a SenML pack.

    Raises:
        RecordError: it is none of the forms, or one of them and wrong; the message names the
            field, as ``$[1].v``.

    """
    if payload and payload[0] in MAP_HEADS:
        return _of_map(payload)
    if is_cbor_pack(payload):
        return senml_pack(senml_records(payload), data=bytes)
    text = text_of(payload)
    if NUMBER.fullmatch(text):
        return [Measurement(number_of_text("number", text))]
    if text in TRUTHS:
        return [Measurement(TRUTHS[text])]
    document = json_of(text)
    if isinstance(document, dict):
        if "value" not in document:
            raise RecordError("$.value: missing")
        return [Measurement(exact_of("$.value", document["value"]))]
    if isinstance(document, list):
        return senml_pack(document)
    raise RecordError("JSON, but neither a number, nor an object with `value`, nor a SenML pack")


def _of_map(payload: bytes) -> list[Measurement]:
    """Return a telemetry record, or a pack in CBOR whose first byte is the same."""
    try:
        return [of_record(payload)]
    except RecordError as error:
        if not is_cbor_pack(payload):
            raise
        refused = error
    try:
        return senml_pack(senml_records(payload), data=bytes)
    except RecordError as error:
        raise RecordError(f"no telemetry record: {refused}; no SenML pack: {error}") from error


def of_record(payload: bytes) -> Measurement:
    """Read a telemetry record.

    Raises:
        RecordError: it is none, or one with a value that is not finite.

    """
    found = record.decode(payload)
    value = found.value
    if isinstance(value, float):
        finite("v (value)", value)
    told = (found.name, found.unit, found.time_s, found.number)
    return Measurement(value, *told, found.quality, found.tags, found.more)


def text_of(payload: bytes) -> str:
    """Read a payload as text, without the blanks around it.

    Raises:
        RecordError: longer than `MAX_TEXT_BYTES`, not UTF-8, or empty.

    """
    if len(payload) > MAX_TEXT_BYTES:
        raise RecordError(f"{len(payload)} bytes of text, at most {MAX_TEXT_BYTES} are read")
    try:
        text = payload.decode().strip(_BLANKS)
    except UnicodeDecodeError as error:
        raise RecordError(f"neither a msgpack map nor UTF-8: byte {error.start}") from error
    if not text:
        raise RecordError("empty")
    return text


# -- JSON ------------------------------------------------------------------------------------------


def json_of(text: str) -> Any:
    """Read JSON in which no object has a key twice.

    Raises:
        RecordError: it is none.

    """
    try:
        return json.loads(text, object_pairs_hook=_unambiguous, parse_constant=_refuse_constant)
    except RecordError:
        raise
    except RecursionError as error:
        raise RecordError("JSON: nested too deeply") from error
    except ValueError as error:  # also a whole number of more digits than Python converts
        raise RecordError(f"neither a number nor JSON: {error}") from error


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise RecordError(f"JSON: {name[:40]!r} stands twice in an object")
        members[name] = value
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise RecordError(f"JSON: {name} is not finite")


def number_of(where: str, value: object) -> float:
    """Take a value of JSON as a number.

    Raises:
        RecordError: it is none, or too large; ``where`` names it.

    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(f"{where}: {type(value).__name__} is not a number")
    try:
        return finite(where, float(value))
    except OverflowError as error:
        raise RecordError(f"{where}: out of range") from error


def exact_of(where: str, value: object) -> float:
    """Take a value of JSON as a number; an integer that no float says stays an ``int``.

    Raises:
        RecordError: it is none, or too large; ``where`` names it.

    """
    as_float = number_of(where, value)
    return closest(value) if isinstance(value, int) else as_float


def number_of_text(where: str, text: str) -> float:
    """Take a text that fits `NUMBER` as a number, as `exact_of` does.

    Raises:
        RecordError: too large; ``where`` names it.

    """
    as_float = finite(where, float(text))
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) <= SURE_DIGITS or not digits.isdecimal():
        return as_float
    return closest(-int(digits) if text[0] == "-" else int(digits))


def finite(where: str, value: float) -> float:
    """Return a number that is neither infinite nor NaN.

    Raises:
        RecordError: it is; ``where`` names it.

    """
    if not math.isfinite(value):
        raise RecordError(f"{where}: {value} is not finite")
    return value


# -- SenML -----------------------------------------------------------------------------------------


def senml_pack(records: list[Any], data: type[str] | type[bytes] = str) -> list[Measurement]:
    """Resolve the records of a pack; those without a value, which are sums, are left out.

    Args:
        records: with names for labels.
        data: what ``vd`` is: base64url in JSON, bytes in CBOR.

    Raises:
        RecordError: it is no pack, or has no value; the message names the field.

    """
    texts: dict[str, str] = {}
    numbers: dict[str, float] = {}
    found = []
    for at, fields in enumerate(records):
        where = f"$[{at}]"
        if not isinstance(fields, dict):
            raise RecordError(f"{where}: {type(fields).__name__} is no SenML record")
        _check(fields, where, data)
        # A base field holds until a later record has it again; a regular one for its own alone.
        texts = {name: texts[name] for name in ("bn", "bu") if name in texts}
        texts |= {name: fields[name] for name in _TEXT_FIELDS if name in fields}
        numbers = {name: numbers[name] for name in ("bt", "bv") if name in numbers}
        numbers |= {
            name: _as_sent(f"{where}.{name}", fields[name])
            for name in _NUMBER_FIELDS
            if name in fields
        }
        if numbers.get("bver", 0) > SENML_VERSION:
            raise RecordError(f"{where}.bver: {fields['bver']} is later than {SENML_VERSION}")
        value = _value(fields, numbers, where)
        if value is not None:
            found.append(_resolved(value, texts, numbers, where))
    if not found:
        raise RecordError("SenML: no record with a value")
    return found


def _check(fields: Mapping[str, Any], where: str, data: type[str] | type[bytes]) -> None:
    for name in fields:
        if name.endswith("_"):  # section 4.4
            raise RecordError(f"{where}.{name[:40]!r}: must be understood and is not")
    if "vd" in fields and not isinstance(fields["vd"], data):
        raise RecordError(f"{where}.vd: {type(fields['vd']).__name__} is no {_DATA[data]}")
    for name in _TEXT_FIELDS:
        text = fields.get(name, "")
        if not isinstance(text, str):
            raise RecordError(f"{where}.{name}: {type(text).__name__} is no text")
        try:
            text.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair: no table can hold it
            raise RecordError(f"{where}.{name}: no Unicode text") from error


def _as_sent(where: str, value: Any) -> float:
    """Return a number, an integer as an ``int``: sums of those lose nothing."""
    as_float = number_of(where, value)
    return value if isinstance(value, int) else as_float


def _value(fields: Mapping[str, Any], numbers: Mapping[str, float], where: str) -> Value | None:
    there = [label for label in ("v", "vs", "vb", "vd") if label in fields]
    if len(there) > 1:  # section 4.2
        raise RecordError(f"{where}: {' and '.join(there)} in one record")
    if not there:
        return None
    label, value = there[0], fields[there[0]]
    if label == "v":
        return exact_of(f"{where}.v", numbers.get("bv", 0) + numbers["v"])
    if label == "vb" and not isinstance(value, bool):
        raise RecordError(f"{where}.vb: {type(value).__name__} is neither true nor false")
    return _bytes(value, where) if label == "vd" and isinstance(value, str) else value


def _bytes(text: str, where: str) -> bytes:
    """Base64 in the alphabet for URLs, without padding (section 5, after RFC 4648, section 5)."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise RecordError(f"{where}.vd: no base64url") from error


def _resolved(
    value: Value, texts: Mapping[str, str], numbers: Mapping[str, float], where: str
) -> Measurement:
    time_s = number_of(f"{where}.t", numbers.get("bt", 0) + numbers.get("t", 0))
    sensor = texts.get("bn", "") + texts.get("n", "") or None
    unit = texts.get("u", texts.get("bu")) or None
    for label, text, limit in (("n", sensor, MAX_NAME_LENGTH), ("u", unit, MAX_UNIT_LENGTH)):
        if text is not None and len(text) > limit:
            length = len(text)
            raise RecordError(f"{where}.{label}: {length} characters, at most {limit} are read")
    if time_s >= ABSOLUTE_FROM_S:
        return Measurement(value, sensor, unit, time_s)
    # Zero is what a sensor says that has no clock: roughly now, which nobody has measured.
    return Measurement(value, sensor, unit, since_arrival_s=time_s or None)

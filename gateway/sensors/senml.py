"""Readings as SenML packs (RFC 8428), in JSON and CBOR: one codec for CoAP and MQTT.

Quality and tags are extension fields, which other readers ignore (section 4.4): ``q``, if it is
not good, and ``g:NAME`` for each tag. A record has to have a value (section 4.2), so a reading
without one has no SenML form. An actuator also takes its value alone, as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from gateway.base.in_turns import in_turns
from gateway.sensors.values import (
    MAX_VALUE_BYTES,
    NUMBER,
    ValueKind,
    ValueKindError,
    base64url,
    checked,
    fitting,
    from_base64url,
    from_text,
)
from light_dataclasses import dataclass
from record_formats.value import BAD, GOOD, UNCERTAIN, Quality, Value

CONTENT_FORMAT: Final = 110
"""application/senml+json (RFC 8428, section 12.3.1)."""
CBOR_FORMAT: Final = 112
"""application/senml+cbor (section 12.3.2)."""
MAX_BYTES: Final = 64 * 1024
"""Of a pack that is read."""
MAX_RECORDS: Final = 256
"""In a pack that is read."""
MAX_FIELDS: Final = 64
"""In one of them."""
MAX_TEXT_BYTES: Final = 64
"""Longest number or boolean in plain text that an actuator takes."""
ABSOLUTE_FROM_S: Final = 1 << 28
"""Times from here on are seconds since 1970, those below are relative to now (section 4.5.3)."""

_VERSION: Final = 10
_CBOR_ARRAY: Final = 0x80
_CBOR_COUNT_IN_HEAD: Final = 24
"""Fewer items are counted in the first byte (RFC 8949, section 3)."""
RECORDS_AT_ONCE: Final = 5
"""So many are encoded together; of so few an array in CBOR has a head of one byte."""
_LABELS: Final[Mapping[str, int]] = {
    "bver": -1,
    "bn": -2,
    "bt": -3,
    "bu": -4,
    "bv": -5,
    "bs": -6,
    "n": 0,
    "u": 1,
    "v": 2,
    "vs": 3,
    "vb": 4,
    "s": 5,
    "t": 6,
    "ut": 7,
    "vd": 8,
}
"""In CBOR (section 6, table 6)."""
_NAMES: Final = {number: label for label, number in _LABELS.items()}
_VALUES: Final = ("v", "vs", "vb", "vd")
_TEXTS: Final = ("bn", "bu", "n", "u", "vs")
_NUMBERS: Final = ("bt", "t", "ut", "bver", "v", "bv", "s", "bs")
_QUALITIES: Final[Mapping[str, Quality]] = {GOOD: GOOD, UNCERTAIN: UNCERTAIN, BAD: BAD}


class SenmlError(ValueError):
    """A payload is no pack, or does not say one value; the message names the field."""


@dataclass(frozen=True, slots=True)
class SenmlRecord:
    """A record of a pack, resolved (section 4.6).

    Attributes:
        name: base name and name.
        value: the reading.
        unit: ``""`` for none.
        time_s: since 1970, or relative to now below `ABSOLUTE_FROM_S`; 0 where it is not said.
        quality: what the value is good for.
        tags: what else is said of it.

    """

    name: str
    value: Value
    unit: str = ""
    time_s: float = 0.0
    quality: Quality = GOOD
    tags: Mapping[str, str] = field(default_factory=dict)


# -- writing ---------------------------------------------------------------------------------------


def encode(
    base_name: str, records: Sequence[SenmlRecord], content_format: int = CONTENT_FORMAT
) -> bytes:
    """Write readings of sensors that have a base name in common (RFC 8428, section 4.1.1).

    Args:
        base_name: what makes their names unique, with its separator at the end; none if empty.
        records: with names behind it and finite numbers.
        content_format: `CONTENT_FORMAT` or `CBOR_FORMAT`.

    """
    pack = [_fields(each) for each in records]
    if pack and base_name:
        pack[0] = {"bn": base_name, **pack[0]}
    if content_format == CBOR_FORMAT:
        # Loaded only where somebody asks for it.
        import cbor2  # noqa: PLC0415  # as it says

        return cbor2.dumps([{_LABELS.get(k, k): v for k, v in one.items()} for one in pack])
    for one in pack:
        if "vd" in one:
            one["vd"] = base64url(one["vd"])
    return json.dumps(pack, separators=(",", ":"), allow_nan=False).encode()


async def encoded_in_turns(
    base_name: str, records: Sequence[SenmlRecord], content_format: int = CONTENT_FORMAT
) -> bytes:
    """Write the same bytes as `encode`; others have a turn of the event loop after each slice."""
    pieces = list[bytes]()
    async for first in in_turns(range(0, len(records), RECORDS_AT_ONCE)):
        some = records[first : first + RECORDS_AT_ONCE]
        pieces.append(encode("" if first else base_name, some, content_format))
    if len(pieces) <= 1:
        return pieces[0] if pieces else encode(base_name, (), content_format)
    if content_format == CBOR_FORMAT:
        return _cbor_array_head(len(records)) + b"".join(piece[1:] for piece in pieces)
    return b"[" + b",".join(piece[1:-1] for piece in pieces) + b"]"


def _cbor_array_head(count: int) -> bytes:
    """Return the head of an array of so many items (RFC 8949, section 3)."""
    if count < _CBOR_COUNT_IN_HEAD:
        return bytes((_CBOR_ARRAY | count,))
    size = 1 if count < 1 << 8 else 2 if count < 1 << 16 else 4
    return bytes((_CBOR_ARRAY | _CBOR_COUNT_IN_HEAD + size.bit_length() - 1,)) + count.to_bytes(
        size, "big"
    )


def _fields(record: SenmlRecord) -> dict[str, Any]:
    made: dict[str, Any] = {"n": record.name, label_of(record.value): record.value}
    made["t"] = record.time_s
    if record.unit:
        made["u"] = record.unit
    if record.quality != GOOD:
        made["q"] = record.quality
    return made | {f"g:{name}": text for name, text in record.tags.items()}


def label_of(value: Value) -> str:
    """Return the label of a value: ``v``, ``vs``, ``vb`` or ``vd``."""
    if isinstance(value, bool):
        return "vb"
    if isinstance(value, str):
        return "vs"
    return "vd" if isinstance(value, bytes) else "v"


# -- reading ---------------------------------------------------------------------------------------


def decode(payload: bytes, content_format: int = CONTENT_FORMAT) -> list[SenmlRecord]:
    """Read a pack; records without a value, which are sums, are left out.

    Args:
        payload: the pack.
        content_format: `CONTENT_FORMAT` or `CBOR_FORMAT`.

    Raises:
        SenmlError: no pack, or a field that is wrong or must be understood and is not.

    """
    base: dict[str, Any] = {}
    found = []
    for fields in loaded(payload, content_format):
        _check(fields)
        base |= {label: fields[label] for label in ("bn", "bt", "bu", "bv") if label in fields}
        value = _value(fields, base.get("bv", 0.0), content_format)
        if value is None:
            continue
        time_s = float(base.get("bt", 0.0)) + float(fields.get("t", 0.0))
        if not math.isfinite(time_s):
            raise SenmlError(f"t: {time_s} is not finite")
        quality = fields.get("q")  # another's extension may be of any kind
        found.append(
            SenmlRecord(
                base.get("bn", "") + fields.get("n", ""),
                value,
                fields.get("u", base.get("bu", "")),
                time_s,
                _QUALITIES.get(quality, GOOD) if isinstance(quality, str) else GOOD,
                {k[2:]: v for k, v in fields.items() if k[:2] == "g:" and isinstance(v, str)},
            )
        )
    return found


def loaded(payload: bytes, content_format: int) -> list[dict[str, Any]]:
    """Return the records of a pack as maps by SenML's labels in JSON, unresolved and unchecked.

    Raises:
        SenmlError: not JSON or CBOR, or no array of maps.

    """
    if len(payload) > MAX_BYTES:
        raise SenmlError(f"longer than {MAX_BYTES} bytes")
    form = "CBOR" if content_format == CBOR_FORMAT else "JSON"
    try:
        if content_format == CBOR_FORMAT:
            pack = _from_cbor(payload)
        else:
            pack = json.loads(payload, object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError, OverflowError) as error:
        raise SenmlError(f"not {form}: {error}") from error
    if not isinstance(pack, list) or not 0 < len(pack) <= MAX_RECORDS:
        raise SenmlError(f"not an array of 1 to {MAX_RECORDS} records")
    for record in pack:
        if not isinstance(record, dict):
            raise SenmlError(f"a record is no map: {record!r:.60}")
        if len(record) > MAX_FIELDS:
            raise SenmlError(f"more than {MAX_FIELDS} fields in a record")
    if content_format != CBOR_FORMAT:
        return pack
    return [_named(record) for record in pack]


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; one with a key twice says different things to different readers."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"{twice[:40]!r} stands twice in an object")
    return fields


def _from_cbor(payload: bytes) -> Any:
    import cbor2  # noqa: PLC0415  # as above

    try:
        return cbor2.loads(
            payload, tag_hook=_no_tag, semantic_decoders=_NO_TAGS, allow_duplicate_keys=False
        )
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _no_tag(*_: object) -> Any:
    """Refuse a tag: no field of a pack needs one, and by those that share values a few bytes say
    more than any memory holds."""
    raise ValueError("a tag")


_NO_TAGS: Final = dict.fromkeys(
    (*range(6), 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000),
    _no_tag,
)
"""Those that the decoder knows itself; it asks `_no_tag` about all others."""


def _named(record: Mapping[Any, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(key, bool) or not isinstance(key, int | str):
            raise SenmlError(f"{key!r:.60}: no label")
        label = _NAMES.get(key, key) if isinstance(key, int) else key
        if str(label) in named:
            raise SenmlError(f"{label}: stands twice in a record")
        named[str(label)] = value
    return named


def _check(fields: Mapping[str, Any]) -> None:
    """Check the fields that are known, and that no other has to be (section 4.4)."""
    for label in fields:
        if label.endswith("_"):
            raise SenmlError(f"{label[:40]}: must be understood and is not")
    for label in _TEXTS:
        text = fields.get(label, "")
        if not isinstance(text, str):
            raise SenmlError(f"{label}: {text!r:.60} is not a text")
    for label in _NUMBERS:
        if label in fields:
            _number(label, fields[label])
    if fields.get("bver", 0) > _VERSION:
        raise SenmlError(f"bver: {fields['bver']} is later than {_VERSION}")


def _number(label: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SenmlError(f"{label}: {value!r:.60} is not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise SenmlError(f"{label}: out of range") from error
    if not math.isfinite(number):
        raise SenmlError(f"{label}: {number} is not finite")
    return number


def _value(fields: Mapping[str, Any], base: float, content_format: int) -> Value | None:
    there = [label for label in _VALUES if label in fields]
    if len(there) > 1:
        raise SenmlError(f"{' and '.join(there)} in one record")
    if not there:
        return None
    label, value = there[0], fields[there[0]]
    if label == "vb" and not isinstance(value, bool):
        raise SenmlError(f"vb: {value!r:.60} is neither true nor false")
    if label == "vd" and content_format == CBOR_FORMAT and not isinstance(value, bytes):
        raise SenmlError(f"vd: {value!r:.60} is not bytes")
    try:
        if label == "vd" and content_format != CBOR_FORMAT:
            if not isinstance(value, str):
                raise SenmlError(f"vd: {value!r:.60} is not a text")
            value = from_base64url(value)
        return checked(_number(label, base) + _number(label, value) if label == "v" else value)
    except ValueKindError as error:
        raise SenmlError(f"{label}: {error}") from error


# -- one value for an actuator ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ActuatorTarget:
    """The actuator that a payload is to set.

    Attributes:
        base_name: as for `encode`.
        name: its name.
        unit: its unit.
        kind: what it takes.

    """

    base_name: str
    name: str
    unit: str = ""
    kind: ValueKind = NUMBER


def decode_value(
    payload: bytes, wanted: ActuatorTarget, content_format: int = CONTENT_FORMAT
) -> Value:
    """Read the value an actuator is to take: a pack of one record.

    Name and unit may be left out; if they are there, they must be the actuator's. ``vb`` is 1 or 0
    to an actuator that takes numbers.

    Args:
        payload: the SenML pack.
        wanted: the actuator.
        content_format: `CONTENT_FORMAT` or `CBOR_FORMAT`.

    Raises:
        SenmlError: no pack of one record, no value, another name or unit, a value of another
            kind, or a field that must be understood and is not (section 4.4).

    """
    pack = loaded(payload, content_format)
    if len(pack) != 1:
        raise SenmlError("not an array of one record")
    for label in ("bv", "bs", "s"):
        if label in pack[0]:
            raise SenmlError(f"{label}: is not taken")
    found = decode(payload, content_format)
    if not found:
        raise SenmlError(f"no value in {', '.join(_VALUES)}")
    record = found[0]
    if record.name not in ("", wanted.name, wanted.base_name + wanted.name):
        raise SenmlError(f"n: {record.name[:80]!r} is not {wanted.name!r}")
    if record.unit not in ("", wanted.unit):
        raise SenmlError(f"u: {record.unit!r} is not {wanted.unit!r}")
    try:
        return fitting(record.value, wanted.kind)
    except ValueKindError as error:
        raise SenmlError(f"{label_of(record.value)}: {error}") from error


def decode_text(payload: bytes, kind: ValueKind = NUMBER) -> Value:
    """Read the value an actuator is to take from plain text.

    Raises:
        SenmlError: it does not say one of the kind.

    """
    is_short = kind not in ("text", "bytes")
    most = MAX_TEXT_BYTES if is_short else 2 * MAX_VALUE_BYTES
    try:
        text = payload[: most + 1].decode()
        value = checked(from_text(text, kind))
    except UnicodeDecodeError as error:
        raise SenmlError("the payload is not a number" if is_short else "no UTF-8") from error
    except ValueKindError as error:
        raise SenmlError(str(error)) from error
    if len(payload) > most:
        raise SenmlError("the payload is not a finite number" if is_short else "too long")
    return value

"""Values that a sensor reads and an actuator takes: a number, a text, a boolean or bytes.

As text (text/plain) a number is in decimal, a boolean ``true`` or ``false``, and bytes are
base64url without padding, as in SenML JSON (RFC 8428, section 5).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from functools import cache
from typing import Final, Literal

from gateway.base.printable import shortly
from light_dataclasses import dataclass
from record_formats.value import GOOD, MAX_TAG_LENGTH, MAX_TAGS, Quality, Value

ValueKind = Literal["number", "text", "boolean", "bytes"]

NUMBER: Final = "number"
TEXT: Final = "text"
BOOLEAN: Final = "boolean"
BYTES: Final = "bytes"
KINDS: Final[tuple[ValueKind, ...]] = (NUMBER, TEXT, BOOLEAN, BYTES)
MAX_VALUE_BYTES: Final = 16 * 1024
"""Longest text, as UTF-8, and most bytes of one value."""
MAX_UNIT_LENGTH: Final = 64
MAX_PARTS: Final = 64
"""Named values of one reading."""

_DIGITS: Final = 15
"""Significant ones that each float holds (C's DBL_DIG): 26.9 / 100 is 0.269 with them, and
0.26899999999999996 with 17."""
_EXACT_BELOW: Final = 2**53
_TRUTHS: Final = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


class ValueKindError(ValueError):
    """A value is none of the kinds, not of the one that is wanted, or out of bounds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, and what its sensor says of it.

    Attributes:
        value: None if it could not be had, which is `BAD` (`record_formats.record`).
        unit: the sensor's unless given.
        quality: what the value is good for.
        tags: more that is to be known of this one reading.

    """

    value: Value | None
    unit: str | None = None
    quality: Quality = GOOD
    tags: Mapping[str, str] = field(default_factory=dict)


Outcome = Value | Measured | Mapping[str, Value | Measured]
"""The result of a ``read``: one value, or several by their names."""


def checked(value: object) -> Value:
    """Return a value as it is published: whole numbers become floats.

    Raises:
        ValueKindError: no value, a number that is not finite, or one that is too long.

    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _checked_number(value)
    found: str | bytes
    # What a subclass of a driver's own makes of itself is not asked for: it is taken as it is.
    if isinstance(value, str):
        found = str.__str__(value)
        try:
            size = len(found.encode())
        except UnicodeEncodeError as error:
            raise ValueKindError(f"{found[:40]!r}, which is no Unicode text") from error
    elif isinstance(value, bytes):
        found = b"".join((value,))
        size = len(found)
    else:
        raise ValueKindError(f"{shortly(value, 60)}, which is no number, text, boolean or bytes")
    if size > MAX_VALUE_BYTES:
        raise ValueKindError(f"a value of {size} bytes, over {MAX_VALUE_BYTES}")
    return found


def _checked_number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueKindError("a whole number that no float holds") from error
    if not math.isfinite(number):
        raise ValueKindError(f"{number!r}, which is no finite number")
    return number


def checked_unit(unit: object) -> str:
    """Return a unit as a record carries it.

    Raises:
        ValueKindError: no text that can be printed, or one that is too long.

    """
    if not isinstance(unit, str) or len(unit) > MAX_UNIT_LENGTH or not unit.isprintable():
        raise ValueKindError(
            f"unit {shortly(unit, 60)}, which is no printable text of {MAX_UNIT_LENGTH} characters"
        )
    return str.__str__(unit)


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags as a record carries them.

    Raises:
        ValueKindError: too many, too long, or not texts.

    """
    if len(tags) > MAX_TAGS:
        raise ValueKindError(f"{len(tags)} tags, over {MAX_TAGS}")
    for pair in tags.items():
        for text in pair:
            if not isinstance(text, str) or len(text) > MAX_TAG_LENGTH or not _is_unicode(text):
                shown_text = shortly(text, 60)
                raise ValueKindError(f"a tag {shown_text}, which is no text of {MAX_TAG_LENGTH}")
    return dict(tags)


def _is_unicode(text: str) -> bool:
    """Return whether it holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def fitting(value: Value, kind: ValueKind) -> Value:
    """Return a value as one of a kind: 1 and 0 are true and false, and the other way round.

    Raises:
        ValueKindError: it is of another kind.

    """
    if kind == NUMBER and isinstance(value, bool | int | float):
        return float(value)
    if kind == BOOLEAN and isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    if (kind == TEXT and isinstance(value, str)) or (kind == BYTES and isinstance(value, bytes)):
        return value
    raise ValueKindError(f"{value!r:.60} is not a {kind}" if kind != BYTES else "not bytes")


def shown(value: Value, resolution: float = 0.0) -> Value:
    """Return a value as it is written in decimal: without what binary arithmetic left behind its
    digits.

    Args:
        value: exact, as a record has it.
        resolution: of its sensor, which has no more decimals than this; 0 if that is not known.
            Then all digits are shown that a float is sure to hold.

    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if resolution:
        value = round(value, _decimals(resolution))
    number = float(f"{value:.{_DIGITS}g}")
    return number + 0.0 if math.isfinite(number) else value  # no negative zero


@cache
def _decimals(resolution: float) -> int:
    exponent = Decimal(repr(resolution)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def as_text(value: Value) -> str:
    """Return a value as text, a number as a person writes it: ``21.5``, and ``1`` for 1.0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        is_whole = float(value).is_integer() and abs(value) < _EXACT_BELOW
        return str(int(value)) if is_whole else repr(value)
    return value if isinstance(value, str) else base64url(value)


def from_text(text: str, kind: ValueKind) -> Value:
    """Return the value of a kind that a text says.

    Raises:
        ValueKindError: it says none.

    """
    if kind == TEXT:
        return text
    if kind == BYTES:
        return from_base64url(text.strip())
    if kind == BOOLEAN:
        truth = _TRUTHS.get(text.strip().lower())
        if truth is None:
            raise ValueKindError("the payload is neither true nor false")
        return truth
    if not _NUMBER.fullmatch(text):
        try:
            float(text)
        except ValueError as error:
            raise ValueKindError("the payload is not a number") from error
        raise ValueKindError("the payload is not a finite number")
    if not math.isfinite(value := float(text)):
        raise ValueKindError("the payload is not a finite number")
    return value


def base64url(data: bytes) -> str:
    """Return bytes in the alphabet for URLs, without padding (RFC 4648, section 5)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """Return the bytes of such a text; padding may be there.

    Raises:
        ValueKindError: it is none.

    """
    try:
        padded = text.rstrip("=")
        return base64.b64decode(padded + "=" * (-len(padded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueKindError("no base64url") from error

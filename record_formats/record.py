"""The telemetry record: what a sensor's message carries, on a gateway and in Spark alike.

A record is one reading as a msgpack map whose keys are SenML's labels (RFC 8428, table 4), so
that it reads the same over CoAP: ``n`` name, ``u`` unit, ``t`` time, and the value as ``v``
number, ``vs`` text, ``vb`` boolean or ``vd`` bytes. Four keys are ours: ``r`` the version of this
form, ``i`` the reading's number at its device, counted from 1 without gaps, ``q`` its quality
and ``g`` its tags.

``r`` is the least version that a reader needs. A number that may be used is version 1, which has
``v`` alone and ignores what it does not know; all else is version 2. A later version adds keys and
gives none another meaning, so its records are read too: keys that are unknown here are kept. One
that ends in ``_`` says that it must be understood, and is refused (as RFC 8428, section 4.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import isfinite
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from light_dataclasses import dataclass
from record_formats.later_keys import later_keys
from record_formats.value import BAD, GOOD, MAX_TAG_LENGTH, MAX_TAGS, Quality, Value

VERSION: Final = 2
"""Of the form that is written here."""
MAX_NAME_LENGTH: Final = 264
"""Of a sensor, in characters: 200, and the gateway's id with a slash before them."""
MAX_UNIT_LENGTH: Final = 200
MAX_TEXT_LENGTH: Final = 64 * 1024
"""Of a value that is text, in characters."""
MAX_DATA_BYTES: Final = 1 << 20
"""Of a value that is bytes."""
MAX_LATER_BYTES: Final = 64 * 1024
"""Of a payload with keys that are unknown here."""
YEAR_1_S: Final = -62_135_596_800
YEAR_9999_S: Final = 253_402_300_799
"""The seconds that a table holds as a time are from here to there."""
LONG_MAX: Final = 2**63 - 1
"""The largest number of a device that a table holds; the least one is its negative."""


class RecordError(ValueError):
    """A payload is no telemetry record; the message names the field by its key, as ``$.n``."""


@dataclass(frozen=True, slots=True)
class Record:
    """One reading.

    Attributes:
        name: the sensor, unique at its gateway (``host/load1``), up to `MAX_NAME_LENGTH`.
        unit: a unit of the SenML registry (``Cel``, ``W/m2``, ``B``), or ``""``.
        value: the reading; an integer that no float says is an ``int``, any other number a
            ``float``; None if there is none, which is `BAD`, or of a kind of a later version.
        time_s: the device's wall clock, seconds since 1970.
        number: the reading's number at its device, from 1.
        quality: what the value is good for.
        tags: what else is to be known of the reading, at most `MAX_TAGS` texts of
            `MAX_TAG_LENGTH` characters.
        more: keys of later versions; their version ``r`` among them, if it is beyond `VERSION`.

    """

    name: str
    unit: str
    value: Value | None
    time_s: float
    number: int
    quality: Quality = GOOD
    tags: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the msgpack form."""
        label = _label(self.value)
        made: dict[str, Any] = {
            "r": 1 if label == "v" and self.quality != BAD else VERSION,
            "n": self.name,
            "u": self.unit,
        }
        if label is not None:
            made[label] = self.value
        made |= {"t": self.time_s, "i": self.number}
        if self.quality != GOOD:
            made["q"] = self.quality
        if self.tags:
            made["g"] = dict(self.tags)
        made.update(self.more)
        return msgspec.msgpack.encode(made)


def closest(number: float) -> float:
    """Return a number as a float where one says it, also if it came as an ``int``; else as it came.

    Raises:
        OverflowError: an ``int`` beyond all floats.

    """
    as_float = float(number)
    return as_float if as_float == number or number != number else number  # noqa: PLR0124  # NaN


def _label(value: Value | None) -> str | None:
    """SenML's label of a value; a boolean is an ``int`` too, so it comes first."""
    if isinstance(value, bool):
        return "vb"
    if isinstance(value, int | float):
        return "v"
    if isinstance(value, str):
        return "vs"
    return None if value is None else "vd"


_TagText = Annotated[str, Meta(max_length=MAX_TAG_LENGTH)]


class _Form(msgspec.Struct, gc=False):
    """The map on the wire. A key without a default is required."""

    r: Annotated[int, Meta(ge=1)]
    n: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
    u: Annotated[str, Meta(max_length=MAX_UNIT_LENGTH)]
    t: float
    i: int
    v: int | float | UnsetType = UNSET
    vs: Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)] | UnsetType = UNSET
    vb: bool | UnsetType = UNSET
    vd: Annotated[bytes, Meta(max_length=MAX_DATA_BYTES)] | UnsetType = UNSET
    q: Quality = GOOD
    g: Annotated[dict[_TagText, _TagText], Meta(max_length=MAX_TAGS)] = {}


_KNOWN: Final = frozenset(_Form.__struct_fields__)
PLAIN_HEAD: Final = b"\x86"
"""The head of what `plain` reads: a msgpack map of six keys, the five required and the value."""
_FLOATS: Final = {float}
_decoder = msgspec.msgpack.Decoder(_Form)


class _PlainForm(msgspec.Struct, gc=False):
    """The commonest map: what it must have, and a number; time and number fit a table."""

    r: Annotated[int, Meta(ge=1, le=VERSION)]
    n: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
    u: Annotated[str, Meta(max_length=MAX_UNIT_LENGTH)]
    t: Annotated[float, Meta(ge=YEAR_1_S, le=YEAR_9999_S)]
    i: Annotated[int, Meta(ge=-LONG_MAX, le=LONG_MAX)]
    v: int | float


_plain_decoder = msgspec.msgpack.Decoder(_PlainForm)


def decode(payload: bytes) -> Record:
    """Read a record of any version.

    Raises:
        RecordError: not msgpack, a field missing, too long or of a wrong type, a key twice, no
            value or two, or a key that must be understood and is not.

    """
    try:
        form = _decoder.decode(payload)
        more = later_keys(payload, _KNOWN)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RecordError(str(error)) from error
    if more and len(payload) > MAX_LATER_BYTES:
        raise RecordError(
            f"{len(payload)} bytes with keys that are unknown here, "
            f"at most {MAX_LATER_BYTES} are read"
        )
    if form.r > VERSION:
        more["r"] = form.r
    number = form.v if form.v is UNSET else closest(form.v)
    values = [value for value in (number, form.vs, form.vb, form.vd) if value is not UNSET]
    if len(values) > 1:
        raise RecordError("Object has several values - at `$`")
    if form.r == 1 and form.v is UNSET:
        raise RecordError("Object missing required field `v`")
    if not values and form.q != BAD and form.r <= VERSION:
        raise RecordError("Object missing required field `v`, `vs`, `vb` or `vd`")
    value = None if not values else values[0]
    return Record(form.n, form.u, value, form.t, form.i, form.q, form.g, more)


def plain(payload: bytes) -> tuple[str, str, float, int, float] | None:
    """Return the commonest record in one step: a good number, and no key but those that it must
    have.

    Returns:
        Name, unit, time, number and value of a record that `decode` reads and a table holds; None
        for any other payload.

    """
    if payload[:1] != PLAIN_HEAD:
        return None
    try:
        # Six keys, of which these are: so none of them is unknown, or stands twice.
        form = _plain_decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    value = form.v
    if type(value) is int:
        value = closest(value)
    if type(value) is not float or not isfinite(value):
        return None
    return form.n, form.u, form.t, form.i, value


@dataclass(frozen=True, slots=True)
class PlainRecords:
    """The fields that `plain` reads of several records, each a list."""

    names: list[str]
    units: list[str]
    times_s: list[float]
    numbers: list[int]
    values: list[float]


def plain_records(payloads: Sequence[bytes]) -> PlainRecords | None:
    """Read records as `plain` does; None if it does not read each of them.

    Args:
        payloads: they begin with `PLAIN_HEAD`.

    """
    try:
        forms = list(map(_plain_decoder.decode, payloads))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    values = [form.v for form in forms]
    if set(map(type, values)) != _FLOATS:
        values = [closest(value) for value in values]
    if set(map(type, values)) != _FLOATS or not all(map(isfinite, values)):
        return None
    return PlainRecords(
        [form.n for form in forms],
        [form.u for form in forms],
        [form.t for form in forms],
        [form.i for form in forms],
        values,
    )

"""Values: each bound at its exact place, and what a text says of each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import pytest

from gateway.sensors.reading import as_reading
from gateway.sensors.sensor import Sensor, SensorError, SensorPart
from gateway.sensors.values import (
    Measured,
    ValueKind,
    ValueKindError,
    as_text,
    checked_tags,
    checked_unit,
    fitting,
    from_text,
    shown,
)
from record_formats.value import Value


class Weather(Sensor):
    unit = "Cel"
    parts: ClassVar[Mapping[str, SensorPart]] = {
        "inside": SensorPart("Cel"),
        "air": SensorPart("%RH"),
    }


def test_a_unit_has_at_most_64_printable_characters() -> None:
    assert checked_unit("x" * 64) == "x" * 64
    assert checked_unit("") == ""
    for wrong in ("x" * 65, "a\tb", 7, None):
        with pytest.raises(ValueKindError, match="which is no printable text of 64 characters"):
            checked_unit(wrong)


def test_a_reading_has_16_tags_of_200_characters() -> None:
    tags = {f"{number}".rjust(200): "x" * 200 for number in range(16)}
    assert checked_tags(tags) == tags
    with pytest.raises(ValueKindError, match=r"^17 tags, over 16$"):
        checked_tags({**tags, "more": ""})
    for wrong in ({"x" * 201: ""}, {"": "x" * 201}, {"\ud800": ""}, {"": "\ud800"}):
        with pytest.raises(ValueKindError, match=r"^a tag .*, which is no text of 200$"):
            checked_tags(wrong)


def test_a_reading_has_1_to_64_named_values() -> None:
    many = {f"n{number}": float(number) for number in range(64)}
    assert len(as_reading(Weather("a"), many, 1.0, 2.0).values) == 64
    for wrong, count in (({}, 0), ({**many, "more": 1.0}, 65)):
        with pytest.raises(SensorError, match=f"^a: read {count} values, not 1 to 64$"):
            as_reading(Weather("a"), wrong, 1.0, 2.0)


def test_a_named_value_has_the_unit_of_its_part_and_another_none_but_its_own() -> None:
    outcome = {"inside": 1.0, "air": Measured(2.0), "new": 3.0, "own": Measured(4.0, "V")}
    reading = as_reading(Weather("w", resolution=0.5), outcome, 1.0, 2.0)
    told = [
        (one.name, one.unit, one.value, one.time_s, one.number) for one in reading.records("w", 5)
    ]
    assert told == [
        ("w/inside", "Cel", 1.0, 1.0, 5),
        ("w/air", "%RH", 2.0, 1.0, 5),
        ("w/new", "", 3.0, 1.0, 5),
        ("w/own", "V", 4.0, 1.0, 5),
    ]
    assert (reading.value, reading.taken_at, reading.resolution) == (1.0, 2.0, 0.5)


@pytest.mark.parametrize("quality", ["good", "uncertain"])
def test_only_a_bad_reading_may_lack_its_value(quality: str) -> None:
    bad = as_reading(Weather("a"), Measured(None, quality="bad"), 1.0, 2.0)
    assert (bad.value, bad.values[""].quality) == (None, "bad")
    with pytest.raises(SensorError, match="a: read None, which is no number"):
        as_reading(Weather("a"), Measured(None, quality=quality), 1.0, 2.0)  # type: ignore[arg-type]  # one of them


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        *[("1", "number", 1.0), ("1.", "number", 1.0), (".5", "number", 0.5)],
        *[(" +1e-3 ", "number", 0.001), ("-2E+2", "number", -200.0), ("007", "number", 7.0)],
        *[(" as it is ", "text", " as it is "), ("", "text", "")],
        *[("true", "boolean", True), (" TRUE ", "boolean", True), ("1", "boolean", True)],
        *[("on", "boolean", True), ("false", "boolean", False), ("0", "boolean", False)],
        *[("Off", "boolean", False), (" -_8= ", "bytes", b"\xfb\xff"), ("", "bytes", b"")],
    ],
)
def test_a_text_says_a_value_of_a_kind(text: str, kind: ValueKind, value: Value) -> None:
    found = from_text(text, kind)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        *[(text, "number", "the payload is not a number") for text in ("", "x", "0x1", "1 1", ".")],
        *[(text, "number", "the payload is not a finite number") for text in ("nan", "-inf")],
        ("1e999", "number", "the payload is not a finite number"),
        ("yes", "boolean", "the payload is neither true nor false"),
        ("A", "bytes", "no base64url"),
        ("AA*A", "bytes", "no base64url"),
    ],
)
def test_a_text_that_says_no_value_is_told_why(text: str, kind: ValueKind, why: str) -> None:
    with pytest.raises(ValueKindError) as raised:
        from_text(text, kind)
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(2.0**53 - 1, "9007199254740991"), (2.0**53, "9007199254740992.0")],
        *[(1 - 2.0**53, "-9007199254740991"), (-(2.0**53), "-9007199254740992.0")],
        *[(True, "true"), (False, "false"), ("x", "x"), (b"\xfb\xff", "-_8"), (0.1, "0.1")],
    ],
)
def test_a_whole_number_below_2_to_53_is_written_without_a_point(value: Value, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        *[("x", "number", "'x' is not a number"), (b"x", "number", "b'x' is not a number")],
        *[(2.0, "boolean", "2.0 is not a boolean"), (-1.0, "boolean", "-1.0 is not a boolean")],
        *[("1", "boolean", "'1' is not a boolean"), (1.0, "text", "1.0 is not a text")],
        *[(b"x", "text", "b'x' is not a text"), ("x", "bytes", "not bytes")],
    ],
)
def test_a_value_of_another_kind_does_not_fit(value: Value, kind: ValueKind, why: str) -> None:
    with pytest.raises(ValueKindError) as raised:
        fitting(value, kind)
    assert str(raised.value) == why


def test_no_zero_is_shown_as_a_negative_one() -> None:
    for value, resolution in ((-0.04, 0.1), (-0.0, 0.0), (-0.4, 1.0)):
        told = shown(value, resolution)
        assert isinstance(told, float)
        assert math.copysign(1.0, told) == 1.0

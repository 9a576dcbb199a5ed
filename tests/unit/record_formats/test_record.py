"""The telemetry record on the wire: a msgpack map whose wrong field is named."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgpack
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from record_formats.record import (
    MAX_LATER_BYTES,
    PlainRecords,
    Record,
    RecordError,
    decode,
    plain,
    plain_records,
)
from record_formats.value import BAD, GOOD, UNCERTAIN

FIELDS: dict[str, Any] = {"r": 1, "n": "host/load1", "u": "Cel", "v": 1.5, "t": 2.25, "i": 7}
RECORD = Record("host/load1", "Cel", 1.5, 2.25, 7)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = FINITE | st.text() | st.booleans() | st.binary()
QUALITIES = st.sampled_from([GOOD, UNCERTAIN, BAD])
TAGS = st.dictionaries(st.text(max_size=20), st.text(max_size=200), max_size=16)
LATER = st.dictionaries(
    st.sampled_from(["x", "accuracy", "vx"]),
    st.none() | st.integers(-9, 9) | st.text() | st.lists(st.binary(max_size=3), max_size=2),
)
RECORDS = st.builds(
    Record, st.text(), st.text(), VALUES, FINITE, st.integers(1, 2**63 - 1), QUALITIES, TAGS, LATER
)


class Version1(msgspec.Struct):
    """The form as gateways and jobs of version 1 read it, and as they wrote it."""

    r: Literal[1]
    n: str
    u: str
    v: float
    t: float
    i: int


def test_a_record_is_a_map_with_the_labels_of_senml() -> None:
    assert RECORD.encode() == msgpack.packb(FIELDS)
    assert decode(msgpack.packb(FIELDS)) == RECORD


def test_keys_of_later_versions_are_kept_and_whole_numbers_are_readings() -> None:
    later = FIELDS | {"v": 3, "t": 4, "x": [1, {"y": None}]}
    read = decode(msgpack.packb(later))
    assert (read.value, read.time_s) == (3.0, 4.0)
    assert isinstance(read.value, float)
    assert read.more == {"x": [1, {"y": None}]}


@pytest.mark.parametrize(
    ("value", "label"), [(1.5, "v"), ("open", "vs"), (True, "vb"), (b"\x00\xff", "vd")]
)
def test_each_kind_of_value_has_the_label_of_senml(value: Any, label: str) -> None:
    payload = Record("a", "", value, 1.0, 1).encode()
    fields = msgpack.unpackb(payload)
    assert fields[label] == value
    assert {"v", "vs", "vb", "vd"} & fields.keys() == {label}
    assert fields["r"] == (1 if label == "v" else 2)


@given(RECORDS)
def test_every_record_is_read_as_it_was_written(record: Record) -> None:
    read = decode(record.encode())
    assert (read, type(read.value)) == (record, type(record.value))


@given(st.text(), st.text(), st.floats(), FINITE, st.integers())
def test_a_record_of_version_1_is_read_for_ever(
    name: str, unit: str, value: float, time_s: float, number: int
) -> None:
    number = max(-(2**63), min(number, 2**63 - 1))
    old = msgspec.msgpack.encode(Version1(1, name, unit, value, time_s, number))
    assert repr(decode(old)) == repr(Record(name, unit, value, time_s, number))


@given(RECORDS)
@example(Record("a", "Cel", 1.5, 1.0, 1, BAD))
@example(Record("a", "Cel", 1.5, 1.0, 1, UNCERTAIN, {"by": "eye"}, {"x": 1}))
@example(Record("a", "Cel", None, 1.0, 1, BAD))
def test_a_reader_of_version_1_goes_on_with_numbers_that_may_be_used(record: Record) -> None:
    payload = record.encode()
    if isinstance(record.value, float) and record.quality != BAD:
        read = msgspec.msgpack.decode(payload, type=Version1)
        assert (read.n, read.u, read.v, read.t) == (
            *(record.name, record.unit, record.value, record.time_s),
        )
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(payload, type=Version1)


@given(RECORDS, st.integers(3, 1000))
def test_a_record_of_a_later_version_is_kept_whole(record: Record, version: int) -> None:
    later = msgpack.unpackb(record.encode()) | {"r": version}
    read = decode(msgpack.packb(later))
    assert read.more == {**record.more, "r": version}
    assert msgpack.unpackb(read.encode()) == later


def test_a_kind_of_value_of_a_later_version_leaves_none_here() -> None:
    later = {"r": 3, "n": "a", "u": "", "vx": [1, 2], "t": 1.0, "i": 1}
    read = decode(msgpack.packb(later))
    assert (read.value, read.more) == (None, {"r": 3, "vx": [1, 2]})


def test_a_sensor_that_could_not_be_read_has_a_record_without_a_value() -> None:
    nothing = Record("a", "Cel", None, 1.0, 3, BAD)
    assert decode(nothing.encode()) == nothing
    with pytest.raises(RecordError, match="missing required field"):
        decode(Record("a", "Cel", None, 1.0, 3).encode())


@pytest.mark.parametrize(
    ("changes", "beyond"),
    [
        ({"n": "ä" * 264}, {"n": "ä" * 265}),
        ({"u": "ä" * 200}, {"u": "ä" * 201}),
        ({"vs": "ä" * 65_536}, {"vs": "ä" * 65_537}),
        ({"vd": bytes(1 << 20)}, {"vd": bytes((1 << 20) + 1)}),
        ({"g": {str(n): "" for n in range(16)}}, {"g": {str(n): "" for n in range(17)}}),
        ({"g": {"ä" * 200: ""}}, {"g": {"ä" * 201: ""}}),
        ({"g": {"a": "ä" * 200}}, {"g": {"a": "ä" * 201}}),
    ],
    ids=["name", "unit", "text", "bytes", "tags", "name of a tag", "text of a tag"],
)
def test_a_field_may_have_so_many_characters_bytes_or_entries_and_no_more(
    changes: dict[str, Any], beyond: dict[str, Any]
) -> None:
    (key,) = changes
    others = FIELDS | {"r": 2}
    if key.startswith("v"):
        del others["v"]
    assert msgpack.unpackb(decode(msgpack.packb(others | changes)).encode())[key] == changes[key]
    with pytest.raises(RecordError, match=rf"\$\.{key}"):
        decode(msgpack.packb(others | beyond))


def test_a_record_with_keys_of_later_versions_may_have_so_many_bytes_and_no_more() -> None:
    room = MAX_LATER_BYTES - len(msgpack.packb(FIELDS | {"x": ""})) - 2  # of a longer head
    assert decode(msgpack.packb(FIELDS | {"x": "y" * room})).more == {"x": "y" * room}
    with pytest.raises(RecordError, match=f"{MAX_LATER_BYTES + 1} bytes with keys"):
        decode(msgpack.packb(FIELDS | {"x": "y" * (room + 1)}))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"vs": "x"}, "several values"),
        ({"q": "fine"}, r"\$\.q"),
        ({"q": None}, r"\$\.q"),
        ({"g": {"a": 1}}, r"\$\.g"),
        ({"g": {"a": "x" * 201}}, r"\$\.g"),
        ({"g": {str(n): "" for n in range(17)}}, r"\$\.g"),
        ({"x_": 1}, r"must be understood and is not - at `\$\.x_`"),
        ({"vd": "text"}, r"\$\.vd"),
    ],
)
def test_what_version_2_adds_is_checked(more: dict[str, Any], named: str) -> None:
    with pytest.raises(RecordError, match=named):
        decode(msgpack.packb(FIELDS | more))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("r", value) for value in (0, -1, "1", None)),
        *(("n", value) for value in (1, None, b"a")),
        *(("u", value) for value in (1, None)),
        *(("v", value) for value in ("1", True, None)),
        *(("t", value) for value in ("1", False)),
        *(("i", value) for value in (1.5, True, "7", None)),
    ],
)
def test_a_field_of_a_wrong_type_is_named(key: str, value: object) -> None:
    with pytest.raises(RecordError, match=rf"\$\.{key}\b"):
        decode(msgpack.packb(FIELDS | {key: value}))


@pytest.mark.parametrize("key", FIELDS)
def test_a_field_that_is_missing_is_named(key: str) -> None:
    with pytest.raises(RecordError, match=f"`{key}`"):
        decode(msgpack.packb({k: v for k, v in FIELDS.items() if k != key}))


@given(st.binary())
def test_any_bytes_are_a_record_or_refused(payload: bytes) -> None:
    try:
        decode(payload)
    except RecordError:
        return
    assert isinstance(msgpack.unpackb(payload, strict_map_key=False), dict)


@given(st.text(), st.floats(), st.integers(1, 2**63 - 1))
def test_a_record_is_read_as_it_was_written(name: str, value: float, number: int) -> None:
    record = Record(name, "", value, 0.0, number)
    assert repr(decode(record.encode())) == repr(record)


def test_records_are_read_together_where_each_is_a_good_number_that_a_table_holds() -> None:
    def payload(**changes: Any) -> bytes:
        return msgpack.packb(FIELDS | changes)

    whole = payload(n="b", u="V", v=3, t=2, i=8)
    assert plain_records([payload(), whole]) == PlainRecords(
        ["host/load1", "b"], ["Cel", "V"], [2.25, 2.0], [7, 8], [1.5, 3.0]
    )
    assert plain(payload()) == ("host/load1", "Cel", 2.25, 7, 1.5)
    assert repr(plain(whole)) == "('b', 'V', 2.0, 8, 3.0)"
    for odd in (math.nan, math.inf, -math.inf, 2**53 + 1, "1.5", True, None):
        assert plain(payload(v=odd)) is None
        assert plain_records([payload(), payload(v=odd)]) is None

"""Goal: whatever a device writes is read as values or refused with a reason, by one rule each."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import cbor2
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.measurements import MAX_TEXT_BYTES, Measurement, decode
from cloud_ingest.senml_cbor import MAX_CBOR_BYTES, is_cbor_pack, senml_records
from gateway.sensors import senml
from record_formats.record import Record, RecordError
from record_formats.value import Value

ABSOLUTE_S = 1_760_000_000


def read(text: str) -> list[Measurement]:
    return decode(text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("21.5", 21.5),
        ("-3", -3.0),
        ("+3", 3.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        (" 7\r\n", 7.0),
        ("007", 7.0),
        ("-0", 0.0),
        ("9" * 400 + "e-300", 1e100),
    ],
)
def test_a_plain_number_is_a_value(text: str, value: float) -> None:
    assert read(text) == [Measurement(value)]


def test_an_object_with_a_numeric_value_is_a_value() -> None:
    assert read('{"value": 21.5, "unit": "C", "raw": [1, null]}') == [Measurement(21.5)]
    assert read('{"value": -4}') == [Measurement(-4.0)]


def test_a_telemetry_record_is_read_as_before() -> None:
    payload = Record("host/load1", "/", 0.25, 1.5, 9).encode()
    assert decode(payload) == [Measurement(0.25, "host/load1", "/", 1.5, 9, "good")]


@pytest.mark.parametrize("value", ["open", True, b"\xff", 1.5])
def test_a_telemetry_record_of_any_kind_is_read_with_all_that_it_says(value: Value) -> None:
    record = Record("a", "", value, 1.5, 9, "uncertain", {"position": "roof"}, {"x": 1})
    (found,) = decode(record.encode())
    assert (found.value, found.quality) == (value, "uncertain")
    assert (found.tags, found.more) == ({"position": "roof"}, {"x": 1})


def test_true_and_false_alone_are_values() -> None:
    assert read("true\n") == [Measurement(True)]
    assert read("false") == [Measurement(False)]


# -- SenML -----------------------------------------------------------------------------------------


def test_base_fields_hold_until_a_later_record_has_them_again() -> None:
    pack = [
        {"bn": "dev/", "bt": ABSOLUTE_S, "bu": "Cel", "bv": 20, "n": "a", "v": 1.5},
        {"n": "b", "u": "%RH", "v": -10, "t": 2},
        {"bn": "other", "bu": "V", "bv": 0, "v": 5, "t": -1},
    ]
    assert read(json.dumps(pack)) == [
        Measurement(21.5, "dev/a", "Cel", ABSOLUTE_S),
        Measurement(10.0, "dev/b", "%RH", ABSOLUTE_S + 2),
        Measurement(5.0, "other", "V", ABSOLUTE_S - 1),
    ]


def test_every_kind_of_value_is_read_and_sums_are_left_out_but_their_base_fields_hold() -> None:
    pack = [
        {"bn": "dev/", "n": "label", "vs": "roof"},
        {"n": "door", "vb": True},
        {"n": "total", "s": 12.5},
        {"n": "raw", "vd": "-__-AQ"},
    ]
    assert read(json.dumps(pack)) == [
        Measurement("roof", "dev/label"),
        Measurement(True, "dev/door"),
        Measurement(b"\xfb\xff\xfe\x01", "dev/raw"),
    ]


@pytest.mark.parametrize("time_s", [-60, 5.5, (1 << 28) - 1])
def test_a_time_below_2_to_the_28th_is_relative_to_when_the_message_was_accepted(
    time_s: float,
) -> None:
    relative = Measurement(1.0, "a", since_arrival_s=time_s)
    assert read(json.dumps([{"n": "a", "v": 1, "t": time_s}])) == [relative]
    assert read(json.dumps([{"bt": time_s - 1, "n": "a", "v": 1, "t": 1}])) == [relative]


def test_a_sensor_without_a_clock_says_no_time_and_one_with_a_clock_its_own() -> None:
    for pack in ([{"n": "a", "v": 1}], [{"n": "a", "v": 1, "t": 0}]):
        assert read(json.dumps(pack)) == [Measurement(1.0, "a")]
    assert read(json.dumps([{"n": "a", "v": 1, "t": 1 << 28}])) == [
        Measurement(1.0, "a", None, 1 << 28)
    ]


@given(
    name=st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}(/[a-z0-9]{1,9})?", fullmatch=True),
    unit=st.sampled_from(["", "Cel", "%RH"]),
    value=st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    time_s=st.floats(1e9, 2e9),
)
def test_what_a_gateway_answers_over_coap_is_read(
    name: str, unit: str, value: Value, time_s: float
) -> None:
    (found,) = decode(senml.encode("gw-a/", [senml.SenmlRecord(name, value, unit, time_s)]))
    assert found == Measurement(value, f"gw-a/{name}", unit or None, time_s)


# -- CBOR ------------------------------------------------------------------------------------------

LABELS = {"bn": -2, "bt": -3, "bu": -4, "bv": -5, "n": 0, "u": 1, "v": 2, "vs": 3, "vb": 4, "t": 6}
PACK = [
    {"bn": "dev/", "bt": ABSOLUTE_S, "bu": "Cel", "n": "t", "v": 21.5},
    {"n": "u", "u": "%RH", "v": 40, "t": -5},
    {"n": "label", "vs": "roof"},
    {"n": "door", "vb": True},
]


@pytest.mark.parametrize("copies", [1, 4, 8, 70])  # heads of arrays: also those of msgpack's maps
@pytest.mark.parametrize("has_labels", [True, False])
@pytest.mark.parametrize("head", [b"", bytes.fromhex("d9d9f7")])
def test_a_pack_in_cbor_says_what_its_json_says(copies: int, has_labels: bool, head: bytes) -> None:
    pack = PACK * copies
    made = [{LABELS[k] if has_labels else k: v for k, v in one.items()} for one in pack]
    assert decode(head + cbor2.dumps(made)) == read(json.dumps(pack))


def test_numbers_of_cbor_may_be_large_or_decimal_and_bytes_are_bytes() -> None:
    pack = [{0: "a", 2: Decimal("273.15")}, {0: "b", 2: 2**70 + 1}, {0: "c", 8: b"\x00\xff"}]
    assert decode(cbor2.dumps(pack)) == [
        Measurement(273.15, "a"),
        Measurement(2**70 + 1, "b"),
        Measurement(b"\x00\xff", "c"),
    ]


CBOR_REFUSED: list[tuple[Any, str]] = [
    ([{0: "a", "n": "b", 2: 1}], "'n' stands twice"),
    ([{99: 1, 2: 1}], "99 is no label"),
    ([{True: 1, 2: 1}], "no label"),
    ([{0: "a", 8: "text"}], "str is no byte string"),
    ([{0: "a", 2: math.nan}], "nan is not finite"),
    ([{0: "a", 2: Decimal("1e400")}], "inf is not finite"),
    ([{0: "a", 2: cbor2.CBORTag(4, [10**30, 1])}], "CBOR: error decoding decimal fraction"),
    ([{0: "a", 2: 10**400}], "out of range"),
    ([{0: b"a", 2: 1}], "bytes is no text"),
    ([{0: "a", 2: 1, "x_": 1}], "must be understood"),
    ([{0: "a", 2: cbor2.CBORTag(35, "a*")}], "tag 35"),
    ([{0: "a", 2: 1}, 7], "int is no SenML record"),
    ([{0: "a" * 300, 2: 1}], "300 characters, at most 264"),
    ([{0: "a", "x": "y" * 70_000, 2: 1}], "bytes of CBOR, at most 65536"),
]


@pytest.mark.parametrize(("pack", "named"), CBOR_REFUSED, ids=[why for _, why in CBOR_REFUSED])
def test_what_is_no_pack_in_cbor_is_refused_with_the_reason(pack: Any, named: str) -> None:
    with pytest.raises(RecordError, match=named):
        decode(cbor2.dumps(pack))


@pytest.mark.parametrize(
    ("payload", "is_pack"),
    [
        ("81a0", True),
        ("9fa0", True),  # of no length that is told
        ("9801a0", True),
        ("990001a0", True),
        ("9a00000001a0", True),
        ("9b0000000000000001a0", True),
        ("81bf", True),
        ("819f", False),
        ("81c0", False),
        ("", False),
        ("80", False),
        ("7fa0", False),
        ("a0a0", False),
        *((f"{head:x}a0", False) for head in (0x9C, 0x9D, 0x9E)),  # reserved (RFC 8949, section 3)
        ("98a0", False),
        ("9900a0", False),
    ],
)
def test_a_pack_of_cbor_is_known_by_its_first_bytes(payload: str, is_pack: bool) -> None:
    assert is_cbor_pack(bytes.fromhex(payload)) == is_pack
    assert is_cbor_pack(bytes.fromhex("d9d9f7" + payload)) == is_pack


def test_a_document_of_cbor_that_is_no_array_is_no_pack() -> None:
    with pytest.raises(RecordError, match="CBOR: dict is no SenML pack"):
        senml_records(cbor2.dumps({0: "a", 2: 1}))


def test_so_many_bytes_of_cbor_are_read_and_no_more() -> None:
    room = MAX_CBOR_BYTES - len(cbor2.dumps([{"x": bytes(60_000)}])) + 60_000
    (read,) = senml_records(cbor2.dumps([{"x": b"y" * room}]))
    assert read == {"x": b"y" * room}
    with pytest.raises(RecordError, match="65537 bytes of CBOR, at most 65536 are read"):
        senml_records(cbor2.dumps([{"x": b"y" * (room + 1)}]))


def test_a_label_twice_in_one_map_of_cbor_is_refused() -> None:
    with pytest.raises(RecordError, match="Duplicate map key"):
        decode(b"\x81\xa3\x00\x61a\x02\x01\x02\x02")


@given(st.binary(max_size=40), st.integers(0, 40), st.sampled_from([1, 4, 20]))
def test_damaged_cbor_is_read_or_refused(noise: bytes, at: int, copies: int) -> None:
    payload = cbor2.dumps(PACK * copies)
    checked(payload[:at] + noise + payload[at:])


# -- large integers --------------------------------------------------------------------------------

LARGE = 2**53 + 1


@pytest.mark.parametrize(
    "payload",
    [
        b"%d" % LARGE,
        b"+00%d" % LARGE,
        b'{"value": %d}' % LARGE,
        b'[{"v": %d}]' % LARGE,
        b'[{"bv": %d, "v": 1}]' % (LARGE - 1),
        cbor2.dumps([{2: LARGE}]),
        Record("a", "", LARGE, 1.0, 1).encode(),
    ],
)
def test_an_integer_that_no_float_says_keeps_its_value(payload: bytes) -> None:
    (found,) = decode(payload)
    assert found.value == LARGE
    assert type(found.value) is int


@pytest.mark.parametrize("number", [0, -(2**53), 2**53 + 2, 2**63, 10**22])
def test_an_integer_that_a_float_says_is_a_float(number: int) -> None:
    for payload in (b"%d" % number, b'{"value": %d}' % number):
        (found,) = decode(payload)
        assert type(found.value) is float
        assert found.value == number


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"ON", "neither a number nor JSON"),
        (b"21.5 C", "neither a number nor JSON"),
        (b"1_000", "neither a number nor JSON"),
        (b"0x1F", "neither a number nor JSON"),
        ("\u0663".encode(), "neither a number nor JSON"),  # a digit, and not one of JSON's
        (b"\xef\xbb\xbf1", "neither a number nor JSON"),  # a byte order mark
        (b"NaN", "JSON: NaN is not finite"),
        (b"-Infinity", "JSON: -Infinity is not finite"),
        (b"nan", "neither a number nor JSON"),
        (b"inf", "neither a number nor JSON"),
        (b"1e999", "number: inf is not finite"),
        (b"True", "neither a number nor JSON"),
        (b'"21.5"', "JSON, but neither"),
        (b"null", "JSON, but neither"),
        (b'{"valve": 1}', r"\$\.value: missing"),
        (b'{"value": "1"}', r"\$\.value: str is not a number"),
        (b'{"value": true}', r"\$\.value: bool is not a number"),
        (b'{"value": null}', r"\$\.value: NoneType is not a number"),
        (b'{"value": NaN}', "JSON: NaN is not finite"),
        (b'{"value": 1e999}', r"\$\.value: inf is not finite"),
        (b'{"value": 1' + b"0" * 400 + b"}", r"\$\.value: out of range"),
        (b'{"value": 1' + b"0" * 5000 + b"}", "neither a number nor JSON"),
        (b'{"value": 1, "value": 2}', "'value' stands twice"),
        (b'{"value": 1, "a": {"b": 1, "b": 1}}', "'b' stands twice"),
        (b"[]", "SenML: no record with a value"),
        (b"[1, 2]", r"\$\[0\]: int is no SenML record"),
        (b"[{}]", "SenML: no record with a value"),
        (b'[{"n":"a","s":1}]', "SenML: no record with a value"),
        (b'[{"v":1,"vs":"x"}]', r"\$\[0\]: v and vs in one record"),
        (b'[{"vs":1}]', r"\$\[0\]\.vs: int is no text"),
        (b'[{"vs":"\\ud800"}]', r"\$\[0\]\.vs: no Unicode text"),
        (b'[{"vd":"a"}]', r"\$\[0\]\.vd: no base64url"),
        (b'[{"v":1},{"v":"2"}]', r"\$\[1\]\.v: str is not a number"),
        (b'[{"v":true}]', r"\$\[0\]\.v: bool"),
        (b'[{"vb":1}]', r"\$\[0\]\.vb: int"),
        (b'[{"v":1,"v":2}]', "'v' stands twice"),
        (b'[{"n":1,"v":1}]', r"\$\[0\]\.n: int is no text"),
        (b'[{"n":"\\ud800","v":1}]', r"\$\[0\]\.n: no Unicode text"),
        (b'[{"bt":"now","v":1}]', r"\$\[0\]\.bt: str"),
        (b'[{"bt":1e308,"t":1e308,"v":1}]', r"\$\[0\]\.t: inf"),
        (b'[{"bv":1e308,"v":1e308}]', r"\$\[0\]\.v: inf"),
        (b'[{"bver":11,"v":1}]', r"\$\[0\]\.bver: 11 is later than 10"),
        (b'[{"v":1,"x_":1}]', "must be understood"),
        (b"[" * 20_000, "nested too deeply"),
        (b'{"a":' * 10_000, "nested too deeply"),
        (b"\xff\xfe1\x00", "neither a msgpack map nor UTF-8: byte 0"),
        (b"21.5\xb0", "neither a msgpack map nor UTF-8: byte 4"),
        (b" " * (MAX_TEXT_BYTES + 1), f"at most {MAX_TEXT_BYTES} are read"),
        (b"\x81", "truncated"),
        (b'[{"n":"' + b"a" * 300 + b'","v":1}]', r"\$\[0\]\.n: 300 characters, at most 264"),
        (b'[{"n":"a","u":"' + b"a" * 201 + b'","v":1}]', r"\.u: 201 characters, at most 200"),
        (Record("a" * 265, "", 1.0, 1.0, 1).encode(), "length <= 264 - at `\\$.n`"),
        (Record("a", "u" * 201, 1.0, 1.0, 1).encode(), "length <= 200 - at `\\$.u`"),
        (Record("a", "", "x" * 65_537, 1.0, 1).encode(), "length <= 65536 - at `\\$.vs`"),
        (Record("a", "", bytes(2**20 + 1), 1.0, 1).encode(), "length <= 1048576 - at `\\$.vd`"),
        (Record("a", "", 1.0, 1.0, 1, more={"x": "y" * 70_000}).encode(), "unknown here"),
        (b"\x87" + Record("a", "", 1.0, 1.0, 1).encode()[1:] + b"\xa1v\x02", "'v' stands twice"),
        (
            b"\x87" + Record("a", "", 1.0, 1.0, 1).encode()[1:] + b"\xa1x\x82\x01\x00\x01\x00",
            "'1' stands",
        ),
        (msgpack.packb({"value": 1}), "missing required field"),
        (Record("a", "", math.nan, 1.0, 1).encode(), r"v \(value\): nan is not finite"),
        (Record("a", "", -math.inf, 1.0, 1).encode(), r"v \(value\): -inf is not finite"),
    ],
)
def test_what_is_no_reading_is_refused_with_the_reason(payload: bytes, named: str) -> None:
    with pytest.raises(RecordError, match=named):
        decode(payload)


def checked(payload: bytes) -> None:
    """The rule for any bytes: finite measurements that a table can hold, or a named refusal."""
    try:
        found = decode(payload)
    except RecordError as error:
        assert str(error)
        str(error).encode()
        return
    assert found
    for each in found:
        assert type(each.value) in (float, int, str, bool, bytes, type(None))
        assert not isinstance(each.value, float) or math.isfinite(each.value)
        assert each.value is not None or each.quality is not None
        text_value = each.value if isinstance(each.value, str) else None
        for text in (each.sensor, each.unit, text_value):
            assert text is None or text.encode().decode() == text


@given(st.binary())
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    checked(payload)


@given(st.binary(max_size=8), st.integers(0, 12), st.sampled_from([b"21.5", b'[{"v":1.5}]']))
def test_damaged_text_is_read_or_refused(noise: bytes, at: int, text: bytes) -> None:
    checked(text[:at] + noise + text[at:])


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**320)
    | st.floats()
    | st.text(max_size=5)
)
_DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)
_FIELDS = st.sampled_from(
    [*("bn", "bt", "bu", "bv", "bver"), *("n", "u", "v", "vb", "vs", "vd", "t", "x_")]
)
_PACKS = st.lists(st.dictionaries(_FIELDS, _SCALARS, max_size=6) | _SCALARS, max_size=4)


@given(_DOCUMENTS | _PACKS | st.fixed_dictionaries({"value": _DOCUMENTS}), st.booleans())
def test_any_json_is_read_or_refused(document: Any, is_ascii: bool) -> None:
    checked(json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass"))


@given(st.dictionaries(st.text(max_size=2), _SCALARS.filter(lambda v: type(v) is not int)))
def test_any_msgpack_map_is_read_or_refused(fields: dict[str, Any]) -> None:
    checked(msgpack.packb(fields))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_read_as_it_was_written(value: float) -> None:
    assert read(repr(value)) == [Measurement(value)]
    assert read(json.dumps({"value": value})) == [Measurement(value)]

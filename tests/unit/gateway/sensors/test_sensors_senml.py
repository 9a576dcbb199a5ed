"""SenML in JSON and CBOR: what is written reads back, what can't be taken is named by field."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sensors.senml import (
    CBOR_FORMAT,
    CONTENT_FORMAT,
    ActuatorTarget,
    SenmlError,
    SenmlRecord,
    decode,
    decode_text,
    decode_value,
    encode,
    encoded_in_turns,
)
from gateway.sensors.values import KINDS, ValueKind, as_text, checked, fitting
from record_formats.value import Value

BOTH = (CONTENT_FORMAT, CBOR_FORMAT)
RELAY = ActuatorTarget("g/", "relay", "/")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = NUMBERS | st.text(max_size=20) | st.booleans() | st.binary(max_size=20)
RECORDS = st.builds(
    SenmlRecord,
    st.sampled_from(["host/load1", "a"]),
    VALUES,
    st.sampled_from(["", "Cel"]),
    st.floats(0, 2e9),
    st.sampled_from(["good", "uncertain", "bad"]),
    st.dictionaries(st.sampled_from(["position", "bed-1"]), st.text(max_size=5)),
)


def kind_of(value: object) -> ValueKind:
    names: dict[type, ValueKind] = {bool: "boolean", float: "number", str: "text", bytes: "bytes"}
    return names[type(value)]


def test_a_reading_is_one_record_with_the_labels_of_rfc_8428() -> None:
    record = SenmlRecord("host/load1", 0.5, "count", 1_700_000_000.25)
    assert json.loads(encode("gw-north/", [record])) == [
        {"bn": "gw-north/", "n": "host/load1", "u": "count", "v": 0.5, "t": 1_700_000_000.25}
    ]
    assert b'"u"' not in encode("g/", [SenmlRecord("a", 1.0)])


@pytest.mark.parametrize(
    ("value", "label", "in_json"),
    [
        (1.5, "v", 1.5),
        ("an", "vs", "an"),
        (True, "vb", True),
        (b"\xfb\xff\xfe\x01", "vd", "-__-AQ"),
    ],
)
def test_rfc8428_4_2_each_kind_of_value_has_its_label(
    value: Value, label: str, in_json: object
) -> None:
    (fields,) = json.loads(encode("g/", [SenmlRecord("a", value)]))
    assert fields[label] == in_json
    assert {"v", "vs", "vb", "vd"} & fields.keys() == {label}


def test_rfc8428_6_cbor_has_numbers_for_labels_and_bytes_as_they_are() -> None:
    two = [SenmlRecord("a", 1.5, "V", 7.0), SenmlRecord("b", b"\x00\xff", "", 7.0, "bad")]
    assert cbor2.loads(encode("g/", two, CBOR_FORMAT)) == [
        {-2: "g/", 0: "a", 1: "V", 2: 1.5, 6: 7.0},
        {0: "b", 8: b"\x00\xff", 6: 7.0, "q": "bad"},
    ]


def test_rfc8428_6_the_example_is_read_alike_in_json_and_cbor() -> None:
    """Section 5.1.2 in JSON, and section 6's figure of it in CBOR."""
    in_json = (
        '[{"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,"bu":"A","bver":5,'
        '"n":"voltage","u":"V","v":120.1},{"n":"current","t":-5,"v":1.2},'
        '{"n":"current","t":-4,"v":1.3},{"n":"current","t":-3,"v":1.4},'
        '{"n":"current","t":-2,"v":1.5},{"n":"current","t":-1,"v":1.6},{"n":"current","v":1.7}]'
    )
    in_cbor = bytes.fromhex(
        "87a721781b75726e3a6465763a6f773a3130653230373361303130383030363a22fb41d303a15b00106223614120050067766f6c7461676501615602fb405e066666666666"
        "a3006763757272656e7406240"
        "2fb3ff3333333333333a3006763757272656e74062302fb3ff4cccccccccccda3006763757272656e74062202fb3ff6666666666666a3006763757272656e74062102f93e00"
        "a3006763757272656e74062002fb3ff999999999999aa3006763757272656e74060002fb3ffb333333333333"
    )
    found = decode(in_json.encode())
    assert found == decode(in_cbor, CBOR_FORMAT)
    assert found[0] == SenmlRecord("urn:dev:ow:10e2073a0108006:voltage", 120.1, "V", 1276020076.001)
    assert [record.value for record in found[1:]] == [1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
    assert found[1].time_s == 1276020071.001


@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(BOTH))
def test_a_pack_is_read_as_it_was_written(records: list[SenmlRecord], form: int) -> None:
    expected = [replace(each, name=f"gw/{each.name}") for each in records]
    assert decode(encode("gw/", records, form), form) == expected


@given(VALUES, st.sampled_from(BOTH))
def test_what_a_sensor_answers_can_set_an_actuator(value: Value, form: int) -> None:
    wanted = ActuatorTarget("g/", "a/b", "/", kind_of(value))
    payload = encode("g/", [SenmlRecord("a/b", value, "/", 5.0)], form)
    found = decode_value(payload, wanted, form)
    assert (found, type(found)) == (value, type(value))


@given(VALUES)
def test_what_a_sensor_answers_as_text_can_set_an_actuator(value: Value) -> None:
    assert decode_text(as_text(value).encode(), kind_of(value)) == value


@given(VALUES, st.sampled_from(KINDS))
def test_a_value_fits_its_own_kind_and_one_and_zero_are_truths(
    value: Value, kind: ValueKind
) -> None:
    fits = kind == kind_of(value) or (kind_of(value) == "boolean" and kind == "number")
    fits |= kind == "boolean" and kind_of(value) == "number" and value in (0.0, 1.0)
    try:
        assert fitting(value, kind) == value
    except ValueError:
        assert not fits
    else:
        assert fits


@pytest.mark.parametrize(
    "value", [None, [], float("nan"), float("-inf"), "x" * 16_385, b"x" * 16_385, "\ud800", 1j]
)
def test_what_is_no_value_or_too_long_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"which is|over 16384"):
        checked(value)


@pytest.mark.parametrize("value", ["ä" * 8_192, b"x" * 16_384])
def test_a_value_may_have_16384_bytes(value: str | bytes) -> None:
    assert checked(value) == value
    with pytest.raises(ValueError, match="over 16384"):
        checked(value + value[:1])


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ('[{"v":1}]', 1.0),
        ('[{"vb":true}]', 1.0),
        ('[{"vb":false}]', 0.0),
        ('[{"n":"relay","v":1,"u":"/"}]', 1.0),
        ('[{"n":"g/relay","v":0.5,"bt":12}]', 0.5),
    ],
)
def test_name_and_unit_may_be_left_out(payload: str, value: float) -> None:
    assert decode_value(payload.encode(), RELAY) == value


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("", "not JSON"),
        ("1", "not an array of 1 to 256 records"),
        ("[]", "not an array of 1 to 256 records"),
        ("[1]", "a record is no map: 1"),
        ('[{"v":1},{"v":2}]', "not an array of one record"),
        ("[{}]", "no value in v, vs, vb, vd"),
        ('[{"v":1,"vb":true}]', "v and vb in one record"),
        ('[{"vs":"on"}]', "vs: 'on' is not a number"),
        ('[{"vd":"AA"}]', "vd: b'\\x00' is not a number"),
        ('[{"vd":"A"}]', "vd: no base64url"),
        ('[{"vb":1}]', "vb: 1 is neither true nor false"),
        ('[{"bver":11,"v":1}]', "bver: 11 is later than 10"),
        ('[{"v":"1"}]', "v: '1' is not a number"),
        ('[{"v":true}]', "v: True is not a number"),
        ('[{"v":NaN}]', "v: nan is not finite"),
        ('[{"v":1e999}]', "v: inf is not finite"),
        ('[{"v":1' + "0" * 400 + "}]", "v: out of range"),
        ('[{"n":"other","v":1}]', "n: 'other' is not 'relay'"),
        ('[{"u":"Cel","v":1}]', "u: 'Cel' is not '/'"),
        ('[{"bv":1,"v":1}]', "bv: is not taken"),
        ('[{"t":"now","v":1}]', "t: 'now' is not a number"),
        ('[{"new_":1,"v":1}]', "new_: must be understood"),
        ("[" * 1000, "not JSON"),
        (" " * 65_537, "longer than 65536"),
    ],
)
def test_what_sets_no_value_is_refused_with_its_field(payload: str, error: str) -> None:
    with pytest.raises(SenmlError) as raised:
        decode_value(payload.encode(), RELAY)
    assert str(raised.value).startswith(error)


@given(st.binary(max_size=60), st.sampled_from(BOTH), st.sampled_from(KINDS))
def test_any_bytes_are_a_value_or_an_error(payload: bytes, form: int, kind: ValueKind) -> None:
    for read in (
        lambda: decode_value(payload, replace(RELAY, kind=kind), form),
        lambda: decode(payload, form),
    ):
        try:
            read()
        except SenmlError as error:
            assert str(error)


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
)
_KEYS = st.integers(-8, 9) | st.sampled_from(["n", "v", "x_", "q", "g:a"]) | st.booleans()


@given(st.lists(st.dictionaries(_KEYS, _SCALARS, max_size=5) | _SCALARS, max_size=3))
def test_any_cbor_is_read_or_refused(pack: list[Any]) -> None:
    try:
        for record in decode(cbor2.dumps(pack), CBOR_FORMAT):
            assert checked(record.value) == record.value
    except SenmlError as error:
        assert str(error)


def doubled(levels: int) -> bytes:
    """Lists, each of which has the one before it twice by tags (RFC 8949, table 5; tags 28, 29)."""
    items = [bytes.fromhex("d81c80")]
    for level in range(levels):
        back = b"\xd8\x1d" + cbor2.dumps(level)
        items.append(bytes.fromhex("d81c82") + back + back)
    return bytes((0x98, len(items))) + b"".join(items)


@pytest.mark.parametrize(
    "payload",
    [
        doubled(200),  # as a text it would have 2^200 brackets
        cbor2.dumps([{2: cbor2.CBORTag(2, bytes(60_000))}]),
        cbor2.dumps([{2: cbor2.CBORTag(4, [1 << 40, 1])}]),
        cbor2.dumps([{2: cbor2.CBORTag(999, 1)}]),
        cbor2.dumps([{cbor2.CBORTag(35, "(a+)+"): 1}]),
        cbor2.dumps([[1 << 40_000]]),
    ],
)
def test_no_tag_of_cbor_is_taken_and_none_costs_more_than_its_bytes(payload: bytes) -> None:
    with pytest.raises(SenmlError, match="not CBOR"):
        decode(payload, CBOR_FORMAT)


def test_fields_of_a_record_are_counted() -> None:
    many = {"v": 1} | {f"g:{number}": "" for number in range(64)}
    for form, payload in (
        (CONTENT_FORMAT, json.dumps([many]).encode()),
        (CBOR_FORMAT, cbor2.dumps([many])),
    ):
        with pytest.raises(SenmlError, match="more than 64 fields"):
            decode(payload, form)


@pytest.mark.parametrize(
    ("payload", "content_format"),
    [
        (b'[{"v":1,"v":0}]', CONTENT_FORMAT),
        (b"\x81\xa2\x02\x01\x02\x00", CBOR_FORMAT),
        (b"\x81\xa2\x02\x01\x61v\x00", CBOR_FORMAT),
    ],
)
def test_a_label_that_stands_twice_says_two_things_and_is_refused(
    payload: bytes, content_format: int
) -> None:
    with pytest.raises(SenmlError, match=r"twice|Duplicate"):
        decode_value(payload, RELAY, content_format)


@pytest.mark.parametrize("form", [CONTENT_FORMAT, CBOR_FORMAT])
@pytest.mark.parametrize("count", [0, 1, 5, 6, 10, 11, 20, 21, 23, 24, 255, 256, 500])
async def test_a_pack_that_is_written_in_turns_has_the_same_bytes(count: int, form: int) -> None:
    records = [SenmlRecord(f"floor/{number}", number / 4, 5e8) for number in range(count)]
    written = await encoded_in_turns("gw/", records, form)
    assert written == encode("gw/", records, form)


def test_rfc8428_4_1_a_pack_is_written_byte_by_byte() -> None:
    """Base name, unit, quality and tags are left out where they are not said."""
    bare = SenmlRecord("a", 1.0)
    full = SenmlRecord("b", 2.5, "V", 7.0, "uncertain", {"bed": "north"})
    assert encode("", [bare]) == b'[{"n":"a","v":1.0,"t":0.0}]'
    assert encode("g/", [bare, full]) == (
        b'[{"bn":"g/","n":"a","v":1.0,"t":0.0},'
        b'{"n":"b","v":2.5,"t":7.0,"u":"V","q":"uncertain","g:bed":"north"}]'
    )
    assert encode("g/", []) == b"[]"


def test_rfc8428_4_6_base_fields_hold_from_their_record_on_until_another_says_more() -> None:
    pack = [
        {"n": "before", "v": 1},
        {"bn": "g/", "bt": 100, "bu": "V", "bv": 20, "n": "a", "t": 5, "v": 1},
        {"n": "b", "u": "A"},
        {"n": "c", "u": "A", "v": -2},
        {"bn": "h/", "bt": 0, "bv": 0, "bu": "", "n": "d", "v": 3},
    ]
    assert decode(json.dumps(pack).encode()) == [
        SenmlRecord("before", 1.0),
        SenmlRecord("g/a", 21.0, "V", 105.0),
        SenmlRecord("g/c", 18.0, "A", 100.0),
        SenmlRecord("h/d", 3.0),
    ]


@pytest.mark.parametrize("form", BOTH)
@pytest.mark.parametrize(
    ("quality", "found"),
    [
        *[("good", "good"), ("uncertain", "uncertain"), ("bad", "bad")],
        *[("best", "good"), (7, "good"), (["bad"], "good"), ({"is": "bad"}, "good")],
    ],
)
def test_rfc8428_4_4_a_quality_or_tag_of_another_kind_is_anothers_extension(
    quality: object, found: str, form: int
) -> None:
    record = {"n": "a", "v": 1, "q": quality, "g:bed": "north", "g:row": 4, "x": "y"}
    payload = json.dumps([record]).encode() if form == CONTENT_FORMAT else cbor2.dumps([record])
    (one,) = decode(payload, form)
    assert (one.value, one.quality, one.tags) == (1.0, found, {"bed": "north"})


TEXT_LABELS = {"bn": -2, "bu": -4, "n": 0, "u": 1, "vs": 3}
NUMBER_LABELS = {"bt": -3, "t": 6, "ut": 7, "bver": -1, "v": 2, "bv": -5, "s": 5, "bs": -6}


@pytest.mark.parametrize(
    ("record", "why"),
    [
        *[({label: 1}, f"{label}: 1 is not a text") for label in TEXT_LABELS],
        *[({label: "1"}, f"{label}: '1' is not a number") for label in NUMBER_LABELS],
        *[({label: True}, f"{label}: True is not a number") for label in NUMBER_LABELS],
        *[({label: 1e999}, f"{label}: inf is not finite") for label in NUMBER_LABELS],
        ({"bt": 1e308, "t": 1e308, "v": 1}, "t: inf is not finite"),
        ({"bv": 1e308, "v": 1e308}, "v: inf, which is no finite number"),
        ({"vd": 1}, "vd: 1 is not a text"),
        ({"vs": "x" * 16_385}, "vs: a value of 16385 bytes, over 16384"),
        ({"v" * 50 + "_": 1}, f"{'v' * 40}: must be understood and is not"),
        ({"vs": "a", "vd": "AA"}, "vs and vd in one record"),
    ],
)
def test_a_field_that_is_wrong_is_named(record: dict[str, object], why: str) -> None:
    with pytest.raises(SenmlError) as raised:
        decode(json.dumps([record]).encode())
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("record", "why"),
    [
        *[({number: 1}, f"{label}: 1 is not a text") for label, number in TEXT_LABELS.items()],
        *[
            ({number: ""}, f"{label}: '' is not a number")
            for label, number in NUMBER_LABELS.items()
        ],
        ({8: "AA"}, "vd: 'AA' is not bytes"),
        ({4: 1}, "vb: 1 is neither true nor false"),
        ({True: "Cel", 2: 1}, "True: no label"),
        ({False: "a", 2: 1}, "False: no label"),
        ({1.5: 1}, "1.5: no label"),
        ({b"n": 1}, "b'n': no label"),
        ({0: "a", "n": "b", 2: 1}, "n: stands twice in a record"),
        ({9: 1, "9": 1}, "9: stands twice in a record"),
    ],
)
def test_rfc8428_6_a_field_of_cbor_that_is_wrong_is_named_as_in_json(
    record: dict[object, object], why: str
) -> None:
    with pytest.raises(SenmlError) as raised:
        decode(cbor2.dumps([record]), CBOR_FORMAT)
    assert str(raised.value) == why


def test_each_limit_of_a_pack_is_exact() -> None:
    records = b",".join([b'{"v":1}'] * 256)
    assert len(decode(b"[" + records + b"]")) == 256
    with pytest.raises(SenmlError, match="not an array of 1 to 256 records"):
        decode(b"[" + records + b',{"v":1}]')
    assert decode(b'[{"v":1}]'.ljust(65_536))
    with pytest.raises(SenmlError, match="longer than 65536 bytes"):
        decode(b'[{"v":1}]'.ljust(65_537))
    (one,) = decode(json.dumps([{"v": 1} | {f"g:{n}": "" for n in range(63)}]).encode())
    assert len(one.tags) == 63
    assert decode(b'[{"bver":10,"v":1}]') == [SenmlRecord("", 1.0)]
    with pytest.raises(SenmlError, match="bver: 11 is later than 10"):
        decode(b'[{"bver":11,"v":1}]')


def test_plain_text_for_an_actuator_has_an_exact_limit_by_its_kind() -> None:
    assert decode_text(b"1".ljust(64)) == 1.0
    assert decode_text(b"on".ljust(64), "boolean") is True
    for kind in ("number", "boolean"):
        with pytest.raises(SenmlError, match="the payload is not a finite number"):
            decode_text(b"1".ljust(65), kind)  # type: ignore[arg-type]  # one of them
    assert decode_text(b"x" * 16_384, "text") == "x" * 16_384
    assert decode_text(b"AAAA".ljust(32_768, b"="), "bytes") == bytes(3)
    with pytest.raises(SenmlError, match="too long"):
        decode_text(b"AAAA".ljust(32_769, b"="), "bytes")
    with pytest.raises(SenmlError, match="the payload is not a number"):
        decode_text(b"\xff")
    with pytest.raises(SenmlError, match="no UTF-8"):
        decode_text(b"\xff", "text")


@pytest.mark.parametrize("label", ["bv", "bs", "s"])
def test_an_actuator_takes_no_base_value_and_no_sum(label: str) -> None:
    with pytest.raises(SenmlError, match=f"^{label}: is not taken$"):
        decode_value(json.dumps([{label: 1, "v": 1}]).encode(), RELAY)

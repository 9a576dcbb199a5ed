"""SenML JSON: what a sensor answers reads back, what an actuator can't take is named by field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sensors.senml import SenmlError, decode_value, encode


def test_a_reading_is_one_record_with_the_labels_of_rfc_8428() -> None:
    payload = encode("gw-north/", "host/load1", "count", 0.5, 1_700_000_000.25)
    assert json.loads(payload) == [
        {"bn": "gw-north/", "n": "host/load1", "u": "count", "v": 0.5, "t": 1_700_000_000.25}
    ]
    assert b'"u"' not in encode("g/", "a", "", 1.0, 0.0)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_a_sensor_answers_can_set_an_actuator(value: float) -> None:
    assert decode_value(encode("g/", "a/b", "/", value, 5.0), "g/", "a/b", "/") == value


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
    assert decode_value(payload.encode(), "g/", "relay", "/") == value


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("", "not JSON"),
        ("1", "not an array of one record"),
        ("[]", "not an array of one record"),
        ('[{"v":1},{"v":2}]', "not an array of one record"),
        ("[{}]", "v: None is not a number"),
        ('[{"v":"1"}]', "v: '1' is not a number"),
        ('[{"v":true}]', "v: True is not a number"),
        ('[{"v":NaN}]', "v: nan is not finite"),
        ('[{"v":1e999}]', "v: inf is not finite"),
        ('[{"v":1' + "0" * 400 + "}]", "v: out of range"),
        ('[{"n":"other","v":1}]', "n: 'other' is not 'relay'"),
        ('[{"u":"Cel","v":1}]', "u: 'Cel' is not '/'"),
        ('[{"bv":1,"v":1}]', "bv: a base value"),
        ('[{"t":"now","v":1}]', "t: 'now' is not a number"),
        ('[{"new_":1,"v":1}]', "new_: must be understood"),
        ("[" * 1000, "not JSON"),
        (" " * 1025, "longer than 1024"),
    ],
)
def test_what_sets_no_value_is_refused_with_its_field(payload: str, error: str) -> None:
    with pytest.raises(SenmlError) as raised:
        decode_value(payload.encode(), "g/", "relay", "/")
    assert str(raised.value).startswith(error)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error(payload: bytes) -> None:
    try:
        decode_value(payload, "g/", "relay", "/")
    except SenmlError:
        return

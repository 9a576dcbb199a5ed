"""Messages of other makes: each is measurements, as its rule says, or refused with a reason."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.mapping.reading import KEPT_TOPICS, Mappings
from cloud_ingest.mapping.rules import read
from cloud_ingest.mapping.simple_forms import MAX_RAW_BYTES
from cloud_ingest.mapping.sparkplug import MAX_METRICS, MAX_PAYLOAD_BYTES
from cloud_ingest.mapping.sparkplug_messages import Payload
from cloud_ingest.mapping.values import MappedKind, quality_of, value_of
from cloud_ingest.measurements import MAX_TEXT_BYTES, Measurement
from record_formats.record import Record, RecordError
from record_formats.value import Quality

AT_S = 1_760_000_000.25
JSON_RULE = """
[[mapping]]
topic = "plant/{line}/{cell}/data"
format = "json"
time = "$.at"
time-unit = "ms"
quality = "$.state"
quality-words = {OK = "good", "192" = "good", drift = "uncertain"}
tags = {line = "{line}", serial = "$.device.serial"}
measurements = [
    {sensor = "{line}/{cell}/temperature", value = "$.readings.0.t", unit = "Cel"},
    {sensor = "$.device.name", value = "$.door", kind = "boolean", optional = true},
    {sensor = "mode", value = "$.mode", unit = "$.unit", optional = true},
]
"""
RULES = (
    JSON_RULE
    + """
[[mapping]]
topic = "t/{name_of}"
format = "text"
sensor = "{name_of}"
unit = "V"
[[mapping]]
topic = "n/+"
format = "text"
sensor = "n"
kind = "number"
[[mapping]]
topic = "raw/#"
format = "raw"
sensor = "{topic}"
[[mapping]]
topic = "s/{room}"
format = "senml"
sensor = "{room}/{name}"
tags = {room = "{room}"}
[[mapping]]
topic = "spBv1.0/{group}/+/#"
format = "sparkplug"
tags = {make = "acme"}
[[mapping]]
topic = "spBv1.0/#"
format = "sparkplug"
[[mapping]]
topic = "short/#"
format = "sparkplug"
"""
)
TOPICS = (
    *("plant/1/2/data", "t/a", "n/a", "raw/a", "s/hall"),
    *("spBv1.0/g/NDATA/n", "spBv1.0/g/DDATA/n/d", "short/g"),
)
MESSAGE: dict[str, Any] = {
    "at": AT_S * 1_000,
    "state": "OK",
    "device": {"serial": 17, "name": "door"},
    "readings": [{"t": 21.5}],
}
MAPPINGS = Mappings(read(RULES))


def mapped(topic: str, payload: bytes) -> list[Measurement]:
    found = MAPPINGS.read(topic, payload)
    assert found is not None
    return found


def mapped_json(**changes: Any) -> list[Measurement]:
    return mapped("plant/1/2/data", json.dumps(MESSAGE | changes).encode())


def refused(topic: str, payload: bytes) -> str:
    with pytest.raises(RecordError) as raised:
        mapped(topic, payload)
    return str(raised.value)


def test_fields_of_json_go_to_the_columns_that_the_rule_says() -> None:
    tags = {"line": "1", "serial": "17"}
    first = Measurement(21.5, "1/2/temperature", "Cel", AT_S, None, "good", tags)
    assert mapped_json() == [first]
    assert mapped_json(door=1, mode="eco", unit="x") == [
        first,
        Measurement(True, "door", None, AT_S, None, "good", tags),
        Measurement("eco", "mode", "x", AT_S, None, "good", tags),
    ]
    assert mapped_json(state=192) == [first]
    assert mapped_json(state="drift")[0].quality == "uncertain"
    assert mapped_json(at="2025-10-09T08:53:20.250Z") == [first]
    assert mapped_json(at="2025-10-09T10:53:20.250+02:00") == [first]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"readings": []}, r"value: $.readings.0.t: missing"),
        ({"readings": [{"t": None}]}, r"value: $.readings.0.t: missing"),
        ({"readings": [{"t": [1]}]}, r"value: $.readings.0.t: list is not a number"),
        ({"readings": [{"t": 10**400}]}, r"value: $.readings.0.t: out of range"),
        ({"door": "ajar"}, "value: $.door: neither true, false, 1 nor 0"),
        ({"door": True, "device": {}}, "sensor: $.device.name: missing or empty"),
        ({"mode": "\ud800"}, "value: $.mode: no Unicode text"),
        ({"mode": "m" * 65_000, "unit": "u" * 201}, "unit: 201 characters, at most 200 are read"),
        ({"at": None}, "time: $.at: missing"),
        ({"at": "noon"}, "time: $.at: 'noon' is no time of RFC 3339"),
        ({"at": "2025-10-09T08:53:20"}, "time: $.at: '2025-10-09T08:53:20' has no offset from UTC"),
        ({"at": "1-1-1"}, "time: $.at: '1-1-1' is no time of RFC 3339"),
        ({"at": True}, "time: $.at: bool is not a number"),
        ({"state": None}, "quality: $.state: missing"),
        ({"state": "odd"}, "quality: $.state: 'odd' is no quality that the rule knows"),
        ({"device": {"serial": {}}}, "tags.serial ($.device.serial): dict is no text"),
    ],
)
def test_json_that_a_rule_can_not_read_is_refused_with_key_and_path(
    changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(RecordError) as raised:
        mapped_json(**changes)
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("kind", "found", "value"),
    [
        ("number", 7, 7.0),
        ("number", 2**53 + 1, 2**53 + 1),
        ("number", "2.5", 2.5),
        ("boolean", True, True),
        ("boolean", False, False),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("boolean", 1, True),
        ("boolean", 0, False),
        ("text", "7", "7"),
        (None, 7, 7.0),
        (None, True, True),
        (None, "7", "7"),
    ],
)
def test_a_field_is_a_value_of_the_kind_that_its_rule_says(
    kind: MappedKind | None, found: object, value: object
) -> None:
    read = value_of("x", found, kind)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "found", "why"),
    [
        ("number", True, "x: bool is not a number"),
        ("number", "on", "x: 'on' is not a number"),
        ("boolean", 2, "x: neither true, false, 1 nor 0"),
        ("boolean", 0.0, "x: neither true, false, 1 nor 0"),
        ("boolean", "True", "x: neither true, false, 1 nor 0"),
        ("text", 7, "x: int is no text"),
        (None, [7], "x: list is not a number"),
        (None, "t" * 65_537, "x: 65537 characters, at most 65536 are read"),
    ],
)
def test_a_field_of_another_kind_is_refused(
    kind: MappedKind | None, found: object, why: str
) -> None:
    with pytest.raises(RecordError) as raised:
        value_of("x", found, kind)
    assert str(raised.value) == why


def test_a_quality_is_read_as_the_rule_translates_it_or_as_its_own_name() -> None:
    words: dict[str, Quality] = {"OK": "good", "good": "bad"}
    told = [quality_of("q", word, words) for word in ("OK", "good", "uncertain", "bad")]
    assert told == ["good", "bad", "uncertain", "bad"]
    with pytest.raises(RecordError, match=r"^q: 'fine' is no quality that the rule knows$"):
        quality_of("q", "fine", words)


def test_a_message_with_none_of_the_values_of_a_rule_is_refused() -> None:
    rule = """
[[mapping]]
topic = "#"
format = "json"
measurements = [{sensor = "a", value = "$.a", optional = true}]
"""
    mappings = Mappings(read(rule))
    assert mappings.read("t", b'{"a": 1}') == [Measurement(1.0, "a")]
    with pytest.raises(RecordError, match=r"^JSON: none of the rule's values is there$"):
        mappings.read("t", b'{"b": 1}')


def test_a_sensor_that_its_message_leaves_without_a_name_is_refused() -> None:
    mappings = Mappings(read('[[mapping]]\ntopic = "#"\nformat = "senml"\nsensor = "{name}"'))
    assert mappings.read("t", b'[{"n": "a", "v": 1}]') == [Measurement(1.0, "a")]
    with pytest.raises(RecordError, match=r"^sensor: empty$"):
        mappings.read("t", b'[{"v": 1}]')


def test_unit_and_text_of_a_senml_record_are_bounded() -> None:
    def pack(**fields: object) -> bytes:
        return json.dumps([{"n": "a", **fields}]).encode()

    assert mapped("s/hall", pack(u="u" * 200, vs="v")) == [
        Measurement("v", "hall/a", "u" * 200, tags={"room": "hall"})
    ]
    assert "u: 201 characters, at most 200" in refused("s/hall", pack(u="u" * 201, v=1))
    payload = cbor2.dumps([{0: "a", 3: "v" * 65_500}])
    assert mapped("s/hall", payload)[0].value == "v" * 65_500


def test_topics_are_read_by_their_rules_however_many_come() -> None:
    mappings = Mappings(read(RULES))
    for at in range(KEPT_TOPICS + 2):
        mappings.read(f"elsewhere/{at}", b"7")
        if at % 1_000 == 0 or at > KEPT_TOPICS - 2:
            assert mappings.read(f"t/{at}", b"7") == [Measurement(7.0, str(at), "V")]


def test_a_name_from_a_topic_is_bounded() -> None:
    topic = f"plant/{'x' * 300}/2/data"
    assert "tags.line: 300 characters" in refused(topic, json.dumps(MESSAGE).encode())


@pytest.mark.parametrize(
    ("text", "value"), [("21.5", 21.5), (" true\n", True), ("open", "open"), ("21,5", "21,5")]
)
def test_a_text_is_a_number_or_a_truth_value_where_it_reads_as_one(text: str, value: Any) -> None:
    assert mapped("t/a", text.encode()) == [Measurement(value, "a", "V")]


def test_a_text_that_has_to_be_a_number_is_one_or_refused() -> None:
    assert mapped("n/a", b"7") == [Measurement(7.0, "n")]
    assert refused("n/a", b"open") == "text: 'open' is not a number"
    assert "UTF-8" in refused("n/a", b"\xff")


def test_bytes_are_kept_as_they_are() -> None:
    assert mapped("raw/x/y", b"\x00\xff") == [Measurement(b"\x00\xff", "raw/x/y")]


@pytest.mark.parametrize(
    ("topic", "text", "most"),
    [
        ("raw/x", b"7", MAX_RAW_BYTES),
        ("t/a", b"7", MAX_TEXT_BYTES),
        ("n/a", b"7", MAX_TEXT_BYTES),
        ("s/hall", b'[{"n": "t", "v": 7}]', MAX_TEXT_BYTES),
        ("plant/1/2/data", json.dumps(MESSAGE).encode(), MAX_TEXT_BYTES),
    ],
)
def test_a_message_of_so_many_bytes_is_read_and_one_of_one_more_is_not(
    topic: str, text: bytes, most: int
) -> None:
    assert len(mapped(topic, text.ljust(most))) == 1
    assert f"{most + 1} bytes" in refused(topic, text.ljust(most + 1))


def test_a_senml_pack_gets_names_and_tags_of_its_topic() -> None:
    pack = [{"bn": "dev/", "n": "t", "u": "Cel", "v": 1}, {"n": "h", "v": 2}]
    tags = {"room": "hall"}
    assert mapped("s/hall", json.dumps(pack).encode()) == [
        Measurement(1.0, "hall/dev/t", "Cel", tags=tags),
        Measurement(2.0, "hall/dev/h", tags=tags),
    ]
    assert refused("s/hall", b"{}") == "SenML: dict is no pack"


def test_the_first_rule_that_fits_reads_and_none_is_no_error() -> None:
    assert MAPPINGS.read("elsewhere", b"1") is None
    (found,) = mapped("spBv1.0/g/NDATA/n", metrics({"name": "a", "boolean_value": True}))
    assert found.tags["make"] == "acme"


# -- Sparkplug B -----------------------------------------------------------------------------------

TAGS = {
    "sparkplug_group": "g",
    "sparkplug_message": "DDATA",
    "sparkplug_node": "n",
    "sparkplug_device": "d",
    "make": "acme",
}


def metrics(*each: dict[str, Any], **more: Any) -> bytes:
    payload: bytes = Payload(metrics=list(each), **more).SerializeToString()
    return payload


def of_device(*each: dict[str, Any], **more: Any) -> list[Measurement]:
    return mapped("spBv1.0/g/DDATA/n/d", metrics(*each, **more))


def test_the_bytes_of_the_published_schema_are_read() -> None:
    """Written by hand from sparkplug_b.proto, so that no descriptor of ours vouches for itself."""
    metric = b"\x0a\x01t" + b"\x18\xf4\x03" + b"\x20\x0a" + b"\x69" + struct.pack("<d", 21.5)
    payload = b"\x08\xe8\x07" + b"\x12" + bytes([len(metric)]) + metric + b"\x18\x05"
    found = mapped("spBv1.0/g/DDATA/n/d", payload)
    assert found == [Measurement(21.5, "g/n/d/t", time_s=0.5, tags=TAGS)]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ({"datatype": 1, "int_value": 0xFF}, -1.0),
        ({"datatype": 1, "int_value": 0xFFFFFFFF}, -1.0),
        ({"datatype": 3, "int_value": 0xFFFFFFFE}, -2.0),
        ({"datatype": 4, "long_value": 2**64 - 3}, -3.0),
        ({"datatype": 7, "int_value": 0xFFFFFFFF}, 4294967295.0),
        ({"datatype": 8, "long_value": 2**63}, 2.0**63),
        ({"int_value": 5}, 5.0),
        ({"float_value": 0.5}, 0.5),
        ({"double_value": -0.25}, -0.25),
        ({"boolean_value": False}, False),
        ({"string_value": "open"}, "open"),
        ({"bytes_value": b"\xff"}, b"\xff"),
    ],
)
def test_a_metric_of_each_kind_is_a_value(metric: dict[str, Any], value: Any) -> None:
    (found,) = of_device({"name": "m"} | metric)
    assert (found.value, type(found.value), found.quality) == (value, type(value), None)


def test_an_integer_without_a_type_whose_sign_nobody_knows_is_uncertain() -> None:
    assert of_device({"name": "m", "int_value": 2**31})[0].quality == "uncertain"
    sure, unsure = of_device({"name": "a", "int_value": 1}, {"name": "b", "long_value": 2**63})
    assert (sure.quality, unsure.quality) == ("uncertain", "uncertain")


def test_a_metric_that_is_null_or_not_finite_has_no_value_and_is_bad() -> None:
    for metric in ({"is_null": True}, {"is_null": True, "int_value": 1}, {"float_value": math.nan}):
        (found,) = of_device({"name": "m", **metric})
        assert (found.value, found.quality) == (None, "bad")


def test_names_times_and_aliases_are_those_of_the_message() -> None:
    found = of_device(
        {"name": "a", "alias": 1, "double_value": 1.0, "timestamp": 1_500},
        {"alias": 2, "double_value": 2.0},
        timestamp=2_500,
    )
    told = [(each.sensor, each.time_s) for each in found]
    assert told == [("g/n/d/a", 1.5), ("g/n/d/alias:2", 2.5)]


def test_a_data_set_is_left_out_and_what_stands_beside_it_is_read() -> None:
    data_set = b"\x0a\x01s" + b"\x8a\x01\x02\x08\x01"
    payload = b"\x12" + bytes([len(data_set)]) + data_set
    assert "no metric with a value" in refused("spBv1.0/g/DDATA/n/d", payload)
    (found,) = mapped("spBv1.0/g/DDATA/n/d", payload + metrics({"name": "m", "int_value": 1}))
    assert found.sensor == "g/n/d/m"


@pytest.mark.parametrize(
    ("topic", "payload", "why"),
    [
        ("spBv1.0/g/NDEATH/n", b"", "'NDEATH' is no birth and no data"),
        ("spBv1.0/STATE/host", b"{}", "not on a topic"),
        ("short/g", b"", "not on a topic"),
        ("spBv1.0/g/NDATA/n/d", b"", "on a topic of 5 levels"),
        ("spBv1.0/g/DDATA/n", b"", "on a topic of 4 levels"),
        ("spBv1.0/g/NDATA/n", b"", "no metric with a value"),
        ("spBv1.0/g/NDATA/n", b"\x12", "not the protobuf message"),
        ("spBv1.0/g/NDATA/n", metrics({"int_value": 1}), "metrics[0]: neither name nor alias"),
        ("spBv1.0/g/NDATA/n", metrics({"name": "n" * 300, "int_value": 1}), "300 characters"),
        ("spBv1.0/g/NDATA/n", metrics({"name": "n", "string_value": "v" * 70_000}), "70000 char"),
        ("spBv1.0/g/NDATA/n", b"\x12\x00" * (MAX_METRICS + 1), "4097 metrics, at most 4096"),
        ("spBv1.0/g/NDATA/n", bytes(MAX_PAYLOAD_BYTES + 1), "at most 1048576 are read"),
        ("spBv1.0/g/NDATA/n", b"\x12\x05\x0a\x01\xff\x50\x01", "metrics[0].name: not UTF-8"),
        ("spBv1.0/g/NDATA/n", b"\x12\x06\x0a\x01a\x7a\x01\xff", "string_value: not UTF-8"),
    ],
)
def test_a_sparkplug_message_that_can_not_be_read_is_refused(
    topic: str, payload: bytes, why: str
) -> None:
    assert why in refused(topic, payload)


def test_a_sparkplug_message_of_so_many_bytes_and_metrics_is_read() -> None:
    topic = "spBv1.0/g/NDATA/n"
    many = metrics(*[{"name": "a", "int_value": 1}] * MAX_METRICS)
    assert len(mapped(topic, many)) == MAX_METRICS
    one = metrics({"name": "a", "int_value": 1})
    length = MAX_PAYLOAD_BYTES - len(one) - 4
    body = bytes((0x2A, length & 127 | 128, length >> 7 & 127 | 128, length >> 14)) + bytes(length)
    assert len(one + body) == MAX_PAYLOAD_BYTES
    assert len(mapped(topic, one + body)) == 1, "field 5 is the body, which is of no use here"


# -- whatever comes --------------------------------------------------------------------------------

_NUMBERS = st.integers(0, 2**64 - 1)
_METRICS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=5),
        "alias": _NUMBERS,
        "timestamp": _NUMBERS,
        "datatype": st.integers(0, 40),
        "is_null": st.booleans(),
        "int_value": st.integers(0, 2**32 - 1),
        "long_value": _NUMBERS,
        "float_value": st.floats(width=32),
        "string_value": st.text(max_size=5),
        "bytes_value": st.binary(max_size=5),
    },
)
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "at": _DOCUMENTS | st.datetimes().map(str),
        "state": _DOCUMENTS | st.sampled_from(["OK", "good"]),
        "device": _DOCUMENTS,
        "readings": st.lists(st.fixed_dictionaries({"t": _DOCUMENTS}), max_size=2),
        "mode": _DOCUMENTS,
    },
)
_PAYLOADS = (
    st.binary(max_size=64)
    | _DOCUMENTS.map(lambda document: json.dumps(document).encode())
    | _MESSAGES.map(lambda document: json.dumps(MESSAGE | document).encode())
    | st.lists(_METRICS, max_size=4).map(lambda each: metrics(*each))
    | st.builds(
        lambda each, at, byte: _spoilt(metrics(*each), at, byte),
        st.lists(_METRICS, max_size=4),
        st.integers(0, 100),
        st.integers(0, 255),
    )
)


def _spoilt(payload: bytes, at: int, byte: int) -> bytes:
    """With one byte changed."""
    at %= len(payload) + 1
    return payload[:at] + bytes((byte,)) + payload[at + 1 :]


@given(st.lists(st.tuples(st.sampled_from(TOPICS), _PAYLOADS), max_size=8))
def test_any_payload_is_a_row_that_a_table_takes_or_refused_with_a_reason(
    messages: list[tuple[str, bytes]],
) -> None:
    columns = columns_of(MAPPINGS)
    refusals = 0
    for sequence, (topic, payload) in enumerate(messages):
        try:
            columns.add(sequence, topic, 0, payload)
        except RecordError as error:
            assert str(error)
            refusals += 1
    table = columns.table()
    table.validate(full=True)
    assert table.num_rows == len(messages) - refusals


def test_a_telemetry_record_is_read_as_one_on_any_topic() -> None:
    records = [
        Record("host/load1", "/", 0.25, 1.5, 9),
        Record("door", "", "open", 1.5, 10, "uncertain"),
    ]
    columns = columns_of(MAPPINGS)
    for each in records:
        columns.add(each.number, "raw/x", 0, each.encode())
    columns.add(11, "raw/x", 0, b"\x81\x01")
    rows = columns.table().to_pylist()
    assert [row["sensor"] for row in rows] == ["host/load1", "door", "raw/x"]
    assert [row["value_bytes"] for row in rows] == [None, None, b"\x81\x01"]


def columns_of(mappings: Mappings) -> TelemetryColumns:
    columns = TelemetryColumns(mappings)
    columns.batch(
        origin="gw-a",
        boot_epoch=7,
        logged=True,
        origin_time=0,
        collected_time=5,
        group="north",
    )
    return columns


# -- large integers, and SenML in CBOR -------------------------------------------------------------

LARGE = 2**63 + 1


def test_a_large_integer_keeps_its_value_in_each_format() -> None:
    (found, *_) = mapped_json(readings=[{"t": LARGE}])
    assert (found.value, type(found.value)) == (LARGE, int)
    (found,) = mapped("n/1", b"%d" % LARGE)
    assert (found.value, type(found.value)) == (LARGE, int)
    (found,) = mapped("s/hall", b'[{"n":"a","v":%d}]' % LARGE)
    assert (found.value, type(found.value)) == (LARGE, int)
    (found,) = of_device({"name": "m", "datatype": 8, "long_value": LARGE})
    assert (found.value, type(found.value)) == (LARGE, int)
    (found,) = of_device({"name": "m", "datatype": 4, "long_value": 2**64 - 2**53 - 1})
    assert (found.value, type(found.value)) == (-(2**53) - 1, int)


@pytest.mark.parametrize("copies", [1, 6, 30])
def test_a_rule_for_senml_reads_cbor_as_it_reads_json(copies: int) -> None:
    pack = [{"n": "a", "v": 1.5, "t": -3}, {"n": "b", "vb": True}] * copies
    labels = {"n": 0, "v": 2, "vb": 4, "t": 6}
    packed = cbor2.dumps([{labels[key]: value for key, value in each.items()} for each in pack])
    as_json = mapped("s/hall", json.dumps(pack).encode())
    assert mapped("s/hall", packed) == as_json
    assert [each.sensor for each in as_json[:2]] == ["hall/a", "hall/b"]
    columns = TelemetryColumns(MAPPINGS)
    columns.batch(
        origin="gw-a", boot_epoch=1, logged=True, origin_time=10**15, collected_time=1, group="-"
    )
    columns.add(1, "s/hall", 0, packed)  # not as a pack that no rule is for
    (row,) = columns.table().to_pylist()
    assert row["sensor"] == "hall/a"
    assert row["tags"] == [("room", "hall")]


def test_what_is_no_pack_in_cbor_is_refused_by_the_rule() -> None:
    assert "CBOR" in refused("s/hall", b"\x81\xa2\x00\x61a\x00\x61a")

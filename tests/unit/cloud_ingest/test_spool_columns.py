"""Goal: every message of a batch becomes one row, whatever its payload holds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext
from msgspec.msgpack import encode as msgpack_of

from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.ingest.plan import YEAR_9999_US
from cloud_ingest.tables.schemas import FILE_COLUMNS
from gateway.sensors.mqtt_form import FORMATS, MqttForm
from record_formats.record import Record, RecordError
from tree_handler.batch import Entry, Flags

SCHEMA = FILE_COLUMNS
TIME_US = 1_760_000_000_123_456
NO_KINDS: dict[str, Any] = {"value_text": None, "value_bool": None, "value_bytes": None}


@dataclass
class Batch:
    entries: list[Entry]
    first: int
    logged: bool
    origin_time_us: int


def as_batch(
    entries: list[Entry],
    *,
    first: int = 1,
    flags: int = Flags.LOGGED,
    origin_time_us: int = TIME_US,
) -> Batch:
    return Batch(entries, first, bool(flags & Flags.LOGGED), origin_time_us)


def table(batches: Iterable[Batch], columns: TelemetryColumns | None = None) -> pa.Table:
    columns = columns or TelemetryColumns()
    for each in batches:
        in_range = each.origin_time_us <= YEAR_9999_US
        columns.batch(
            origin="gw-a",
            boot_epoch=7,
            logged=each.logged,
            origin_time=each.origin_time_us if in_range else None,
            collected_time=TIME_US + 5,
            group="north",
        )
        for sequence, entry in enumerate(each.entries, each.first):
            _, flags, payload = entry.row()[:3]
            columns.add(sequence, entry.topic, flags, payload)
    return columns.table()


def rows(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(batches).to_pylist()
    return found


def refused(payload: bytes) -> str:
    """Return the reason why a payload holds no reading.

    The row before it has to stay as it is.
    """
    columns = TelemetryColumns()
    with pytest.raises(RecordError) as raised:
        table([as_batch([Entry("t", b"1"), Entry("t", payload)])], columns)
    assert [row["payload"] for row in columns.table().to_pylist()] == [b"1"]
    return str(raised.value)


def test_a_reading_becomes_a_row_with_its_stamp_its_packet_and_its_record() -> None:
    record = Record("host/load1", "/", 0.25, 1_760_000_000.0, 9)
    entry = Entry("campus/north/gw-a/host/load1", record.encode(), qos=1, retain=True)
    when = datetime(1970, 1, 1, tzinfo=UTC)
    assert rows([as_batch([entry], first=41)]) == [
        {
            "origin": "gw-a",
            "boot_epoch": 7,
            "logged": True,
            "sequence": 41,
            "qos": 1,
            "retain": True,
            "topic": "campus/north/gw-a/host/load1",
            "origin_time": when + timedelta(microseconds=TIME_US),
            "payload": record.encode(),
            "sensor": "host/load1",
            "unit": "/",
            "value": 0.25,
            "device_time": when + timedelta(seconds=1_760_000_000),
            "device_number": 9,
            "measurements": None,
            "record_error": None,
            "value_text": None,
            "value_bool": None,
            "value_bytes": None,
            "quality": "good",
            "tags": None,
            "more": None,
            "collected_time": when + timedelta(microseconds=TIME_US + 5),
            "group": "north",
        }
    ]


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (0.5, {"value": 0.5}),
        ("open", {"value_text": "open"}),
        (True, {"value": 1.0, "value_bool": True}),
        (b"\x00\xff", {"value_bytes": b"\x00\xff"}),
    ],
)
def test_a_value_stands_in_the_column_of_its_kind(value: Any, columns: dict[str, Any]) -> None:
    record = Record("door", "", value, 1.0, 1, "uncertain", {"position": "roof"})
    (row,) = rows([as_batch([Entry("t", record.encode())])])
    kinds = ("value", "value_text", "value_bool", "value_bytes")
    assert {name: row[name] for name in kinds if row[name] is not None} == columns
    assert (row["quality"], row["tags"]) == ("uncertain", [("position", "roof")])
    assert row["record_error"] is None


def test_a_sensor_that_could_not_be_read_is_a_row_that_is_bad_and_no_error() -> None:
    record = Record("door", "", None, 1.0, 7, "bad")
    (row,) = rows([as_batch([Entry("t", record.encode())])])
    assert (row["sensor"], row["quality"], row["device_number"]) == ("door", "bad", 7)
    assert (row["value"], row["record_error"]) == (None, None)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"x": [1, b"\x00"]}, '{"x":[1,"AA=="]}'),
        ({"x": {1.5: 2}}, '{"x":{"1.5":2}}'),
        ({"x": Ext(5, b"k")}, '{"x":[5,"aw=="]}'),
        ({"r": 3}, '{"r":3}'),
    ],
)
def test_what_later_versions_say_lands_in_the_table(more: dict[str, Any], text: str) -> None:
    record = Record("a", "", 1.0, 1.0, 1, more=more)
    (row,) = rows([as_batch([Entry("t", record.encode())])])
    assert (row["value"], row["more"]) == (1.0, text)


def test_tables_of_before_version_2_are_read_together_with_those_of_now(tmp_path: Path) -> None:
    at = SCHEMA.get_field_index("record_error") + 1
    several = pa.list_(pa.struct([*SCHEMA.field("measurements").type.value_type][:4]))
    before = pa.schema(
        [field.with_type(several) if field.name == "measurements" else field for field in SCHEMA][
            :at
        ]
    )
    pq.write_table(before.empty_table(), tmp_path / "old.parquet")
    entry = Entry("t", Record("door", "", True, 1.0, 1).encode())
    now = table([as_batch([entry])])
    pq.write_table(now, tmp_path / "new.parquet")
    old = now.select(before.names).drop_columns("measurements").to_pylist()
    pq.write_table(pa.Table.from_pylist(old, before), tmp_path / "old.parquet")
    both = pyarrow.dataset.dataset(tmp_path, schema=SCHEMA).to_table()
    names = ["value", "value_bool", "quality"]
    found = [tuple(row.values()) for row in both.select(names).to_pylist()]
    assert sorted(found, key=str) == [(1.0, None, None), (1.0, True, "good")]


def test_a_payload_that_holds_no_reading_is_refused_and_rows_around_it_stay() -> None:
    good = Record("s", "", 1.0, 1.0, 1).encode()
    columns = TelemetryColumns()
    table([as_batch([Entry("t", good)])], columns)
    with pytest.raises(RecordError):
        columns.add(2, "t", 0, b"\xc1")
    columns.add(3, "t", 0, good)
    assert [row["sequence"] for row in columns.table().to_pylist()] == [1, 3]


def test_a_gateways_status_is_a_row_without_a_value_and_no_error() -> None:
    entry = Entry("campus/north/gw-a/$status", b"\x81\xa1vany")
    (row,) = rows([as_batch([entry])])
    assert (row["value"], row["payload"], row["quality"]) == (None, entry.payload, None)
    columns = TelemetryColumns()
    with pytest.raises(RecordError):  # another gateway's name is no status of this one
        table([as_batch([Entry("campus/north/gw-b/$status", entry.payload)])], columns)


@pytest.mark.parametrize(
    ("time_s", "number", "named"),
    [
        (math.nan, 1, "t (time): nan"),
        (math.inf, 1, "t (time): inf"),
        (-1e300, 1, "t (time): -1e+300"),
        (253_402_300_800.0, 1, "t (time): 253402300800.0"),
        (1.0, 2**63, "i (number): 9223372036854775808"),
    ],
)
def test_a_record_beyond_what_a_table_can_hold_is_named_and_kept(
    time_s: float, number: int, named: str
) -> None:
    payload = Record("s", "", 1.0, time_s, number).encode()
    assert refused(payload) == named


def test_an_origin_whose_clock_is_beyond_the_year_9999_has_no_origin_time() -> None:
    (row,) = rows([as_batch([Entry("t", b"1")], origin_time_us=2**64 - 1)])
    assert row["origin_time"] is None


def test_no_batches_make_no_rows() -> None:
    assert rows([]) == []


@pytest.mark.parametrize(
    ("payload", "sensor", "unit", "value"),
    [
        (b"21.5", None, None, 21.5),
        (b"7\n", None, None, 7.0),
        (b'{"value": 3, "battery": 80}', None, None, 3.0),
        (
            b'[{"bn":"gw-a/","n":"host/load1","u":"count","v":0.25}]',
            "host/load1",
            "count",
            0.25,
        ),
    ],
)
def test_text_and_json_have_a_value_and_count_as_readings(
    payload: bytes, sensor: str | None, unit: str | None, value: float
) -> None:
    (row,) = rows([as_batch([Entry("t", payload)])])
    assert (row["sensor"], row["unit"], row["value"]) == (sensor, unit, value)
    assert row["record_error"] is None
    assert (row["device_time"], row["device_number"], row["measurements"]) == (None, None, None)
    assert row["payload"] == payload


@pytest.mark.parametrize("form", FORMATS)
def test_a_sensor_has_one_name_in_whichever_form_its_gateway_publishes_it(form: str) -> None:
    payload = MqttForm(form).payload(Record("host/load1", "/", 0.25, 1_760_000_000.0, 9), "gw-a/")
    assert payload is not None
    (row,) = rows([as_batch([Entry("campus/north/gw-a/host/load1", payload)])])
    assert row["value"] == 0.25
    assert row["sensor"] == (None if form == "text" else "host/load1")


@pytest.mark.parametrize("name", ["gw-b/host/load1", "gw-a", "gw-a/", "gw-ab/t"])
def test_a_name_that_does_not_begin_with_its_gateway_is_as_it_was_written(name: str) -> None:
    (row,) = rows([as_batch([Entry("t", json.dumps([{"n": name, "v": 1}]).encode())])])
    assert row["sensor"] == name


def test_the_members_of_a_pack_are_named_as_at_their_gateway_too() -> None:
    pack = b'[{"bn":"gw-a/m/","n":"u","v":1},{"n":"i","v":2}]'
    (row,) = rows([as_batch([Entry("t", pack)])])
    assert [each["sensor"] for each in row["measurements"]] == ["m/u", "m/i"]


def test_a_pack_of_several_records_is_one_row_that_holds_them_all() -> None:
    pack = b'[{"bn":"m/","bt":1760000000,"bu":"V","n":"u","v":230},{"n":"i","u":"A","t":1,"v":2}]'
    (row,) = rows([as_batch([Entry("t", pack)])])
    assert (row["sensor"], row["unit"], row["value"]) == ("m/u", "V", 230.0)
    when = datetime.fromtimestamp(1_760_000_000, UTC)
    assert row["device_time"] == when
    assert row["measurements"] == [
        NO_KINDS | {"sensor": "m/u", "unit": "V", "value": 230.0, "device_time": when},
        NO_KINDS
        | {"sensor": "m/i", "unit": "A", "value": 2.0, "device_time": when + timedelta(seconds=1)},
    ]


def test_a_time_that_no_table_can_hold_is_named_wherever_it_stands() -> None:
    pack = b'[{"n":"a","v":1},{"n":"b","v":2,"t":1e300}]'
    assert refused(pack) == "t (time): 1e+300"


_MSGPACK_LIKE = st.binary(max_size=40) | st.builds(
    lambda head, tail: head[:-3] + tail,
    st.just(Record("s", "Cel", 1.5, 1.7e9, 4).encode()),
    st.binary(max_size=12),
)


@given(payloads=st.lists(_MSGPACK_LIKE, min_size=1, max_size=5))
def test_any_payload_is_a_reading_or_refused_whole(payloads: list[bytes]) -> None:
    columns = TelemetryColumns()
    columns.batch(
        origin="gw-a", boot_epoch=1, logged=True, origin_time=1, collected_time=1, group="-"
    )
    kept = []
    for payload in payloads:
        try:
            columns.add(1, "t", 0, payload)
        except RecordError:
            continue
        kept.append(payload)
    found = columns.table().to_pylist()
    assert [row["payload"] for row in found] == kept
    for row in found:
        kinds = [row[name] for name in ("value", *NO_KINDS)]
        assert any(value is not None for value in kinds) or row["quality"] is not None


def test_an_integer_that_no_float_says_is_the_nearest_one_and_has_its_digits_as_text() -> None:
    large = 2**53 + 1
    pack = json.dumps([{"n": "a", "v": large}, {"n": "b", "v": -large}]).encode()
    entries = [
        Entry("t", Record("a", "", large, 1.0, 1).encode()),
        Entry("t", b"%d" % large),
        Entry("t", pack),
        Entry("t", Record("a", "", 2**53, 1.0, 1).encode()),
    ]
    found = rows([as_batch(entries)])
    told = [(row["value"], row["value_text"]) for row in found]
    assert told == [(float(large), str(large))] * 3 + [(float(2**53), None)]
    several = [(each["value"], each["value_text"]) for each in found[2]["measurements"]]
    assert several == [(float(large), str(large)), (-float(large), str(-large))]


def test_a_relative_time_of_senml_counts_from_when_the_gateway_accepted_the_message() -> None:
    pack = json.dumps([{"n": "a", "v": 1, "t": -5}, {"n": "b", "v": 1, "t": 0.5}]).encode()
    (row,) = rows([as_batch([Entry("t", pack)])])
    at = row["origin_time"]
    assert row["device_time"] == at - timedelta(seconds=5)
    assert [each["device_time"] - at for each in row["measurements"]] == [
        timedelta(seconds=-5),
        timedelta(seconds=0.5),
    ]
    (row,) = rows([as_batch([Entry("t", pack)], origin_time_us=2**62)])
    assert row["device_time"] is None  # the gateway's clock says nothing either


def test_a_topic_that_is_too_long_is_refused() -> None:
    assert rows([as_batch([Entry("t" * 1_000, b"1")])])
    with pytest.raises(RecordError, match="topic: 1001 characters, at most 1000"):
        rows([as_batch([Entry("t" * 1_001, b"1")])])


_NUMBERS = st.floats() | st.integers(-(2**63), 2**64 - 1)
_RECORDS = st.builds(
    lambda name, unit, value, time_s, number: msgpack_of(
        {"r": 1, "n": name, "u": unit, "t": time_s, "i": number, "v": value}
    ),
    st.sampled_from(["s", "gw-a/s", "gw-a/", "", "n" * 264, "n" * 265]),
    st.sampled_from(["", "Cel", "u" * 201]),
    st.sampled_from([21.5, 21, 2**53 + 1, math.nan, math.inf, 2**64 - 1, True]) | _NUMBERS,
    st.sampled_from([1.7e9, 1.7e9 + 1e-6, 0, -62_135_596_801, 253_402_300_799.5]) | _NUMBERS,
    st.sampled_from([1, 2**63 - 1, 2**63, -(2**63)]),
)
_OTHERS = st.sampled_from(
    [
        b"",
        b"21.5",
        Record("s", "", "text", 1.7e9, 4).encode(),
        Record("s", "", 1.5, 1.7e9, 4, tags={"a": "b"}).encode(),
        Record("s", "", 1.5, 1.7e9, 4, quality="uncertain").encode(),
        msgpack_of({"r": 3, "n": "s", "u": "", "t": 1.0, "i": 1, "v": 1.0}),
        b"\x86" + msgpack_of({"r": 1, "n": "s", "u": "", "t": 1.0, "i": 1})[1:] + b"\xa1i\x02",
    ]
)
_TOPICS = st.sampled_from(
    ["t", "campus/north/gw-a/$status", "campus/north/gw-b/$status", "t" * 1_001]
)


@given(
    messages=st.lists(
        st.tuples(_TOPICS, _RECORDS | _OTHERS | _MSGPACK_LIKE), min_size=1, max_size=6
    )
)
def test_records_that_are_read_at_once_are_read_as_each_by_itself(
    messages: list[tuple[str, bytes]],
) -> None:
    batch = [(topic, 5, payload) for topic, payload in messages]
    at_once, one_by_one = TelemetryColumns(), TelemetryColumns()
    for columns in (at_once, one_by_one):
        columns.batch(
            origin="gw-a", boot_epoch=1, logged=True, origin_time=1, collected_time=1, group="-"
        )
    told = add_each(at_once, 7, batch, at_once.add_plain(7, batch))
    assert add_each(one_by_one, 7, batch, range(len(batch))) == {
        **dict.fromkeys(range(len(batch)), False),
        **told,
    }
    found = [columns.table().sort_by("sequence").to_pylist() for columns in (at_once, one_by_one)]
    assert found[0] == found[1]
    assert at_once.bytes == one_by_one.bytes


def add_each(
    columns: TelemetryColumns,
    first: int,
    batch: list[tuple[str, int, bytes]],
    places: Iterable[int],
) -> dict[int, bool | str]:
    """Add messages; tell for each if it is a status, or why it is refused."""
    told: dict[int, bool | str] = {}
    for at in places:
        topic, flags, payload = batch[at]
        try:
            told[at] = columns.add(first + at, topic, flags, payload)
        except RecordError as error:
            told[at] = str(error)
    return told


def test_of_a_batch_with_a_status_the_records_are_read_at_once() -> None:
    columns = TelemetryColumns()
    columns.batch(
        origin="gw-a", boot_epoch=1, logged=True, origin_time=1, collected_time=1, group="-"
    )
    plain = Record("s", "", 1.5, 1.7e9, 4).encode()
    status = ("campus/north/gw-a/$status", 1, b"x")
    assert columns.add_plain(1, [("t", 1, plain), status, ("t", 1, plain), ("t", 1, b"1")]) == [
        1,
        3,
    ]
    assert columns.table()["sequence"].to_pylist() == [1, 3]

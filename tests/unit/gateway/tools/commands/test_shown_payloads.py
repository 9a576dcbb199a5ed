"""`hedgerow sub` shows a status record in short, and other payloads on its topic as they are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.tools.commands.payloads import Table, as_json
from record_formats.record import Record
from record_formats.status_record import LinkStatus, StatusRecord
from record_formats.value import Value

LINKS = (LinkStatus("gw-b", 1.5, "root", "forwarding"),)
RECORD = StatusRecord(
    interval_s=10.0,
    software="0.1.0",
    up_s=12.4,
    root="gw-b",
    parent="gw-b",
    links=LINKS,
    link_count=1,
    more={"later": b"\x00"},
)
TOPIC = "campus/north/gw-a/$status"


def test_a_status_record_is_a_line_for_a_person() -> None:
    line = Table().line(TOPIC, RECORD.encode(), received_s=0.0)
    assert line.endswith(f"{TOPIC}  up 12 s, root gw-b, parent gw-b, 1 link, 0.1.0")


def test_a_status_record_is_an_object_for_scripts() -> None:
    told = json.loads(as_json(TOPIC, RECORD.encode(), 1, retain=False, received_s=1.0))
    assert told["status"]["root"] == "gw-b"
    assert told["status"]["links"] == [["gw-b", 1.5, "root", "forwarding"]]
    assert told["status"]["temperature_cel"] is None


def test_what_is_no_status_record_is_shown_as_anywhere_else() -> None:
    assert Table().line(TOPIC, b"\x81\xa1r\xff", received_s=0.0).endswith("81 a1 72 ff")
    told = json.loads(as_json(TOPIC, b"text", 1, retain=False, received_s=1.0))
    assert told["text"] == "text"


def test_what_a_later_record_has_more_is_shown_to_scripts_and_nothing_where_there_is_none() -> None:
    plain = Record("hall", "Cel", 21.5, 1_700_000_000.0, 7)
    later = replace(plain, more={"later": b"\x00"})
    of_plain, of_later = (
        json.loads(as_json(TOPIC, one.encode(), 1, retain=False, received_s=1.0))["record"]
        for one in (plain, later)
    )
    assert "more" not in of_plain
    assert of_later == of_plain | {"more": repr(later.more)}


def shown(payload: bytes, topic: str = "t") -> str:
    return Table().line(topic, payload, received_s=1_700_000_000.0)


@pytest.mark.parametrize(
    ("value", "unit", "quality", "line"),
    [
        (True, "/", "good", "true /  (valve 7)"),
        (False, "", "good", "false  (valve 7)"),
        (21.5, "Cel", "good", "21.5 Cel  (valve 7)"),
        (2**40, "", "good", "1.099511628e+12  (valve 7)"),
        (b"\x00\xff", "", "good", "00 ff  (valve 7)"),
        (None, "", "bad", "-  (valve 7, bad)"),
        ("on\x1b", "", "uncertain", "on\\x1b  (valve 7, uncertain)"),
    ],
)
def test_a_value_is_shown_by_its_kind_with_unit_and_what_is_amiss(
    value: Value | None, unit: str, quality: str, line: str
) -> None:
    record = Record("valve", unit, value, 1_700_000_000.0, 7, quality=quality)
    assert shown(record.encode())[21:] == f"t  {line}"


def test_bytes_are_base64_for_scripts_in_a_record_and_by_themselves() -> None:
    record = Record("valve", "", b"\x00\xff", 1_700_000_000.0, 7)
    told = json.loads(as_json("t", record.encode(), 2, retain=True, received_s=1.0))
    assert told.pop("record")["value"] == "AP8="
    assert told == {"topic": "t", "qos": 2, "retain": True, "received_s": 1.0}
    assert json.loads(as_json("t", b"\x00\xff", 0, retain=False, received_s=1.0)) == {
        "topic": "t",
        "qos": 0,
        "retain": False,
        "received_s": 1.0,
        "base64": "AP8=",
    }


@pytest.mark.parametrize(
    ("payload", "key", "value"),
    [
        (b"NaN", "text", "NaN"),
        (b"[1, Infinity]", "text", "[1, Infinity]"),
        (b"-Infinity", "text", "-Infinity"),
        (b'{"a": [1, null]}', "json", {"a": [1, None]}),
        (b'"text"', "json", "text"),
        (b"null", "json", None),
        (b"", "text", ""),
    ],
)
def test_json_is_that_of_the_standard_and_all_else_a_text(
    payload: bytes, key: str, value: object
) -> None:
    """RFC 8259, section 6: numbers such as Infinity and NaN are not permitted."""
    told = json.loads(as_json("t", payload, 0, retain=False, received_s=1.0))
    assert told[key] == value
    assert {"text", "json"} & told.keys() == {key}


@pytest.mark.parametrize("time_s", [1e300, -1e300, 1e18])
def test_a_time_that_is_no_date_is_a_question_mark_as_wide_as_one(time_s: float) -> None:
    line = shown(Record("valve", "", 1, time_s, 7).encode())
    assert line == f"{'?':19}  t  1  (valve 7)"


def test_a_column_grows_with_the_longest_topic_and_not_beyond_sixty() -> None:
    table = Table()
    lines = [table.line(topic, b"x", received_s=0.0)[21:] for topic in ("a", "abc", "b", "c" * 61)]
    assert lines == ["a  x", "abc  x", "b    x", f"{'c' * 61}  x"]
    assert table.line("d", b"x", received_s=0.0)[21:] == f"{'d':60}  x"


@pytest.mark.parametrize(
    ("parent", "count", "said"),
    [("gw-b", 0, "parent gw-b, 0 links"), (None, 1, "no parent, 1 link"), (None, 2, "2 links")],
)
def test_a_status_says_who_is_above_and_how_many_links_there_are(
    parent: str | None, count: int, said: str
) -> None:
    record = replace(RECORD, parent=parent, link_count=count)
    assert said in shown(record.encode(), TOPIC)

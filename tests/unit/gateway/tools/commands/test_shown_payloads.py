"""`hedgerow sub` shows a status record in short, and other payloads on its topic as they are."""

from __future__ import annotations

import json
from dataclasses import replace

from gateway.tools.commands.payloads import Table, as_json
from record_formats.record import Record
from record_formats.status_record import LinkStatus, StatusRecord

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

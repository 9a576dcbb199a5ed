"""The report of gateways: lives, latencies and places from the ledger, as text and JSON."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.job import report
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger, ReportedPlace, Stream
from cloud_ingest.member_place import MemberError, read_place
from tree_handler.intervals import Intervals
from tree_handler.members.member import MemberRecord

TOLD: dict[str, Any] = msgpack.unpackb(
    MemberRecord("gw-a", 1, 1, "", "", "10.0.0.1", 1883).encode()
)


def ledger(*gateways: str, last: int = 10, **totals: Any) -> NumberLedger:
    made = NumberLedger()
    for name in gateways:
        change = LedgerChange()
        change.seen[Stream(name, 1, control=False, logged=True)] = Intervals([(1, 9), (last, last)])
        counts = {"messages": 10, "logged": 10, "first_us": 1_000_000, "last_us": 2_000_000}
        change.totals[name] = GatewayTotals(**{**counts, **totals})
        made.apply(change)
    return made


def placed(made: NumberLedger, name: str, domain: str, group: str) -> None:
    change = LedgerChange()
    change.place(name, ReportedPlace(1, domain, group, None))
    made.apply(change)


def test_lives_and_commits_of_a_gateway_become_one_row() -> None:
    made = ledger("gw-a", latency_sum_ms=40.0, latency_count=10, latency_max_ms=9.0)
    change = LedgerChange()
    change.seen[Stream("gw-a", 2, control=False, logged=True)] = Intervals([(1, 3), (6, 7)])
    change.kept_local[Stream("gw-a", 2, control=False, logged=True)] = Intervals([(4, 4), (8, 9)])
    change.seen[Stream("gw-a", 2, control=True, logged=True)] = Intervals([(50, 50)])
    change.totals["gw-a"] = GatewayTotals(
        messages=5,
        logged=5,
        control=1,
        undecodable=2,
        duplicates=4,
        first_us=500_000,
        latency_sum_ms=60.0,
        latency_count=10,
    )
    made.apply(change)
    (row,) = report.fleet_of(made)
    assert row.boot_epochs == [1, 2]
    assert (row.messages, row.logged, row.control) == (15, 15, 1)
    assert (row.undecodable, row.duplicates, row.gaps, row.kept_local) == (2, 4, 1, 3)
    assert row.first_seen == datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert row.last_seen == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert (row.accept_latency_mean_ms, row.accept_latency_max_ms) == (5.0, 9.0)


def test_a_gateway_without_records_or_a_clock_has_neither_latency_nor_times() -> None:
    (row,) = report.fleet_of(ledger("gw-a", first_us=None, last_us=None))
    assert (row.accept_latency_mean_ms, row.accept_latency_max_ms) == (None, None)
    assert (row.first_seen, row.last_seen) == (None, None)


def test_gateways_come_by_place_and_those_without_one_last() -> None:
    made = ledger("gw-a", "gw-b", "gw-c", "gw-d")
    placed(made, "gw-b", "campus", "south")
    placed(made, "gw-c", "campus", "north")
    placed(made, "gw-d", "-", "-")
    fleet = report.fleet_of(made)
    assert [row.gateway for row in fleet] == ["gw-d", "gw-c", "gw-b", "gw-a"]
    assert fleet[-1].domain is None


def test_a_member_record_that_cannot_be_read_is_told_and_the_row_kept() -> None:
    made = ledger("gw-a")
    change = LedgerChange()
    change.place("gw-a", ReportedPlace(1, "?", "?", "member record is not msgpack"))
    made.apply(change)
    (row,) = report.fleet_of(made)
    assert (row.messages, row.domain) == (10, None)
    assert "gw-a: member record is not msgpack" in report.as_text([row])


@pytest.mark.parametrize("domain", ["x" * 300, "../..", "it's", "", "c\n"])
def test_a_place_that_an_earlier_ledger_took_and_that_is_none_is_unknown(domain: str) -> None:
    made = ledger("gw-a")
    placed(made, "gw-a", domain, "north")
    read = NumberLedger()
    read.apply(LedgerChange.unpack(made.all.pack()))
    told = read.all.places["gw-a"]
    assert (told.domain, told.group) == ("?", "?")
    assert told.error == "member record, domain or group: no names"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (TOLD | {"id": "gw-b"}, "another gateway: 'gw-b'"),
        ({"id": "gw-a", "group": ""}, "without epoch"),
        (TOLD | {"group": 4}, "group: 4"),
        (TOLD | {"domain": "x" * 300}, "domain: 'xxx"),
        (TOLD | {"domain": "../.."}, "domain: "),
        (TOLD | {"domain": "c", "group": "it's"}, "group: "),
        ([], "member record: "),
    ],
)
def test_what_is_wrong_with_a_member_record_is_named(fields: Any, named: str) -> None:
    with pytest.raises(MemberError, match=named):
        read_place(msgpack.packb(fields), "gw-a")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_place_or_a_member_error(payload: bytes) -> None:
    with contextlib.suppress(MemberError):
        assert len(read_place(payload, "gw-a")) == 2


def test_a_fleet_that_was_never_heard_is_said_to_be_so() -> None:
    assert report.as_text([]) == "no gateway has been heard yet"
    assert report.as_json([]) == {
        "gateways": [],
        "totals": {"messages": 0, "duplicates": 0, "gaps": 0, "undecodable": 0},
        "set_aside": {},
    }


def test_the_text_has_a_line_a_gateway_and_the_totals() -> None:
    made = ledger("gw-a", "gw-root", last=11, duplicates=2)
    placed(made, "gw-a", "campus", "north")
    lines = report.as_text(report.fleet_of(made)).splitlines()
    assert lines[0].split()[:5] == ["gateway", "domain", "group", "boots", "messages"]
    assert lines[1].split()[:8] == ["gw-a", "campus", "north", "1", "10", "10", "1", "2"]
    assert lines[2].split()[:8] == ["gw-root", "?", "?", "1", "10", "10", "1", "2"]
    assert lines[3] == "20 messages, 4 duplicates, 2 gaps, 0 undecodable"


def test_a_name_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in report.as_text(report.fleet_of(ledger("gw-\x1b[2J")))


def test_the_json_form_holds_every_column() -> None:
    shown = json.loads(json.dumps(report.as_json(report.fleet_of(ledger("gw-a")))))
    (row,) = shown["gateways"]
    assert row["last_seen"] == "1970-01-01T00:00:02+00:00"
    assert row["boot_epochs"] == [1]
    assert shown["totals"] == {"messages": 10, "duplicates": 0, "gaps": 0, "undecodable": 0}

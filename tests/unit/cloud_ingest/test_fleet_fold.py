"""The fold from Spark's few rows to the fleet, and how the fleet is shown. Without Spark."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from cloud_ingest import report
from cloud_ingest.fleet import MemberError, fold, read_place


def sequence(origin: str = "gw-a", boot_epoch: int = 1, **changed: Any) -> Row:
    return Row(
        **{
            "origin": origin,
            "boot_epoch": boot_epoch,
            "control": False,
            "logged": True,
            "messages": 10,
            "undecodable": 0,
            "duplicates": 0,
            "missing": 0,
            "kept_local": 0,
            "first_us": 1_000_000,
            "last_us": 2_000_000,
            "latency_sum_ms": 40.0,
            "latency_count": 10,
            "latency_max_ms": 9.0,
            **changed,
        }
    )


def member(gateway: str = "gw-a", **changed: Any) -> Row:
    fields = {"id": gateway, "domain": "campus", "group": "north", "epoch": 1, **changed}
    return Row(origin=gateway, payload=bytearray(msgpack.packb(fields)))


def test_boots_and_sequences_of_a_gateway_become_one_row() -> None:
    rows = [
        sequence(boot_epoch=2, missing=3, first_us=5_000_000, last_us=6_000_000),
        sequence(boot_epoch=1, duplicates=4, latency_sum_ms=100.0, latency_max_ms=50.0),
        sequence(boot_epoch=1, logged=False, undecodable=2, missing=7),
        sequence(boot_epoch=1, control=True, messages=3, latency_sum_ms=None, latency_count=0),
    ]
    (gateway,) = fold(rows, [member()])
    assert gateway.boot_epochs == [1, 2]
    assert (gateway.messages, gateway.logged, gateway.control) == (30, 20, 3)
    assert (gateway.duplicates, gateway.undecodable) == (4, 2)
    assert (gateway.domain, gateway.group) == ("campus", "north")
    assert gateway.first_seen == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert gateway.last_seen == datetime(1970, 1, 1, 0, 0, 6, tzinfo=UTC)
    assert gateway.accept_latency_mean_ms == 180.0 / 30
    assert gateway.accept_latency_max_ms == 50.0


def test_only_logged_numbers_of_clients_count_as_gaps() -> None:
    others = [sequence(logged=False, missing=100), sequence(control=True, missing=50)]
    (gateway,) = fold([sequence(missing=3), *others], [])
    assert gateway.gaps == 3


def test_a_gateway_without_records_has_no_latency() -> None:
    row = sequence(latency_sum_ms=None, latency_count=0, latency_max_ms=None)
    (gateway,) = fold([row], [])
    assert gateway.accept_latency_mean_ms is None
    assert gateway.accept_latency_max_ms is None


def test_a_gateway_without_a_usable_clock_has_no_times() -> None:
    (gateway,) = fold([sequence(first_us=None, last_us=None)], [])
    assert (gateway.first_seen, gateway.last_seen) == (None, None)


def test_gateways_come_by_place_and_those_without_one_last() -> None:
    rows = [sequence(name) for name in ("gw-a", "gw-b", "gw-c", "gw-d")]
    members = [
        member("gw-b", group="south"),
        member("gw-c", group="north"),
        member("gw-d", domain="", group=None),
    ]
    fleet = fold(rows, members)
    assert [gateway.gateway for gateway in fleet] == ["gw-d", "gw-c", "gw-b", "gw-a"]
    assert (fleet[0].domain, fleet[0].group) == ("-", "-")
    assert fleet[-1].domain is None


def test_a_member_record_that_cannot_be_read_is_told_and_the_row_kept() -> None:
    (gateway,) = fold([sequence()], [Row(origin="gw-a", payload=bytearray(b"\xc1"))])
    assert gateway.messages == 10
    assert gateway.domain is None
    assert gateway.member_error is not None
    assert "gw-a: member record is not msgpack" in report.as_text([gateway])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"id": "gw-b", "domain": "", "group": ""}, "id: 'gw-b'"),
        ({"id": "gw-a", "group": ""}, "domain: 'missing'"),
        ({"id": "gw-a", "domain": "", "group": 4}, "group: 4"),
        ([], "no map: list"),
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
    }


def test_the_text_has_a_line_a_gateway_and_the_totals() -> None:
    rows = [sequence("gw-a", duplicates=2), sequence("gw-root", missing=1)]
    lines = report.as_text(fold(rows, [member("gw-a")])).splitlines()
    assert lines[0].split()[:5] == ["gateway", "domain", "group", "boots", "messages"]
    assert lines[1].split()[:8] == ["gw-a", "campus", "north", "1", "10", "10", "0", "2"]
    assert lines[2].split()[:8] == ["gw-root", "?", "?", "1", "10", "10", "1", "0"]
    assert lines[3] == "20 messages, 2 duplicates, 1 gaps, 0 undecodable"


def test_a_name_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in report.as_text(fold([sequence("gw-\x1b[2J")], []))


def test_the_json_form_holds_every_column() -> None:
    shown = json.loads(json.dumps(report.as_json(fold([sequence()], [member()]))))
    (row,) = shown["gateways"]
    assert row["last_seen"] == "1970-01-01T00:00:02+00:00"
    assert row["boot_epochs"] == [1]
    assert shown["totals"] == {"messages": 10, "duplicates": 0, "gaps": 0, "undecodable": 0}

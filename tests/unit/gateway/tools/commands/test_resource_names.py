"""Names of resources as people write them, and readings as they are shown."""

from __future__ import annotations

import json
import time

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coap.fleet_directory.partial import MissingGateways, partial_link
from gateway.sensors import senml
from gateway.tools.commands.finding import found_document, found_table
from gateway.tools.commands.resource_names import name_of, needs_fleet, path_of
from gateway.tools.commands.resources import ReadingsError, readings
from resource_directory.link_format import WebLink

PLACES = {"gw-here": "-/-", "gw-south": "campus/south"}
SOUTH = "/q/campus/south/gw-south"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("valve", "/sensors/valve"),
        ("host/load1", "/sensors/host/load1"),
        ("gw-here/host/load1", "/sensors/host/load1"),
        ("gw-south/valve", f"{SOUTH}/sensors/valve"),
        ("gw-south/host/load1", f"{SOUTH}/sensors/host/load1"),
        ("campus/south/gw-south/valve", f"{SOUTH}/sensors/valve"),
        ("campus/north/gw-south/valve", "/sensors/campus/north/gw-south/valve"),
        ("gw-south:/status", f"{SOUTH}/status"),
        ("gw-here:/status", "/status"),
        ("/rd-lookup/ep?ep=a", "/rd-lookup/ep?ep=a"),
        ("with space", "/sensors/with%20space"),
    ],
)
def test_a_name_stands_for_a_path_at_the_nearest_gateway(target: str, path: str) -> None:
    assert path_of(target, PLACES, "gw-here") == path


@pytest.mark.parametrize(
    ("target", "needs"), [("valve", False), ("/a/b", False), ("a/b", True), ("gw:/a", True)]
)
def test_only_what_may_name_a_gateway_has_the_fleet_looked_at(target: str, needs: bool) -> None:
    assert needs_fleet(target) is needs


@given(
    st.sampled_from(sorted(PLACES)),
    st.lists(st.from_regex(r"[a-z0-9-]{1,5}", fullmatch=True), min_size=1, max_size=3),
)
def test_what_is_found_has_a_name_that_leads_back_to_it(gateway: str, parts: list[str]) -> None:
    way = "" if gateway == "gw-here" else f"/q/{PLACES[gateway]}/{gateway}"
    for path in (f"/sensors/{'/'.join(parts)}", f"/{'/'.join(parts)}"):
        name = name_of(way + path, gateway)
        assert path_of(name, PLACES, "gw-here") == way + path


def test_a_device_of_its_own_is_named_by_its_address() -> None:
    assert name_of("coap://10.0.0.9/temp", "gw-south") == "coap://10.0.0.9/temp"


def test_what_is_found_is_a_table_that_marks_what_is_stale() -> None:
    table = found_table(
        [
            WebLink(f"{SOUTH}/sensors/valve", (("rt", "switch"), ("gw", "gw-south"))),
            WebLink("/sensors/a", (("unit", "Cel"), ("gw", "gw-here"), ("stale", "35"))),
        ],
        MissingGateways(),
    )
    assert table.splitlines() == [
        "name            type    unit  gateway",
        "gw-south/valve  switch  -     gw-south",
        "gw-here/a       -       Cel   gw-here   as of 35 s ago",
        "2 found",
    ]


def test_what_is_missing_is_a_line_below_what_is_found_and_a_field_for_scripts() -> None:
    path, valve = ("rd-lookup", "res"), WebLink("/sensors/a", (("gw", "gw-here"),))
    links = [valve, *partial_link(path, [f"gw-{number:02}" for number in range(17)])]
    missing = MissingGateways.taken_out(path, links)
    *table, found, below = found_table(links, missing).splitlines()
    assert (len(table), found) == (2, "1 found")
    assert below.startswith("not whole: nothing is known of 17 gateways: gw-00, gw-01, ")
    assert below.endswith("gw-15, ...")
    document = found_document(links, missing)
    assert [one["name"] for one in document["resources"]] == ["gw-here/a"]
    assert document["missing"]["count"] == 17


def test_one_gateway_that_is_missing_is_one_and_two_are_several() -> None:
    for missing, of_whom in (
        (MissingGateways(1, ("gw-a",)), "1 gateway: gw-a"),
        (MissingGateways(2, ("gw-a", "gw-b")), "2 gateways: gw-a, gw-b"),
    ):
        last = found_table([], missing).splitlines()[-1]
        assert last == f"not whole: nothing is known of {of_whom}"


def test_parts_that_lack_the_same_gateway_count_it_once() -> None:
    first, second = MissingGateways(1, ("gw-a",)), MissingGateways(2, ("gw-a", "gw-b"))
    assert first.joined(second) == second
    assert MissingGateways(1, ("gw-a",)).joined(MissingGateways(1, ("gw-b",))).count == 2


def test_a_resource_of_that_type_stays_a_resource() -> None:
    links = [WebLink("coap://10.0.0.9/rd-lookup/res", (("rt", "hedgerow.partial"),))]
    assert MissingGateways.taken_out(("rd-lookup", "res"), links) == MissingGateways()
    assert len(links) == 1


def test_a_pack_of_readings_is_a_table() -> None:
    pack = [
        {"bn": "gw/", "bt": 1_760_000_000, "n": "a", "v": 21.5, "u": "Cel"},
        {"n": "door", "vb": True, "t": 1},
        {"n": "label", "vd": "AAE", "q": "uncertain"},
    ]
    first, second, third = (
        line.split() for line in readings(json.dumps(pack).encode(), senml.CONTENT_FORMAT)
    )
    assert first[:3] == ["gw/a", "21.5", "Cel"]
    assert second[:2] == ["gw/door", "true"]
    assert (third[:2], third[-1]) == (["gw/label", "AAE"], "uncertain")
    # In the order of the columns, and in the time of whoever looks.
    times = [" ".join(one) for one in (first[3:5], second[2:4], third[2:4])]
    assert times == [
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_760_000_000 + later_s))
        for later_s in (0, 1, 0)
    ]


def test_what_a_pack_says_once_holds_for_all_records_behind_and_times_are_relative_to_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RFC 8428, sections 4.1 and 4.5.3: from 2**28 on a time is absolute."""
    now_s = 1_760_000_000
    monkeypatch.setattr(time, "time", lambda: float(now_s))
    pack = [
        {"bn": "gw/", "bu": "Cel", "bv": 20, "n": "a", "v": 1.5},
        {"n": "b", "v": 2, "u": "K", "t": -5},
        {"n": "c", "vs": "x", "bt": 1 << 28},
        {"n": "d", "v": 0, "t": -1, "bv": 0},
    ]
    rows = [line.split() for line in readings(json.dumps(pack).encode(), senml.CONTENT_FORMAT)]
    times = [
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one)).split()
        for one in (now_s, now_s - 5, 1 << 28, now_s + (1 << 28) - 1)
    ]
    assert rows == [
        ["gw/a", "21.5", "Cel", *times[0]],
        ["gw/b", "22", "K", *times[1]],
        ["gw/c", "x", "Cel", *times[2]],
        ["gw/d", "0", "Cel", *times[3]],
    ]


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"[1]", b"no", b'[{"n": "a"}]'])
def test_what_is_no_pack_is_told_to_be_none(payload: bytes) -> None:
    with pytest.raises(ReadingsError):
        readings(payload, senml.CONTENT_FORMAT)


def test_a_sum_has_no_row_and_a_pack_in_cbor_is_shown_as_well() -> None:
    pack = [{"n": "energy", "s": 7}, {"n": "data", "vd": b"\x00\x01"}]
    ((name, value, *_),) = (line.split() for line in readings(cbor2.dumps(pack), senml.CBOR_FORMAT))
    assert (name, value) == ("data", "AAE")
    with pytest.raises(ReadingsError, match="no readings"):
        readings(json.dumps(pack[:1]).encode(), senml.CONTENT_FORMAT)

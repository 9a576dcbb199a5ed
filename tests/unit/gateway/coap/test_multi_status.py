"""Goal: what many gateways answered is one body, in which no gateway can speak for another."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from typing import Any

import cbor2
import pytest
from aiocoap.numbers.codes import Code
from hypothesis import example, given
from hypothesis import strategies as st
from remote_fleet import Fleet, asking

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapResponse
from gateway.coap.remote.forms import NotForOthersError
from gateway.coap.remote.gathering import gather
from gateway.coap.remote.multi_status import CBOR, SENML_CBOR, SENML_JSON, encode, resolved
from gateway.coap.remote.paths import RemoteRequest
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.rule import DENY, Rule
from tree_handler.members.member import MemberRecord
from tree_handler.remote.limits import QueryLimits
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

PATH = ("sensors", "load1")
PACK = b'[{"bn":"gw-a/","bt":100,"bu":"Cel","n":"load1","v":1.5,"t":-5},{"n":"b","vb":true}]'
ANSWERS = [
    ("gw-a", ResourceResponse(0x45, PACK, 110)),
    ("gw-b", ResourceResponse(0x45, b"2.5", 0)),
    ("gw-c", ResourceResponse(0x84, b"no such sensor")),
    ("gw-d", None),
    ("gw-e", ResourceResponse(0x45, b"\xff\x00", 42)),
]


def test_senml_has_a_status_for_each_and_records_that_stand_alone() -> None:
    assert json.loads(encode(ANSWERS, PATH, SENML_JSON)) == [
        {"n": "gw-a/.status", "vs": "2.05"},
        {"n": "gw-a/load1", "u": "Cel", "v": 1.5, "t": 95},
        {"n": "gw-a/b", "u": "Cel", "vb": True, "t": 100},
        {"n": "gw-b/.status", "vs": "2.05"},
        {"n": "gw-b/sensors/load1", "vs": "2.5"},
        {"n": "gw-c/.status", "vs": "4.04"},
        {"n": "gw-d/.status", "vs": "5.04"},
        {"n": "gw-e/.status", "vs": "2.05"},
        {"n": "gw-e/sensors/load1", "vd": "_wA"},
    ]


def test_senml_in_cbor_says_the_same_with_labels() -> None:
    records = cbor2.loads(encode(ANSWERS, PATH, SENML_CBOR))
    assert records[:2] == [
        {0: "gw-a/.status", 3: "2.05"},
        {0: "gw-a/load1", 1: "Cel", 2: 1.5, 6: 95},
    ]
    assert records[-1] == {0: "gw-e/sensors/load1", 8: b"\xff\x00"}


def test_cbor_has_answers_as_they_came() -> None:
    assert cbor2.loads(encode(ANSWERS, PATH, CBOR)) == [
        ["gw-a", 0x45, 110, PACK],
        ["gw-b", 0x45, 0, b"2.5"],
        ["gw-c", 0x84, None, b"no such sensor"],
        ["gw-d", 0xA4, None, b""],
        ["gw-e", 0x45, 42, b"\xff\x00"],
    ]


def test_no_gateway_speaks_for_another() -> None:
    lie = ResourceResponse(0x45, b'[{"bn":"gw-a/","n":".status","vs":"5.00"}]', 110)
    told = json.loads(encode([("gw-x", lie)], PATH, SENML_JSON))
    assert [record["n"] for record in told] == ["gw-x/.status", "gw-x/gw-a/.status"]


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["bn", "bt", "bu", "bv", "bs", "n", "u", "v", "vs", "vb", "vd", "s", "t", "ut"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@example(b'[{"n":"\\ud800","v":1}]')
@example(b'[{"bv":1e308,"v":1e308}]')
@example(b'[{"v":1' + b"0" * 400 + b"}]")
@example(b"[" * 60_000)
@given(VALUES | st.binary(max_size=30))
def test_any_document_is_records_of_its_gateway_or_none(document: Any) -> None:
    pack = document if isinstance(document, bytes) else json.dumps(document).encode()
    for form in (SENML_JSON, SENML_CBOR, CBOR):
        assert encode([("gw-x", ResourceResponse(0x45, pack, 110))], PATH, form)
    try:
        records = resolved(pack, "gw-x")
    except ValueError:
        return
    for record in records:
        assert record["n"].startswith("gw-x/")
        assert math.isfinite(record.get("v", 0))


async def test_all_gateways_of_a_path_answer_and_who_does_not_is_named() -> None:
    fleet = Fleet(deadline_s=0.05)
    async with asking(fleet) as ask:
        every = await ask("GET", "q/*/*/*/probe")
        domain = await ask("GET", "q/campus/*/*/probe", accept=60)
        written = await ask("PUT", "q/*/*/*/probe", b"on")
    assert (every.code, every.opt.content_format) == (Code.CONTENT, 110)
    assert {one["n"]: one["vs"] for one in json.loads(every.payload)} == {
        "gw-dead/.status": "5.04",
        "gw-north/.status": "2.05",
        "gw-north/probe": "21.5",
        "gw-root/.status": "2.05",
        "gw-root/probe": "21.5",
    }
    assert [row[:2] for row in cbor2.loads(domain.payload)] == [
        ["gw-dead", 0xA4],
        ["gw-north", 0x45],
    ]
    assert written.code == Code.METHOD_NOT_ALLOWED
    assert fleet.north.probe.value == b"21.5"


async def test_a_long_answer_of_many_comes_in_blocks() -> None:
    fleet = Fleet(deadline_s=0.05)
    async with asking(fleet) as ask:
        answer = await ask("GET", "q/*/*/*/probe?large", accept=60)
    assert len(answer.payload) > 10_000
    assert [row[1] for row in cbor2.loads(answer.payload)] == [0xA4, 0x45, 0x45]


async def test_the_policy_here_is_asked_for_each_of_many() -> None:
    fleet = Fleet(deadline_s=0.05)
    rules = [Rule(DENY, "GET", "/probe", "*", ("campus/north/gw-north",))]
    policy = Policy(PolicyRules(rules=rules, default_roles=frozenset({"reader"}), public=("/",)))
    fleet.root.access.follow(policy)
    async with asking(fleet) as ask:
        answer = await ask("GET", "q/*/*/*/probe", accept=60)
    assert [row[1] for row in cbor2.loads(answer.payload)][1] == 0x83
    assert fleet.north.probe.seen == []


@pytest.mark.parametrize("data", ["", "_wA", base64.urlsafe_b64encode(b"abc").decode()])
def test_data_in_a_pack_stays_what_it_is(data: str) -> None:
    pack = json.dumps([{"n": "a", "vd": data}]).encode()
    told = json.loads(encode([("gw-x", ResourceResponse(0x45, pack, 110))], PATH, SENML_JSON))
    assert told[1] == {"n": "gw-x/a", "vd": data.rstrip("=")}


def test_a_text_that_is_none_is_data() -> None:
    answer = ("gw-x", ResourceResponse(0x45, b"\xffa", 0))
    assert json.loads(encode([answer], ("a b", "\u00fc"), SENML_JSON))[1:] == [
        {"n": "gw-x/a_b/_", "vd": "_2E"}
    ]


@pytest.mark.parametrize(
    ("row", "record"),
    [
        ({"n": "a", "vs": "x", "ut": 30}, {"n": "gw-x/a", "vs": "x", "ut": 30}),
        ({"n": "a", "vb": False}, {"n": "gw-x/a", "vb": False}),
        ({"bn": "gw-x/", "bv": 20, "n": "a"}, {"n": "gw-x/a", "v": 20}),
        ({"bv": 20, "n": "a", "v": -1.5}, {"n": "gw-x/a", "v": 18.5}),
        ({"bv": 20, "n": "a", "vs": "x"}, {"n": "gw-x/a", "vs": "x"}),
        ({"bs": 5, "n": "a", "s": 2}, {"n": "gw-x/a", "s": 7}),
        ({"bu": "Cel", "n": "a", "u": "K", "v": 1}, {"n": "gw-x/a", "u": "K", "v": 1}),
        ({"bt": 10, "n": "a", "v": 1, "t": 0}, {"n": "gw-x/a", "v": 1, "t": 10}),
        ({"n": "a", "v": 1, "t": 7}, {"n": "gw-x/a", "v": 1, "t": 7}),
    ],
)
def test_rfc_8428_section_4_6_a_record_says_all_by_itself(
    row: dict[str, Any], record: dict[str, Any]
) -> None:
    assert resolved(json.dumps([row]).encode(), "gw-x") == [record]


@pytest.mark.parametrize(
    "row",
    [
        {"n": "a", "vb": 1},
        {"n": 1, "v": 1},
        {"bn": 1, "v": 1},
        {"n": "a", "u": 1, "v": 1},
        {"n": "a", "vs": 1},
        {"n": "a", "vd": 1},
        {"n": "a", "vd": "a"},
        {"n": "a", "v": "1"},
        {"n": "a", "v": True},
        {"n": "a", "v": 1, "t": "now"},
        {"n": "a", "v": 1, "ut": None},
        {"n": "a", "v": math.nan},
        {"n": "a", "v": math.inf},
        {"n": "a", "v": 10**400},
        1,
    ],
)
def test_a_pack_with_a_field_that_is_none_is_given_as_it_is(row: Any) -> None:
    pack = json.dumps([row]).encode()
    with pytest.raises(ValueError):  # of whatever kind
        resolved(pack, "gw-x")
    told = json.loads(encode([("gw-x", ResourceResponse(0x45, pack, 110))], PATH, SENML_JSON))
    data = base64.urlsafe_b64encode(pack).decode().rstrip("=")
    assert told[1:] == [{"n": "gw-x/sensors/load1", "vd": data}]


async def test_what_is_kept_of_one_gateway_is_not_asked_of_it_among_many() -> None:
    fleet = Fleet(deadline_s=0.05)
    async with asking(fleet) as ask:
        await ask("GET", "q/campus/north/gw-north/probe?aged")
        answer = await ask("GET", "q/*/*/*/probe?aged", accept=60)
    assert [row[:2] for row in cbor2.loads(answer.payload)] == [
        ["gw-dead", 0xA4],
        ["gw-north", 0x45],
        ["gw-root", 0x45],
    ]
    assert len(fleet.north.probe.seen) == 1


async def test_those_for_whom_there_is_no_room_are_answered_5_03_among_many() -> None:
    places = {"gw-root": ("", ""), **{f"gw-{n}": ("campus", "north") for n in range(3)}}
    fleet = Fleet(deadline_s=0.05, max_outstanding=1, places=places, silent=("gw-0",))
    async with asking(fleet) as ask:
        answer = await ask("GET", "q/campus/*/*/probe", accept=60)
    assert [row[1] for row in cbor2.loads(answer.payload)].count(0xA3) == 2


async def test_no_more_gateways_than_the_limit_are_asked_at_once() -> None:
    record = MemberRecord("gw-a", 1, 1, "", "", "10.0.0.1", 1883)
    silent = MemberRecord("gw-b", 1, 1, "", "", "10.0.0.1", 0)
    parts = replace(Fleet().root.parts, limits=QueryLimits(targets=2))
    request = ResourceRequest("GET", ("probe",))
    peer = CoapPeer("here", "here")

    def ask(*_: Any) -> Any:
        raise AssertionError("nobody is asked")

    for records, is_refused in (((record, record, silent), False), (3 * (record,), True)):
        asked = RemoteRequest(list(records), ("*", "*", "*"), request, is_many=True)
        if is_refused:
            with pytest.raises(NotForOthersError) as refused:
                gather(parts, asked, peer, ask)
            assert refused.value.response == CoapResponse(
                codes.BAD_REQUEST, (), b"3 gateways: at most 2 are asked at once"
            )
        else:
            gather(parts, asked, peer, ask)

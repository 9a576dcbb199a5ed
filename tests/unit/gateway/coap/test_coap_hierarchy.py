"""The hierarchy over CoAP: in two formats, observed, and hidden from peers without the right."""

from __future__ import annotations

import json
from collections.abc import Callable

import aiocoap
import cbor2
import pytest
from aiocoap import error

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.coap.access import CoapAccess
from gateway.coap.operations.hierarchy import (
    CBOR,
    HierarchyAnswers,
    HierarchyResource,
    HierarchyView,
)
from gateway.coap.peers import udp_peer
from gateway.process.status.hierarchy_view import DrawnHierarchy
from tests.policies import keys_may_all, open_access
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord

ELSEWHERE = udp_peer(PeerAddress(("192.0.2.1", 40_000)))
PATH = (11, b"hierarchy")
ACCEPT = 17


def record(gateway_id: str, place: str, capability: float, version: int = 1) -> MemberRecord:
    domain, group = (part if part != "-" else "" for part in place.split("/"))
    return MemberRecord(
        gateway_id, 1, version, domain, group, "10.0.0.1", 1883, capability=capability
    )


class Served:
    """The resource at hand, of a fleet of four."""

    def __init__(self, access: CoapAccess | None = None) -> None:
        self.members = Membership()
        for row in (
            ("gw-root", "-/-", 5.0),
            ("gw-north", "campus/north", 5.0),
            ("gw-next", "campus/north", 3.0),
            ("gw-leaf", "campus/north", 1.0),
        ):
            self.members.update(record(*row))
        self.view = HierarchyView("gw-root", self.members)
        self.later: list[Callable[[], None]] = []
        self.told: list[CoapResponse] = []
        self.answers = HierarchyAnswers(
            self.view,
            self.members,
            access or open_access(),
            lambda _s, then: self.later.append(then),
        )

    def get(self, *options: tuple[int, bytes]) -> CoapResponse | None:
        return self.answers.answer(CoapRequest(codes.GET, (PATH, *options)), ELSEWHERE, 0.0)

    def observe(self) -> None:
        request = CoapRequest(codes.GET, (PATH,))
        assert self.answers.observe(1, request, lambda _e, answer, _last: self.told.append(answer))

    def pass_time(self) -> None:
        due, self.later = self.later, []
        for then in due:
            then()


def test_it_says_where_each_gateway_stands_what_it_heads_and_who_stands_by() -> None:
    answer = Served().get()
    assert answer is not None
    told = json.loads(answer.payload)
    assert (told["id"], told["root"]) == ("gw-root", "gw-root")
    rows = {one["id"]: one for one in told["gateways"]}
    assert rows["gw-root"]["heads"] == ["-/-"]
    assert rows["gw-north"]["heads"] == ["campus/-", "campus/north"]
    assert rows["gw-leaf"]["parent"] == "gw-north"
    assert rows["gw-leaf"]["substitutes"] == ["gw-next", "gw-root"]


def test_cbor_says_the_same() -> None:
    served = Served()
    as_json, as_cbor = served.get(), served.get((ACCEPT, bytes([CBOR])))
    assert as_json is not None
    assert as_cbor is not None
    assert cbor2.loads(as_cbor.payload) == json.loads(as_json.payload)
    assert served.get((ACCEPT, bytes([40]))) is None, "the resource refuses it"


def test_who_observes_it_is_told_once_of_changes_that_come_together() -> None:
    served = Served()
    served.observe()
    served.members.suspect(frozenset({"gw-north"}))
    served.members.update(record("gw-new", "campus/north", 2.0))
    served.pass_time()
    (told,) = served.told
    rows = {one["id"]: one for one in json.loads(told.payload)["gateways"]}
    assert rows["gw-north"]["suspect"]
    assert rows["gw-next"]["heads"] == ["campus/-", "campus/north"]
    assert "gw-new" in rows
    served.answers.ended(1)
    served.members.suspect(frozenset())
    served.pass_time()
    assert len(served.told) == 1


def test_who_may_read_it_only_since_it_is_public_learns_of_no_gateway() -> None:
    answer = Served(keys_may_all()).get()
    assert answer is not None
    assert answer.code == codes.UNAUTHORIZED
    assert b"gw-" not in answer.payload


@pytest.mark.parametrize("tells_all", [True, False])
async def test_through_another_gateway_it_is_told_to_whom_the_policy_gives_it(
    tells_all: bool,
) -> None:
    served = Served()
    resource = HierarchyResource(served.view, lambda _remote: tells_all)
    request = aiocoap.Message(code=aiocoap.GET)
    if tells_all:
        answer = await resource.render_get(request)
        assert json.loads(answer.payload) == served.view.as_document()
        request.opt.accept = 40
        with pytest.raises(error.NotAcceptable):
            await resource.render_get(request)
    else:
        with pytest.raises(error.Unauthorized):
            await resource.render_get(request)


def test_it_is_drawn_from_the_root_down() -> None:
    served = Served()
    served.members.suspect(frozenset({"gw-north"}))
    assert DrawnHierarchy(served.view.as_document()).as_text().splitlines() == [
        "gw-root  -/-, heads all",
        "└─ gw-next  campus/north, heads campus/- and campus/north",
        "   ├─ gw-leaf  campus/north, then below gw-root",
        "   └─ gw-north  campus/north, out of reach, then below gw-leaf",
        "4 gateways, 1 out of reach",
    ]


def test_one_gateway_alone_is_drawn_too() -> None:
    members = Membership()
    members.update(record("gw", "-/-", 1.0))
    drawn = DrawnHierarchy(HierarchyView("gw", members).as_document()).as_text()
    assert drawn.splitlines() == ["gw  -/-, heads all", "1 gateway, 0 out of reach"]


def test_an_observer_who_can_t_be_told_costs_no_other() -> None:
    served = Served()

    def gone(*_: object) -> None:
        raise ConnectionError("gone")

    request = CoapRequest(codes.GET, (PATH,))
    assert served.answers.observe(7, request, gone)
    served.observe()
    for gateways in (frozenset({"gw-north"}), frozenset[str]()):
        served.members.suspect(gateways)
        served.pass_time()
    assert len(served.told) == 2


def test_another_path_or_method_is_no_question_for_it() -> None:
    served = Served()
    for request in (
        CoapRequest(codes.FETCH, (PATH,)),
        CoapRequest(codes.GET, ((11, b"hierarchy"), (11, b"x"))),
        CoapRequest(codes.GET, (PATH, (15, b"x"))),
        CoapRequest(codes.GET),
    ):
        assert served.answers.answer(request, ELSEWHERE, 0.0) is None
    for elsewhere in ((), ((11, b"status"),)):
        request = CoapRequest(codes.GET, elsewhere)
        assert not served.answers.observe(1, request, lambda *_: None)
    served.members.suspect(frozenset({"gw-north"}))
    assert served.later == [], "nobody observes it"


def test_a_change_that_does_not_stand_there_is_told_to_nobody() -> None:
    served = Served()
    served.observe()
    served.members.suspect(frozenset({"gw-north"}))
    served.members.suspect(frozenset())
    served.pass_time()
    assert served.told == []
    served.members.suspect(frozenset({"gw-north"}))
    served.pass_time()
    assert len(served.told) == 1

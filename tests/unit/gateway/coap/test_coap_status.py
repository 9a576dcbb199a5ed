"""Goal: a stranger learns of a gateway that it is up, and nothing of its fleet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiocoap
import pytest
from aiocoap.numbers.codes import Code

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.coap.operations.status import StatusResource, StatusSummary
from gateway.coap.peers import session_peer, udp_peer
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.requester import plain_requester
from gateway.coap_client import ClientError, Response
from gateway.process.status.text import as_text
from gateway.process.status.tree_view import collect
from tests.policies import access_of
from tree_handler.remote.resource import ResourceRequest

WHOLE = {"id": "gw", "version": "1.0", "up_s": 2.5, "boot_epoch": 7, "members": ["gw", "gw-b"]}
SHORT = {"id": "gw", "version": "1.0", "up_s": 2.5}
LOCAL, ELSEWHERE = PeerAddress(("127.0.0.1", 40_000)), PeerAddress(("192.0.2.1", 40_000))
STATUS = ((11, b"status"),)
METER = session_peer(1, ELSEWHERE, PeerIdentity(Proof.PSK, "meter"))


class Report:
    """Counts how often the state is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> Mapping[str, Any]:
        self.looks += 1
        return WHOLE


@pytest.mark.parametrize("told", [WHOLE, SHORT])
async def test_the_resource_tells_all_to_whom_the_policy_gives_it(told: Mapping[str, Any]) -> None:
    request, seen = aiocoap.Message(code=Code.GET), list[Any]()
    request.remote = plain_requester(LOCAL, ("192.0.2.2", 5683))

    def tells_all(remote: Any) -> bool:
        seen.append(remote)
        return told is WHOLE

    answer = await StatusResource(Report(), tells_all).render_get(request)
    assert json.loads(answer.payload) == told
    assert seen == [request.remote]


def test_strangers_have_it_at_hand_and_look_once_a_second_for_all_of_them() -> None:
    report, request = Report(), CoapRequest(codes.GET, STATUS)
    summary = StatusSummary(report, access_of())
    stranger = udp_peer(ELSEWHERE)
    for now in (1.0, 1.2, 1.9):
        answer = summary.answer(request, stranger, now)
        assert answer is not None
        assert json.loads(answer.payload) == SHORT
    assert report.looks == 1
    assert summary.answer(request, stranger, 2.1) is not None
    assert report.looks == 2


@pytest.mark.parametrize(
    ("peer", "request_"),
    [
        (udp_peer(LOCAL), CoapRequest(codes.GET, STATUS)),
        (METER, CoapRequest(codes.GET, STATUS)),
        (udp_peer(ELSEWHERE), CoapRequest(codes.FETCH, STATUS)),
        (udp_peer(ELSEWHERE), CoapRequest(codes.GET, (*STATUS, (17, b"<")))),
        (udp_peer(ELSEWHERE), CoapRequest(codes.GET, ((11, b"sensors"),))),
    ],
)
def test_all_others_and_all_else_are_left_to_the_resource(
    peer: CoapPeer, request_: CoapRequest
) -> None:
    access = access_of({"psk:meter": "reader"})
    assert StatusSummary(Report(), access).answer(request_, peer, 0.0) is None


def test_a_key_without_a_role_is_told_what_strangers_are() -> None:
    answer = StatusSummary(Report(), access_of()).answer(CoapRequest(codes.GET, STATUS), METER, 0.0)
    assert answer is not None
    assert json.loads(answer.payload) == SHORT


@pytest.mark.parametrize(
    ("address", "told"), [(LOCAL, WHOLE), (ELSEWHERE, SHORT)], ids=["local", "elsewhere"]
)
async def test_a_gateway_vouches_for_its_own_machine_where_it_asks_for_it(
    address: PeerAddress, told: Mapping[str, Any]
) -> None:
    access, site = access_of(), aiocoap.resource.Site()

    def tells_all(remote: Any) -> bool:
        principal = access.principal_of(remote)
        return not access.may(principal, "GET", ("status",)).is_public

    site.add_resource(["status"], StatusResource(Report(), tells_all))
    execute = LocalExecution(site, "gw", access)
    asker = access.principal_of(plain_requester(address, ("192.0.2.2", 5683)))
    text, roles = access.introduced(asker)
    answer = await execute(ResourceRequest("GET", ("status",), identity=text, roles=roles), "gw-b")
    assert json.loads(answer.payload) == told


def test_the_commands_say_where_there_is_more() -> None:
    assert as_text(SHORT).startswith("gw: up 2.5 s, hedgerow 1.0. It tells the rest on its own")


async def test_a_tree_that_is_not_told_is_not_shown() -> None:
    async def ask(_path: str) -> Response:
        return Response("2.05", json.dumps(SHORT).encode(), 50)

    with pytest.raises(ClientError, match="with a key"):
        await collect(ask)

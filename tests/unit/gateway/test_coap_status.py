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
from gateway.coap.client import ClientError, Response
from gateway.coap.execution import LocalExecution
from gateway.coap.peers import UdpPeers, session_peer
from gateway.coap.remote import first_claim
from gateway.coap.requester import plain_requester
from gateway.coap.status import StatusResource, StatusSummary
from gateway.status_text import as_text
from gateway.tree_view import collect
from tree_handler.remote_message import ResourceRequest

WHOLE = {"id": "gw", "version": "1.0", "up_s": 2.5, "boot_epoch": 7, "members": ["gw", "gw-b"]}
SHORT = {"id": "gw", "version": "1.0", "up_s": 2.5}
LOCAL, ELSEWHERE = PeerAddress(("127.0.0.1", 40_000)), PeerAddress(("192.0.2.1", 40_000))
STATUS = ((11, b"status"),)


class Report:
    """Counts how often the state is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> Mapping[str, Any]:
        self.looks += 1
        return WHOLE


@pytest.mark.parametrize(
    ("address", "anonymous", "told"),
    [(LOCAL, False, WHOLE), (ELSEWHERE, False, SHORT), (ELSEWHERE, True, WHOLE)],
)
async def test_the_resource_tells_all_to_who_is_on_this_machine(
    address: PeerAddress, anonymous: bool, told: Mapping[str, Any]
) -> None:
    request = aiocoap.Message(code=Code.GET)
    request.remote = plain_requester(address, ("192.0.2.2", 5683))
    answer = await StatusResource(Report(), anonymous=anonymous).render_get(request)
    assert json.loads(answer.payload) == told


def test_strangers_have_it_at_hand_and_look_once_a_second_for_all_of_them() -> None:
    report, request = Report(), CoapRequest(codes.GET, STATUS)
    summary = StatusSummary(report, anonymous=False)
    stranger = UdpPeers().of(ELSEWHERE)
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
        (UdpPeers().of(LOCAL), CoapRequest(codes.GET, STATUS)),
        (session_peer(1, ELSEWHERE, PeerIdentity(Proof.PSK, "a")), CoapRequest(codes.GET, STATUS)),
        (UdpPeers().of(ELSEWHERE), CoapRequest(codes.FETCH, STATUS)),
        (UdpPeers().of(ELSEWHERE), CoapRequest(codes.GET, (*STATUS, (17, b"<")))),
        (UdpPeers().of(ELSEWHERE), CoapRequest(codes.GET, ((11, b"sensors"),))),
    ],
)
def test_all_others_and_all_else_are_left_to_the_resource(
    peer: CoapPeer, request_: CoapRequest
) -> None:
    assert StatusSummary(Report(), anonymous=False).answer(request_, peer, 0.0) is None


@pytest.mark.parametrize(
    ("address", "told"), [(LOCAL, WHOLE), (ELSEWHERE, SHORT)], ids=["local", "elsewhere"]
)
async def test_a_gateway_vouches_for_its_own_machine_where_it_asks_for_it(
    address: PeerAddress, told: Mapping[str, Any]
) -> None:
    site = aiocoap.resource.Site()
    site.add_resource(["status"], StatusResource(Report()))
    execute = LocalExecution(site, "gw", lambda _: False)
    identity = first_claim(plain_requester(address, ("192.0.2.2", 5683)))
    answer = await execute(ResourceRequest("GET", ("status",), identity=identity))
    assert json.loads(answer.payload) == told


def test_the_commands_say_where_there_is_more() -> None:
    assert as_text(SHORT).startswith("gw: up 2.5 s, hedgerow 1.0. It tells the rest on its own")


async def test_a_tree_that_is_not_told_is_not_shown() -> None:
    async def ask(_path: str) -> Response:
        return Response("2.05", json.dumps(SHORT).encode(), 50)

    with pytest.raises(ClientError, match="with a key"):
        await collect(ask)

"""Goal: what a resource forgets to check has been checked before it is asked."""

from __future__ import annotations

import aiocoap
import aiocoap.resource
import pytest
from aiocoap.numbers.codes import Code

from coap_engine.message import CoapPeer, CoapRequest
from dtls.datagrams import PeerAddress
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.coap.access import CoapAccess, PublicPaths, identity_of
from gateway.coap.execution import LocalExecution
from gateway.coap.peers import UdpPeers, session_peer
from tree_handler.remote_message import ResourceRequest

METER = session_peer(1, PeerAddress(("192.0.2.1", 40_000)), PeerIdentity(Proof.PSK, "meter-1"))
STRANGER = UdpPeers().of(PeerAddress(("192.0.2.2", 40_000)))
NEIGHBOUR = UdpPeers().of(PeerAddress(("127.0.0.1", 40_000)))
WRITES = [Code.POST, Code.PUT, Code.DELETE, Code.PATCH, Code.iPATCH]
URI_PATH = 11


def request(code: Code, path: str = "/value") -> CoapRequest:
    segments = path.removeprefix("/").split("/")
    return CoapRequest(int(code), tuple((URI_PATH, one.encode()) for one in segments))


def answer(access: CoapAccess, asked: CoapRequest, peer: CoapPeer) -> Code | None:
    refused = access.refusal(asked, peer)
    return None if refused is None else Code(refused.code)


@pytest.mark.parametrize("code", [*WRITES, Code(0x1F)])
def test_a_write_needs_an_authenticated_peer(code: Code) -> None:
    asked = request(code)
    assert answer(CoapAccess(), asked, STRANGER) is Code.UNAUTHORIZED
    assert answer(CoapAccess(), asked, NEIGHBOUR) is Code.UNAUTHORIZED
    assert answer(CoapAccess(), asked, METER) is None
    assert answer(CoapAccess(anonymous=True), asked, STRANGER) is None


@pytest.mark.parametrize("code", [Code.GET, Code.FETCH])
def test_anybody_may_read_what_is_public(code: Code) -> None:
    access = CoapAccess(public=["/sensors", "/.well-known/core"])
    for path in ("/sensors", "/sensors/roof/temperature", "/.well-known/core"):
        assert answer(access, request(code, path), STRANGER) is None
    for path in ("/sensors-of-mine", "/.well-known", "/rd/1", "/"):
        assert answer(access, request(code, path), STRANGER) is Code.UNAUTHORIZED
        for reader in (METER, NEIGHBOUR):
            assert answer(access, request(code, path), reader) is None


def test_nothing_or_everything_may_be_public() -> None:
    assert answer(CoapAccess(public=["/"]), request(Code.GET), STRANGER) is None
    assert answer(CoapAccess(public=[]), request(Code.GET), STRANGER) is Code.UNAUTHORIZED


def test_a_peer_whose_transport_knows_no_identity_is_anonymous() -> None:
    request = aiocoap.Message(code=Code.PUT)
    request.remote = object()
    assert identity_of(request) is ANONYMOUS


async def test_a_stranger_reads_elsewhere_what_is_public_there_alone() -> None:
    site = aiocoap.resource.Site()
    for path in ("sensors", "secrets"):
        site.add_resource([path], Value())
    execute = LocalExecution(site, "gw", lambda _: False, PublicPaths(["/sensors"]))
    answers = {
        (path, identity): (await execute(ResourceRequest("GET", (path,), identity=identity))).code
        for path in ("sensors", "secrets")
        for identity in (None, "psk:meter-1")
    }
    assert answers.pop(("secrets", None)) == Code.UNAUTHORIZED
    assert set(answers.values()) == {int(Code.CONTENT)}


class Value(aiocoap.resource.Resource):
    async def render_get(self, _request: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=b"21.5")

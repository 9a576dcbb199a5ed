"""The name under which a resource knows somebody for whom another gateway vouches."""

from __future__ import annotations

import pytest
from aiocoap import resource

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.responders import RespondTo
from tests.policies import open_access
from tree_handler.remote.resource import ResourceRequest


class Greeter:
    """An immediate responder that notes who asks."""

    segments = frozenset((b"hello",))

    def __init__(self) -> None:
        self.peers: list[CoapPeer] = []

    def answer(self, _request: CoapRequest, peer: CoapPeer, _now: float) -> CoapResponse:
        self.peers.append(peer)
        return CoapResponse(codes.CONTENT)

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        return False

    def ended(self, exchange: int) -> None:
        """Nobody is told of changes."""


@pytest.mark.parametrize(
    ("identity", "via", "name", "whose_quota"),
    [
        ("psk:meter", "gw-west", "gw-west/psk:meter", "gw-west/psk:meter"),
        ("psk:meter", "", "psk:meter", "psk:meter"),
        (None, "gw-west", None, "gw-west"),
    ],
)
async def test_a_name_of_another_gateway_is_told_from_one_of_this_and_a_stranger_has_none(
    identity: str | None, via: str, name: str | None, whose_quota: str
) -> None:
    greeter = Greeter()
    execution = LocalExecution(resource.Site(), "gw", open_access(), [greeter])
    await execution(ResourceRequest("GET", ("hello",), identity=identity), via)
    [peer] = greeter.peers
    assert (peer.principal, peer.host) == (name, whose_quota)

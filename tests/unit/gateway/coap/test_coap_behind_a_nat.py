"""A device over DTLS behind a NAT that gives it another port goes on in its session."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from aiocoap import resource

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.keystore import Keystore
from gateway.coap.responders import RespondTo
from gateway.coap.server import CoapListener, CoapServer
from gateway.coap_client import CoapClient
from tests.policies import open_access

KEY = b"0123456789abcdef"
LIMIT_S = 60


class Nat:
    """Passes datagrams on between one client and a server, from a port of its own."""

    def __init__(self, server_port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = ("127.0.0.1", server_port)
        self._inside = self._bound()
        self._outside = self._bound()
        self._client: Any = None
        self.port: int = self._inside.getsockname()[1]
        self._loop.add_reader(self._inside, self._out)
        self._loop.add_reader(self._outside, self._in)

    def forget(self) -> None:
        """Know nothing of the client any more: its next datagram goes out from another port."""
        before, self._outside = self._outside, self._bound()
        self._loop.remove_reader(before)
        before.close()
        self._loop.add_reader(self._outside, self._in)

    def close(self) -> None:
        for sock in (self._inside, self._outside):
            self._loop.remove_reader(sock)
            sock.close()

    @staticmethod
    def _bound() -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        return sock

    def _out(self) -> None:
        data, self._client = self._inside.recvfrom(65_536)
        self._outside.sendto(data, self._server)

    def _in(self) -> None:
        self._inside.sendto(self._outside.recv(65_536), self._client)


class Well:
    """One value, which is observed."""

    def __init__(self) -> None:
        self.segments = frozenset((b"well",))
        self.observers: dict[int, RespondTo] = {}
        self.asked_by: list[CoapPeer] = []

    def answer(self, _request: CoapRequest, peer: CoapPeer, _now: float) -> CoapResponse:
        self.asked_by.append(peer)
        return CoapResponse(codes.CONTENT, (), b"1")

    def observe(self, exchange: int, _request: CoapRequest, respond: RespondTo) -> bool:
        self.observers[exchange] = respond
        return True

    def ended(self, exchange: int) -> None:
        self.observers.pop(exchange, None)

    def changed(self) -> None:
        for exchange, respond in self.observers.items():
            respond(exchange, CoapResponse(codes.CONTENT, (), b"2"), False)


async def test_a_device_whose_port_changes_asks_and_observes_on_without_a_handshake() -> None:
    well = Well()
    server = CoapServer(
        resource.Site(),
        coap=None,
        coaps=CoapListener(("127.0.0.1",), 0),
        keystore=Keystore({"meter": KEY}),
        access=open_access(),
        at_hand=(well,),
    )
    async with server, asyncio.timeout(LIMIT_S):
        assert server.coaps_port is not None
        nat = Nat(server.coaps_port)
        async with CoapClient(psk_identity="meter", psk_key=KEY) as client:
            uri = f"coaps://127.0.0.1:{nat.port}/well"
            values = client.observe(uri)
            assert (await anext(values)).payload == b"1"
            nat.forget()
            assert (await client.request("GET", uri)).payload == b"1"
            well.changed()
            assert (await anext(values)).payload == b"2"
            await values.aclose()
        counts = server.counts().dtls
        nat.close()
    assert (counts["handshakes"], counts["moved"]) == (1, 1)
    before, after = well.asked_by[0], well.asked_by[-1]
    assert before == after
    assert before.address.address != after.address.address  # type: ignore[attr-defined]

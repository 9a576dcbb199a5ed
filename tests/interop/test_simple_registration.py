"""Goal: a device that only serves and asks once is registered (RFC 9176, section 5.1).

Method: aiocoap's server as the device, over plain UDP and over a DTLS session that it opened, and
a directory behind our engine, on loopback.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aiocoap
import pytest
from aiocoap import Code, Message, resource

from dtls.context import ClientContext
from dtls.keystore import Keystore
from gateway.coap.directory.answers import DirectoryAnswers
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.server import CoapListener, CoapServer
from gateway.coap_client import attach_dtls
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches
from tests.policies import open_access

KEY = b"0123456789abcdef"
LIMIT_S = 60


class Links(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    """The device's ``/.well-known/core``; longer than a datagram if it has many links."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.asked = 0
        self.answer = Message(
            code=Code.CONTENT,
            payload=",".join(f'</s/{n}>;rt="t{n}"' for n in range(count)).encode(),
            content_format=40,
        )

    async def render_get(self, _request: Message) -> Message:
        self.asked += 1
        return self.answer


class Device:
    """A device, and the directory that it registers with."""

    def __init__(self, server: CoapServer, registry: Registry) -> None:
        self.server = server
        self.registry = registry
        self.links = Links(3)
        self.site = resource.Site()
        self.site.add_resource((".well-known", "core"), self.links)
        self.contexts: list[aiocoap.Context] = []

    async def register(self, query: str = "ep=simple&lt=600") -> Message:
        """Over plain CoAP."""
        context = await aiocoap.Context.create_server_context(
            self.site, bind=("127.0.0.1", 0), transports=["simple6"]
        )
        return await self._ask(context, f"coap://127.0.0.1:{self.server.coap_port}", query)

    async def register_in_a_session(self, query: str = "ep=simple&lt=600") -> Message:
        """Over DTLS, as ``meter``."""
        context = aiocoap.Context(loop=asyncio.get_running_loop(), serversite=self.site)
        transport = attach_dtls(context, ClientContext("meter", KEY))
        port = self.server.coaps_port
        assert port is not None
        remote = await transport.connect("127.0.0.1", port, LIMIT_S)
        return await self._ask(context, f"coaps://127.0.0.1:{port}", query, remote)

    async def _ask(
        self, context: aiocoap.Context, base: str, query: str, remote: object = None
    ) -> Message:
        self.contexts.append(context)
        echo = None
        for _ in range(2):
            message = Message(code=Code.POST, uri=f"{base}/.well-known/rd?{query}")
            if remote is not None:
                message.remote = remote
            message.opt.echo = echo
            async with asyncio.timeout(LIMIT_S):
                answer = await context.request(message).response
            if answer.opt.echo is None:
                break
            echo = answer.opt.echo
        return answer

    def found(self) -> list[str]:
        search = self.registry.find_resources(LookupQuery.parse(["ep=simple"]), time.monotonic())
        assert search.go_on(10_000)
        return search.texts

    async def stop(self) -> None:
        for context in self.contexts:
            await context.shutdown()


@pytest.fixture
async def device() -> AsyncIterator[Device]:
    watches = Watches()
    registry = Registry(listeners=(watches,))
    turns = LookUpTurns(asyncio.get_running_loop().call_later)
    answers = DirectoryAnswers(DirectoryService(registry, watches), time.monotonic, turns)
    server = CoapServer(
        resource.Site(),
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=CoapListener(("127.0.0.1",), 0),
        keystore=Keystore({"meter": KEY}),
        access=open_access(),
        at_hand=(answers,),
    )
    async with server:
        made = Device(server, registry)
        try:
            yield made
        finally:
            await made.stop()


@pytest.mark.parametrize("way", ["register", "register_in_a_session"])
@pytest.mark.parametrize("count", [1, 3, 400], ids=["one link", "some", "in blocks"])
async def test_a_device_that_asks_is_asked_for_its_links_and_is_found(
    device: Device, way: str, count: int
) -> None:
    device.links.answer = Links(count).answer
    answer = await getattr(device, way)()
    assert answer.code == Code.CHANGED, answer.payload
    found = device.found()
    assert len(found) == count
    scheme = "coap" if way == "register" else "coaps"
    assert found[0].startswith(f"<{scheme}://127.0.0.1:")
    assert found[0].endswith('/s/0>;rt="t0"')
    (standing,) = device.registry.registrations()
    assert standing.lifetime_s == 600
    assert standing.owner == (None if way == "register" else "psk:meter")


async def test_a_device_without_links_is_told_so_and_not_registered(device: Device) -> None:
    device.links.answer = Message(code=Code.NOT_FOUND)
    answer = await device.register()
    assert answer.code == Code.GATEWAY_TIMEOUT
    assert b"no links from coap://127.0.0.1:" in answer.payload
    assert not len(device.registry)


async def test_links_that_are_none_are_refused_with_what_is_wrong(device: Device) -> None:
    device.links.answer = Message(code=Code.CONTENT, payload=b"<a", content_format=40)
    answer = await device.register()
    assert answer.code == Code.BAD_GATEWAY
    assert b"the registrant's links" in answer.payload


async def test_a_name_that_is_taken_is_refused_before_the_device_is_asked(device: Device) -> None:
    assert (await device.register_in_a_session()).code == Code.CHANGED
    asked = device.links.asked
    assert (await device.register()).code == Code.FORBIDDEN
    assert device.links.asked == asked

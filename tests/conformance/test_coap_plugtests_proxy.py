"""ETSI's plugtests of CoAP for a reverse proxy, step by step: CORE 24 to 29 of the plan of 2012.

The proxy is a gateway, and the server is another one, whose resources stand below ``/q`` of the
first. The plan of 2012 alone has them, that of 2014 goes from CORE 23 to 31, and no edition that
was found has a CORE 30.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import remote_fleet
from aiocoap import Code, Message, error, resource
from coap_plug import Plug

TEXT, XML = 0, 41
AT_SERVER = "Uri-Path:q Uri-Path:campus Uri-Path:north Uri-Path:gw-north"
LOCATED = "Location-Path:q Location-Path:campus Location-Path:north Location-Path:gw-north"


class Server(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Each resource of the server: it notes what reaches it, and says its ETag itself."""

    def __init__(self, payload: bytes | None = b"content") -> None:
        super().__init__()
        self.payload = payload
        self.asked: list[Any] = []

    @property
    def etag(self) -> bytes:
        return hashlib.blake2b(self.payload or b"", digest_size=4).digest()

    async def render_get(self, request: Message) -> Message:
        self.asked.append(request)
        if self.payload is None:
            raise error.NotFound
        return Message(payload=self.payload, content_format=TEXT, etag=self.etag, max_age=30)

    async def render_put(self, request: Message) -> Message:
        self.asked.append(request)
        code = Code.CREATED if self.payload is None else Code.CHANGED
        self.payload = request.payload
        return Message(code=code, etag=self.etag)

    async def render_post(self, request: Message) -> Message:
        self.asked.append(request)
        made = Message(code=Code.CREATED)
        made.opt.location_path = ("location1", "location2", "location3")
        return made


class Query(Server):
    """Makes what is found by a query."""

    async def render_post(self, request: Message) -> Message:
        self.asked.append(request)
        made = Message(code=Code.CREATED)
        made.opt.location_query = ("first=1", "second=2")
        return made


class MultiFormat(Server):
    """Exists as text and as XML."""

    async def render_get(self, request: Message) -> Message:
        self.asked.append(request)
        if request.opt.accept == XML:
            return Message(payload=b"<text/>", content_format=XML)
        return Message(payload=b"text", content_format=TEXT)


class ReverseProxy:
    """The gateway that is asked, with a client plugged to it, and the server behind it."""

    def __init__(self) -> None:
        self.fleet = remote_fleet.Fleet()
        root = self.fleet.root
        self.plug = Plug(root.site, (root.remote, root.named))
        self.plug.now = asyncio.get_running_loop().time()  # its cache has that clock
        self.play = self.plug.play

    def serve(self, path: str, served: Server) -> Server:
        """The server has this resource."""
        self.fleet.north.site.add_resource([path], served)
        return served

    @property
    def forwarded(self) -> int:
        """The number of messages that went between proxy and server."""
        return len(self.fleet.published)


@pytest.fixture
async def proxy() -> AsyncIterator[ReverseProxy]:
    made = ReverseProxy()
    yield made
    await made.plug.close()
    for node in made.fleet.nodes.values():
        await node.exchange.stop()


async def test_td_coap_core_24_post_with_several_location_path_options(proxy: ReverseProxy) -> None:
    served = proxy.serve("test", Server())
    where = "Location-Path:location1 Location-Path:location2 Location-Path:location3"
    await proxy.play(
        f"""
        > CON POST 0001 a1 {AT_SERVER} Uri-Path:test Content-Format:0 | posted
        < ACK 2.01 0001 a1 {LOCATED} {where}
        """
    )
    (came,) = served.asked
    assert (came.code, came.payload, came.opt.content_format) == (Code.POST, b"posted", TEXT)


async def test_td_coap_core_25_post_with_several_location_query_options(
    proxy: ReverseProxy,
) -> None:
    served = proxy.serve("location-query", Query())
    await proxy.play(
        f"""
        > CON POST 0001 a1 {AT_SERVER} Uri-Path:location-query Content-Format:0 | posted
        < ACK 2.01 0001 a1 Location-Query:first=1 Location-Query:second=2
        """
    )
    (came,) = served.asked
    assert (came.code, came.payload, came.opt.content_format) == (Code.POST, b"posted", TEXT)


async def test_td_coap_core_26_get_with_accept(proxy: ReverseProxy) -> None:
    served = proxy.serve("multi-format", MultiFormat())
    await proxy.play(
        f"""
        > CON GET 0001 a1 {AT_SERVER} Uri-Path:multi-format Accept:0
        < ACK 2.05 0001 a1 ETag:* Content-Format:0 | text
        > CON GET 0002 a2 {AT_SERVER} Uri-Path:multi-format Accept:41
        < ACK 2.05 0002 a2 ETag:* Content-Format:41 | <text/>
        """
    )
    assert [came.opt.accept for came in served.asked] == [TEXT, XML]


async def test_td_coap_core_27_put_with_if_match(proxy: ReverseProxy) -> None:
    served = proxy.serve("test", Server(b"version 1"))
    await proxy.play(
        f"""
        > CON GET 0001 a1 {AT_SERVER} Uri-Path:test
        < ACK 2.05 0001 a1 ETag:{{etag1}} Content-Format:0 Max-Age:30 | version 1
        > CON PUT 0002 a2 {AT_SERVER} Uri-Path:test If-Match:{{etag1}} | version 2
        < ACK 2.04 0002 a2 ETag:{{etag2}}
        """
    )
    assert proxy.plug.named["etag1"] != proxy.plug.named["etag2"] == served.etag.hex()
    served.payload = b"version 3"  # by somebody else, at the server
    await proxy.play(
        f"""
        > CON PUT 0003 a3 {AT_SERVER} Uri-Path:test If-Match:{{etag2}} | version 4
        < ACK 4.12 0003 a3...
        """
    )
    assert served.payload == b"version 3"


async def test_td_coap_core_28_put_with_if_none_match(proxy: ReverseProxy) -> None:
    served = proxy.serve("test", Server(None))
    await proxy.play(
        f"""
        > CON PUT 0001 a1 {AT_SERVER} Uri-Path:test If-None-Match | made
        < ACK 2.01 0001 a1 ETag:*
        > CON PUT 0002 a2 {AT_SERVER} Uri-Path:test If-None-Match | made again
        < ACK 4.12 0002 a2...
        """
    )
    assert served.payload == b"made"


async def test_td_coap_core_29_get_with_max_age(proxy: ReverseProxy) -> None:
    served = proxy.serve("test", Server(b"version 1"))
    await proxy.play(
        f"""
        > CON GET 0001 a1 {AT_SERVER} Uri-Path:test
        < ACK 2.05 0001 a1 ETag:{{etag1}} Content-Format:0 Max-Age:30 | version 1
        """
    )
    before = proxy.forwarded
    served.payload = b"version 2"
    await proxy.plug.wait(20)
    await proxy.play(
        f"""
        > CON GET 0002 a2 {AT_SERVER} Uri-Path:test
        < ACK 2.05 0002 a2 ETag:{{etag1}} Content-Format:0 Max-Age:{{left}} | version 1
        """
    )
    assert 10 <= int(proxy.plug.named["left"]) < 30
    assert proxy.forwarded == before
    assert len(served.asked) == 1
    await proxy.plug.wait(3_600)  # it is stale now
    await proxy.play(
        f"""
        > CON GET 0003 a3 {AT_SERVER} Uri-Path:test
        < ACK 2.05 0003 a3 ETag:{{etag2}} Content-Format:0 Max-Age:30 | version 2
        """
    )

"""RFC 9176's interfaces, asked by aiocoap's client over loopback; the clock is the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiocoap
import pytest
from aiocoap import Code, Message, error, resource

from dtls.keystore import Keystore
from gateway.coap.server import CoapListener, CoapServer
from resource_directory.exchange import DirectoryRequest, SlowLookUp
from resource_directory.link_format import parse
from resource_directory.registry import Registry, RegistryLimits
from resource_directory.resources import ResourceDirectory
from resource_directory.service import DirectoryService
from tests.policies import open_access

LINKS = b'</temp>;rt="temperature";if="sensor",</light>;rt="light";obs'


class Peer:
    """A directory on a loopback port, a client of it, and what each may change."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.writer: str | None = None
        self.registry = Registry(limits=RegistryLimits(registrations=3, links_per_registration=100))
        self.directory = ResourceDirectory(
            DirectoryService(self.registry), lambda _: self.writer, clock=lambda: self.now
        )
        self.site = resource.Site()
        self.site.add_resource(
            [".well-known", "core"], resource.WKCResource(self.site.get_resources_as_linkheader)
        )
        self.directory.add_to(self.site)
        self.client: aiocoap.Context
        self.port: int | None = None

    async def ask(
        self,
        code: Code,
        path: str,
        payload: bytes = b"",
        content_format: int | None = None,
        accept: int | None = None,
    ) -> Message:
        message = Message(
            code=code,
            uri=f"coap://127.0.0.1:{self.port}{path}",
            payload=payload,
            content_format=content_format,
            accept=accept,
        )
        return await self.client.request(message).response

    async def register(self, query: str, payload: bytes = LINKS) -> str:
        response = await self.ask(Code.POST, f"/rd?{query}", payload, 40)
        assert response.code == Code.CREATED, response.payload
        return "/" + "/".join(response.opt.location_path)

    async def hrefs(self, path: str) -> list[str]:
        response = await self.ask(Code.GET, path)
        assert (response.code, response.opt.content_format) == (Code.CONTENT, 40)
        return [link.href for link in parse(response.payload)]


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    server = CoapServer(
        peer.site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=Keystore(),
        access=open_access(),
    )
    async with server:
        peer.port = server.coap_port
        peer.client = await aiocoap.Context.create_client_context()
        yield peer
        await peer.client.shutdown()


async def test_the_interfaces_are_discovered_by_their_resource_type(peer: Peer) -> None:
    for rt, path in [
        ("core.rd", "/rd"),
        ("core.rd-lookup-res", "/rd-lookup/res"),
        ("core.rd-lookup-ep", "/rd-lookup/ep"),
    ]:
        assert await peer.hrefs(f"/.well-known/core?rt={rt}") == [path]


async def test_an_endpoint_registers_updates_is_found_and_leaves(peer: Peer) -> None:
    location = await peer.register("ep=node1&d=campus&et=meter&base=coap://node1.example")
    assert location == "/rd/1"
    for query in ("rt=temp*", "ep=node1&if=sensor", "d=campus&rt=temperature"):
        assert await peer.hrefs(f"/rd-lookup/res?{query}") == ["coap://node1.example/temp"]
    assert await peer.hrefs("/rd-lookup/ep?et=meter") == [location]
    assert (await peer.ask(Code.GET, location)).payload == LINKS
    assert (await peer.ask(Code.POST, f"{location}?lt=60")).code == Code.CHANGED
    assert await peer.hrefs("/rd-lookup/ep?lt=60") == [location]
    assert (await peer.ask(Code.DELETE, location)).code == Code.DELETED
    assert await peer.hrefs("/rd-lookup/res") == await peer.hrefs("/rd-lookup/ep") == []
    assert (await peer.ask(Code.POST, location)).code == Code.NOT_FOUND


async def test_a_registration_without_a_base_gets_the_requesters_address(peer: Peer) -> None:
    await peer.register("ep=node1")
    (temp, light) = await peer.hrefs("/rd-lookup/res")
    assert temp.startswith("coap://127.0.0.1:")
    assert temp.removesuffix("temp") == light.removesuffix("light")


async def test_a_long_registration_and_its_answer_travel_in_blocks(peer: Peer) -> None:
    links = b",".join(b'</%d>;rt="kind-%d"' % (i, i) for i in range(100))
    await peer.register("ep=node1&base=coap://h", links)
    assert await peer.hrefs("/rd-lookup/res") == [f"coap://h/{i}" for i in range(100)]
    assert await peer.hrefs("/rd-lookup/res?page=9&count=11") == ["coap://h/99"]


async def test_a_registration_expires_with_its_lifetime(peer: Peer) -> None:
    await peer.register("ep=node1&lt=60")
    peer.now += 59.9
    assert len(await peer.hrefs("/rd-lookup/res")) == 2
    peer.now += 0.1
    assert await peer.hrefs("/rd-lookup/res") == []


async def test_first_come_is_first_remembered(peer: Peer) -> None:
    peer.writer = "psk:a"
    location = await peer.register("ep=node1")
    peer.writer = "psk:b"
    assert (await peer.ask(Code.POST, "/rd?ep=node1", b"</x>", 40)).code == Code.FORBIDDEN
    assert (await peer.ask(Code.POST, location)).code == Code.FORBIDDEN
    assert (await peer.ask(Code.DELETE, location)).code == Code.FORBIDDEN
    peer.writer = "psk:a"
    assert await peer.register("ep=node1") == location


@pytest.mark.parametrize(
    ("request_parts", "code", "diagnostic"),
    [
        (("/rd", LINKS, 40), Code.BAD_REQUEST, "ep is missing"),
        (("/rd?ep=n&lt=-5", LINKS, 40), Code.BAD_REQUEST, "lt is not 1 to 4294967295: '-5'"),
        (("/rd?ep=n&lt=0", LINKS, 40), Code.BAD_REQUEST, "lt is not 1 to 4294967295: '0'"),
        (("/rd?ep=n&lt=4294967296", LINKS, 40), Code.BAD_REQUEST, "lt is not"),
        (("/rd?ep=n&ep=m", LINKS, 40), Code.BAD_REQUEST, "given twice: 'ep'"),
        (("/rd?ep=n&base=x", LINKS, 40), Code.BAD_REQUEST, "base is not SCHEME://HOST: 'x'"),
        (("/rd?ep=n", b"</a", 40), Code.BAD_REQUEST, "position 3: '>' expected"),
        (("/rd?ep=n", LINKS, 50), Code.UNSUPPORTED_CONTENT_FORMAT, "only link-format"),
        (("/rd?ep=n", b",".join([b"</a>"] * 101), 40), Code.REQUEST_ENTITY_TOO_LARGE, "more than"),
        (("/rd/7", b"", None), Code.NOT_FOUND, "no registration: '/rd/7'"),
        (("/rd/1?ep=x", b"", None), Code.BAD_REQUEST, "parameter not for a registration: 'ep'"),
        (("/rd/1", b"</a>", 40), Code.BAD_REQUEST, "an update has no payload"),
    ],
)
async def test_a_wrong_request_is_refused_with_a_diagnostic(
    peer: Peer,
    request_parts: tuple[str, bytes, int | None],
    code: Code,
    diagnostic: str,
) -> None:
    await peer.register("ep=there")
    response = await peer.ask(Code.POST, *request_parts)
    assert (response.code, response.payload[: len(diagnostic)].decode()) == (code, diagnostic)
    assert len(peer.registry) == 1


async def test_a_full_directory_says_when_to_try_again(peer: Peer) -> None:
    for i in range(3):
        await peer.register(f"ep=node{i}")
    response = await peer.ask(Code.POST, "/rd?ep=more", LINKS, 40)
    assert (response.code, response.opt.max_age) == (Code.SERVICE_UNAVAILABLE, 60)


async def test_a_look_up_that_is_wrong_is_refused(peer: Peer) -> None:
    assert (await peer.ask(Code.GET, "/rd-lookup/res?page=1")).code == Code.BAD_REQUEST
    response = await peer.ask(Code.GET, "/rd-lookup/ep", accept=60)
    assert response.code == Code.NOT_ACCEPTABLE


def asked(code: Code, payload: bytes = b"", **options: object) -> Message:
    """A request of nobody who has an address."""
    message = Message(code=code, payload=payload, **options)
    message.remote = Nowhere()
    return message


class Nowhere:
    """A peer without an address that others could use."""

    scheme, hostinfo = "coap", "h"

    @property
    def uri_base(self) -> str:
        raise error.AnonymousHost


async def test_a_look_up_that_takes_long_is_answered_when_all_was_looked_at() -> None:
    registry = Registry(limits=RegistryLimits(registrations=5_000))
    for number in range(5_000):
        registry.register(f"n{number:04}", [], 0.0, base="coap://h")
    service = DirectoryService(registry)
    path = ("rd-lookup", "ep")
    slow = service.answer(
        DirectoryRequest(int(Code.GET), path, ("ep=*", "count=1", "page=4999")), 0.0
    )
    assert isinstance(slow, SlowLookUp)
    directory = ResourceDirectory(service, lambda _: None, clock=lambda: 0.0)
    request = asked(Code.GET, uri_query=("ep=*", "count=1", "page=4999"))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(count())
    answer = await directory.respond(request, path)
    others.cancel()
    assert [link.get("ep") for link in parse(answer.payload)] == ["n4999"]
    assert turns > 1, "others have their turns meanwhile"


async def test_who_has_no_address_has_to_name_a_base() -> None:
    directory = ResourceDirectory(DirectoryService(Registry()), lambda _: None, clock=lambda: 0.0)
    request = asked(Code.POST, LINKS, uri_query=("ep=n",), content_format=40)
    refused = await directory.respond(request, ("rd",))
    assert (refused.code, refused.payload) == (Code.BAD_REQUEST, b"base is missing")
    request.opt.uri_query = ("ep=n", "base=coap://h")
    assert (await directory.respond(request, ("rd",))).code == Code.CREATED


async def test_simple_registration_is_not_offered_by_a_site_that_can_not_ask_back() -> None:
    directory = ResourceDirectory(DirectoryService(Registry()), lambda _: None, clock=lambda: 0.0)
    request = asked(Code.POST, uri_query=("ep=n",))
    request.remote = type("Known", (), {"uri_base": "coap://[2001:db8::1]"})()
    answer = await directory.respond(request, (".well-known", "rd"))
    assert (answer.code, answer.payload) == (Code.NOT_IMPLEMENTED, b"")


async def test_a_body_is_refused_with_the_block_that_makes_it_too_long() -> None:
    service = DirectoryService(Registry())
    site = resource.Site()
    ResourceDirectory(service, lambda _: None).add_to(site)
    blocks = service.payload_bytes_max // 1_024
    last = asked(Code.POST, bytes(1_024), uri_path=("rd",), block1=(blocks - 1, True, 6))
    assert await site.needs_blockwise_assembly(last)
    over = asked(Code.POST, b"x", uri_path=("rd",), block1=(blocks, False, 6))
    with pytest.raises(error.RequestEntityTooLarge, match=str(service.payload_bytes_max)):
        await site.needs_blockwise_assembly(over)

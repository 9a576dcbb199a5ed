"""ETSI's plugtests of CoAP, step by step, for the server's side: CORE, LINK, BLOCK and OBS.

Each test has the name of its description (TD_COAP_CORE_01, ...), as the plugtests of 2012 to 2014
had them. What a client is to show there is what it is sent here. Those of a reverse proxy are in
`test_coap_plugtests_proxy`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import test_coap_plugtests_proxy
from aiocoap import Code, Message, error, resource
from coap_plug import EACH_CONFIRMED, Plug

from coap_engine.observation import ConfirmRules
from gateway.coap.well_known import CountedSite, WellKnownCore

TEXT, LINKS, XML = 0, 40, 41
CORE = (*range(1, 30), 31)
LINK = range(1, 11)
BLOCK = range(1, 7)
OBS = (1, 2, *range(4, 15))
"""The numbers of the descriptions. Only that of 2012 has LINK 10, and that of 2014 has no OBS 3."""
LARGE = "".join(f"line-{number:03d};" for number in range(140))  # 1,260 bytes
UNCONFIRMED = ConfirmRules()


class Test(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Takes all four methods."""

    __test__ = False

    def __init__(self, payload: str = "content") -> None:
        super().__init__()
        self.payload = payload.encode()
        self.received: list[bytes] = []

    async def render_get(self, _request: Message) -> Message:
        return Message(payload=self.payload, content_format=TEXT)

    async def render_put(self, request: Message) -> Message:
        self.received.append(request.payload)
        self.payload = request.payload
        return Message(code=Code.CHANGED)

    async def render_post(self, request: Message) -> Message:
        self.received.append(request.payload)
        made = Message(code=Code.CREATED)
        made.opt.location_path = ("location1", "location2", "location3")
        return made

    async def render_delete(self, _request: Message) -> Message:
        return Message(code=Code.DELETED)


class Separate(Test):
    """Is not served until it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def render_get(self, request: Message) -> Message:
        await self.may_answer.wait()
        return await super().render_get(request)


class Query(Test):
    """Tells what it was asked with, and makes what is found by a query."""

    async def render_get(self, request: Message) -> Message:
        return Message(payload="&".join(request.opt.uri_query).encode(), content_format=TEXT)

    async def render_post(self, _request: Message) -> Message:
        made = Message(code=Code.CREATED)
        made.opt.location_query = ("first=1", "second=2")
        return made


class MultiFormat(resource.Resource):  # type: ignore[misc]  # as above
    """Exists as text and as XML."""

    async def render_get(self, request: Message) -> Message:
        if request.opt.accept == XML:
            return Message(payload=b"<text/>", content_format=XML)
        return Message(payload=b"text", content_format=TEXT)


class Create(Test):
    """Does not exist before it is put."""

    is_there = False

    async def render_get(self, request: Message) -> Message:
        if not self.is_there:
            raise error.NotFound
        return await super().render_get(request)

    async def render_put(self, request: Message) -> Message:
        was_there, self.is_there = self.is_there, True
        changed = await super().render_put(request)
        return changed if was_there else Message(code=Code.CREATED)


class LargeCreate(resource.Resource):  # type: ignore[misc]  # as above
    """Makes what is posted, one path below."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[tuple[str, ...], bytes] = {}

    async def render_post(self, request: Message) -> Message:
        self.made["1",] = request.payload
        created = Message(code=Code.CREATED)
        created.opt.location_path = ("large-create", "1")
        return created


class Made(resource.Resource, resource.PathCapable):  # type: ignore[misc]  # as above
    """All that was made by another one."""

    def __init__(self, maker: LargeCreate) -> None:
        super().__init__()
        self._maker = maker

    async def render_get(self, request: Message) -> Message:
        return Message(payload=self._maker.made[request.opt.uri_path], content_format=TEXT)


class LargePost(resource.Resource):  # type: ignore[misc]  # as above
    """Answers what it was sent, in capitals."""

    async def render_post(self, request: Message) -> Message:
        return Message(code=Code.CHANGED, payload=request.payload.upper(), content_format=TEXT)


class Obs(resource.ObservableResource):  # type: ignore[misc]  # as above
    """Changes when it is told to, or put."""

    def __init__(self) -> None:
        super().__init__()
        self.payload, self.form = b"0", TEXT
        self.is_there = True

    def change(self, payload: str, form: int = TEXT) -> None:
        self.payload, self.form = payload.encode(), form
        self.updated_state()

    async def render_get(self, _request: Message) -> Message:
        if not self.is_there:
            raise error.NotFound
        return Message(payload=self.payload, content_format=self.form)

    async def render_put(self, request: Message) -> Message:
        self.change(request.payload.decode(), request.opt.content_format or TEXT)
        return Message(code=Code.CHANGED)

    async def render_delete(self, _request: Message) -> Message:
        self.is_there = False
        self.updated_state()
        return Message(code=Code.DELETED)


class Described(Test):
    """Has the attributes of a link."""

    def __init__(self, payload: str = "content", form: int = TEXT, **attributes: str) -> None:
        super().__init__(payload)
        self._form = form
        self._attributes = attributes

    async def render_get(self, _request: Message) -> Message:
        return Message(payload=self.payload, content_format=self._form)

    def get_link_description(self) -> dict[str, str]:
        return {name.rstrip("_"): value for name, value in self._attributes.items()}


class Server:
    """The server of the plan."""

    def __init__(self) -> None:
        self.site = CountedSite()
        self.test, self.separate, self.obs = Test(), Separate(), Obs()
        self.update, self.create, self.validate = Test(), LargeCreate(), Test("version 1")
        self.plugs: list[Plug] = []
        for path, served in {
            "test": self.test,
            "separate": self.separate,
            "seg1/seg2/seg3": Test("in three segments"),
            "query": Query(),
            "location-query": Query(),
            "multi-format": MultiFormat(),
            "validate": self.validate,
            "create1": Create(),
            "large": Test(LARGE),
            "large-update": self.update,
            "large-create": self.create,
            "large-post": LargePost(),
            "obs": self.obs,
        }.items():
            self.site.add_resource(path.split("/"), served)
        self.site.add_resource(("large-create",), Made(self.create))

    def plug(self, confirm: ConfirmRules = EACH_CONFIRMED) -> Plug:
        """A client is plugged to it."""
        core = WellKnownCore(self.site)
        self.plugs.append(Plug(self.site, (core,), confirm))
        return self.plugs[-1]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    yield made
    made.separate.may_answer.set()
    for plug in made.plugs:
        await plug.close()


# -- CORE: RFC 7252 --------------------------------------------------------------------------------


async def test_td_coap_core_01_get_con(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 a1 Uri-Path:test
        < ACK 2.05 0001 a1 ETag:* Content-Format:0 | content
        """
    )


async def test_td_coap_core_02_delete_con(server: Server) -> None:
    await server.plug().play(
        """
        > CON DELETE 0001 a1 Uri-Path:test
        < ACK 2.02 0001 a1
        """
    )


async def test_td_coap_core_03_put_con(server: Server) -> None:
    await server.plug().play(
        """
        > CON PUT 0001 a1 Uri-Path:test Content-Format:0 | updated
        < ACK 2.04 0001 a1
        """
    )
    assert server.test.received == [b"updated"]


async def test_td_coap_core_04_post_con(server: Server) -> None:
    await server.plug().play(
        """
        > CON POST 0001 a1 Uri-Path:test Content-Format:0 | posted
        < ACK 2.01 0001 a1 Location-Path:*...
        """
    )
    assert server.test.received == [b"posted"]


async def test_td_coap_core_05_get_non(server: Server) -> None:
    await server.plug().play(
        """
        > NON GET 0001 a1 Uri-Path:test
        < NON 2.05 * a1 ETag:* Content-Format:0 | content
        """
    )


async def test_td_coap_core_06_delete_non(server: Server) -> None:
    await server.plug().play(
        """
        > NON DELETE 0001 a1 Uri-Path:test
        < NON 2.02 * a1
        """
    )


async def test_td_coap_core_07_put_non(server: Server) -> None:
    await server.plug().play(
        """
        > NON PUT 0001 a1 Uri-Path:test Content-Format:0 | updated
        < NON 2.04 * a1
        """
    )
    assert server.test.received == [b"updated"]


async def test_td_coap_core_08_post_non(server: Server) -> None:
    await server.plug().play(
        """
        > NON POST 0001 a1 Uri-Path:test Content-Format:0 | posted
        < NON 2.01 * a1 Location-Path:*...
        """
    )
    assert server.test.received == [b"posted"]


async def _separately(server: Server, token: str) -> None:
    plug = server.plug()
    await plug.play(f"> CON GET 0001 {token} Uri-Path:separate")
    await plug.wait(2)
    await plug.play("< ACK 0.00 0001 -\n<-")
    server.separate.may_answer.set()
    await plug.play(
        f"""
        < CON 2.05 {{smid}} {token} ETag:* Content-Format:0 | content
        > ACK 0.00 {{smid}} -
        """
    )
    await plug.wait(300)
    await plug.play("<-")


async def test_td_coap_core_09_get_with_a_separate_response(server: Server) -> None:
    await _separately(server, "a1")


async def test_td_coap_core_10_get_with_a_token(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 0102030405060708 Uri-Path:test
        < ACK 2.05 0001 0102030405060708 ETag:* Content-Format:0 | content
        > CON GET 0002 01 Uri-Path:test
        < ACK 2.05 0002 01 ETag:* Content-Format:0 | content
        """
    )


async def test_td_coap_core_11_get_with_a_token_and_a_separate_response(server: Server) -> None:
    await _separately(server, "0102030405060708")


async def test_td_coap_core_12_get_with_an_empty_token(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 - Uri-Path:test
        < ACK 2.05 0001 - ETag:* Content-Format:0 | content
        """
    )


async def test_td_coap_core_13_get_with_several_uri_path_options(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 a1 Uri-Path:seg1 Uri-Path:seg2 Uri-Path:seg3
        < ACK 2.05 0001 a1 ETag:* Content-Format:0 | in three segments
        """
    )


async def test_td_coap_core_14_get_with_several_uri_query_options(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 a1 Uri-Path:query Uri-Query:first=1 Uri-Query:second=2 Uri-Query:third=3
        < ACK 2.05 0001 a1 ETag:* Content-Format:0 | first=1&second=2&third=3
        """
    )


async def test_td_coap_core_15_get_in_a_lossy_context(server: Server) -> None:
    """A request that was lost never came; one whose response was lost comes again."""
    await server.plug().play(
        """
        > CON GET 0001 a1 Uri-Path:test
        < ACK 2.05 0001 a1 ETag:{tag} Content-Format:0 | content
        > CON GET 0001 a1 Uri-Path:test
        < ACK 2.05 0001 a1 ETag:{tag} Content-Format:0 | content
        <-
        """
    )


async def test_td_coap_core_16_a_delayed_response_in_a_lossy_context(server: Server) -> None:
    plug = server.plug()
    await plug.play("> CON GET 0001 a1 Uri-Path:separate")
    await plug.wait(1)
    # The acknowledgement was lost: the request comes again, and is acknowledged again.
    await plug.play(
        """
        < ACK 0.00 0001 -
        > CON GET 0001 a1 Uri-Path:separate
        < ACK 0.00 0001 -
        """
    )
    server.separate.may_answer.set()
    await plug.play("< CON 2.05 {smid} a1 ETag:* Content-Format:0 | content")
    # The response, or its acknowledgement, was lost: it comes again until it is acknowledged.
    await plug.wait(3)
    await plug.play("< CON 2.05 {smid} a1 ETag:* Content-Format:0 | content\n<-")
    await plug.play("> ACK 0.00 {smid} -")
    await plug.wait(300)
    await plug.play("<-")


async def test_td_coap_core_17_a_separate_response_to_non(server: Server) -> None:
    plug = server.plug()
    await plug.play("> NON GET 0001 a1 Uri-Path:separate")
    await plug.wait(2)
    await plug.play("<-")
    server.separate.may_answer.set()
    await plug.play("< NON 2.05 * a1 ETag:* Content-Format:0 | content")


async def test_td_coap_core_18_post_with_several_location_path_options(server: Server) -> None:
    where = "Location-Path:location1 Location-Path:location2 Location-Path:location3"
    await server.plug().play(
        f"""
        > CON POST 0001 a1 Uri-Path:test Content-Format:0 | posted
        < ACK 2.01 0001 a1 {where}
        """
    )


async def test_td_coap_core_19_post_with_several_location_query_options(server: Server) -> None:
    await server.plug().play(
        """
        > CON POST 0001 a1 Uri-Path:location-query Content-Format:0 | posted
        < ACK 2.01 0001 a1 Location-Query:first=1 Location-Query:second=2
        """
    )


async def test_td_coap_core_20_get_with_accept(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 a1 Uri-Path:multi-format Accept:0
        < ACK 2.05 0001 a1 ETag:* Content-Format:0 | text
        > CON GET 0002 a2 Uri-Path:multi-format Accept:41
        < ACK 2.05 0002 a2 ETag:* Content-Format:41 | <text/>
        """
    )


async def test_td_coap_core_21_get_with_etag(server: Server) -> None:
    plug = server.plug()
    await plug.play(
        """
        > CON GET 0001 a1 Uri-Path:validate
        < ACK 2.05 0001 a1 ETag:{etag1} Content-Format:0 | version 1
        > CON GET 0002 a2 Uri-Path:validate ETag:{etag1}
        < ACK 2.03 0002 a2 ETag:{etag1}
        > CON PUT 0003 a3 Uri-Path:validate Content-Format:0 | version 2
        < ACK 2.04 0003 a3
        > CON GET 0004 a4 Uri-Path:validate ETag:{etag1}
        < ACK 2.05 0004 a4 ETag:{etag2} Content-Format:0 | version 2
        """
    )
    assert plug.named["etag1"] != plug.named["etag2"]


async def test_td_coap_core_22_put_with_if_match(server: Server) -> None:
    await server.plug().play(
        """
        > CON GET 0001 a1 Uri-Path:validate
        < ACK 2.05 0001 a1 ETag:{etag1} Content-Format:0 | version 1
        > CON PUT 0002 a2 Uri-Path:validate If-Match:{etag1} Content-Format:0 | version 2
        < ACK 2.04 0002 a2
        > CON GET 0003 a3 Uri-Path:validate
        < ACK 2.05 0003 a3 ETag:{etag2} Content-Format:0 | version 2
        > CON PUT 0004 a4 Uri-Path:validate Content-Format:0 | version 3
        < ACK 2.04 0004 a4
        > CON PUT 0005 a5 Uri-Path:validate If-Match:{etag2} Content-Format:0 | version 4
        < ACK 4.12 0005 a5...
        """
    )
    assert server.validate.payload == b"version 3"


async def test_td_coap_core_23_put_with_if_none_match(server: Server) -> None:
    await server.plug().play(
        """
        > CON PUT 0001 a1 Uri-Path:create1 If-None-Match Content-Format:0 | made
        < ACK 2.01 0001 a1
        > CON PUT 0002 a2 Uri-Path:create1 If-None-Match Content-Format:0 | made again
        < ACK 4.12 0002 a2...
        > CON GET 0003 a3 Uri-Path:create1
        < ACK 2.05 0003 a3 ETag:* Content-Format:0 | made
        """
    )


async def test_td_coap_core_31_ping(server: Server) -> None:
    await server.plug().play(
        """
        > CON 0.00 0001 -
        < RST 0.00 0001 -
        """
    )


# -- LINK: RFC 6690 --------------------------------------------------------------------------------


class Links:
    """A server of links, and what is found among them."""

    def __init__(self, server: Server, **served: Any) -> None:
        server.site = CountedSite()
        self._plug = server.plug()
        self._number = 0
        for path, each in served.items():
            server.site.add_resource(path.split("_"), each)

    async def found(self, *queries: str, path: str = ".well-known/core") -> list[str]:
        """The targets of the links that come for a query."""
        self._number += 1
        options = " ".join(f"Uri-Path:{one}" for one in path.split("/"))
        options += "".join(f" Uri-Query:{one}" for one in queries)
        await self._plug.play(
            f"""
            > CON GET {self._number:04x} a1 {options}
            < ACK 2.05 {self._number:04x} a1 ETag:* Content-Format:40...
            """
        )
        came = self._plug.last.payload
        return [link.partition(">")[0][1:] for link in came.split(",") if link]


async def test_td_coap_link_01_access_to_the_well_known_interface(server: Server) -> None:
    links = Links(server, test=Described(), other=Described())
    assert await links.found() == ["/test", "/other"]


async def test_td_coap_link_02_filtered_requests(server: Server) -> None:
    links = Links(server, one=Described(rt="Type1"), two=Described(rt="Type2"))
    assert await links.found("rt=Type1") == ["/one"]


async def test_td_coap_link_03_empty_prefix_value_strings(server: Server) -> None:
    links = Links(
        server, one=Described(rt="Type1"), two=Described(rt="Type2"), none=Described(if_="a")
    )
    assert await links.found("rt=*") == ["/one", "/two"]


async def test_td_coap_link_04_multiple_rt_attributes(server: Server) -> None:
    links = Links(
        server,
        one=Described(rt="Type1 Type2"),
        two=Described(rt="Type2 Type3"),
        three=Described(rt="Type1 Type3"),
        four=Described(rt=""),
    )
    assert await links.found("rt=Type2") == ["/one", "/two"]


async def test_td_coap_link_05_if_and_prefix_value_strings(server: Server) -> None:
    links = Links(
        server,
        one=Described(if_="If1"),
        two=Described(if_="If2"),
        three=Described(if_="foo"),
        four=Described(rt="If1"),
    )
    assert await links.found("if=If*") == ["/one", "/two"]


async def test_td_coap_link_06_sz_and_prefix_value_strings(server: Server) -> None:
    links = Links(server, one=Described(sz="100"), two=Described(sz="2000"), three=Described())
    assert await links.found("sz=*") == ["/one", "/two"]


async def test_td_coap_link_07_href_and_complete_value_strings(server: Server) -> None:
    links = Links(server, link1=Described(), link2=Described(), link3=Described())
    assert await links.found("href=/link1") == ["/link1"]
    assert await links.found("href=/lin%6B1") == ["/link1"]


async def test_td_coap_link_08_href_and_prefix_value_strings(server: Server) -> None:
    links = Links(server, link1=Described(), link2=Described(), link3=Described(), test=Described())
    assert await links.found("href=/link*") == ["/link1", "/link2", "/link3"]


async def test_td_coap_link_09_link_descriptions_that_are_arranged_hierarchically(
    server: Server,
) -> None:
    below = "</path/sub1>,</path/sub2>"
    links = Links(
        server,
        path=Described(below, LINKS, ct="40"),
        path_sub1=Described("/path/sub1"),
        path_sub2=Described("/path/sub2"),
    )
    assert await links.found("ct=40") == ["/path"]
    assert await links.found(path="path") == ["/path/sub1", "/path/sub2"]
    await server.plugs[-1].play(
        """
        > CON GET 1001 a1 Uri-Path:path Uri-Path:sub1
        < ACK 2.05 1001 a1 ETag:* Content-Format:0 | /path/sub1
        """
    )


async def test_td_coap_link_10_an_alternate_link(server: Server) -> None:
    links = Links(
        server,
        test=Described("the resource"),
        alternate=Described("the resource", rel="alternate", anchor="/test"),
    )
    assert await links.found("anchor=/test", "rel=alternate") == ["/alternate"]
    assert '</alternate>;rel="alternate";anchor="/test"' in server.plugs[-1].last.payload
    await server.plugs[-1].play(
        """
        > CON GET 1001 a1 Uri-Path:alternate
        < ACK 2.05 1001 a1 ETag:* Content-Format:0 | the resource
        """
    )


# -- BLOCK: RFC 7959 -------------------------------------------------------------------------------


async def get_in_blocks(plug: Plug, size: int, *, first: int = 0) -> str:
    """Get the large resource, from a block on; each has the size and the number that is asked."""
    got, number, tag = "", first, "*"
    while True:
        offset = number * size
        more = int(offset + size < len(LARGE))
        length = f" Size2:{len(LARGE)}" if not number else ""
        await plug.play(
            f"""
            > CON GET {number:04x} a1 Uri-Path:large Block2:{number}/0/{size}
            < ACK 2.05 {number:04x} a1 ETag:{tag} Content-Format:0 Block2:{number}/{more}/{size}{length} | ...
            """  # noqa: E501
        )
        block = plug.last.payload
        tag = dict(plug.last.options)["ETag"]
        assert len(block) == size if more else len(block) <= size
        got += block
        if not more:
            return got
        number += 1


async def test_td_coap_block_01_get_with_early_negotiation(server: Server) -> None:
    assert await get_in_blocks(server.plug(), 64) == LARGE


async def test_td_coap_block_02_get_with_late_negotiation(server: Server) -> None:
    plug = server.plug()
    await plug.play(
        f"""
        > CON GET 1001 a1 Uri-Path:large
        < ACK 2.05 1001 a1 ETag:* Content-Format:0 Block2:0/1/1024 Size2:{len(LARGE)} | ...
        """
    )
    first = plug.last.payload
    assert len(first) == 1024
    assert first + await get_in_blocks(plug, 64, first=1024 // 64) == LARGE


async def send_in_blocks(plug: Plug, method: str, path: str, answer: str) -> None:
    """Send the large content in blocks of 128 bytes; the last one has the answer."""
    size = 128
    blocks = [LARGE[at : at + size] for at in range(0, len(LARGE), size)]
    for number, block in enumerate(blocks):
        more = int(number < len(blocks) - 1)
        said = "2.31" if more else answer
        head = said.partition(" ")
        plug.send_text(
            f"CON {method} {number:04x} a1 Uri-Path:{path} Content-Format:0"
            f" Block1:{number}/{more}/{size}",
            block,
        )
        options = f" {head[2]}".rstrip()
        if "Block1" not in options:
            options += f" Block1:{number}/{more}/{size}"
        await plug.play(f"< ACK {head[0]} {number:04x} a1{options}")


async def test_td_coap_block_03_put_of_a_large_resource(server: Server) -> None:
    await send_in_blocks(server.plug(), "PUT", "large-update", "2.04")
    assert server.update.received == [LARGE.encode()]


async def test_td_coap_block_04_post_that_creates_a_large_resource(server: Server) -> None:
    plug = server.plug()
    await send_in_blocks(
        plug, "POST", "large-create", "2.01 Location-Path:large-create Location-Path:1"
    )
    assert server.create.made == {("1",): LARGE.encode()}
    await plug.play(
        f"""
        > CON GET 1001 a1 Uri-Path:large-create Uri-Path:1
        < ACK 2.05 1001 a1 ETag:* Content-Format:0 Block2:0/1/1024 Size2:{len(LARGE)} | ...
        """
    )


async def test_td_coap_block_05_post_with_blocks_both_ways(server: Server) -> None:
    plug, last = server.plug(), (len(LARGE) - 1) // 128
    await send_in_blocks(
        plug,
        "POST",
        "large-post",
        f"2.04 Content-Format:0 Block2:0/1/1024 Block1:{last}/0/128 Size2:{len(LARGE)} | ...",
    )
    got = plug.last.payload
    for number in range(1024 // 128, last + 1):
        more = int(number < last)
        await plug.play(
            f"""
            > CON POST 10{number:02x} a1 Uri-Path:large-post Content-Format:0 Block2:{number}/0/128
            < ACK 2.04 10{number:02x} a1 Content-Format:0 Block2:{number}/{more}/128 | ...
            """
        )
        got += plug.last.payload
    assert got == LARGE.upper()


async def test_td_coap_block_06_get_with_blocks_of_16_bytes(server: Server) -> None:
    assert await get_in_blocks(server.plug(), 16) == LARGE


# -- OBS: RFC 7641 ---------------------------------------------------------------------------------


class Observer:
    """Observes ``/obs`` with the token ``a1``; what is told is acknowledged."""

    def __init__(self, server: Server, plug: Plug) -> None:
        self.server = server
        self.plug = plug
        self.number = -1

    async def register(self, message_id: str = "0001") -> None:
        await self.plug.play(
            f"""
            > CON GET {message_id} a1 Observe:0 Uri-Path:obs
            < ACK 2.05 {message_id} a1 ETag:* Observe:{{number}} Content-Format:0 | ...
            """
        )
        self.number = int(self.plug.named.pop("number"))

    async def told(self, payload: str, *, acknowledged: bool = True) -> None:
        """The next notification, with a greater number; it is acknowledged."""
        await self.plug.play(
            f"< CON 2.05 {{smid}} a1 ETag:* Observe:{{number}} Content-Format:0 | {payload}"
        )
        number = int(self.plug.named.pop("number"))
        assert number > self.number
        self.number = number
        if acknowledged:
            await self.plug.play("> ACK 0.00 {smid} -")
            del self.plug.named["smid"]

    async def follow(self) -> None:
        """Observe, and be told twice."""
        await self.register()
        for value in ("1", "2"):
            await self.plug.wait(5)
            self.server.obs.change(value)
            await self.told(value)

    async def told_nothing(self) -> None:
        """Whatever changes from now on."""
        self.server.obs.change("unheard")
        await self.plug.wait(300)
        await self.plug.play("<-")


@pytest.fixture
async def observer(server: Server) -> Observer:
    return Observer(server, server.plug())


async def test_td_coap_obs_01_observation_with_con(observer: Observer) -> None:
    await observer.follow()


async def test_td_coap_obs_02_observation_with_non(server: Server) -> None:
    plug = server.plug(UNCONFIRMED)
    await plug.play(
        """
        > NON GET 0001 a1 Observe:0 Uri-Path:obs
        < NON 2.05 * a1 ETag:* Observe:{first} Content-Format:0 | 0
        """
    )
    numbers = [int(plug.named["first"])]
    for value in ("1", "2", "3"):
        await plug.wait(5)
        server.obs.change(value)
        await plug.play(f"< NON 2.05 * a1 ETag:* Observe:{{next}} Content-Format:0 | {value}")
        numbers.append(int(plug.named.pop("next")))
    assert numbers == sorted(set(numbers))


async def test_td_coap_obs_04_registration_again_after_the_server_has_lost_it(
    server: Server, observer: Observer
) -> None:
    await observer.follow()
    again = Observer(server, server.plug())  # the server is started anew
    server.obs.change("unheard")
    await again.plug.play("<-")
    await again.register("0002")
    server.obs.change("3")
    await again.told("3")


async def test_td_coap_obs_05_the_client_is_switched_off(observer: Observer) -> None:
    await observer.follow()
    observer.server.obs.change("3")
    await observer.told("3", acknowledged=False)
    numbers = [observer.number]
    for value in ("4", "5", "6"):  # what is repeated is the newest, with a number of its own
        observer.server.obs.change(value)
        await observer.plug.settle()
    for _ in range(4):
        while not observer.plug.has_come:
            await observer.plug.wait(1)
        await observer.plug.play("< CON 2.05 * a1 ETag:* Observe:{number} Content-Format:0... | 6")
        numbers.append(int(observer.plug.named.pop("number")))
    assert numbers[1] > numbers[0]
    await observer.plug.wait(300)
    await observer.plug.play("<-")
    await observer.told_nothing()


async def test_td_coap_obs_06_the_client_says_reset(observer: Observer) -> None:
    await observer.follow()
    observer.server.obs.change("3")
    await observer.told("3", acknowledged=False)
    await observer.plug.play("> RST 0.00 {smid} -")
    await observer.told_nothing()


async def test_td_coap_obs_07_the_resource_is_deleted(observer: Observer) -> None:
    await observer.follow()
    await observer.plug.play("> CON DELETE 0009 b1 Uri-Path:obs")
    came = sorted([await observer.plug.take(), await observer.plug.take()], key=str)
    assert [(one.kind, one.code, one.token) for one in came] == [
        ("ACK", "2.02", "b1"),
        ("CON", "4.04", "a1"),
    ]
    assert "Observe" not in dict(came[1].options)
    await observer.plug.play(f"> ACK 0.00 {came[1].message_id} -")
    await observer.told_nothing()


async def test_td_coap_obs_08_the_content_format_changes(observer: Observer) -> None:
    await observer.follow()
    observer.server.obs.change("{}", 50)
    await observer.plug.play("< CON 4.06 {smid} a1 | ...\n> ACK 0.00 {smid} -")
    await observer.told_nothing()


async def test_td_coap_obs_09_the_resource_is_updated(observer: Observer) -> None:
    await observer.follow()
    await observer.plug.play("> CON PUT 0009 b1 Uri-Path:obs Content-Format:0 | new")
    came = sorted([await observer.plug.take(), await observer.plug.take()], key=str)
    assert [(one.kind, one.code, one.token, one.payload) for one in came] == [
        ("ACK", "2.04", "b1", ""),
        ("CON", "2.05", "a1", "new"),
    ]
    assert int(dict(came[1].options)["Observe"]) > observer.number


async def test_td_coap_obs_10_get_ends_no_observation(observer: Observer) -> None:
    await observer.follow()
    await observer.plug.play(
        """
        > CON GET 0009 b1 Uri-Path:obs
        < ACK 2.05 0009 b1 ETag:* Content-Format:0 | 2
        """
    )
    observer.server.obs.change("3")
    await observer.told("3")


async def test_td_coap_obs_11_observation_with_con_in_a_lossy_context(observer: Observer) -> None:
    """However long one takes, there is never another one under way."""
    await observer.follow()
    observer.server.obs.change("3")
    await observer.told("3", acknowledged=False)
    observer.server.obs.change("4")
    await observer.plug.play("<-")
    while not observer.plug.has_come:  # it was lost: what comes in its place is the newest
        await observer.plug.wait(1)
    await observer.plug.play("< CON 2.05 {smid2} a1 ETag:* Observe:* Content-Format:0... | 4\n<-")
    await observer.plug.play("> ACK 0.00 {smid2} -")
    observer.server.obs.change("5")
    await observer.plug.play("< CON 2.05 * a1 ETag:* Observe:* Content-Format:0... | 5")


async def test_td_coap_obs_12_get_with_observe_1_ends_the_observation(observer: Observer) -> None:
    await observer.follow()
    await observer.plug.play(
        """
        > CON GET 0009 a1 Observe:1 Uri-Path:obs
        < ACK 2.05 0009 a1 ETag:* Content-Format:0 | 2
        """
    )
    await observer.told_nothing()


async def told_in_blocks(plug: Plug, message_id: int, body: str, register: bool = False) -> None:
    """Be told the first block of a body, and get the others by its ETag (RFC 7959, section 2.6)."""
    asked = f"{message_id:04x}"
    more = int(len(body) > 1024)
    block = f" Block2:0/{more}/1024..." if more else "..."
    if register:
        await plug.play(f"> CON GET {asked} a1 Observe:0 Uri-Path:obs")
    kind = f"ACK 2.05 {asked}" if register else "CON 2.05 {smid}"
    await plug.play(f"< {kind} a1 ETag:* Observe:* Content-Format:0{block} | {body[:1024]}")
    tag = dict(plug.last.options)["ETag"]
    if not register:
        await plug.play("> ACK 0.00 {smid} -")
        del plug.named["smid"]
    if more:
        asked = f"{message_id + 1:04x}"
        await plug.play(
            f"""
            > CON GET {asked} b1 Uri-Path:obs Block2:1/0/1024
            < ACK 2.05 {asked} b1 ETag:{tag} Content-Format:0 Block2:1/0/1024 | {body[1024:]}
            """
        )


async def test_td_coap_obs_13_observation_of_a_large_resource(server: Server) -> None:
    plug = server.plug()
    server.obs.change(LARGE)
    await told_in_blocks(plug, 0x10, LARGE, register=True)
    for number, body in enumerate((LARGE.upper(), LARGE[::-1]), start=2):
        await plug.wait(5)
        server.obs.change(body)
        await told_in_blocks(plug, 0x10 * number, body)


async def test_td_coap_obs_14_observation_of_a_large_resource_of_variable_size(
    server: Server,
) -> None:
    plug = server.plug()
    server.obs.change(LARGE)
    await told_in_blocks(plug, 0x10, LARGE, register=True)
    for number, body in enumerate(("small", LARGE + "more", LARGE[:1100]), start=2):
        await plug.wait(5)
        server.obs.change(body)
        await told_in_blocks(plug, 0x10 * number, body)


# -- the plan --------------------------------------------------------------------------------------


def test_each_description_of_the_plan_has_a_test() -> None:
    plan = {"core": CORE, "link": LINK, "block": BLOCK, "obs": OBS}
    names = [f"test_td_coap_{kind}_{number:02d}_" for kind in plan for number in plan[kind]]
    tests: list[Callable[..., Any]] = [
        each
        for name, each in (*globals().items(), *vars(test_coap_plugtests_proxy).items())
        if name.startswith("test_td_")
    ]
    found = sorted(test.__name__[: len("test_td_coap_core_01_")] for test in tests)
    assert len(found) == len(names) == 59
    for name in names:
        assert len([test for test in tests if test.__name__.startswith(name)]) == 1, name

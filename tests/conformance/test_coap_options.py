"""Each option that the engine knows, on each way to a resource, with each method.

What is expected stands in `coap_options_table`, and on the page that is made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from coap_options_table import NO_MEANS, PAGE, ROWS, WAYS, page
from coap_ways import LAMP, LONG, METHODS, READS, Answer, Way, World, stranger, way

from coap_engine import codes, option_numbers
from coap_engine.blocks import Block
from coap_engine.message import Option
from coap_engine.option_numbers import (
    ACCEPT,
    BLOCK1,
    BLOCK2,
    CONTENT_FORMAT,
    ECHO,
    ETAG,
    HOP_LIMIT,
    IF_MATCH,
    IF_NONE_MATCH,
    NO_RESPONSE,
    OBSERVE,
    OSCORE,
    PROXY_SCHEME,
    PROXY_URI,
    REQUEST_ID,
    REQUEST_TAG,
    SIZE1,
    SIZE2,
    URI_HOST,
    URI_PATH,
    URI_PORT,
    URI_QUERY,
)
from coap_engine.uint import decode_uint, encode_uint

WITH_BODIES = tuple(code for code in METHODS if code != codes.GET)
WRITES = tuple(code for code in METHODS if code not in READS)
DONE = {codes.GET: "2.05", codes.FETCH: "2.05", codes.DELETE: "2.02"}
NOWHERE = (b"nothing",)
Check = Callable[[Way], Awaitable[None]]
CHECKS: dict[int, Check] = {}


def shows(number: int) -> Callable[[Check], Check]:
    """Says of which option a check shows what it does."""

    def note(check: Check) -> Check:
        CHECKS[number] = check
        return check

    return note


def done(code: int) -> str:
    """The code of an answer to a request that was carried out."""
    return DONE.get(code, "2.04")


def body(code: int) -> bytes:
    return b"" if code == codes.GET else b"on"


async def refused(one: Way, said: str, *options: Option) -> None:
    """Each method is refused, and nothing carried out."""
    for code in METHODS:
        answer = await one.ask(code, *options, payload=body(code))
        assert answer.said == said, code
    assert one.lamp.done == []


async def carried_out(one: Way, *options: Option) -> None:
    """Each method does what it does without the option."""
    for code in METHODS:
        answer = await one.ask(code, *options, payload=body(code))
        assert answer.said == done(code), code
    assert len(one.lamp.done) == len(METHODS) - 1


async def sent(world: World, code: int, *options: Option, payload: bytes = b"") -> Answer:
    """Send a request with just these options; return its answer."""
    return await world.answer(world.send(code, options, payload))


async def whose(world: World, code: int, *options: Option) -> str:
    """The gateway whose lamp did what was asked with just these options."""
    for lamp in world.lamps.values():
        lamp.queries.clear()
        lamp.done.clear()
    answer = await sent(world, code, *options, payload=body(code))
    assert answer.said == done(code), (code, answer)
    (name,) = [name for name, lamp in world.lamps.items() if lamp.queries or lamp.done]
    return name


def path(*segments: bytes) -> tuple[Option, ...]:
    return tuple((URI_PATH, one) for one in segments)


# -- RFC 7252 ------------------------------------------------------------------------------------


@shows(IF_MATCH)
async def if_match(one: Way) -> None:
    await refused(one, "4.12", (IF_MATCH, b"\1"), (IF_MATCH, b"\2"))
    for code in METHODS:
        missing = await one.ask(code, (IF_MATCH, b""), payload=body(code), path=NOWHERE)
        assert missing.said == "4.12", code
        etag = (await one.ask(codes.GET)).value(ETAG)
        assert etag is not None
        for value in (etag, b""):
            answer = await one.ask(code, (IF_MATCH, b"\1"), (IF_MATCH, value), payload=body(code))
            assert answer.said == done(code), code
            if value == etag and code != codes.DELETE:
                one.lamp.turn(b"off")


@shows(IF_NONE_MATCH)
async def if_none_match(one: Way) -> None:
    await refused(one, "4.12", (IF_NONE_MATCH, b""))
    for code in METHODS:  # the condition holds, and the resource says what there is to say
        answer = await one.ask(code, (IF_NONE_MATCH, b""), payload=body(code), path=NOWHERE)
        assert answer.said == "4.04", code


@shows(ETAG)
async def etag_option(one: Way) -> None:
    for code in READS:
        first = await one.ask(code, payload=body(code))
        etag = first.value(ETAG)
        assert etag is not None
        known = await one.ask(code, (ETAG, b"\1"), (ETAG, etag), payload=body(code))
        assert (known.said, known.payload, known.value(ETAG)) == ("2.03", b"", etag)
        other = await one.ask(code, (ETAG, b"\1"), payload=body(code))
        assert (other.said, other.payload) == ("2.05", first.payload)
    one.lamp.done.clear()
    await carried_out(one, (ETAG, b"\1"))


@shows(URI_HOST)
async def uri_host(one: Way) -> None:
    world = one.world
    for code in METHODS:
        if one.name == "local":
            assert await whose(world, code, (URI_HOST, b"gw-north"), *path(*LAMP)) == "gw-north"
            assert await whose(world, code, (URI_HOST, b"lamp.net"), *path(*LAMP)) == "gw-root"
        elif one.name == "/q":
            way_there = one.route(LAMP)
            for host in (b"gw-root", b"lamp.net"):
                assert await whose(world, code, (URI_HOST, host), *way_there) == "gw-north"
            there = await sent(world, code, (URI_HOST, b"gw-north"), *way_there)
            assert there.said == "4.00"
        elif one.name == "proxy":
            assert await whose(world, code, *one.route(LAMP)) == "gw-north"
            other = ((URI_HOST, b"lamp.net"), (PROXY_SCHEME, b"coap"), *path(*LAMP))
            assert (await sent(world, code, *other)).said == "5.05"
    if one.name == "OSCORE":
        await refused(one, "4.02", (URI_HOST, b"gw-north"))
    if one.name == "$coap":
        await carried_out(one)
        assert world.lamps["gw-root"].done == []


@shows(URI_PORT)
async def uri_port(one: Way) -> None:
    other = (URI_PORT, encode_uint(80))
    if one.name == "proxy":
        await refused(one, "5.05", other)
        await carried_out(one, (URI_PORT, encode_uint(5683)))
    elif one.name == "OSCORE":
        await refused(one, "4.02", other)
    else:
        await carried_out(one, other)


@shows(URI_PATH)
async def uri_path(one: Way) -> None:
    for code in METHODS:
        answer = await one.ask(code, payload=body(code), path=NOWHERE)
        assert answer.said == "4.04", code
    await carried_out(one)


@shows(CONTENT_FORMAT)
async def content_format(one: Way) -> None:
    for code in (codes.PUT, codes.POST, codes.PATCH, codes.IPATCH):
        answer = await one.ask(code, (CONTENT_FORMAT, encode_uint(40)), payload=b"on")
        assert answer.said == "4.15", code
    assert one.lamp.done == []
    await carried_out(one, (CONTENT_FORMAT, b""))


@shows(URI_QUERY)
async def uri_query(one: Way) -> None:
    for code in METHODS:
        answer = await one.ask(code, (URI_QUERY, b"x=1"), (URI_QUERY, b"y"), payload=body(code))
        assert answer.said == done(code)
        assert one.lamp.queries.pop() == ("x=1", "y"), code


@shows(ACCEPT)
async def accept(one: Way) -> None:
    for code in READS:
        answer = await one.ask(code, (ACCEPT, encode_uint(60)), payload=body(code))
        assert (answer.said, answer.value(CONTENT_FORMAT)) == ("2.05", encode_uint(60)), code
        answer = await one.ask(code, (ACCEPT, encode_uint(40)), payload=body(code))
        assert answer.said == "4.06", code
    for code in WRITES:
        answer = await one.ask(code, (ACCEPT, encode_uint(60)), payload=b"on")
        assert answer.said == done(code), code


@shows(PROXY_URI)
async def proxy_uri(one: Way) -> None:
    world = one.world
    if one.name == "OSCORE":
        await refused(one, "4.02", (PROXY_URI, b"coap://gw-north/lamp"))
    elif one.name == "local":
        for code in METHODS:
            there = (PROXY_URI, b"coap://gw-north/lamp")
            assert await whose(world, code, there) == "gw-north"
            other = await sent(world, code, (PROXY_URI, b"coap://lamp.net/lamp"))
            assert other.said == "5.05"
    else:
        await refused(one, "4.02", (PROXY_URI, b"coap://gw-north/lamp"))


@shows(PROXY_SCHEME)
async def proxy_scheme(one: Way) -> None:
    if one.name == "OSCORE":
        await refused(one, "4.02", (PROXY_SCHEME, b"coap"))
    elif one.name == "proxy":
        await carried_out(one)
        for code in METHODS:
            http = ((URI_HOST, b"gw-north"), (PROXY_SCHEME, b"http"), *path(*LAMP))
            assert (await sent(one.world, code, *http)).said == "5.05"
    else:
        await refused(one, "5.05", (PROXY_SCHEME, b"http"))
        await carried_out(one, (PROXY_SCHEME, b"coap"))


# -- RFC 7641, RFC 7959, RFC 9175 ----------------------------------------------------------------


@shows(OBSERVE)
async def observe(one: Way) -> None:
    for code in (codes.GET,) if one.name == "$coap" else READS:
        told = await one.observe(code)
        one.lamp.turn(b"new")
        assert (await told()).payload == b"new", code
        one.lamp.turn(b"off")
        assert (await told()).payload == b"off", code
    if one.name == "$coap":
        return
    one.lamp.done.clear()
    for code in WRITES:  # nothing is carried out again when the resource changes
        answer = await one.ask(code, (OBSERVE, b""), payload=b"on")
        assert (answer.said, answer.value(OBSERVE)) == (done(code), None), code
    one.lamp.turn(b"off")
    for _ in range(20):
        await asyncio.sleep(0)
    written = [code for code, _ in one.lamp.done if code in WRITES]
    assert written == list(WRITES)


def block(number: int, *, more: bool) -> bytes:
    return Block(number, more, 0).encode()


@shows(BLOCK1)
async def block1(one: Way) -> None:
    for code in WITH_BODIES:
        first = await one.ask(code, (BLOCK1, block(0, more=True)), payload=b"a" * 16)
        assert first.said == "2.31", code
        gap = await one.ask(code, (BLOCK1, block(3, more=False)), payload=b"c")
        assert gap.said == "4.08", code
        for _ in range(2):  # the last one comes twice, and its request is carried out once
            last = await one.ask(code, (BLOCK1, block(1, more=False)), payload=b"b")
            assert last.said == done(code), code
            assert last.value(BLOCK1) == block(1, more=False), code
        assert one.lamp.done == [(code, b"a" * 16 + b"b")]
        one.lamp.done.clear()


@shows(BLOCK2)
async def block2(one: Way) -> None:
    for code in READS:
        got, number, is_more = b"", 0, True
        while is_more:
            asked = ((URI_QUERY, b"long"), (BLOCK2, block(number, more=False)))
            answer = await one.ask(code, *asked)
            value = answer.value(BLOCK2)
            assert value is not None, code
            is_more = Block.decode(value).more
            got += answer.payload
            number += 1
        assert (got, number) == (LONG, 3), code


@shows(SIZE1)
async def size1(one: Way) -> None:
    for code in WITH_BODIES:
        size = (SIZE1, encode_uint(1 << 30))
        answer = await one.ask(code, (BLOCK1, block(0, more=True)), size, payload=b"a" * 16)
        assert answer.said == "4.13", code
        assert decode_uint(answer.value(SIZE1) or b"") == 1 << 20, code
    assert one.lamp.done == []


@shows(SIZE2)
async def size2(one: Way) -> None:
    for code in READS:
        first = ((URI_QUERY, b"long"), (BLOCK2, block(0, more=False)))
        assert (await one.ask(code, *first)).value(SIZE2) == b"\x30", code
        asked = ((URI_QUERY, b"long"), (BLOCK2, block(1, more=False)))
        assert (await one.ask(code, *asked)).value(SIZE2) is None, code
        assert (await one.ask(code, *asked, (SIZE2, b""))).value(SIZE2) == b"\x30", code


@shows(ECHO)
async def echo(one: Way) -> None:
    if one.name == "OSCORE":
        one.world.start_again()
        for code in METHODS:
            asked = await one.ask(code, payload=body(code))
            if code == METHODS[0]:
                value = asked.value(ECHO)
                assert (asked.said, one.lamp.queries) == ("4.01", [])
                assert value is not None
                asked = await one.ask(code, (ECHO, value), payload=body(code))
            assert asked.said == done(code), code
        return
    for code in WRITES:
        peer = stranger(code)
        asked = await one.ask(code, payload=b"on", peer=peer)
        value = asked.value(ECHO)
        assert (asked.said, one.lamp.done) == ("4.01", []), code
        assert value is not None
        wrong = await one.ask(code, (ECHO, b"\1" * 8), payload=b"on", peer=peer)
        assert (wrong.said, one.lamp.done) == ("4.01", []), code
        shown = await one.ask(code, (ECHO, value), payload=b"on", peer=peer)
        assert shown.said == done(code), code
        one.lamp.done.clear()
    for code in READS:
        read = await one.ask(code, (ECHO, b"\1" * 8), payload=body(code))
        assert read.said == done(code), code


@shows(REQUEST_TAG)
async def request_tag(one: Way) -> None:
    for code in WITH_BODIES:
        for tag, payload in ((b"1", b"a" * 16), (b"2", b"b" * 16)):
            begun = (BLOCK1, block(0, more=True))
            assert (await one.ask(code, begun, (REQUEST_TAG, tag), payload=payload)).said == "2.31"
        for tag, payload in ((b"1", b"a"), (b"2", b"b")):
            last = (BLOCK1, block(1, more=False))
            answer = await one.ask(code, last, (REQUEST_TAG, tag), payload=payload)
            assert answer.said == done(code), code
        assert [came for _, came in one.lamp.done] == [b"a" * 17, b"b" * 17], code
        one.lamp.done.clear()


# -- others --------------------------------------------------------------------------------------


@shows(OSCORE)
async def oscore(one: Way) -> None:
    unknown = (OSCORE, b"\x09\x00\x77")
    if one.name == "OSCORE":
        await refused(one, "4.02", unknown)
    elif one.name == "proxy":
        await refused(one, "5.05", unknown)
    else:
        for code in METHODS:  # outside there is POST or FETCH (RFC 8613, section 4.2)
            answer = await one.ask(code, unknown, payload=b"x" * 20)
            expected = "4.01" if code in (codes.POST, codes.FETCH) else "4.05"
            assert answer.said == expected, code
        assert one.lamp.done == []


@shows(HOP_LIMIT)
async def hop_limit(one: Way) -> None:
    if one.name == "OSCORE":
        await carried_out(one, (HOP_LIMIT, b"\0"))
        return
    await refused(one, "4.00", (HOP_LIMIT, b"\0"))
    if one.name in ("/q", "proxy"):
        await refused(one, "5.08", (HOP_LIMIT, b"\1"))
        await carried_out(one, (HOP_LIMIT, b"\2"))
    else:
        await carried_out(one, (HOP_LIMIT, b"\1"))


@shows(NO_RESPONSE)
async def no_response(one: Way) -> None:
    for code in METHODS:
        one.begin(code, (NO_RESPONSE, b"\x1a"), payload=body(code))
        await one.world.acknowledged()
        answer = await one.ask(code, (NO_RESPONSE, b"\x08"), payload=body(code))
        assert answer.said == done(code), code  # of the classes that are wanted
    assert [code for code, _ in one.lamp.done] == [code for code in WITH_BODIES for _ in range(2)]


@shows(REQUEST_ID)
async def request_id(one: Way) -> None:
    for code in READS:
        answer = await one.ask(code, (REQUEST_ID, b"\0\1"), payload=body(code))
        assert answer.said == "4.02", code
    assert one.lamp.done == []
    for code in WRITES:
        for _ in range(2):
            answer = await one.ask(code, (REQUEST_ID, bytes([0, code])), payload=b"on")
            assert answer.said == done(code), code
    assert [code for code, _ in one.lamp.done] == list(WRITES)


@pytest.mark.parametrize("names", [("local", "OSCORE"), ("/q", "proxy", "$coap")])
async def test_no_update_is_lost_whichever_ways_compete(
    names: tuple[str, ...], world: World
) -> None:
    """Each client adds one to what it has read, and again if somebody else was quicker."""
    ways = [way(name, world) for name in names]
    lamp, each = ways[0].lamp, 5
    lamp.turn(b"0")
    conflicts = 0

    async def count(one: Way) -> None:
        nonlocal conflicts
        for _ in range(each):
            said = ""
            while said != "2.04":
                read = await one.ask(codes.GET)
                etag = read.value(ETAG)
                assert etag is not None
                more = b"%d" % (int(read.payload) + 1)
                said = (await one.ask(codes.PUT, (IF_MATCH, etag), payload=more)).said
                assert said in ("2.04", "4.12")
                conflicts += said == "4.12"

    await asyncio.gather(*[count(one) for one in ways for _ in range(2)])
    assert lamp.state == b"%d" % (2 * len(ways) * each)
    assert conflicts > 0


# -- the table -----------------------------------------------------------------------------------

CELLS = [
    (number, name) for number, row in ROWS.items() for name in WAYS if row.cells[name] != NO_MEANS
]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("number", "name"), CELLS, ids=[f"{ROWS[number].name} {name}" for number, name in CELLS]
)
async def test_an_option_does_what_the_page_says(number: int, name: str, world: World) -> None:
    await CHECKS[number](way(name, world))


def test_the_page_has_every_option_that_the_engine_knows_and_each_has_a_test() -> None:
    assert list(ROWS) == sorted(option_numbers.LENGTHS)
    assert CHECKS.keys() == ROWS.keys()


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python tests/conformance/coap_options_table.py"


@pytest.mark.parametrize("name", WAYS[:4])
async def test_what_is_not_known_is_refused_if_it_is_critical(name: str, world: World) -> None:
    one = way(name, world)
    await refused(one, "4.02", (2_049, b""))
    for twice in ((IF_NONE_MATCH, b""), (ACCEPT, b"")):
        await refused(one, "4.02", twice, twice)
    await refused(one, "4.02", (ACCEPT, b"123"))
    await carried_out(one, (2_050, b""))

"""Look-ups in the directories of others: who is asked, what is told, and what of those who are
silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiocoap import Context, Message
from aiocoap.numbers.codes import Code
from fleet_gateway import Fleet, FleetGateway, until
from loop_turns import turns

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.coap.access import CoapAccess
from gateway.coap.directory.fleet_lookup import FleetLookUps
from gateway.coap.fleet_directory.partial import PARTIAL
from gateway.coap.fleet_directory.search import AT_ONCE
from gateway.coap.fleet_directory.searches import PER_HOST
from gateway.coap.peers import udp_peer
from gateway.coap_client import Response, request
from resource_directory.digest import DirectoryDigest
from resource_directory.link_format import WebLink, parse
from resource_directory.registry import Registry
from tests.policies import keys_may_all, open_access
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

PEER = udp_peer(PeerAddress(("192.0.2.1", 40_000)))
PLACES = {
    "gw-here": "campus/north",
    "gw-b": "campus/north",
    "gw-c": "campus/south",
    "gw-d": "harbour/-",
}


class Directories:
    """A fleet's directories as one gateway sees them: each has a thermometer, and gw-c a valve."""

    def __init__(self, places: dict[str, str], access: CoapAccess | None = None) -> None:
        self.members = Membership()
        self.asked: list[tuple[str, ResourceRequest]] = []
        self.silent: set[str] = set()
        self.refusing: set[str] = set()
        self.too_long: set[str] = set()
        self.links: dict[str, str] = {}
        for number, (gateway_id, place) in enumerate(places.items()):
            self._add(gateway_id, place, f"10.0.0.{number % 250}")
        self.lookups = FleetLookUps(
            "gw-here", self.members, access or open_access(), self._ask, self
        )

    def _add(self, gateway_id: str, place: str, address: str) -> None:
        domain, group = ("" if part == "-" else part for part in place.split("/"))
        digest = DirectoryDigest()
        registry = Registry(listeners=(digest,))
        kinds = ["temperature", *(["valve"] if gateway_id == "gw-c" else [])]
        links = [WebLink(f"/sensors/{kind}", (("rt", kind),)) for kind in kinds]
        sector = "floor-3" if gateway_id == "gw-d" else ""
        registry.register(gateway_id, links, 0.0, base=f"coap://{address}", sector=sector)
        told = (f'<coap://{address}/sensors/{kind}>;rt="{kind}"' for kind in kinds)
        self.links[gateway_id] = ",".join(told)
        self.members.update(
            MemberRecord(
                id=gateway_id,
                epoch=1,
                version=1,
                domain=domain,
                group=group,
                address=address,
                mqtt_port=1883,
                coap_port=5683,
                capability=1.0,
                offers=digest.take(),
            )
        )

    async def _ask(self, record: MemberRecord, asked: ResourceRequest) -> ResourceResponse:
        self.asked.append((record.id, asked))
        await asyncio.sleep(0)
        if record.id in self.silent:
            raise TimeoutError
        if record.id in self.refusing:
            return ResourceResponse(codes.FORBIDDEN, b"not you")
        if record.id in self.too_long and "count=200" in asked.query:
            return ResourceResponse(codes.INTERNAL_SERVER_ERROR, b"payload of 70000 bytes")
        return ResourceResponse(codes.CONTENT, self.links[record.id].encode(), 40)

    def answer(self, asked: CoapRequest, *_: object) -> CoapResponse:
        """Answer a look-up as the own directory would."""
        return CoapResponse(codes.CONTENT, (), repr(asked.values(15)).encode())

    async def look_up(self, *parameters: str, kind: str = "res") -> CoapResponse:
        options = [(11, b"rd-lookup"), (11, kind.encode())]
        options += [(15, one.encode()) for one in parameters]
        asked = CoapRequest(codes.GET, tuple(options))
        answer = self.lookups.answer(asked, PEER, 0.0)
        assert answer is not None
        if isinstance(answer, CoapResponse):
            return answer
        told: asyncio.Future[CoapResponse] = asyncio.get_running_loop().create_future()
        answer.begin(told.set_result, lambda *_: None)
        return await told

    async def found(self, *parameters: str) -> dict[str, str]:
        """Look resources up; return how stale each is, by "gateway path"."""
        answer = await self.look_up(*parameters)
        assert answer.code == codes.CONTENT, answer.payload
        return {
            f"{link.get('gw')} {link.href}": link.get("stale") or ""
            for link in parse(answer.payload)
        }

    @property
    def who(self) -> list[str]:
        return sorted(gateway_id for gateway_id, _ in self.asked)


@pytest.mark.parametrize(
    ("parameters", "who"),
    [
        (["scope=group"], ["gw-b", "gw-here"]),
        (["scope=domain"], ["gw-b", "gw-c", "gw-here"]),
        (["scope=all"], ["gw-b", "gw-c", "gw-d", "gw-here"]),
        (["scope=all", "gw-domain=campus", "gw-group=south"], ["gw-c"]),
        (["scope=domain", "gw-group=south"], ["gw-c"]),
        (["gw=gw-d"], ["gw-d"]),
        (["gw-domain=harbour", "gw-group=-"], ["gw-d"]),
        (["scope=all", "d=floor-3"], ["gw-d"]),
        (["scope=all", "d=campus"], []),
        (["scope=group", "gw=gw-d"], []),
        (["scope=all", "rt=valve"], ["gw-c"]),
        (["scope=all", "rt=v*"], ["gw-b", "gw-c", "gw-d", "gw-here"]),
        (["scope=all", "rt=humidity"], []),
    ],
)
async def test_only_those_are_asked_that_are_meant_and_may_have_it(
    parameters: list[str], who: list[str]
) -> None:
    fleet = Directories(PLACES)
    assert (await fleet.look_up(*parameters)).code == codes.CONTENT
    assert fleet.who == who
    for _, asked in fleet.asked:
        assert not any(one.startswith(("scope", "gw")) for one in asked.query)
        assert [one for one in asked.query if one[:2] == "d="] == [
            one for one in parameters if one[:2] == "d="
        ]


async def test_each_link_says_where_it_lives_and_how_it_is_reached_from_here() -> None:
    fleet = Directories(PLACES)
    found = await fleet.found("scope=domain", "rt=temperature")
    assert list(found) == [
        "gw-b /q/campus/north/gw-b/sensors/temperature",
        "gw-c /q/campus/south/gw-c/sensors/temperature",
        "gw-c /q/campus/south/gw-c/sensors/valve",
        "gw-here /sensors/temperature",
    ]


async def test_who_asks_again_soon_costs_nobody_anything() -> None:
    fleet = Directories(PLACES)
    first = await fleet.look_up("scope=all")
    asked = len(fleet.asked)
    assert (await fleet.look_up("scope=all")).payload == first.payload
    assert len(fleet.asked) == asked


async def test_of_a_gateway_that_is_silent_the_last_known_is_told_and_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.coap.fleet_directory.kept.FRESH_S", -1.0)
    fleet = Directories(PLACES)
    before = await fleet.found("scope=all")
    assert set(before.values()) == {""}
    fleet.silent = {"gw-b"}
    fleet.members.suspect(frozenset({"gw-d"}))
    fleet.asked.clear()
    now = await fleet.found("scope=all")
    assert now.keys() == before.keys()
    assert {one.split()[0] for one, stale in now.items() if stale} == {"gw-b", "gw-d"}
    assert "gw-d" not in fleet.who, "a suspect is not waited for"


async def test_what_a_policy_elsewhere_does_not_let_them_read_is_not_there() -> None:
    fleet = Directories(PLACES)
    fleet.refusing = {"gw-c"}
    assert {one.split()[0] for one in await fleet.found("scope=domain")} == {"gw-b", "gw-here"}


async def test_a_directory_whose_links_do_not_fit_into_an_answer_is_asked_for_fewer() -> None:
    fleet = Directories(PLACES)
    before = await fleet.found("scope=all", "rt=*")
    fleet.too_long = {"gw-c"}
    assert await fleet.found("scope=all") == before
    assert [asked.query[-2] for name, asked in fleet.asked if name == "gw-c"][-2:] == [
        "count=200",
        "count=40",
    ]


async def test_a_part_of_a_large_answer_asks_no_more_gateways_than_it_needs() -> None:
    fleet = Directories({"gw-here": "-/-"} | {f"gw-{number:03}": "-/-" for number in range(200)})
    assert len(await fleet.found("scope=all", "count=10")) == 10
    assert len(fleet.asked) <= AT_ONCE
    assert len(await fleet.found("scope=all")) == 201


async def test_an_answer_that_is_not_whole_says_so_and_who_is_missing() -> None:
    fleet = Directories(PLACES)
    fleet.silent = {"gw-c"}
    *_, last = parse((await fleet.look_up("scope=all")).payload)
    assert (last.get("rt"), last.get("missing"), last.get("gw")) == (PARTIAL, "1", "gw-c")
    fleet.silent = set()
    whole = parse((await fleet.look_up("scope=all")).payload)
    assert PARTIAL not in {link.get("rt") for link in whole}


async def test_who_reads_only_what_is_public_learns_nothing_of_the_fleet() -> None:
    fleet = Directories(PLACES, keys_may_all())
    assert (await fleet.look_up("scope=all")).code == codes.UNAUTHORIZED
    assert fleet.asked == []


async def test_the_own_directory_answers_as_ever() -> None:
    fleet = Directories(PLACES)
    assert (await fleet.look_up("scope=own", "rt=a")).payload == b"[b'rt=a']"
    plain = CoapRequest(codes.GET, ((11, b"rd-lookup"), (11, b"ep"), (15, b"rt=a")))
    assert fleet.lookups.answer(plain, PEER, 0.0) is None


@pytest.mark.parametrize("parameter", ["scope=world", "gw=G W", "gw-domain=../x"])
async def test_what_is_wrong_is_refused_and_named(parameter: str) -> None:
    answer = await Directories(PLACES).look_up(
        "scope=all" if parameter[:2] != "sc" else "rt=a", parameter
    )
    assert answer.code == codes.BAD_REQUEST
    assert parameter.partition("=")[2].split("/")[0] in answer.payload.decode()


async def test_one_host_has_few_under_way_at_a_time() -> None:
    fleet = Directories(PLACES)
    answers = await asyncio.gather(*(fleet.look_up("scope=all", f"x={n}*") for n in range(5)))
    codes_seen = [answer.code for answer in answers]
    assert codes_seen.count(codes.CONTENT) == PER_HOST
    assert codes_seen.count(codes.SERVICE_UNAVAILABLE) == 5 - PER_HOST
    await fleet.lookups.stop()


# -- two gateways --------------------------------------------------------------------------------

SENSOR = '[[sensors]]\ntype = "switch"\nname = "valve"\n'
Ask = Callable[[FleetGateway, str], "asyncio.Future[Response]"]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[FleetGateway, FleetGateway]]:
    fleet = Fleet(tmp_path)
    one, other = (fleet.gateway(name, tls=False) for name in ("gw-a", "gw-b"))
    other.place, other.mqtt = 'domain = "campus"', SENSOR
    await one.start()
    await other.start(neighbours=[f"127.0.0.1:{one.port}"])
    await until(lambda: len(one.process.parts.members.known) == 2)
    yield one, other
    await fleet.stop()


async def get(gateway: FleetGateway, path: str) -> Response:
    return await request("GET", f"coap://127.0.0.1:{gateway.process.parts.coap.coap_port}{path}")


async def test_what_is_found_at_another_gateway_can_be_read_there_from_here(
    pair: tuple[FleetGateway, FleetGateway],
) -> None:
    one, _ = pair
    answer = await get(one, "/rd-lookup/res?scope=all&href=*")
    links = {link.href: link for link in parse(answer.payload)}
    valve = links["/q/campus/-/gw-b/sensors/valve"]
    assert valve.get("gw") == "gw-b"
    assert (await get(one, valve.href)).ok
    endpoints = parse((await get(one, "/rd-lookup/ep?scope=all")).payload)
    assert [(link.get("ep"), link.get("gw")) for link in endpoints] == [
        ("gw-a", "gw-a"),
        ("gw-b", "gw-b"),
    ]
    assert (await get(one, endpoints[1].href)).ok
    known = (await get(one, "/.well-known/core?rt=core.rd-lookup-res")).payload
    assert parse(known)[0].get("scope") == "own group domain all"


async def test_a_device_that_registers_anywhere_is_found_everywhere(
    pair: tuple[FleetGateway, FleetGateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    path = (
        f"coap://127.0.0.1:{other.process.parts.coap.coap_port}/rd?ep=meter-7&base=coap://10.0.0.9"
    )
    made = await request("POST", path, payload=b"</power>;rt=power", content_format=40)
    assert made.ok
    other.process.parts.members.offer(other.process.parts.site.directory.offers)
    async with asyncio.timeout(30):
        while not (found := parse((await get(one, "/rd-lookup/res?scope=all&rt=power")).payload)):
            await asyncio.sleep(0.05)
    assert [(link.href, link.get("gw")) for link in found] == [("coap://10.0.0.9/power", "gw-b")]


async def test_who_observes_the_whole_fleet_is_told_of_what_comes_goes_and_falls_silent(
    pair: tuple[FleetGateway, FleetGateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.PAUSE_S", 0.05)
    monkeypatch.setattr("tree_handler.remote.watches.GRACE_S", 0.2)
    one, other = pair
    told: list[dict[str, str | None]] = []
    at = f"coap://127.0.0.1:{other.process.parts.coap.coap_port}"
    client = await Context.create_client_context()
    uri = f"coap://127.0.0.1:{one.process.parts.coap.coap_port}/rd-lookup/ep?scope=all"
    asked = client.request(Message(code=Code.GET, uri=uri, observe=0))

    def note(answer: Any) -> None:
        told.append({link.get("ep") or "": link.get("stale") for link in parse(answer.payload)})

    async def follow() -> None:
        async for notification in asked.observation:
            note(notification)

    following = asyncio.create_task(follow())
    try:
        note(await asked.response)
        assert told == [{"gw-a": None, "gw-b": None}]
        register = Message(code=Code.POST, uri=f"{at}/rd?ep=meter-7&base=coap://10.0.0.9")
        register.payload, register.opt.content_format = b"</power>;rt=power", 40
        made = await client.request(register).response
        await until(lambda: told[-1] == {"gw-a": None, "gw-b": None, "meter-7": None})
        remove = Message(code=Code.DELETE, uri=f"{at}/{'/'.join(made.opt.location_path)}")
        assert (await client.request(remove).response).code.is_successful()
        await until(lambda: told[-1] == {"gw-a": None, "gw-b": None})
        await other.stop()
        await until(lambda: told[-1]["gw-b"] is not None)
        assert told[-1]["gw-a"] is None
    finally:
        following.cancel()
        await client.shutdown()


@pytest.mark.parametrize(
    "asked",
    [
        CoapRequest(codes.FETCH, ((11, b"rd-lookup"), (11, b"res"), (15, b"scope=all"))),
        CoapRequest(codes.GET, ((11, b"rd-lookup"), (15, b"scope=all"))),
        CoapRequest(codes.GET, ((11, b"rd-lookup"), (11, b"res"), (15, b"scope=\xff"))),
    ],
)
async def test_what_is_no_look_up_of_the_fleet_is_left_to_others(asked: CoapRequest) -> None:
    fleet = Directories(PLACES)
    assert fleet.lookups.answer(asked, PEER, 0.0) is None


@pytest.mark.parametrize(("form", "code"), [(40, codes.CONTENT), (50, codes.NOT_ACCEPTABLE)])
async def test_links_come_in_link_format_alone(form: int, code: int) -> None:
    fleet = Directories(PLACES)
    path = ((11, b"rd-lookup"), (11, b"res"), (15, b"scope=all"), (17, bytes([form])))
    answer = fleet.lookups.answer(CoapRequest(codes.GET, path), PEER, 0.0)
    if code == codes.CONTENT:
        assert not isinstance(answer, CoapResponse)
    else:
        assert answer == CoapResponse(code, (), b"only link-format (40)")


async def test_a_directory_whose_answer_is_no_link_format_is_missing() -> None:
    fleet = Directories(PLACES)
    fleet.links["gw-c"] = "</a"
    *_, last = parse((await fleet.look_up("scope=all")).payload)
    assert (last.get("rt"), last.get("missing"), last.get("gw")) == (PARTIAL, "1", "gw-c")


async def test_the_own_directory_is_asked_where_more_is_said_of_it() -> None:
    fleet = Directories(PLACES)
    assert (await fleet.look_up("scope=own", "gw-domain=campus")).code == codes.CONTENT
    assert fleet.who == ["gw-here"]


class HangingDirectories(Directories):
    """A fleet of which nobody answers, nor says that it does not."""

    cancelled = 0

    async def _ask(self, record: MemberRecord, asked: ResourceRequest) -> ResourceResponse:
        self.asked.append((record.id, asked))
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        raise AssertionError("it hangs")


async def test_who_waits_no_longer_is_told_nothing_and_nobody_is_asked_for_them() -> None:
    fleet, told = HangingDirectories(PLACES), list[CoapResponse]()
    asked = CoapRequest(codes.GET, ((11, b"rd-lookup"), (11, b"res"), (15, b"scope=all")))
    ends = []
    for _ in range(2):
        answer = fleet.lookups.answer(asked, PEER, 0.0)
        assert answer is not None
        assert not isinstance(answer, CoapResponse)
        ends.append(answer.begin(told.append, lambda *_: None))
    await until(lambda: len(fleet.asked) == 8)
    ends[0]()
    await until(lambda: fleet.cancelled == 4)
    await fleet.lookups.stop()
    assert fleet.cancelled == 8
    assert told == []


async def test_after_a_stop_no_timer_of_a_look_up_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, loop, timers = HangingDirectories(PLACES), asyncio.get_running_loop(), list[Any]()
    set_timer = loop.call_later

    def noted(*what: Any) -> asyncio.TimerHandle:
        timers.append(set_timer(*what))
        return timers[-1]

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_later", noted)
        asking = asyncio.create_task(fleet.look_up("scope=all"))
        await turns(10)
        far = [one for one in timers if one.when() > loop.time() + 5.0]
        assert [one.cancelled() for one in far] == [False]
        await fleet.lookups.stop()
    assert far[0].cancelled()
    asking.cancel()


async def test_when_time_is_over_those_who_are_silent_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.coap.fleet_directory.searches.GATHER_S", 0.01)
    fleet = HangingDirectories(PLACES)
    (last,) = parse((await fleet.look_up("scope=all")).payload)
    assert (last.get("rt"), last.get("missing")) == (PARTIAL, "4")
    await until(lambda: fleet.cancelled == 4)
    await fleet.lookups.stop()


async def test_more_links_than_one_answer_may_have_are_refused_with_what_to_do() -> None:
    fleet = Directories({"gw-here": "-/-"} | {f"gw-{number:02}": "-/-" for number in range(18)})
    for name in fleet.links:
        fleet.links[name] = f"<coap://10.0.0.1/{'x' * 60_000}>"
    answer = await fleet.look_up("scope=all")
    assert answer == CoapResponse(
        codes.BAD_REQUEST, (), b"too many links for one answer: ask with count and page"
    )
    assert (await fleet.look_up("scope=all", "count=1")).code == codes.CONTENT

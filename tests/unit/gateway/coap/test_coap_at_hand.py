"""Goal: what was read or rendered already is answered without a resource, and never wrongly."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiocoap import resource
from aiocoap.numbers.codes import Code

from coap_engine.message import CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.coap.peers import udp_peer
from gateway.coap.responders import ImmediateResponder, KeptResponse
from gateway.coap.sensors.answers import KEPT_MAX
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.well_known import KEPT_MAX as LINKS_KEPT_MAX
from gateway.coap.well_known import CountedSite, WellKnownCore
from gateway.sensors.device_resource import ChildResource
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.sensors.switch import Switch
from resource_directory.link_format import parse
from resource_directory.registry import Registry
from resource_directory.resources import ResourceDirectory
from resource_directory.service import DirectoryService
from tree_handler.members.place import Place

ETAG, URI_PATH, CONTENT_FORMAT, MAX_AGE, URI_QUERY, ACCEPT = 4, 11, 12, 14, 15, 17
PEER = udp_peer(PeerAddress(("192.0.2.1", 40_000)))


class Thermometer(Sensor):
    unit = "Cel"
    is_quick = True
    value = 21.5

    def read(self) -> float:
        return self.value


class Roof:
    """One sensor, one actuator and a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 50.0
        self.sampler = Sampler(
            lambda _sensor, _record: None, wall_clock=lambda: 1.7e9, clock=lambda: self.now
        )
        self.site = CountedSite()
        self.sensors = SensorResources(self.site, self.sampler, "gw", Place("campus", "north"))
        self.thermometer = Thermometer("roof", interval_s=30.0)
        self.pump = Switch("pump")
        for sensor in (self.thermometer, self.pump):
            self.sampler.add(sensor)
            self.sensors.add(sensor)
        self.told: list[tuple[int, CoapResponse, bool]] = []

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        """Each sensor has been read, and is again when its interval is over."""
        task = asyncio.create_task(self.sampler.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def ask(self, request: CoapRequest) -> CoapResponse | None:
        return self.sensors.answers.answer(request, PEER, self.now)

    def respond(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        self.told.append((exchange, response, is_last))


def get(path: str, *options: tuple[int, bytes], code: Code = Code.GET) -> CoapRequest:
    segments = [(URI_PATH, one.encode()) for one in path.removeprefix("/").split("/")]
    return CoapRequest(int(code), tuple(sorted([*segments, *options], key=lambda o: o[0])))


def ask(at_hand: ImmediateResponder, request: CoapRequest) -> CoapResponse | None:
    return at_hand.answer(request, PEER, 0.0)


def value(response: CoapResponse | None) -> float:
    assert response is not None
    read: float = json.loads(response.payload)[0]["v"]
    return read


def max_age(response: CoapResponse | None) -> int:
    assert response is not None
    return int.from_bytes(dict(response.options)[MAX_AGE], "big")


async def test_a_sensor_s_last_value_is_at_hand_while_its_interval_lasts() -> None:
    roof = Roof()
    assert roof.ask(get("/sensors/roof")) is None
    async with roof.read():
        response = roof.ask(get("/sensors/roof"))
        assert response is not None
        assert (response.code, dict(response.options)[CONTENT_FORMAT]) == (0x45, bytes([110]))
        assert (value(response), max_age(response)) == (21.5, 30)
        roof.now += 30.5
        assert roof.ask(get("/sensors/roof")) is None


async def test_max_age_is_what_is_left_and_not_what_was_left() -> None:
    roof = Roof()
    async with roof.read():
        told = []
        for _ in range(60):
            told.append(max_age(roof.ask(get("/sensors/roof"))))
            roof.now += 0.5
        assert told == [30 - n // 2 for n in range(60)]


@pytest.mark.parametrize(
    ("passed_s", "until_s"),
    [(0.0, 1.0), (0.5, 1.0), (28.5, 29.0), (29.0, 30.0), (29.75, 30.0), (30.0, None)],
)
async def test_a_response_is_kept_until_its_next_whole_second(
    passed_s: float, until_s: float | None
) -> None:
    roof = Roof()
    async with roof.read():
        read_at = roof.now
        roof.now += passed_s
        response = roof.ask(get("/sensors/roof"))
        assert response is not None
        if until_s is None:
            assert not isinstance(response, KeptResponse)
            assert max_age(response) == 0
        else:
            assert isinstance(response, KeptResponse)
            assert response.until == read_at + until_s
            assert roof.ask(get("/sensors/roof")) is response


async def test_plain_text_is_at_hand_too_and_nothing_else() -> None:
    roof = Roof()
    async with roof.read():
        response = roof.ask(get("/sensors/roof", (ACCEPT, b"")))
        assert response is not None
        assert (response.payload, dict(response.options)[CONTENT_FORMAT]) == (b"21.5", b"")
        assert roof.ask(get("/sensors/roof", (ACCEPT, b"<"))) is None


@pytest.mark.parametrize(
    "request_",
    [
        get("/sensors"),
        get("/sensors/cellar"),
        get("/"),
        get("/sensors/roof", code=Code.PUT),
        get("/sensors/roof", (URI_QUERY, b"a=b")),
        get("/sensors/roof", (9, b"oscore")),
        CoapRequest(1, ((URI_PATH, b"sensors"), (URI_PATH, b"\xff"))),
        CoapRequest(1),
    ],
)
async def test_what_a_resource_has_to_judge_is_left_to_it(request_: CoapRequest) -> None:
    roof = Roof()
    async with roof.read():
        assert roof.ask(request_) is None


async def test_an_actuator_s_state_is_at_hand_for_a_second_and_whenever_it_was_set() -> None:
    roof = Roof()
    _answers, asked = roof.sensors.answers, get("/sensors/pump")
    assert roof.ask(asked) is None
    async with roof.read():
        assert (value(roof.ask(asked)), max_age(roof.ask(asked))) == (0.0, 0)
        await roof.sampler.write(roof.pump, 1.0, "psk:a")
        assert value(roof.ask(asked)) == 1.0
        roof.now += 1.5
        assert roof.ask(asked) is None
        await roof.sampler.current(roof.pump)
        assert value(roof.ask(asked)) == 1.0


async def test_a_new_reading_takes_the_place_of_the_last_one() -> None:
    roof = Roof()
    async with roof.read():
        assert value(roof.ask(get("/sensors/roof"))) == 21.5
    roof.thermometer.value, roof.now = 22.5, roof.now + 30.0
    async with roof.read():
        assert value(roof.ask(get("/sensors/roof"))) == 22.5


async def test_what_was_answered_before_a_new_reading_is_right_no_more() -> None:
    roof = Roof()
    async with roof.read():
        before = roof.ask(get("/sensors/roof"))
        assert isinstance(before, KeptResponse)
        assert before.until > roof.now
        roof.sensors.answers.changed("roof")
        assert before.until < roof.now


async def test_what_is_kept_no_more_for_want_of_room_is_right_no_more() -> None:
    roof = Roof()
    async with roof.read():
        first = roof.ask(get("/sensors/roof"))
        for number in range(KEPT_MAX):
            roof.ask(get("/sensors/roof", (ETAG, b"%08d" % number)))
        assert isinstance(first, KeptResponse)
        assert first.until < roof.now


async def test_what_is_kept_anew_after_too_many_is_taken_back_with_the_reading_as_well() -> None:
    roof = Roof()
    wanted = get("/sensors/roof")
    async with roof.read():
        kept = [roof.ask(wanted)]
        for number in range(KEPT_MAX - 1):
            roof.ask(get("/sensors/roof", (ETAG, b"%08d" % number)))
        assert roof.ask(wanted) is kept[0], "so many are kept"
        roof.ask(get("/sensors/roof", (ETAG, b"one more")))
        kept += [roof.ask(wanted), roof.ask(get("/sensors/roof", (ETAG, b"one more")))]
        assert kept[1] is not kept[0]
        assert roof.ask(wanted) is kept[1]
        roof.sensors.answers.changed("roof")
        for one in kept:
            assert isinstance(one, KeptResponse)
            assert one.until < roof.now
        assert roof.ask(wanted) is not kept[1]


async def test_a_new_reading_is_told_to_all_who_observe_it() -> None:
    roof = Roof()
    answers = roof.sensors.answers
    async with roof.read():
        for exchange in (1, 2):
            assert answers.observe(exchange, get("/sensors/roof"), roof.respond)
        assert answers.observe(3, get("/sensors/roof", (ACCEPT, b"")), roof.respond)
        answers.ended(2)
    roof.thermometer.value, roof.now = 22.5, roof.now + 30.0
    async with roof.read():
        assert [(exchange, is_last) for exchange, _, is_last in roof.told] == [
            (1, False),
            (3, False),
        ]
        assert value(roof.told[0][1]) == 22.5
        assert roof.told[1][1].payload == b"22.5"


@pytest.mark.parametrize("is_gone", [False, True])
async def test_an_observer_that_raises_costs_the_others_of_its_sensor_nothing(
    is_gone: bool,
) -> None:
    roof = Roof()

    def bad(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with roof.read():
        for exchange, respond in ((1, bad), (2, roof.respond)):
            assert roof.sensors.answers.observe(exchange, get("/sensors/roof"), respond)
        if is_gone:
            roof.sensors.answers.removed("roof", CoapResponse(0x84))
        else:
            roof.sensors.answers.changed("roof")
    assert {exchange for exchange, _, _ in roof.told} == {2}


async def test_who_observes_a_sensor_learns_that_it_is_gone() -> None:
    roof = Roof()
    answers = roof.sensors.answers
    async with roof.read():
        answers.observe(1, get("/sensors/roof"), roof.respond)
        roof.sensors.remove("roof")
        ((exchange, response, is_last),) = roof.told
        assert (exchange, response.code, is_last) == (1, int(Code.NOT_FOUND), True)
        answers.ended(1)
        assert roof.ask(get("/sensors/roof")) is None


async def test_well_known_core_is_what_the_site_has_now() -> None:
    roof = Roof()
    core = WellKnownCore(roof.site)

    def links(*queries: str) -> str:
        asked = get("/.well-known/core", *[(URI_QUERY, query.encode()) for query in queries])
        response = ask(core, asked)
        assert response is not None
        assert [number for number, _ in response.options] == [ETAG, CONTENT_FORMAT]
        assert dict(response.options)[CONTENT_FORMAT] == bytes([40])
        return response.payload.decode()

    assert links() == str(roof.site.get_resources_as_linkheader())
    assert links("href=/sensors/%70ump") == links("href=/sensors/pump") != ""
    assert links("href=/sensors/%70um*") == links("href=/sensors/pum*") != ""
    roof.sensors.remove("pump")
    assert "pump" not in links()
    assert "</sensors/roof>" in links()


async def test_well_known_core_says_which_interfaces_of_the_directory_can_be_observed() -> None:
    site = CountedSite()
    service = DirectoryService(Registry())
    ResourceDirectory(service, lambda _: None).add_to(site, are_observed=True)
    response = ask(WellKnownCore(site), get("/.well-known/core", (URI_QUERY, b"rt=core.rd*")))
    assert response is not None
    links = {link.href: link.attributes for link in parse(response.payload)}
    assert {href for href, attributes in links.items() if ("obs", None) in attributes} == {
        "/rd-lookup/res",
        "/rd-lookup/ep",
    }
    observed = ask(WellKnownCore(site), get("/.well-known/core", (URI_QUERY, b"obs=")))
    assert observed is not None
    assert {link.href for link in parse(observed.payload)} == {"/rd-lookup/res", "/rd-lookup/ep"}


class Described(resource.Resource):
    """A resource whose link has these attributes."""

    def __init__(self, **attributes: str) -> None:
        super().__init__()
        self.attributes = attributes

    def get_link_description(self) -> dict[str, str]:
        return self.attributes


@pytest.mark.parametrize(
    ("queries", "found"),
    [
        # RFC 6690, section 4.1, and its examples of section 5.
        (["rt=light-lux"], ["/sensors/light"]),
        (["rt=light*"], ["/sensors/light", "/sensors/lamp"]),
        (["rt=li"], []),
        (["if=sensor"], ["/sensors/temp", "/sensors/light"]),
        (["href=/sensors/t*"], ["/sensors/temp"]),
        (["href=/sensors/temp"], ["/sensors/temp"]),
        (["rt=core.s"], ["/sensors/light"]),
        (["title=*"], ["/sensors/temp"]),
        (["title=Roof top"], ["/sensors/temp"]),
        (["title=Roof"], []),
        (["rt=light*", "if=sensor"], ["/sensors/light"]),
        (["x=y"], []),
        (["none"], ["/sensors/temp", "/sensors/light", "/sensors/lamp"]),
    ],
)
def test_well_known_core_is_filtered_as_rfc_6690_has_it(
    queries: list[str], found: list[str]
) -> None:
    site = CountedSite()
    site.add_resource(
        ["sensors", "temp"],
        Described(rt="temperature-c", title="Roof top", **{"if": "sensor"}),
    )
    site.add_resource(["sensors", "light"], Described(rt="light-lux core.s", **{"if": "sensor"}))
    site.add_resource(["sensors", "lamp"], Described(rt="light-switch"))
    asked = get("/.well-known/core", *[(URI_QUERY, query.encode()) for query in queries])
    for _ in range(2):  # the second one is kept
        response = ask(WellKnownCore(site), asked)
        assert response is not None
        hrefs = [one.partition(">")[0] for one in response.payload.decode().split("<")[1:]]
        assert hrefs == found


@pytest.mark.parametrize(
    "request_",
    [
        get("/.well-known/core", code=Code.FETCH),
        get("/.well-known/core", (ACCEPT, bytes([50]))),
        get("/.well-known/core", (URI_QUERY, b"\xff")),
        get("/.well-known/rd"),
    ],
)
def test_other_requests_to_well_known_core_are_left_to_the_resource(
    request_: CoapRequest,
) -> None:
    assert ask(WellKnownCore(CountedSite()), request_) is None


async def test_links_that_are_asked_for_in_many_ways_are_right_each_time() -> None:
    site = CountedSite()
    for name in ("roof", "wall"):
        site.add_resource(["sensors", name], resource.Resource())
    core = WellKnownCore(site)
    wanted = get("/.well-known/core", (URI_QUERY, b"href=/sensors/roof"))
    first = ask(core, wanted)
    assert first is not None
    assert first.payload == b"</sensors/roof>"
    assert ask(core, wanted) is first, "it is kept"
    for number in range(LINKS_KEPT_MAX - 1):
        none = ask(core, get("/.well-known/core", (URI_QUERY, b"href=/%d" % number)))
        assert none is not None
        assert none.payload == b""
    assert ask(core, wanted) is first
    ask(core, get("/.well-known/core", (URI_QUERY, b"href=/one-more")))
    again = ask(core, wanted)
    assert again == first
    assert again is not first
    assert not core.observe(1, wanted, lambda *_: None)
    for refused in ((URI_QUERY, b"\xff"), (ACCEPT, b"\x32"), (65_005, b"")):
        assert ask(core, get("/.well-known/core", refused)) is None
    assert ask(core, get("/.well-known/core", code=Code.POST)) is None
    assert ask(core, get("/.well-known/other")) is None


async def test_a_change_is_told_in_each_format_that_can_say_it_and_to_nobody_else() -> None:
    roof = Roof()
    answers = roof.sensors.answers
    assert not answers.observe(1, get("/sensors/none"), roof.respond)
    assert not answers.observe(1, get("/sensors/roof", (ACCEPT, b"\x32")), roof.respond)
    assert answers.observe(1, get("/sensors/roof"), roof.respond)
    answers.changed("roof")
    assert roof.told == [], "it has not been read"
    async with roof.read():
        for _ in range(3):
            await asyncio.sleep(0)
    assert [exchange for exchange, _, _ in roof.told] == [1]
    answers.ended(1)
    answers.changed("roof")
    assert len(roof.told) == 1


async def test_of_very_many_children_as_many_links_are_told_as_there_may_be() -> None:
    roof = Roof()
    for number in range(20):
        roof.pump.children.add(f"part-{number:02}", ChildResource())
    roof.sensors.devices.begin(lambda: None)
    roof.sensors.remove("pump")
    roof.sensors.add(roof.pump)
    assert [len(roof.sensors.links(most)) for most in (1, 2, 3, 21, 22, 30)] == [
        2,
        2,
        3,
        21,
        22,
        22,
    ]
    hrefs = [link.href for link in roof.sensors.links(4)]
    assert hrefs == ["/sensors/roof", "/sensors/pump", *(
        f"/sensors/pump/part-{number:02}" for number in range(2)
    )]  # fmt: skip
    await roof.sensors.devices.stop()

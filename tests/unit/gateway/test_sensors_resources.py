"""Sensors over CoAP: read, set and observed by aiocoap's client over loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiocoap
import pytest
from aiocoap import Code, Message, resource

from dtls.keystore import Keystore
from gateway.coap.sensor_resources import SensorResources
from gateway.coap.server import CoapListener, CoapServer
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.sensors.switch import Switch
from resource_directory.link_format import parse
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from tests.policies import open_access
from tree_handler.member import Place

WALL_CLOCK_S = 1_700_000_000.5


class Thermometer(Sensor):
    unit = "Cel"
    resource_type = "temperature"
    broken = False

    def read(self) -> float:
        if self.broken:
            raise OSError("bus error")
        return 21.5


class Served:
    """Sensors behind a loopback port, and a client of it."""

    def __init__(self) -> None:
        self.delivered: list[tuple[str, float]] = []
        self.sampler = Sampler(
            lambda _, record: self.delivered.append((record.name, record.value)),
            wall_clock=lambda: WALL_CLOCK_S,
            clock=lambda: 50.0,
        )
        self.site = resource.Site()
        self.sensors = SensorResources(
            self.site, self.sampler, "gw-north", Place("campus", "north")
        )
        self.thermometer = Thermometer(
            "roof/temperature", interval_s=30, attributes={"position": "roof"}
        )
        self.switch = Switch("pump")
        for sensor in (self.thermometer, self.switch):
            self.sampler.add(sensor)
            self.sensors.add(sensor)
        self.client: aiocoap.Context
        self.port: int | None = None

    def message(self, code: Code, path: str, **options: object) -> Message:
        return Message(code=code, uri=f"coap://127.0.0.1:{self.port}{path}", **options)

    async def ask(self, code: Code, path: str, **options: object) -> Message:
        return await self.client.request(self.message(code, path, **options)).response


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    server = CoapServer(
        served.site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=Keystore(),
        access=open_access(),
        at_hand=(served.sensors.answers,),
    )
    async with server:
        served.port = server.coap_port
        served.client = await aiocoap.Context.create_client_context()
        yield served
        await served.client.shutdown()


async def test_a_sensor_answers_senml_json(served: Served) -> None:
    response = await served.ask(Code.GET, "/sensors/roof/temperature")
    assert (response.code, response.opt.content_format) == (Code.CONTENT, 110)
    assert response.opt.max_age == 30
    assert json.loads(response.payload) == [
        {"bn": "gw-north/", "n": "roof/temperature", "u": "Cel", "v": 21.5, "t": WALL_CLOCK_S}
    ]


async def test_a_sensor_answers_plain_text_if_it_is_asked_for(served: Served) -> None:
    response = await served.ask(Code.GET, "/sensors/roof/temperature", accept=0)
    assert (response.payload, response.opt.content_format) == (b"21.5", 0)
    response = await served.ask(Code.GET, "/sensors/roof/temperature", accept=60)
    assert response.code == Code.NOT_ACCEPTABLE


async def test_a_sensor_that_fails_says_so(served: Served) -> None:
    served.thermometer.broken = True
    response = await served.ask(Code.GET, "/sensors/roof/temperature")
    assert response.code == Code.SERVICE_UNAVAILABLE
    assert response.payload == b"roof/temperature: OSError: bus error"


@pytest.mark.parametrize(
    ("payload", "content_format"),
    [(b"1", 0), (b"1.0", None), (b'[{"v":1}]', 110), (b'[{"n":"pump","vb":true}]', 110)],
)
async def test_a_put_sets_an_actuator_and_the_new_value_is_delivered(
    served: Served, payload: bytes, content_format: int | None
) -> None:
    response = await served.ask(
        Code.PUT, "/sensors/pump", payload=payload, content_format=content_format
    )
    assert response.code == Code.CHANGED
    assert served.delivered == [("pump", 1.0)]
    assert (await served.ask(Code.GET, "/sensors/pump", accept=0)).payload == b"1.0"


@pytest.mark.parametrize(
    ("payload", "content_format", "code", "diagnostic"),
    [
        (b"on", 0, Code.BAD_REQUEST, b"the payload is not a number"),
        (b"", None, Code.BAD_REQUEST, b"the payload is not a number"),
        (b"\xff", 0, Code.BAD_REQUEST, b"the payload is not a number"),
        (b"nan", 0, Code.BAD_REQUEST, b"the payload is not a finite number"),
        (b"1" + b" " * 64, 0, Code.BAD_REQUEST, b"the payload is not a finite number"),
        (b"0.5", 0, Code.BAD_REQUEST, b"0.5 is neither 0 nor 1"),
        (b'[{"v":"1"}]', 110, Code.BAD_REQUEST, b"v: '1' is not a number"),
        (b"1", 60, Code.UNSUPPORTED_CONTENT_FORMAT, b"senml+json (110) or text/plain (0)"),
    ],
)
async def test_a_value_that_can_not_be_set_is_refused_with_a_diagnostic(
    served: Served, payload: bytes, content_format: int | None, code: Code, diagnostic: bytes
) -> None:
    response = await served.ask(
        Code.PUT, "/sensors/pump", payload=payload, content_format=content_format
    )
    assert (response.code, response.payload) == (code, diagnostic)
    assert served.switch.read() == 0.0
    assert served.delivered == []


async def test_a_sensor_can_not_be_set(served: Served) -> None:
    response = await served.ask(Code.PUT, "/sensors/roof/temperature", payload=b"1")
    assert response.code == Code.METHOD_NOT_ALLOWED


async def test_an_observer_is_told_each_new_value_and_when_the_sensor_goes(
    served: Served,
) -> None:
    request = served.client.request(served.message(Code.GET, "/sensors/pump", observe=0, accept=0))
    assert (await request.response).payload == b"0.0"
    notifications = aiter(request.observation)
    await served.ask(Code.PUT, "/sensors/pump", payload=b"1")
    assert (await anext(notifications)).payload == b"1.0"
    served.sensors.remove("pump")
    assert (await anext(notifications)).code == Code.NOT_FOUND
    assert (await served.ask(Code.GET, "/sensors/pump")).code == Code.NOT_FOUND


async def test_sensors_are_found_in_the_gateways_own_directory_by_their_attributes(
    served: Served,
) -> None:
    registry = Registry()
    served.sensors.register(registry, "coap://192.0.2.1:5683", 0.0)
    for criterion in ("rt=temp*", "unit=Cel", "position=roof", "if=core.s", "ct=110&position=roof"):
        query = LookupQuery.parse(criterion.split("&"))
        search = registry.find_resources(query, 1e9)
        assert search.go_on(1_000)
        assert search.texts == [
            '<coap://192.0.2.1:5683/sensors/roof/temperature>;rt="temperature";if="core.s";'
            'ct="110 0";obs;unit="Cel";domain="campus";group="north";position="roof"'
        ]
    served.sensors.remove("pump")
    served.sensors.register(registry, "coap://192.0.2.1:5683", 1.0)
    query = LookupQuery.parse(["d=campus", "ep=gw-north", "group=north"])
    search = registry.find_resources(query, 1.0)
    assert search.go_on(1_000)
    assert len(search.texts) == 1


async def test_the_links_of_sensors_are_those_of_well_known_core(served: Served) -> None:
    listed = parse(str(served.site.get_resources_as_linkheader()))
    own = {("/sensors", frozenset({("ct", "110"), ("title", "all sensors; FETCH some by name")}))}
    assert {(link.href, frozenset(link.attributes)) for link in listed} - own == {
        (link.href, frozenset(link.attributes)) for link in served.sensors.links()
    }

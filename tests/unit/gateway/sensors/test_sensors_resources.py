"""Sensors over CoAP: read, set and observed by aiocoap's client over loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

import aiocoap
import pytest
from aiocoap import Code, Message, resource

from dtls.keystore import Keystore
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.server import CoapListener, CoapServer
from gateway.sensors import senml
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor, SensorPart
from gateway.sensors.switch import Switch
from gateway.sensors.values import Measured, Outcome, ValueKind
from record_formats.value import Value
from resource_directory.link_format import parse
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from tests.policies import open_access
from tree_handler.members.place import Place

WALL_CLOCK_S = 1_700_000_000.5
FORMATS = b"senml+json (110), senml+cbor (112) or text/plain (0)"


class Thermometer(Sensor):
    unit = "Cel"
    resource_type = "temperature"
    broken = False

    def read(self) -> float:
        if self.broken:
            raise OSError("bus error")
        return 21.5


class Kept(Actuator):
    """Keeps a value of any kind."""

    is_quick = True

    def __init__(self, name: str, kind: ValueKind, value: Value | Measured | None) -> None:
        super().__init__(name)
        self.kind = kind
        self.value = value

    def read(self) -> Outcome:
        assert self.value is not None
        return self.value

    def write(self, value: Value) -> None:
        self.value = value


class Air(Sensor):
    parts: Mapping[str, SensorPart] = {"t": SensorPart("Cel"), "label": SensorPart(kind="text")}

    def read(self) -> Outcome:
        return {"t": 21.5, "label": Measured("dry", None, "uncertain", {"by": "eye"})}


class Served:
    """Sensors behind a loopback port, and a client of it."""

    def __init__(self) -> None:
        self.delivered: list[tuple[str, Value | None]] = []
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
            self.serve(sensor)
        self.client: aiocoap.Context
        self.port: int | None = None

    def serve(self, sensor: Sensor) -> None:
        self.sampler.add(sensor)
        self.sensors.add(sensor)

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
    [
        (b"1", 0),
        (b"1.0", None),
        (b'[{"v":1}]', 110),
        (b'[{"n":"pump","vb":true}]', 110),
        (b"\x81\xa1\x02\x01", 112),
        (b"\x81\xa1\x04\xf5", 112),
    ],
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
        (b"1", 60, Code.UNSUPPORTED_CONTENT_FORMAT, FORMATS),
        (b"\xff", 112, Code.BAD_REQUEST, b"not CBOR: "),
        (b"\x81\xa1\x03\x61a", 112, Code.BAD_REQUEST, b"vs: 'a' is not a number"),
        (b'[{"vs":"on"}]', 110, Code.BAD_REQUEST, b"vs: 'on' is not a number"),
    ],
)
async def test_a_value_that_can_not_be_set_is_refused_with_a_diagnostic(
    served: Served, payload: bytes, content_format: int | None, code: Code, diagnostic: bytes
) -> None:
    response = await served.ask(
        Code.PUT, "/sensors/pump", payload=payload, content_format=content_format
    )
    assert response.code == code
    assert response.payload.startswith(diagnostic)
    assert served.switch.read() == 0.0
    assert served.delivered == []


VALUES: list[tuple[str, Value, bytes]] = [
    ("number", 21.5, b"21.5"),
    ("text", "ajar \u00fc", "ajar \u00fc".encode()),
    ("boolean", True, b"true"),
    ("bytes", b"\xfb\xff\xfe\x01", b"-__-AQ"),
]


@pytest.mark.parametrize(("kind", "value", "text"), VALUES)
async def test_every_kind_is_read_and_set_in_every_format(
    served: Served, kind: ValueKind, value: Value, text: bytes
) -> None:
    served.serve(Kept("kept", kind, value))
    as_json = await served.ask(Code.GET, "/sensors/kept")
    as_cbor = await served.ask(Code.GET, "/sensors/kept", accept=112)
    plain = await served.ask(Code.GET, "/sensors/kept", accept=0)
    assert [a.opt.content_format for a in (as_json, as_cbor, plain)] == [110, 112, 0]
    for answer in (as_json, as_cbor):
        (found,) = senml.decode(answer.payload, answer.opt.content_format)
        assert (found.name, found.value) == ("gw-north/kept", value)
    assert plain.payload == text
    served.serve(Kept("other", kind, None))
    for answer in (as_json, as_cbor, plain):
        payload = answer.payload.replace(b"/kept", b"/other").replace(b"dkept", b"eother")
        payload = payload.replace(b'"kept"', b'"other"')
        form = answer.opt.content_format
        changed = await served.ask(Code.PUT, "/sensors/other", payload=payload, content_format=form)
        assert (changed.code, changed.payload) == (Code.CHANGED, b"")
        assert served.delivered.pop() == ("other", value)


@pytest.mark.parametrize(
    ("kind", "payload", "form", "diagnostic"),
    [
        ("boolean", b"maybe", 0, b"the payload is neither true nor false"),
        ("boolean", b'[{"v":2}]', 110, b"v: 2.0 is not a boolean"),
        ("text", b"\xff", 0, b"no UTF-8"),
        ("text", b'[{"v":2}]', 110, b"v: 2.0 is not a text"),
        ("text", b"x" * 16_385, 0, b"a value of 16385 bytes, over 16384"),
        ("bytes", b"A", 0, b"no base64url"),
        ("bytes", b'[{"vs":"AA"}]', 110, b"vs: not bytes"),
    ],
)
async def test_a_value_of_another_kind_is_refused_and_named(
    served: Served, kind: ValueKind, payload: bytes, form: int, diagnostic: bytes
) -> None:
    served.serve(Kept("kept", kind, None))
    answer = await served.ask(Code.PUT, "/sensors/kept", payload=payload, content_format=form)
    assert (answer.code, answer.payload) == (Code.BAD_REQUEST, diagnostic)
    assert served.delivered == []


async def test_several_values_are_one_pack_and_no_text(served: Served) -> None:
    served.serve(Air("air"))
    answer = await served.ask(Code.GET, "/sensors/air")
    assert json.loads(answer.payload) == [
        {"bn": "gw-north/", "n": "air/t", "u": "Cel", "v": 21.5, "t": WALL_CLOCK_S},
        {
            "n": "air/label",
            "vs": "dry",
            "t": WALL_CLOCK_S,
            "q": "uncertain",
            "g:by": "eye",
        },
    ]
    answer = await served.ask(Code.GET, "/sensors/air", accept=0)
    assert (answer.code, answer.payload) == (
        Code.NOT_ACCEPTABLE,
        b"several values: senml+json (110) or senml+cbor (112)",
    )


async def test_a_sensor_without_a_value_says_that_it_is_bad(served: Served) -> None:
    served.serve(Kept("kept", "text", Measured(None, quality="bad")))
    answer = await served.ask(Code.GET, "/sensors/kept")
    assert (answer.code, answer.payload) == (
        Code.SERVICE_UNAVAILABLE,
        b"kept: no value, it is bad",
    )


def test_a_link_says_units_of_all_parts_how_long_values_are_and_its_title(served: Served) -> None:
    frame = Kept("frame", "bytes", b"")
    frame.size_bytes, frame.attributes = 4_000, {"title": "Last frame"}
    served.serve(frame)
    served.serve(Air("air"))
    links = {link.href: dict(link.attributes) for link in served.sensors.links()}
    assert links["/sensors/frame"].items() >= {"sz": "4000", "title": "Last frame"}.items()
    assert links["/sensors/air"].items() >= {"ct": "110 112", "unit": "Cel"}.items()
    assert links["/sensors/pump"]["ct"] == "110 112 0"
    assert "sz" not in links["/sensors/pump"]


async def test_a_sensor_can_not_be_set(served: Served) -> None:
    response = await served.ask(Code.PUT, "/sensors/roof/temperature", payload=b"1")
    assert response.code == Code.METHOD_NOT_ALLOWED
    assert response.payload == b"roof/temperature is a sensor, which can only be read"


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
            'ct="110 112 0";obs;unit="Cel";domain="campus";group="north";position="roof"'
        ]
    served.sensors.remove("pump")
    served.sensors.register(registry, "coap://192.0.2.1:5683", 1.0)
    query = LookupQuery.parse(["d=campus", "ep=gw-north", "group=north"])
    search = registry.find_resources(query, 1.0)
    assert search.go_on(1_000)
    assert len(search.texts) == 1


async def test_the_links_of_sensors_are_those_of_well_known_core(served: Served) -> None:
    listed = parse(str(served.site.get_resources_as_linkheader()))
    own = {
        ("/sensors", frozenset({("ct", "110 112"), ("title", "all sensors; FETCH some by name")}))
    }
    assert {(link.href, frozenset(link.attributes)) for link in listed} - own == {
        (link.href, frozenset(link.attributes)) for link in served.sensors.links()
    }

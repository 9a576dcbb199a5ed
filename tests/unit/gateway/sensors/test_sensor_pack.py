"""All sensors in one SenML pack, and a choice of them by FETCH (RFC 8790)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import cbor2
import pytest
from aiocoap import Code, Message, error, resource
from aiocoap.message import Direction
from loop_turns import LoopTurns, each_row_alone, turns

from dtls.datagrams import PeerAddress
from dtls.identity import ANONYMOUS
from gateway.coap.operations.status import JSON
from gateway.coap.requester import Requester
from gateway.coap.sensors.pack import AT_ONCE, SENML_ETCH_CBOR, SENML_ETCH_JSON, SensorPack
from gateway.coap.sensors.resources import SensorResources
from gateway.sensors.reading import Reading
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor, SensorError
from gateway.sensors.switch import Switch
from tree_handler.members.place import Place

ASKER = Requester(
    "coap", ANONYMOUS, PeerAddress(("127.0.0.1", 40_000)), ("127.0.0.1", 5683), "asker"
)


class Steady(Sensor):
    """Always reads the same; nothing at all if it is broken."""

    def __init__(self, name: str, value: float | None, unit: str = "Cel") -> None:
        super().__init__(name, unit=unit)
        self._value = value

    def read(self) -> float:
        if self._value is None:
            raise SensorError(self.name, "torn off")
        return self._value


@pytest.fixture
def site() -> resource.Site:
    made = resource.Site()
    sampler = Sampler(lambda *_: None)
    sensors = SensorResources(made, sampler, "gw-1", Place("campus"))
    for sensor in (Steady("roof/temp", 21.5), Steady("torn", None), Switch("valve")):
        sampler.add(sensor)
        sensors.add(sensor)
    return made


async def ask(site: resource.Site, code: Code, payload: object = b"", **options: Any) -> Any:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    message = Message(code=code, uri_path=("sensors",), payload=body, **options)
    message.direction = Direction.INCOMING
    message.remote = ASKER
    return await site.render(message)


async def fetch(site: resource.Site, payload: object) -> list[dict[str, Any]]:
    answer = await ask(site, Code.FETCH, payload, content_format=SENML_ETCH_JSON)
    assert answer.opt.content_format == 110
    found: list[dict[str, Any]] = json.loads(answer.payload)
    return found


def values(pack: list[dict[str, Any]]) -> dict[str, float]:
    base = pack[0]["bn"] if pack else ""
    assert not [record for record in pack[1:] if "bn" in record]
    return {base + record["n"]: record["v"] for record in pack}


async def test_what_may_not_be_read_alone_is_not_read_in_a_pack() -> None:
    made, asked = resource.Site(), list[Any]()

    def may_read(remote: Any, name: str) -> bool:
        asked.append(remote)
        return name != "roof/temp"

    sampler = Sampler(lambda *_: None)
    sensors = SensorResources(made, sampler, "gw-1", Place("campus"), may_read)
    for sensor in (Steady("roof/temp", 21.5), Switch("valve")):
        sampler.add(sensor)
        sensors.add(sensor)
    assert values(json.loads((await ask(made, Code.GET)).payload)) == {"gw-1/valve": 0.0}
    with pytest.raises(error.Forbidden, match="gw-1/roof/temp"):
        await fetch(made, [{"n": "gw-1/valve"}, {"n": "gw-1/roof/temp"}])
    assert values(await fetch(made, [{"n": "gw-1/valve"}])) == {"gw-1/valve": 0.0}
    assert len(asked) == 5


async def test_all_that_can_be_read_are_in_the_pack(site: resource.Site) -> None:
    pack = json.loads((await ask(site, Code.GET)).payload)
    assert values(pack) == {"gw-1/roof/temp": 21.5, "gw-1/valve": 0.0}
    assert pack[0]["u"] == "Cel"
    assert pack[0]["t"] > 0


async def test_rfc8790_3_1_those_are_fetched_that_are_named(site: resource.Site) -> None:
    assert values(await fetch(site, [{"n": "gw-1/valve"}])) == {"gw-1/valve": 0.0}
    both = [{"bn": "gw-1/", "n": "valve"}, {"n": "roof/temp"}]
    assert list(values(await fetch(site, both))) == ["gw-1/valve", "gw-1/roof/temp"]
    assert values(await fetch(site, [{"n": "roof/temp"}])) == {"gw-1/roof/temp": 21.5}
    assert await fetch(site, [{"n": "torn"}]) == []


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[" * 100_000, [], {}, [1], [{"n": 1}], [{"n": "valve", "v": 1}], [{}] * 257],
)
async def test_a_body_that_names_nothing_is_refused(site: resource.Site, payload: object) -> None:
    with pytest.raises((error.BadRequest, error.NotFound)):
        await fetch(site, payload)


async def test_a_pack_is_given_and_asked_for_in_cbor(site: resource.Site) -> None:
    body = cbor2.dumps([{-2: "gw-1/", 0: "valve"}, {0: "roof/temp"}])
    options = {"content_format": SENML_ETCH_CBOR, "accept": 112}
    answer = await ask(site, Code.FETCH, body, **options)
    assert answer.opt.content_format == 112
    pack = cbor2.loads(answer.payload)
    assert [(one[0], one[2]) for one in pack] == [("valve", 0.0), ("roof/temp", 21.5)]
    with pytest.raises(error.BadRequest, match="not CBOR"):
        await ask(site, Code.FETCH, b"\xff", content_format=SENML_ETCH_CBOR)


async def test_a_sensor_that_is_not_here_is_named(site: resource.Site) -> None:
    with pytest.raises(error.NotFound, match="no sensor 'gw-2/valve'"):
        await fetch(site, [{"n": "valve"}, {"n": "gw-2/valve"}])


async def test_other_formats_are_refused(site: resource.Site) -> None:
    with pytest.raises(error.UnsupportedContentFormat, match=r"senml-etch\+json \(320\) or \+cbor"):
        await ask(site, Code.FETCH, [{"n": "valve"}], content_format=110)
    with pytest.raises(error.NotAcceptable):
        await ask(site, Code.GET, accept=0)


class Hung(Sensor):
    """A driver that does not come back before it is let go."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.let_go = asyncio.Event()

    async def read(self) -> float:
        await self.let_go.wait()
        return 1.0


class Unrendered:
    """A sensor's resource of which a pack needs the sensor alone."""

    def __init__(self, sensor: Sensor) -> None:
        self.sensor = sensor

    def good_for_s(self, _reading: Reading) -> float:
        return 0.0

    def rendered(self, _accept: int | None, _reading: Reading) -> None:
        return None


async def test_drivers_that_hang_keep_no_other_sensor_from_the_pack() -> None:
    hung, steady = [Hung(f"hung/{number}") for number in range(AT_ONCE + 1)], Steady("temp", 21.5)
    sampler = Sampler(lambda *_: None, timeout_s=60.0)
    sampler.add_all([*hung, steady])
    await sampler.current(steady)
    served = {sensor.name: Unrendered(sensor) for sensor in (*hung, steady)}
    pack = SensorPack(served, sampler, "gw-1/", wait_s=0.01)
    answer = await pack.render_get(Message(code=Code.GET))
    assert values(json.loads(answer.payload)) == {"gw-1/temp": 21.5}
    # The reads go on, and whoever asks again gets what came of them.
    hung[0].let_go.set()
    while "gw-1/hung/0" not in (found := values(json.loads(answer.payload))):
        answer = await pack.render_get(Message(code=Code.GET))
    assert found == {"gw-1/hung/0": 1.0, "gw-1/temp": 21.5}
    sampler.close()


class Many:
    """The sensors of a gateway that has hundreds, of which some may go meanwhile."""

    def __init__(self, count: int) -> None:
        self.names = [f"s{number}" for number in range(count)]
        self.counted = LoopTurns()

    def listed(self) -> Iterator[dict[str, Any]]:
        for name in tuple(self.names):
            self.counted.note()
            yield {"name": name, "unit": "Cel"}


async def test_hundreds_of_sensors_are_listed_in_turns_and_each_that_stays_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    each_row_alone(monkeypatch)
    site, many = resource.Site(), Many(500)
    stays, asked = many.names[100:], list(many.names)
    roll: Any = many
    SensorResources(site, Sampler(lambda *_: None), "gw-1", Place("campus")).roll(roll)
    asking = asyncio.create_task(ask(site, Code.GET, accept=JSON))
    await turns(3)
    del many.names[:100]
    many.names.append("new")
    told = json.loads((await asking).payload)["sensors"]
    assert max(many.counted.stop().values()) == 1
    names = [one["name"] for one in told]
    assert [one for one in names if one in stays] == stays
    assert len(names) == len(set(names)) and set(names) <= {*asked, "new"}
    assert all(one["unit"] == "Cel" for one in told)

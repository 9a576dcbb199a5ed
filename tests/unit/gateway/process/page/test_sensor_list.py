"""Hundreds of sensors are listed in turns, and a row is made anew as soon as it would differ."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_turns import each_row_alone

from gateway.process.page.api_request import ApiRequest
from gateway.process.page.reading_history import ReadingHistory
from gateway.process.page.sensor_list_api import SensorListApi
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.reading import Reading
from gateway.sensors.sensor import Actuator, Sensor
from gateway.sensors.stock import SensorPlan
from gateway.sensors.values import Measured
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError

COUNT = 500
ANNA = Principal("user", "anna")


def configured(name: str, kind: str = "own", of: type[Sensor] = Sensor) -> ConfiguredSensor:
    return ConfiguredSensor(of(name), table={"type": kind, "name": name})


def said(number: int) -> Reading:
    return Reading({"": Measured(float(number), "Cel")}, float(number), 0.0)


class House:
    """Sensors, what they say, and who may see and set them."""

    def __init__(self, *sensors: ConfiguredSensor) -> None:
        self.plan = SensorPlan(configured=sensors)
        self.history = ReadingHistory()
        self.failing: set[str] = set()
        self.unread: set[str] = set()
        self.denied: set[tuple[str, str]] = set()

    def rights(self, _visitor: Principal) -> House:
        return self

    def may(self, method: str, path: tuple[str, ...]) -> Any:
        return SimpleNamespace(is_allowed=(method, path[-1]) not in self.denied)

    def listen(self, _listener: Any) -> None:
        pass

    def reads(self, sensor: Sensor) -> bool:
        return sensor.name not in self.unread

    def state_of(self, sensor: Sensor) -> str:
        return "bad" if sensor.name in self.failing else "good"

    def list_api(self) -> SensorListApi:
        house: Any = self
        return SensorListApi(house, house, house, self.history)


async def rows(api: SensorListApi, hour: int = 0) -> list[dict[str, Any]]:
    answer = await api.sensors(ApiRequest(ANNA, "", {}, {"hour": hour}, {}))
    told = msgspec.json.decode(msgspec.json.encode(answer))["sensors"]
    assert isinstance(told, list)
    return told


async def names(api: SensorListApi) -> list[str]:
    return [one["name"] for one in await rows(api)]


def many() -> House:
    return House(*[configured(f"s{number}") for number in range(COUNT)])


async def test_others_have_turns_while_hundreds_of_sensors_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    each_row_alone(monkeypatch)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = await names(many().list_api())
    beside.cancel()
    assert found == [f"s{number}" for number in range(COUNT)]
    assert turns >= COUNT - 1


async def test_sensors_that_come_and_go_while_they_are_listed_tear_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    each_row_alone(monkeypatch)
    house = many()
    listing = asyncio.create_task(names(house.list_api()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    house.plan = SensorPlan(configured=[*house.plan.configured[100:], configured("new")])
    house.unread.update(f"s{number}" for number in range(100))
    found = await listing
    assert len(found) == len(set(found))
    assert set(found) >= {f"s{number}" for number in range(100, COUNT)}


async def test_who_may_read_one_sensor_alone_sees_no_other() -> None:
    house = many()
    house.denied = {("GET", f"s{number}") for number in range(1, COUNT)}
    api = house.list_api()
    assert await names(api) == ["s0"]
    house.denied = {("GET", "sensors")}
    with pytest.raises(ApiError, match="sensors: the policy lets you read none"):
        await names(api)


async def test_the_last_hour_is_told_whenever_it_is_asked_for() -> None:
    house = House(configured("soil"))
    api = house.list_api()
    house.history.add("soil", said(1))
    (without,), (with_hour,) = await rows(api), await rows(api, hour=1)
    assert "hour" not in without["values"][0]
    assert len(with_hour["values"][0]["hour"]) == 60
    assert await rows(api) == [without]


async def test_rows_of_sensors_that_have_gone_are_forgotten() -> None:
    house = House()
    api = house.list_api()
    for number in range(1_000):
        house.plan = SensorPlan(configured=[configured(f"s{number}", of=Actuator)])
        house.denied ^= {("PUT", f"s{number}")}
        await rows(api)
    assert len(api) <= 2


CHANGES = ("reading", "state", "rights", "set", "table", "added", "unread")


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(("lamp", "soil"))), max_size=9))
def test_a_row_is_what_it_would_be_if_nobody_had_asked_before(
    changes: list[tuple[str, str]],
) -> None:
    asyncio.run(_goes_by_changes(changes))


async def _goes_by_changes(changes: list[tuple[str, str]]) -> None:
    house = House(configured("lamp", of=Actuator), configured("soil"))
    api = house.list_api()
    await rows(api)
    for number, (change, name) in enumerate(changes):
        _make(house, change, name, number)
        assert await rows(api) == await rows(house.list_api())


def _make(house: House, change: str, name: str, number: int) -> None:
    plan = house.plan
    match change:
        case "reading":
            house.history.add(name, said(number))
        case "state":
            house.failing ^= {name}
        case "rights":
            house.denied ^= {("GET", name)}
        case "set":
            house.denied ^= {("PUT", name)}
        case "table":
            of = Actuator if name == "lamp" else Sensor
            new = [
                configured(name, f"own{number}", of) if one.sensor.name == name else one
                for one in plan.configured
            ]
            house.plan = SensorPlan(new, plan.added)
        case "added":
            house.plan = SensorPlan(plan.added, plan.configured)
        case "unread":
            house.unread ^= {name}

"""Each call of a driver fails, in every way: all other sensors go on, and its own comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from virtual_loop import VirtualLoop

from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor, SensorError
from record_formats.record import Record
from record_formats.value import GOOD, Value

LIFE_S = 60.0
TIMEOUT_S = 2.0
WRITTEN_AT_S = (5.0, 9.0)


class Unspeakable:
    """An object that raises however it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


async def _raise(error: Exception) -> Any:
    raise error


async def _hang() -> Any:
    await asyncio.Event().wait()


async def _late(value: object) -> Any:
    await asyncio.sleep(TIMEOUT_S * 0.9)
    return value


async def _give(value: object) -> Any:
    return value


FAULTS: dict[str, Callable[[], Any]] = {
    "raises OSError": lambda: _raise(OSError(5, "Input/output error")),
    "raises what nobody foresaw": lambda: _raise(ZeroDivisionError("division by zero")),
    "raises what can't be told": lambda: _raise(LookupError(Unspeakable())),
    "hangs": _hang,
    "is slow": lambda: _late(7.0),
    "is no value": lambda: _give(None),
    "is a number that no float holds": lambda: _give(10**400),
    "can't be told": lambda: _give(Unspeakable()),
    "is too long": lambda: _give("x" * 100_000),
}


class Driver:
    """Counts the calls of all sensors, of which one fails."""

    def __init__(self, number: int = 0, fault: Callable[[], Any] | None = None) -> None:
        self.calls = 0
        self.failed = ""
        self._number = number
        self._fault = fault

    async def call(self, name: str, value: Value) -> Any:
        self.calls += 1
        if self.calls == self._number and self._fault is not None:
            self.failed = name
            return await self._fault()
        return value


class Thermometer(Sensor):
    driver: Driver

    async def read(self) -> Any:
        return await self.driver.call(self.name, 21.5)


class Valve(Actuator):
    driver: Driver
    value: Value = 0.0

    async def read(self) -> Any:
        return await self.driver.call(self.name, self.value)

    async def write(self, value: Value) -> None:
        await self.driver.call(self.name, value)
        self.value = value


async def _life(driver: Driver, records: list[Record]) -> Sampler:
    loop = asyncio.get_running_loop()
    sampler = Sampler(
        lambda _, record: records.append(record),
        clock=loop.time,
        report=lambda _: None,
        timeout_s=TIMEOUT_S,
    )
    valve = Valve("valve", interval_s=1.0)
    sensors = [Thermometer("roof", interval_s=1.0), Thermometer("barn", interval_s=2.0), valve]
    for sensor in sensors:
        sensor.driver = driver  # type: ignore[attr-defined]  # all three have one
    sampler.add_all(sensors)
    running = asyncio.create_task(sampler.run())
    for at_s in WRITTEN_AT_S:
        await asyncio.sleep(at_s - loop.time())
        with suppress(SensorError):
            await sampler.write(valve, at_s, "psk:a")
    await asyncio.sleep(LIFE_S - loop.time())
    assert not running.done(), "nothing is read any more"
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    sampler.close()
    return sampler


def lived(driver: Driver) -> tuple[list[Record], Sampler]:
    records: list[Record] = []
    loop = VirtualLoop()
    try:
        return records, loop.run_until_complete(_life(driver, records))
    finally:
        loop.close()


@pytest.mark.drawn(4)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_whatever_call_fails_all_other_sensors_go_on_and_its_own_comes_back(fault: str) -> None:
    whole = Driver()
    lived(whole)
    assert whole.calls > 100
    for number in range(1, whole.calls + 1):
        driver = Driver(number, FAULTS[fault])
        records, sampler = lived(driver)
        where = f"call {number}, of {driver.failed!r}, {fault}"
        assert driver.failed, where
        for sensor in sampler.sensors:
            own = [record for record in records if record.name == sensor.name]
            numbers = [record.number for record in own]
            assert numbers == [*range(1, len(numbers) + 1)], where
            if sensor.name != driver.failed:
                assert {record.quality for record in own} == {GOOD}, where
                assert len(own) >= LIFE_S / sensor.interval_s - 1, where
            elif number < whole.calls - 20:
                assert own[-1].quality == GOOD, where
                assert sampler.state_of(sensor) == GOOD, where

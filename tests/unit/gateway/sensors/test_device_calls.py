"""Calls of one device come one after another, each by its turn, whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from gateway.sensors.device_calls import (
    OWN,
    WAITING_MAX,
    WAITING_MAX_OF_ASKER,
    DeviceCalls,
    nothing_against,
)
from gateway.sensors.sensor import SensorBusyError
from gateway.sensors.switch import Switch
from gateway.sensors.threads import DriverThreads

TIMEOUT_S = 60.0


class Device:
    """A device whose calls end when the test says so, and the calls that it had."""

    def __init__(self) -> None:
        self.sensor = Switch("pump")
        self.calls = DeviceCalls(DriverThreads(), TIMEOUT_S)
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def ask(
        self, name: str, asker: str = "a", check: Callable[[], None] = nothing_against
    ) -> asyncio.Task[str]:
        """Ask for a call; its task is there as far as it comes by itself."""
        end = self._ends[name] = asyncio.Event()

        async def work() -> str:
            self.began.append(name)
            await end.wait()
            return name

        task = asyncio.create_task(self.calls.call(self.sensor, work, asker, check=check))
        await settled()
        return task

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def device() -> AsyncIterator[Device]:
    made = Device()
    yield made
    made.calls.stop()
    await settled()


async def test_who_comes_while_a_turn_was_passed_on_waits_as_all_others(device: Device) -> None:
    first = await device.ask("first")
    second, third = await device.ask("second"), await device.ask("third")
    assert device.began == ["first"]
    await device.end("first")
    assert await first == "first"
    fourth = await device.ask("fourth")
    assert device.began == ["first", "second"]
    for name, task in (("second", second), ("third", third), ("fourth", fourth)):
        await device.end(name)
        assert await task == name
    assert device.began == ["first", "second", "third", "fourth"]
    await device.calls.until_over(device.sensor)


async def test_what_is_against_a_call_is_asked_when_its_turn_has_come_and_passes_it_on(
    device: Device,
) -> None:
    asked: list[str] = []

    def refuse() -> None:
        asked.append("second")
        raise LookupError("it was changed meanwhile")

    await device.ask("first")
    second, third = await device.ask("second", check=refuse), await device.ask("third")
    assert asked == []
    await device.end("first")
    assert (asked, device.began) == (["second"], ["first", "third"])
    with pytest.raises(LookupError, match="it was changed meanwhile"):
        await second
    await device.end("third")
    assert await third == "third"
    refused = await device.ask("fourth", check=refuse)
    assert device.began == ["first", "third"]
    with pytest.raises(LookupError):
        await refused
    await device.calls.until_over(device.sensor)


async def test_of_one_asker_and_of_all_others_so_many_calls_wait_and_the_gateways_own_besides(
    device: Device,
) -> None:
    await device.ask("first")
    waiting = [await device.ask(f"a{n}", "a") for n in range(WAITING_MAX_OF_ASKER)]
    with pytest.raises(SensorBusyError, match=f"{WAITING_MAX_OF_ASKER} calls wait for it"):
        await (await device.ask("one more", "a"))
    for number in range(WAITING_MAX - WAITING_MAX_OF_ASKER):
        waiting.append(await device.ask(f"b{number}", f"b{number}"))
    with pytest.raises(SensorBusyError, match=f"{WAITING_MAX} calls wait for it"):
        await (await device.ask("one more", "c"))
    waiting.append(await device.ask("own", OWN))
    assert not any(one.done() for one in waiting)
    await device.end("first")
    assert device.began == ["first", "own"], "the gateway's own call is the next"
    with pytest.raises(SensorBusyError, match=f"{WAITING_MAX} calls wait for it"):
        await (await device.ask("one more", "d"))

"""Writes to actuators: each has its turn, is done when the driver says so, and is told truly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiocoap import resource
from virtual_loop import VirtualLoop

from coap_engine import codes, option_numbers
from coap_engine.uint import decode_uint
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.sensors.resources import SensorResources
from gateway.sensors.device_calls import WAITING_MAX, WAITING_MAX_OF_ASKER
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import (
    Actuator,
    Sensor,
    SensorBusyError,
    SensorError,
    SensorLateError,
    ValueRefusedError,
)
from gateway.trust.policy.open_policy import OPEN
from gateway.trust.policy.policy import Policy, PolicyRules
from record_formats.record import Record
from record_formats.value import BAD, GOOD, Value
from tests.policies import open_access
from tree_handler.members.place import Place
from tree_handler.remote.options import REQUEST_ID
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

NAME, AGAIN = b"\0name", b"\x01name"


class Valve(Actuator):
    """An actuator whose device does what a test says."""

    def __init__(self, name: str = "valve", interval_s: float = 3600.0) -> None:
        super().__init__(name, interval_s=interval_s)
        self.value: Value = 0.0
        self.writes: list[Value] = []
        self.at_write: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.at_read: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def read(self) -> Value:
        if self.at_read is not None:
            await self.at_read()
        return self.value

    async def write(self, value: Value) -> None:
        self.writes.append(value)
        if self.at_write is not None:
            await self.at_write()
        self.value = value


class House:
    """A sampler with one valve, and its resources."""

    def __init__(self, *sensors: Sensor, timeout_s: float = 10.0) -> None:
        self.records: list[Record] = []
        loop = asyncio.get_running_loop()
        self.sampler = Sampler(
            lambda _, record: self.records.append(record),
            clock=loop.time,
            wall_clock=loop.time,
            report=lambda _: None,
            timeout_s=timeout_s,
        )
        site = resource.Site()
        self.resources = SensorResources(site, self.sampler, "gw", Place("campus"))
        self.access = open_access()
        self.execution = LocalExecution(
            site, "gw", self.access, (self.resources.answers,), turns=self.sampler.turns
        )
        for sensor in sensors:
            self.sampler.add(sensor)
            self.resources.add(sensor)

    async def put(
        self, value: bytes, name: bytes | None = None, sensor: str = "valve"
    ) -> ResourceResponse:
        options = () if name is None else ((REQUEST_ID, name),)
        path = ("sensors", *sensor.split("/"))
        return await self.execution(
            ResourceRequest("PUT", path, content_format=0, payload=value, options=options)
        )

    async def get(self) -> ResourceResponse:
        return await self.execution(ResourceRequest("GET", ("sensors", "valve"), (), accept=0))


async def _raise(error: BaseException) -> None:
    raise error


def max_age(response: ResourceResponse) -> int | None:
    found = [value for number, value in response.options if number == option_numbers.MAX_AGE]
    return decode_uint(found[0]) if found else None


def lived(life: Coroutine[Any, Any, None]) -> None:
    """Run something in virtual time."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(_to_the_end(life))
    finally:
        loop.close()


async def _to_the_end(life: Coroutine[Any, Any, None]) -> None:
    try:
        await life
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for one in left:
            one.cancel()
        await asyncio.wait(left, timeout=20) if left else None


class Slow(Valve):
    """A bus of 0.7 s for a read and 0.3 s for a write."""

    async def read(self) -> Value:
        await asyncio.sleep(0.7)
        return self.value

    async def write(self, value: Value) -> None:
        await super().write(value)
        await asyncio.sleep(0.3)


def test_writes_beside_reads_and_other_writes_have_their_turns_and_none_is_refused() -> None:
    valve = Slow(interval_s=1.0)

    async def whole() -> None:
        house = House(valve)
        running = asyncio.create_task(house.sampler.run())
        for number in range(25):
            await asyncio.sleep(0.31)
            assert (await house.put(b"%d" % number)).code == codes.CHANGED
        await asyncio.gather(*(house.sampler.write(valve, float(n), f"psk:{n}") for n in range(8)))
        await asyncio.sleep(3)
        running.cancel()
        assert valve.writes == [*range(25), *range(8)]
        assert {record.quality for record in house.records} == {GOOD}
        assert house.sampler.failed == 0

    lived(whole())


def test_a_full_queue_is_refused_with_max_age_and_one_asker_leaves_room_for_others() -> None:
    async def whole() -> None:
        valve, done = Valve(), asyncio.Event()
        house = House(valve)
        valve.at_write = lambda: _wait(done)
        begun = [asyncio.create_task(house.put(b"1")) for _ in range(1 + WAITING_MAX_OF_ASKER)]
        await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        refused = await house.put(b"2")
        assert (refused.code, max_age(refused)) == (codes.SERVICE_UNAVAILABLE, 10)
        assert refused.payload == b"valve: 4 calls wait for it"
        others = [
            asyncio.create_task(house.sampler.write(valve, 3.0, f"psk:{n}"))
            for n in range(WAITING_MAX - WAITING_MAX_OF_ASKER)
        ]
        await asyncio.sleep(0.1)
        with pytest.raises(SensorBusyError, match="16 calls wait"):
            await house.sampler.write(valve, 4.0, "psk:late")
        done.set()
        assert {one.code for one in await asyncio.gather(*begun)} == {codes.CHANGED}
        await asyncio.gather(*others)
        assert valve.writes[:4] == [1.0, 1.0, 3.0, 3.0]  # by turns, after the one under way
        assert sorted(map(float, valve.writes)) == [1.0] * 5 + [3.0] * 12

    lived(whole())


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


RAISED: list[BaseException] = [
    *(OSError(5, "bus error"), ZeroDivisionError(), RuntimeError("half \n\x1b[31mway")),
    *(SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("mine")),
    *(SensorBusyError("valve", "it says so itself", 1.0), SensorLateError("valve", "late")),
    *(TimeoutError("its own"), StopAsyncIteration(), MemoryError(), BaseException("base")),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("where", ["async", "quick", "thread"])
def test_a_write_that_raises_anything_is_5_00_and_its_name_is_not_carried_out_again(
    raised: BaseException, where: str
) -> None:
    class Quick(Valve):
        is_quick = where == "quick"

        def read(self) -> Value:  # type: ignore[override]  # not async
            return 0.0

        def write(self, value: Value) -> None:  # type: ignore[override]  # not async
            self.writes.append(value)
            raise raised

    async def whole() -> None:
        valve = Valve() if where == "async" else Quick()
        valve.at_write = lambda: _raise(raised)
        house = House(valve)
        running = asyncio.create_task(house.sampler.run())
        asking = asyncio.create_task(house.put(b"1", NAME))
        while not asking.done():
            await asyncio.sleep(0)
        first = await asking
        again = await house.put(b"1", AGAIN)
        assert first.code == again.code == codes.INTERNAL_SERVER_ERROR
        assert first.payload == again.payload
        assert first.payload.decode().isprintable()
        assert first.payload.startswith(b"valve: ")
        assert first.payload.endswith(b"; the value may be set")
        assert valve.writes == [1.0]
        assert not running.done()
        running.cancel()
        house.sampler.close()

    if where == "thread":
        asyncio.run(whole())  # threads take real time
    else:
        lived(whole())


def test_a_write_that_takes_too_long_is_5_04_for_every_asking_and_carried_out_once() -> None:
    async def whole() -> None:
        valve = Valve(interval_s=1.0)
        valve.at_write = lambda: asyncio.shield(asyncio.ensure_future(_sleep(12)))
        house = House(valve)
        first = await house.put(b"1", NAME)
        assert first.code == codes.GATEWAY_TIMEOUT
        assert first.payload == b"valve: not done within 10 s; the value may be set"
        for asked_s in (11, 30, 59):
            again = await house.put(b"1", bytes((asked_s,)) + NAME[1:])
            assert (again.code, again.payload) == (first.code, first.payload)
        assert valve.writes == [1.0]

    lived(whole())


def test_who_waits_behind_a_hanging_write_is_told_that_nothing_was_done_and_others_are_read() -> (
    None
):
    async def whole() -> None:
        valve, other = Valve(interval_s=1.0), Valve("other", interval_s=1.0)
        house = House(valve, other)
        running = asyncio.create_task(house.sampler.run())
        await asyncio.sleep(0.5)
        never = asyncio.Event()

        async def hang() -> None:
            while not never.is_set():
                try:
                    await never.wait()
                except asyncio.CancelledError:
                    continue

        valve.at_write = hang
        hanging, behind = await asyncio.gather(house.put(b"1", NAME), house.put(b"2", b"\0other"))
        later = await house.put(b"3", b"\0later")
        assert hanging.code == codes.GATEWAY_TIMEOUT
        for refused in (behind, later):
            assert (refused.code, max_age(refused)) == (codes.SERVICE_UNAVAILABLE, 10)
            assert refused.payload == b"valve: an earlier call has not come back"
        assert valve.writes == [1.0]
        # Nothing was done, so these may be asked for again, and are carried out then.
        valve.at_write = None
        never.set()
        await asyncio.sleep(15)
        assert (await house.put(b"2", b"\x0cother")).code == codes.CHANGED
        assert valve.writes == [1.0, 2.0]
        running.cancel()
        told = [one for one in house.records if one.name == "other"]
        assert len(told) >= 11
        assert {one.quality for one in told} == {GOOD}

    lived(whole())


@pytest.mark.parametrize("fault", ["raises", "hangs", "another value", "no value"])
def test_a_read_back_is_no_part_of_the_write(fault: str) -> None:
    async def whole() -> None:
        valve = Valve(interval_s=3600.0)
        house = House(valve)

        async def read_back() -> None:
            if fault == "raises":
                raise OSError("no answer")
            if fault == "hangs":
                await asyncio.Event().wait()
            valve.value = 7.0 if fault == "another value" else None  # type: ignore[assignment]

        valve.at_read = read_back
        for name in (NAME, AGAIN, b"\x02name"):
            assert (await house.put(b"1", name)).code == codes.CHANGED
        await asyncio.sleep(11)
        assert valve.writes == [1.0]
        (told,) = house.records  # the device's own word, once
        assert told.value == (7.0 if fault == "another value" else None)
        assert told.quality == (GOOD if fault == "another value" else BAD)

    lived(whole())


def test_what_a_late_write_has_done_is_read_and_told_when_it_is_over() -> None:
    async def whole() -> None:
        valve = Valve(interval_s=3600.0)
        house = House(valve)

        async def slowly() -> None:
            async def turn() -> None:
                await asyncio.sleep(15)
                valve.value = 1.0

            turning = asyncio.ensure_future(turn())
            while not turning.done():
                try:
                    await asyncio.shield(turning)
                except asyncio.CancelledError:
                    continue

        valve.at_write = slowly
        assert (await house.put(b"1")).code == codes.GATEWAY_TIMEOUT
        assert house.records == []
        await asyncio.sleep(6)
        assert [(one.value, one.quality) for one in house.records] == [(1.0, GOOD)]
        assert (await house.get()).payload == b"1.0"

    lived(whole())


def test_a_get_behind_a_put_says_what_the_device_says_then() -> None:
    async def whole() -> None:
        house = House(Slow(interval_s=3600.0))
        assert (await house.get()).payload == b"0.0"
        assert (await house.put(b"1")).code == codes.CHANGED
        assert (await house.get()).payload == b"1.0"
        assert [one.value for one in house.records] == [1.0]

    lived(whole())


def test_a_write_goes_on_though_who_asked_has_gone() -> None:
    async def whole() -> None:
        valve = Slow(interval_s=3600.0)
        house = House(valve)
        asking = asyncio.create_task(house.put(b"1"))
        await asyncio.sleep(0.1)
        asking.cancel()
        await asyncio.sleep(2)
        assert valve.value == 1.0
        assert [one.value for one in house.records] == [1.0]

    lived(whole())


def test_of_all_sensors_in_one_pack_those_that_hang_are_waited_for_once() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async def whole() -> None:
        valves = [Valve(f"v{n}") for n in range(40)]
        house, loop = House(*valves), asyncio.get_running_loop()
        for one in valves[:5]:
            one.at_read = hang
        began_s = loop.time()
        answer = await house.execution(ResourceRequest("GET", ("sensors",)))
        assert loop.time() - began_s < 11
        names = [one["n"] for one in json.loads(answer.payload)]
        assert names == [f"v{n}" for n in range(5, 40)]

    lived(whole())


def test_a_new_policy_does_not_say_of_a_write_under_way_that_it_was_refused() -> None:
    async def whole() -> None:
        valve = Slow(interval_s=3600.0)
        house = House(valve)
        asking = asyncio.create_task(house.put(b"1", NAME))
        await asyncio.sleep(0.1)
        house.access.follow(Policy(PolicyRules()))
        assert (await asking).code == codes.CHANGED
        assert (await house.put(b"1", AGAIN)).code == codes.UNAUTHORIZED
        house.access.follow(Policy(OPEN))
        assert (await house.put(b"1", AGAIN)).code == codes.CHANGED
        assert valve.writes == [1.0]

    lived(whole())


def test_a_value_that_is_refused_was_not_set_and_what_it_says_is_one_short_line() -> None:
    class OddError(ValueRefusedError):
        def __str__(self) -> str:
            if self.args[0] is None:
                raise LookupError
            return str(self.args[0])

    async def whole() -> None:
        valve = Valve()
        house = House(valve)
        for said, told in ((None, "OddError"), ("a\n\x1b[31mb" + "x" * 999, "a\\n\\x1b[31mb")):
            valve.at_write = lambda said=said: _raise(OddError(said))
            answer = await house.put(b"1", NAME)
            assert answer.code == codes.BAD_REQUEST
            assert answer.payload.decode().startswith(told)
            assert len(answer.payload) < 400
        valve.at_write = None
        assert (await house.put(b"1", AGAIN[:1] + b"other")).code == codes.GATEWAY_TIMEOUT
        assert (await house.put(b"1", NAME)).code == codes.CHANGED

    lived(whole())


def test_a_driver_that_cancels_itself_ends_no_sampling() -> None:
    class Cancelled(Sensor):
        is_quick = True

        def read(self) -> Value:
            raise asyncio.CancelledError

    class Cancelling(Sensor):
        async def read(self) -> Value:
            raise asyncio.CancelledError

    async def whole() -> None:
        odd = [Cancelled("quick", interval_s=1.0), Cancelling("async", interval_s=1.0)]
        house = House(*odd, Valve("good", interval_s=1.0))
        running = asyncio.create_task(house.sampler.run())
        await asyncio.sleep(5.5)
        assert not running.done()
        assert [house.sampler.state_of(one) for one in odd] == [BAD, BAD]
        assert sum(one.name == "good" for one in house.records) == 6
        with pytest.raises(SensorError, match="cancelled its own call"):
            await house.sampler.current(odd[1])
        running.cancel()

    lived(whole())

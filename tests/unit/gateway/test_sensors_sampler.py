"""The sampler: due sensors are read, numbered and handed on; no sensor holds another up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from cloud_ingest.record import Record
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor, SensorError, ValueRefusedError
from gateway.sensors.switch import Switch

WALL_CLOCK_S = 1_700_000_000.5


class Counter(Sensor):
    unit = "count"
    value = 0

    def read(self) -> float:
        self.value += 1
        return self.value


class Broken(Sensor):
    reads = 0

    def read(self) -> float:
        self.reads += 1
        raise KeyError("no such register")


class Gated(Sensor):
    """Its reading comes when ``gate`` is set."""

    def __init__(self, name: str, interval_s: float) -> None:
        super().__init__(name, interval_s=interval_s)
        self.gate = asyncio.Event()
        self.reads = 0

    async def read(self) -> float:
        self.reads += 1
        await self.gate.wait()
        return 7.0


class Bench:
    """A sampler and what it delivered."""

    def __init__(self, clock: Callable[[], float] | None = None, timeout_s: float = 60.0) -> None:
        self.records: asyncio.Queue[Record] = asyncio.Queue()
        self.failures: asyncio.Queue[SensorError] = asyncio.Queue()
        self.sampler = Sampler(
            lambda _, record: self.records.put_nowait(record),
            wall_clock=lambda: WALL_CLOCK_S,
            report=self.failures.put_nowait,
            timeout_s=timeout_s,
            **({} if clock is None else {"clock": clock}),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.sampler.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_readings_are_numbered_from_1_without_gaps_and_carry_the_wall_clock() -> None:
    bench = Bench()
    bench.sampler.add(Counter("a", interval_s=0.001))
    async with bench.running():
        records = [await bench.records.get() for _ in range(3)]
    assert records == [Record("a", "count", float(n), WALL_CLOCK_S, n) for n in (1, 2, 3)]


async def test_a_sensor_that_raises_is_reported_once_by_name_and_the_others_go_on() -> None:
    bench = Bench()
    broken = Broken("broken", interval_s=0.001)
    bench.sampler.add_all([broken, Counter("good", interval_s=0.001)])
    async with bench.running():
        for _ in range(5):
            assert (await bench.records.get()).name == "good"
        error = await bench.failures.get()
    assert str(error) == "broken: KeyError: 'no such register'"
    assert bench.failures.empty()
    assert bench.sampler.failed == broken.reads > 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "12", None])
async def test_a_value_that_is_no_finite_number_is_a_failure(value: object) -> None:
    class Odd(Sensor):
        def read(self) -> float:
            return value  # type: ignore[return-value]  # the point of the test

    bench = Bench()
    bench.sampler.add(Odd("odd"))
    async with bench.running():
        assert (await bench.failures.get()).name == "odd"
    assert bench.records.empty()


async def test_a_slow_sensor_holds_no_other_up_and_its_missed_times_are_counted() -> None:
    bench = Bench()
    slow = Gated("slow", 0.001)
    bench.sampler.add_all([slow, Counter("quick", interval_s=0.001)])
    async with bench.running():
        while bench.sampler.skipped == 0:
            assert (await bench.records.get()).name == "quick"
        assert slow.reads == 1
        slow.gate.set()
        while (record := await bench.records.get()).name != "slow":
            pass
    assert (record.value, record.number) == (7.0, 1)


async def test_an_async_read_that_takes_too_long_is_a_failure() -> None:
    bench = Bench(timeout_s=0.001)
    bench.sampler.add(Gated("stuck", 1.0))
    async with bench.running():
        error = await bench.failures.get()
    assert str(error) == "stuck: TimeoutError: not done within 0.001 s"


async def test_a_sensor_added_while_running_is_read_and_a_removed_one_is_not() -> None:
    bench = Bench()
    async with bench.running():
        bench.sampler.add(Counter("late", interval_s=3600))
        assert (await bench.records.get()).name == "late"
        bench.sampler.remove("late")
        bench.sampler.add(Counter("next", interval_s=3600))
        assert (await bench.records.get()).name == "next"
    assert [sensor.name for sensor in bench.sampler.sensors] == ["next"]


async def test_two_sensors_of_one_name_are_refused() -> None:
    bench = Bench()
    bench.sampler.add(Counter("a"))
    with pytest.raises(ValueError, match="'a'"):
        bench.sampler.add(Counter("a"))


async def test_a_current_value_is_the_last_reading_while_its_interval_lasts() -> None:
    now = [100.0]
    bench = Bench(clock=lambda: now[0])
    counter = Counter("a", interval_s=10.0)
    bench.sampler.add(counter)
    async with bench.running():
        await bench.records.get()
        now[0] = 110.0
        assert (await bench.sampler.current(counter)).value == 1.0
        now[0] = 110.1
        assert (await bench.sampler.current(counter)).value == 2.0
    assert bench.records.empty()  # an asked-for reading is not delivered


async def test_a_slow_device_is_asked_once_for_all_who_want_its_value_meanwhile() -> None:
    now = [100.0]
    bench = Bench(clock=lambda: now[0])
    slow = Gated("a", interval_s=10.0)
    bench.sampler.add(slow)
    slow.gate.set()
    before = await bench.sampler.current(slow)
    now[0] += 20.0
    slow.gate.clear()
    asking = asyncio.create_task(bench.sampler.current(slow))
    await asyncio.sleep(0)
    assert await bench.sampler.current(slow) == before
    slow.gate.set()
    assert (await asking).taken_at == now[0]
    assert await bench.sampler.current(slow) == await asking
    assert slow.reads == 2


async def test_a_current_value_of_a_sensor_that_fails_raises_with_its_name() -> None:
    bench = Bench()
    broken = Broken("broken")
    bench.sampler.add(broken)
    with pytest.raises(SensorError, match=r"^broken: KeyError"):
        await bench.sampler.current(broken)


async def test_an_actuator_that_is_set_delivers_its_new_value() -> None:
    bench = Bench()
    switch = Switch("relay")
    bench.sampler.add(switch)
    assert (await bench.sampler.write(switch, 1.0)).value == 1.0
    assert bench.records.get_nowait() == Record("relay", "/", 1.0, WALL_CLOCK_S, 1)
    assert (await bench.sampler.current(switch)).value == 1.0


async def test_a_value_that_an_actuator_refuses_changes_nothing() -> None:
    bench = Bench()
    switch = Switch("relay")
    bench.sampler.add(switch)
    with pytest.raises(ValueRefusedError, match=r"0\.5"):
        await bench.sampler.write(switch, 0.5)
    assert bench.records.empty()


async def test_an_actuator_that_fails_raises_with_its_name() -> None:
    class Jammed(Actuator):
        async def write(self, value: float) -> None:
            raise OSError("jammed")

    bench = Bench()
    jammed = Jammed("valve")
    bench.sampler.add(jammed)
    with pytest.raises(SensorError, match=r"^valve: OSError: jammed"):
        await bench.sampler.write(jammed, 1.0)

"""The sampler: due sensors are read, numbered and handed on; no sensor holds another up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import ClassVar

import pytest
from held_timers import HeldTimers
from hypothesis import given
from hypothesis import strategies as st

from gateway.sensors.sampler import Sampler
from gateway.sensors.schedule import MAX_BACK_OFF_S, back_off_s
from gateway.sensors.sensor import (
    Actuator,
    Sensor,
    SensorBusyError,
    SensorError,
    SensorPart,
    ValueRefusedError,
)
from gateway.sensors.switch import Switch
from gateway.sensors.threads import DriverBusyError, DriverThreads
from gateway.sensors.values import Measured
from record_formats.record import Record
from record_formats.value import BAD, UNCERTAIN, Value

WALL_CLOCK_S = 1_700_000_000.5
TIMEOUT_S = 60.0


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

    def __init__(
        self, clock: Callable[[], float] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
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
    told = list[Record]()
    async with bench.running():
        while broken.reads < 3 or len(told) < 5:
            told.append(await bench.records.get())
        error = await bench.failures.get()
    assert str(error) == "broken: KeyError: 'no such register'"
    assert bench.failures.empty()
    bad = [record for record in told if record.name == "broken"]
    assert bad == [Record("broken", "", None, WALL_CLOCK_S, 1, BAD)]
    # A thread may have begun to read as the sampler ended: such a read has failed for nobody.
    assert bench.sampler.failed > 1
    assert broken.reads - bench.sampler.failed in {0, 1}


class Unspeakable:
    """An object that raises however it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


class WildFloat(float):
    """A number that raises when it is asked for itself."""

    def __float__(self) -> float:
        raise LookupError("no number")

    def __format__(self, form: str) -> str:
        raise LookupError("no words")

    __repr__ = __str__ = Unspeakable.__repr__


class WildText(str):
    """A text that raises when it is asked for itself."""

    def __str__(self) -> str:
        raise LookupError("no words")

    __repr__ = __str__
    encode = None  # type: ignore[assignment]  # the point of it

    def __len__(self) -> int:
        raise LookupError("no length")


HUGE = 10**400
"""A number that no float holds."""
LONE = "\ud800"
"""Half of a pair of surrogates, which no UTF-8 has."""


@pytest.mark.parametrize(
    "value",
    [
        *(float("nan"), float("inf"), [12], None, {}, {"A": 1}, {1: 1}, {"a": None}),
        *(HUGE, -HUGE, {"a": HUGE}, Measured(HUGE), Unspeakable(), {"a": Unspeakable()}),
        *(10**5000, WildFloat(1.0), LONE, "x" * 16_385, b"x" * 16_385, bytearray(b"x"), 1j),
        *(Measured(1.0, LONE), Measured(1.0, "Cel\n\x1b[31m"), Measured(1.0, "x" * 65)),
        *(Measured(1.0, tags={"why": LONE}), Measured(1.0, tags={LONE: "x"})),
        *({Unspeakable(): 1}, Measured(1.0, Unspeakable()), Measured(1.0, None, Unspeakable())),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_is_no_value_is_a_failure_in_one_short_line(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Sensor):
        def read(self) -> float:
            return value  # type: ignore[return-value]  # the point of the test

    bench = Bench()
    bench.sampler.add_all([Odd("odd"), Counter("good", interval_s=0.001)])
    told = list[Record]()
    async with bench.running():
        failure = await bench.failures.get()
        assert failure.name == "odd"
        assert str(failure).isprintable()
        assert len(str(failure)) < 400
        while sum(record.name == "good" for record in told) < 3:
            told.append(await bench.records.get())
    assert [record.quality for record in told if record.name == "odd"] == [BAD]
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
    assert bench.sampler.state_of(bench.sampler.sensors[0]) == BAD


async def test_a_subclass_of_a_drivers_own_is_taken_for_what_it_is() -> None:
    class Odd(Sensor):
        def read(self) -> str:
            return WildText("ajar")

    bench = Bench()
    bench.sampler.add(Odd("odd"))
    async with bench.running():
        record = await bench.records.get()
    assert (record.value, type(record.value)) == ("ajar", str)


async def test_who_fails_at_a_reading_costs_no_other_reading_and_no_other_sensor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard, delivered = list[str](), asyncio.Queue[str]()

    def fail(sensor: Sensor) -> None:
        raise OSError("no space left")

    def deliver(sensor: Sensor, record: Record) -> None:
        if sensor.name == "odd":
            raise LookupError("no such topic")
        delivered.put_nowait(record.name)

    sampler = Sampler(deliver)
    sampler.listen(fail)
    sampler.listen(lambda sensor: heard.append(sensor.name))
    sampler.add_all([Counter("odd", interval_s=0.001), Counter("good", interval_s=0.001)])
    task = asyncio.create_task(sampler.run())
    for _ in range(3):
        await delivered.get()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert {"odd", "good"} <= set(heard)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("deliver a reading" in line and "no such topic" in line for line in told)
    assert any("tell of a reading" in line and "no space left" in line for line in told)


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
    assert str(error) == "stuck: not done within 0.001 s"


@pytest.mark.parametrize("value", [1.5, "ajar", True, b"\x00\xff", ""])
async def test_a_sensor_reads_numbers_text_booleans_and_bytes(value: Value) -> None:
    class Any(Sensor):
        def read(self) -> Value:
            return value

    bench = Bench()
    bench.sampler.add(Any("any"))
    async with bench.running():
        assert await bench.records.get() == Record("any", "", value, WALL_CLOCK_S, 1)


async def test_several_values_of_one_reading_have_names_units_and_one_number() -> None:
    class Air(Sensor):
        parts: Mapping[str, SensorPart] = {
            "temperature": SensorPart("Cel"),
            "label": SensorPart(kind="text"),
        }

        def read(self) -> dict[str, Value | Measured]:
            return {
                "temperature": 21,
                "label": Measured("dry", quality=UNCERTAIN, tags={"by": "eye"}),
                "extra": Measured(3, "V"),
            }

    bench = Bench()
    told = list[str]()
    bench.sampler.listen(lambda sensor: told.append(sensor.name))
    bench.sampler.add(Air("air"))
    async with bench.running():
        records = [await bench.records.get() for _ in range(3)]
    assert records == [
        Record("air/temperature", "Cel", 21.0, WALL_CLOCK_S, 1),
        Record("air/label", "", "dry", WALL_CLOCK_S, 1, UNCERTAIN, {"by": "eye"}),
        Record("air/extra", "V", 3.0, WALL_CLOCK_S, 1),
    ]
    assert told == ["air"]


# -- drivers that wait, hang and raise -------------------------------------------------------------


@pytest.fixture
async def make_late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Ends the time of all calls of drivers that are under way, at the moment that a test needs."""
    return HeldTimers(monkeypatch, TIMEOUT_S).run_out


class Hanging(Sensor):
    """Blocks its thread until ``gate`` is set."""

    def __init__(self, name: str, interval_s: float = 3600) -> None:
        super().__init__(name, interval_s=interval_s)
        self.gate = threading.Event()
        self.reads = 0

    def read(self) -> float:
        self.reads += 1
        self.gate.wait()
        return 1.0


async def test_a_driver_that_hangs_holds_nobody_up_and_is_called_once(
    make_late: Callable[[], None],
) -> None:
    bench = Bench()
    hanging = Hanging("stuck")
    bench.sampler.add_all([hanging, Counter("quick", interval_s=0.001)])
    try:
        asked = asyncio.create_task(bench.sampler.current(hanging))
        async with bench.running():
            while not hanging.reads:
                assert (await bench.records.get()).name == "quick"
            make_late()
            with pytest.raises(SensorError, match="not done within 60 s"):
                await asked  # it and the sampler share one read
            with pytest.raises(SensorError, match="an earlier call has not come back"):
                await bench.sampler.current(hanging)
            while (await bench.records.get()).name != "quick":
                pass
            assert hanging.reads == 1
    finally:
        hanging.gate.set()


async def test_a_driver_that_takes_too_long_in_its_thread_is_told_as_bad(
    make_late: Callable[[], None],
) -> None:
    bench = Bench()
    hanging = Hanging("stuck")
    bench.sampler.add(hanging)
    try:
        async with bench.running():
            while not hanging.reads:
                await asyncio.sleep(0)
            make_late()
            record = await bench.records.get()
        assert (record.name, record.value, record.quality) == ("stuck", None, BAD)
        assert "not done within 60 s" in str(bench.failures.get_nowait())
    finally:
        hanging.gate.set()


async def test_a_driver_gives_back_what_it_holds_when_its_call_is_over() -> None:
    class Held(Hanging):
        closed_at = -1

        def close(self) -> None:
            assert self.gate.is_set()
            self.closed_at = self.reads

    bench = Bench()
    held, successor = Held("stuck"), Counter("stuck")
    bench.sampler.add(held)
    async with bench.running():
        while not held.reads:
            await asyncio.sleep(0)
        bench.sampler.remove("stuck")
        bench.sampler.add(successor)
        assert (await bench.records.get()).value == 1.0  # not kept waiting by the one before
        closing = asyncio.create_task(bench.sampler.release(held))
        await asyncio.sleep(0)
        assert held.closed_at == -1
        held.gate.set()
        await closing
    assert held.closed_at == 1


async def test_threads_are_bounded_and_who_gave_up_waiting_for_one_is_not_called() -> None:
    threads = DriverThreads(most=2)
    stuck = [Hanging(f"stuck{n}") for n in range(3)]
    before = threading.active_count()
    calls = [asyncio.create_task(threads.call(one, one.read)) for one in stuck]
    try:
        while not (stuck[0].reads and stuck[1].reads):
            await asyncio.sleep(0)
        assert threading.active_count() - before <= 2
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert threads.busy == set(stuck)
        for one in stuck:
            one.gate.set()
        while threads.busy:
            await asyncio.sleep(0)
        assert [one.reads for one in stuck] == [1, 1, 0]
        assert await threads.call(stuck[2], stuck[2].read) == 1.0
    finally:
        for one in stuck:
            one.gate.set()
        threads.close()


@pytest.mark.parametrize(
    "raised", [OverflowError("huge"), SystemExit(1), LookupError(Unspeakable())]
)
@pytest.mark.parametrize("at", ["begin", "hear"])
async def test_what_a_sensor_raises_that_hears_messages_is_its_own_failure_in_one_line(
    raised: BaseException, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Wild(Sensor):
        is_pushed = is_quick = True

    def raises(*_: object) -> None:
        raise raised

    setattr(Wild, at, raises)
    bench = Bench()
    wild = Wild("wild")
    bench.sampler.add(wild)
    for _ in range(3):
        bench.sampler.begin(wild)
        bench.sampler.hear(wild, "a", b"9" * 401)
    assert type(raised).__name__ in str(bench.failures.get_nowait())
    assert bench.failures.empty()
    assert bench.sampler.state_of(wild) == BAD
    assert not caplog.records


async def test_what_a_driver_says_is_one_line_of_the_log_without_what_a_terminal_obeys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Loud(Sensor):
        is_quick = True

        def read(self) -> float:
            raise OSError("bus\n2026-01-01 ERROR fake: \x1b[31mred\x07" + "x" * 1_000)

    sampler = Sampler(lambda *_: None)
    sampler.add(Loud("loud"))
    task = asyncio.create_task(sampler.run())
    while not caplog.records:
        await asyncio.sleep(0)
    task.cancel()
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith("sensor loud: OSError: bus\\n2026")
    assert line.isprintable()
    assert len(line) < 400


async def test_a_call_for_which_no_thread_is_free_does_not_begin_any_more(
    make_late: Callable[[], None],
) -> None:
    class Valve(Actuator):
        writes = 0

        def write(self, value: Value) -> None:
            self.writes += 1

        def read(self) -> float:
            return 0.0

    threads = DriverThreads(most=1)
    sampler = Sampler(lambda *_: None, timeout_s=TIMEOUT_S, threads=threads)
    hanging, valve = Hanging("stuck"), Valve("valve")
    sampler.add_all([hanging, valve])
    try:
        reading = asyncio.create_task(sampler.current(hanging))
        while not hanging.reads:
            await asyncio.sleep(0)
        make_late()
        with pytest.raises(SensorError, match="not done within"):
            await reading
        writing = asyncio.create_task(sampler.write(valve, 1.0, "psk:a"))
        while valve not in threads.busy:
            await asyncio.sleep(0)
        make_late()
        with pytest.raises(SensorBusyError, match="no thread was free"):
            await writing
        with pytest.raises(SensorBusyError, match="an earlier call has not come back"):
            await sampler.write(valve, 1.0, "psk:a")
        hanging.gate.set()
        await sampler.release(valve)
        assert valve.writes == 0
    finally:
        hanging.gate.set()
        sampler.close()


async def test_a_thread_outlives_an_error_that_can_not_be_told() -> None:
    class Wild(Sensor):
        def read(self) -> float:
            raise StopIteration(Unspeakable())

    threads = DriverThreads(most=1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.call("wild", Wild("wild").read)
    threads.close()


@pytest.mark.parametrize("raised", [StopIteration, SystemExit, KeyboardInterrupt, MemoryError])
async def test_whatever_a_driver_raises_is_its_own_failure(raised: type[BaseException]) -> None:
    class Wild(Sensor):
        def read(self) -> float:
            raise raised("gone")

    bench = Bench()
    bench.sampler.add(Wild("wild"))
    async with bench.running():
        assert "gone" in str(await bench.failures.get())


async def test_a_sensor_that_fails_is_tried_less_and_less_often_until_it_answers() -> None:
    now = [0.0]

    class Flaky(Sensor):
        is_quick = True
        at: ClassVar = list[float]()
        works = False

        def read(self) -> float:
            self.at.append(now[0])
            if not self.works:
                raise OSError("no answer")
            return 1.0

    class EachSecond(Counter):
        is_quick = True

    flaky, clock = Flaky("flaky", interval_s=10), EachSecond("clock", interval_s=1)
    bench = Bench(clock=lambda: now[0])
    bench.sampler.add_all([flaky, clock])
    async with bench.running():
        for second in range(400):
            now[0] = float(second)
            flaky.works = second >= 300
            bench.sampler.read_soon(clock)  # the sampler sleeps by another clock
            while clock.value <= second:
                await asyncio.sleep(0)
    assert flaky.at == [0, 10, 30, 70, 150, *range(310, 400, 10)]
    told = [bench.records.get_nowait() for _ in range(bench.records.qsize())]
    bad, *good = (record for record in told if record.name == "flaky")
    assert (bad.quality, bad.number, [record.number for record in good]) == (
        *(BAD, 1),
        list(range(2, 11)),
    )


@given(st.floats(0.001, 1e6), st.integers(1, 5_000))
def test_a_back_off_grows_and_is_bounded(interval_s: float, failures: int) -> None:
    waits = back_off_s(interval_s, failures), back_off_s(interval_s, failures + 1)
    assert interval_s <= waits[0] <= waits[1] <= max(interval_s, MAX_BACK_OFF_S)


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
    await bench.sampler.write(switch, 1.0, "psk:a")
    assert bench.records.get_nowait() == Record("relay", "/", 1.0, WALL_CLOCK_S, 1)
    assert (await bench.sampler.current(switch)).value == 1.0


async def test_a_value_that_an_actuator_refuses_changes_nothing() -> None:
    bench = Bench()
    switch = Switch("relay")
    bench.sampler.add(switch)
    with pytest.raises(ValueRefusedError, match=r"0\.5"):
        await bench.sampler.write(switch, 0.5, "psk:a")
    assert bench.records.empty()


async def test_an_actuator_that_fails_raises_with_its_name() -> None:
    class Jammed(Actuator):
        async def write(self, value: Value) -> None:
            raise OSError("jammed")

    bench = Bench()
    jammed = Jammed("valve")
    bench.sampler.add(jammed)
    with pytest.raises(SensorError, match=r"^valve: OSError: jammed"):
        await bench.sampler.write(jammed, 1.0, "psk:a")


async def test_there_are_10000_sensors_and_a_removed_one_gives_its_place_back() -> None:
    sampler = Bench().sampler
    sampler.add_all(Switch(f"s{number}") for number in range(10_000))
    with pytest.raises(ValueError, match=r"^'more' would be over 10000 sensors$"):
        sampler.add(Switch("more"))
    sampler.remove("s7")
    sampler.add(Switch("more"))
    assert len(sampler.sensors) == 10_000
    with pytest.raises(KeyError):
        sampler.remove("s7")


async def test_others_have_a_turn_after_32_quick_reads_and_who_goes_in_it_is_not_read() -> None:
    class QuickCounter(Counter):
        is_quick = True

    bench = Bench(clock=lambda: 0.0)
    counters = [QuickCounter(f"s{number:02}") for number in range(70)]
    bench.sampler.add_all(counters)
    steps = list[int]()
    async with bench.running():
        while (read := sum(counter.value for counter in counters)) < 68:
            steps.append(read - sum(steps))
            if read:
                for name in {"s68", "s69"} & {one.name for one in bench.sampler.sensors}:
                    bench.sampler.remove(name)
            await asyncio.sleep(0)
    assert [0 < step <= 32 for step in steps] == [False, True, True]
    assert [counter.value for counter in counters] == [1] * 68 + [0] * 2


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_who_refuses_a_value_where_none_was_given_has_failed(*, is_waiting: bool) -> None:
    class Confused(Sensor):
        is_quick = not is_waiting

        def read(self) -> float:
            raise ValueRefusedError("on or off")

        def begin(self) -> None:
            raise ValueRefusedError("not yet")

        def hear(self, topic: str, payload: bytes) -> None:
            raise ValueRefusedError(topic)

    bench = Bench()
    confused = Confused("a")
    bench.sampler.add(confused)
    with pytest.raises(SensorError, match=r"^a: ValueRefusedError: on or off$"):
        await bench.sampler.current(confused)
    bench.sampler.begin(confused)
    assert str(bench.failures.get_nowait()) == "a: ValueRefusedError: not yet"
    bench.sampler.remove("a")
    bench.sampler.add(confused)
    bench.sampler.hear(confused, "t", b"")
    assert str(bench.failures.get_nowait()) == "a: ValueRefusedError: t"
    assert bench.sampler.failed == 2
    bench.sampler.close()


async def test_what_becomes_of_a_removed_sensor_is_neither_told_nor_counted() -> None:
    bench = Bench()
    gone, heard = Switch("a"), list[Sensor]()
    bench.sampler.listen(heard.append)
    bench.sampler.add(gone)
    bench.sampler.push(gone, 1.0)
    assert (heard, bench.sampler.state_of(gone)) == ([gone], "good")
    bench.sampler.remove("a")
    bench.sampler.push(gone, OSError("unplugged"))
    bench.sampler.push(gone, 0.0)
    assert (bench.sampler.failed, bench.failures.empty(), heard) == (0, True, [gone])
    assert (bench.sampler.state_of(gone), bench.sampler.last(gone)) == ("-", None)
    assert bench.records.get_nowait().value == 1.0
    assert bench.records.empty()
    bench.sampler.add(Switch("a"))
    bench.sampler.push(gone, 1.0)  # another one has its name now
    assert bench.records.empty()


async def test_one_that_fails_at_each_reading_is_told_of_once_until_it_answers() -> None:
    bench = Bench(clock=lambda: 5.0)
    sensor = Switch("a")
    bench.sampler.add(sensor)
    outcomes: list[float | Exception] = [OSError("one"), OSError("two"), 1.0, OSError("three")]
    states = []
    for outcome in outcomes:
        bench.sampler.push(sensor, outcome)
        states.append(bench.sampler.state_of(sensor))
    assert states == [BAD, BAD, "good", BAD]
    assert [str(bench.failures.get_nowait()) for _ in range(2)] == [
        "a: OSError: one",
        "a: OSError: three",
    ]
    assert bench.failures.empty()
    assert [bench.records.get_nowait() for _ in range(3)] == [
        Record("a", "/", None, WALL_CLOCK_S, 1, BAD),
        Record("a", "/", 1.0, WALL_CLOCK_S, 2),
        Record("a", "/", None, WALL_CLOCK_S, 3, BAD),
    ]
    assert bench.records.empty()
    assert bench.sampler.failed == 3


class PushedSwitch(Switch):
    is_pushed = True


async def test_an_actuators_state_is_at_hand_for_a_second_unless_it_tells_of_each_change() -> None:
    now = [100.0]
    bench = Bench(clock=lambda: now[0])
    asked, hasty = Switch("asked", interval_s=10), Switch("hasty", interval_s=0.25)
    pushed = PushedSwitch("pushed", interval_s=10)
    bench.sampler.add_all([asked, hasty, pushed])
    assert bench.sampler.at_hand(asked) is None
    for sensor in (asked, hasty, pushed):
        bench.sampler.push(sensor, 1.0)
    held = []
    for now[0] in (100.0, 100.25, 100.5, 101.0, 101.5, 110.0, 110.5):
        held.append([bench.sampler.at_hand(one) is not None for one in (asked, hasty, pushed)])
    assert held == [
        [True, True, True],
        [True, True, True],
        [True, False, True],
        [True, False, True],
        [False, False, True],
        [False, False, True],
        [False, False, False],
    ]


async def test_readings_that_come_by_themselves_are_late_after_an_interval() -> None:
    now = [100.0]
    bench = Bench(clock=lambda: now[0])
    pushed = PushedSwitch("a", interval_s=10)
    bench.sampler.add(pushed)
    turns = []
    for now[0], comes in ((109.9, False), (110.0, False), (115.0, True), (125.0, False)):
        if comes:
            bench.sampler.push(pushed, 1.0)
        async with bench.running():
            await asyncio.sleep(0)
        turns.append((bench.sampler.failed, bench.sampler.state_of(pushed)))
    assert turns == [(0, "-"), (1, BAD), (1, "good"), (1, "good")]
    now[0] = 130.5
    async with bench.running():
        await asyncio.sleep(0)
    assert (bench.sampler.failed, bench.sampler.state_of(pushed)) == (2, BAD)
    assert str(bench.failures.get_nowait()) == "a: nothing for 10 s"


async def test_what_was_retained_is_as_old_as_it_is_and_left_alone_beyond_an_interval() -> None:
    class Heard(PushedSwitch):
        def hear(self, topic: str, payload: bytes) -> None:
            self.push(float(payload))

    bench = Bench(clock=lambda: 100.0)
    heard = Heard("a", interval_s=10)
    heard.push = partial(bench.sampler.push, heard)
    bench.sampler.add(heard)
    bench.sampler.recall(heard, "t", b"1", 10.5)
    assert bench.records.empty()
    bench.sampler.recall(heard, "t", b"1", 10.0)
    assert bench.records.get_nowait() == Record("a", "/", 1.0, WALL_CLOCK_S - 10.0, 1)
    last = bench.sampler.last(heard)
    assert last is not None
    assert last.taken_at == 90.0
    bench.sampler.hear(heard, "t", b"0")  # an age is that of one message
    assert bench.records.get_nowait() == Record("a", "/", 0.0, WALL_CLOCK_S, 2)


async def test_one_thread_call_of_somebody_is_under_way_at_a_time() -> None:
    threads, gate = DriverThreads(most=2), threading.Event()
    first = asyncio.create_task(threads.call("a", gate.wait))
    await asyncio.sleep(0)
    assert (threads.busy, threads.over("b")) == ({"a"}, None)
    with pytest.raises(DriverBusyError, match=r"^an earlier call has not come back$"):
        await threads.call("a", gate.wait)
    assert await threads.call("b", lambda: 7) == 7
    over = threads.over("a")
    assert over is not None
    assert not over.done()
    gate.set()
    assert await first is True
    assert (threads.busy, over.done(), threads.withdraw("a")) == (frozenset(), True, False)
    threads.close()


class SlowValve(Actuator):
    """A valve whose writes are over when the gate is open."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gate = asyncio.Event()
        self.is_set_to = list[Value]()

    async def write(self, value: Value) -> None:
        self.is_set_to.append(value)
        await self.gate.wait()


async def test_who_goes_while_it_waits_for_its_turn_gives_its_place_to_the_next() -> None:
    bench, valve = Bench(), SlowValve("valve")
    writes = [
        asyncio.create_task(bench.sampler.write(valve, float(number), f"psk:{number}"))
        for number in range(3)
    ]
    await asyncio.sleep(0)
    writes[1].cancel()
    await asyncio.sleep(0)
    valve.gate.set()
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), asyncio.CancelledError, type(None)]
    assert valve.is_set_to == [0.0, 2.0]
    await bench.sampler.release(valve)


async def test_4_writes_of_one_and_16_of_all_wait_for_a_device_and_are_given_their_turns() -> None:
    bench, valve = Bench(), SlowValve("valve")

    def write(value: float, asker: str) -> asyncio.Task[None]:
        return asyncio.create_task(bench.sampler.write(valve, value, asker))

    begun = [write(0.0, "psk:a")]
    await asyncio.sleep(0)
    begun += [write(1.0 + number, "psk:a") for number in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(SensorBusyError, match=r"^valve: 4 calls wait for it$") as raised:
        await bench.sampler.write(valve, 99.0, "psk:a")
    assert raised.value.again_s == TIMEOUT_S
    begun += [write(11.0 + number, f"psk:{number}") for number in range(12)]
    await asyncio.sleep(0)
    with pytest.raises(SensorBusyError, match=r"^valve: 16 calls wait for it$"):
        await bench.sampler.write(valve, 99.0, "psk:new")
    valve.gate.set()
    await asyncio.gather(*begun)
    assert sorted(valve.is_set_to, key=float) == [*map(float, range(5)), *map(float, range(11, 23))]
    assert valve.is_set_to[:4] == [0.0, 1.0, 11.0, 12.0]
    await bench.sampler.write(valve, 99.0, "psk:a")


async def test_the_end_of_the_sampling_ends_its_own_reads_and_a_close_all_calls() -> None:
    bench = Bench()
    gated, valve = Gated("gated", interval_s=3600), SlowValve("valve")
    bench.sampler.add(gated)
    write = asyncio.create_task(bench.sampler.write(valve, 1.0, "psk:a"))
    async with bench.running():
        while not gated.reads or not valve.is_set_to:
            await asyncio.sleep(0)
        own = asyncio.create_task(bench.sampler.current(gated))
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await own
    await asyncio.sleep(0)
    assert not write.done()
    bench.sampler.close()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert (bench.sampler.failed, bench.failures.empty()) == (0, True)


@pytest.mark.parametrize("turns", range(8))
async def test_whenever_one_goes_that_waits_the_device_is_the_next_ones(turns: int) -> None:
    """Also in the moment in which its own turn has come."""
    bench, valve = Bench(), SlowValve("valve")
    writes = [
        asyncio.create_task(bench.sampler.write(valve, float(number), f"psk:{number}"))
        for number in range(3)
    ]
    while not valve.is_set_to:
        await asyncio.sleep(0)
    valve.gate.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    writes[1].cancel()
    async with asyncio.timeout(30):
        await asyncio.gather(*writes, return_exceptions=True)
        await bench.sampler.release(valve)
    assert [value for value in valve.is_set_to if value != 1.0] == [0.0, 2.0]

"""Reads a gateway's sensors when they are due and hands the readings on.

One task serves all sensors. A ``read`` that may wait runs beside it, in a thread or as a task, so
that a slow device holds no other up; while it runs, its next due times are skipped and counted
(A10). A sensor that fails is told of once, as a reading that is bad, and tried less and less often.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from cloud_ingest.record import BAD, Record, Value
from gateway.event_log.counted_lines import CountedLines
from gateway.event_log.failures import Failures
from gateway.printable import said
from gateway.sensors.reading import Reading, as_reading, names_of
from gateway.sensors.schedule import Schedule, back_off_s
from gateway.sensors.sensor import Actuator, Sensor, SensorError, ValueRefusedError
from gateway.sensors.threads import DriverBusyError, DriverThreads
from gateway.sensors.values import Outcome
from gateway.write_turns import WriteTurn, WriteTurns

MAX_SENSORS = 10_000
READS_PER_TURN = 32  # then the event loop gets a turn, however many sensors are due

ACTUATOR_S = 1.0
"""So long an actuator's state is taken for what it is; others than the gateway may change it."""

T = TypeVar("T")
Deliver = Callable[[Sensor, Record], None]

_log = logging.getLogger(__name__)


def log_failure(error: SensorError) -> None:
    """Report a sensor's failure to the log."""
    _log.warning("sensor %s", error)


class Sampler:
    """Reads sensors and numbers their readings from 1.

    Args:
        deliver: is called with a sensor and each of its records, in order. It must not wait; what
            it raises is told, and costs that record alone.
        wall_clock: seconds since 1970.
        clock: seconds, rising steadily.
        report: is called when a sensor fails that did not fail at its reading before.
        timeout_s: how long a read or write may take, seconds.
        threads: where those are called that may wait.

    """

    def __init__(
        self,
        deliver: Deliver,
        *,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[SensorError], None] = log_failure,
        timeout_s: float = 10.0,
        threads: DriverThreads | None = None,
    ) -> None:
        self.failed = 0
        """Readings that were due and could not be taken."""
        self.turns = WriteTurns()
        """Of all who write to actuators, by the path of each one's resource."""
        self._deliver = deliver
        self._listeners: list[Callable[[Sensor], None]] = []
        self._threads = threads or DriverThreads()
        self._wall_clock = wall_clock
        self._clock = clock
        self._report = report
        self._timeout_s = timeout_s
        self._schedule = Schedule()
        self._sensors: dict[str, Sensor] = {}
        self._numbers: dict[str, int] = {}
        self._last: dict[str, Reading] = {}
        self._failing: dict[str, int] = {}
        """How often in a row those failed that do."""
        self._waiting: set[Sensor] = set()
        self._asked: dict[str, int] = {}
        self._overlapped = 0
        self._changed = asyncio.Event()
        self._failures = Failures(CountedLines(_log, clock))

    @property
    def skipped(self) -> int:
        """Readings left out because the gateway or the sensor was not done with the one before."""
        return self._schedule.skipped + self._overlapped

    @property
    def sensors(self) -> list[Sensor]:
        """The sensors, in the order they were added."""
        return list(self._sensors.values())

    def listen(self, listener: Callable[[Sensor], None]) -> None:
        """Tell one more of each new reading of a sensor; the rules for ``deliver`` hold."""
        self._listeners.append(listener)

    def add(self, sensor: Sensor) -> None:
        """Read a sensor from now on.

        Raises:
            ValueError: another sensor has its name, or there are ``MAX_SENSORS`` already.

        """
        if sensor.name in self._sensors:
            raise ValueError(f"two sensors named {sensor.name!r}")
        if len(self._sensors) == MAX_SENSORS:
            raise ValueError(f"{sensor.name!r} would be over {MAX_SENSORS} sensors")
        self._sensors[sensor.name] = sensor
        first_s = sensor.interval_s if sensor.is_pushed else 0.0
        self._schedule.add(sensor.name, sensor.interval_s, self._clock() + first_s)
        self._changed.set()

    def add_all(self, sensors: Iterable[Sensor]) -> None:
        """Read several sensors from now on; raises as ``add`` does."""
        for sensor in sensors:
            self.add(sensor)

    def reads(self, sensor: Sensor) -> bool:
        """Whether it is read."""
        return self._sensors.get(sensor.name) is sensor

    def remove(self, name: str) -> None:
        """Read a sensor no more. If one of this name comes back, its numbers go on.

        Raises:
            KeyError: there is no such sensor.

        """
        del self._sensors[name]
        self._schedule.remove(name)
        self._last.pop(name, None)
        self._failing.pop(name, None)

    async def release(self, sensor: Sensor) -> None:
        """Have a sensor that is read no more give back what it holds.

        Raises:
            Exception: what its ``close`` raises; TimeoutError if it takes too long.

        """
        await self._wait(self._threads.until_over(sensor))
        outcome = self._call(sensor, sensor.close)
        if isinstance(outcome, Awaitable):
            await self._wait(outcome)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()

    def now(self) -> float:
        """The steady clock that ``Reading.taken_at`` is in."""
        return self._clock()

    def at_hand(self, sensor: Sensor) -> Reading | None:
        """The last reading while its interval lasts; None if ``current`` has to ask the sensor.

        An actuator's lasts `ACTUATOR_S` at most.
        """
        last = self._last.get(sensor.name)
        if last is None:
            return None
        limit_s = sensor.interval_s
        if isinstance(sensor, Actuator):
            limit_s = min(limit_s, ACTUATOR_S)
        fresh = self._clock() - last.taken_at <= limit_s
        # A GET does not queue behind a slow device, nor does each one ask it.
        asked = sensor in self._waiting or sensor.name in self._asked
        return last if fresh or asked else None

    async def current(self, sensor: Sensor) -> Reading:
        """What is `at_hand`, else a fresh reading.

        That is not delivered: the numbers count the regular ones.

        Raises:
            SensorError: the sensor can't be read.

        """
        last = self.at_hand(sensor)
        if last is not None:
            return last
        with _blame(sensor):
            outcome = self._call(sensor, sensor.read)
            if isinstance(outcome, Awaitable):
                outcome = await self._wait_for(sensor, outcome)
        reading = self._checked(sensor, outcome)
        if self.reads(sensor):
            self._last[sensor.name] = reading
        return reading

    async def write(self, actuator: Actuator, value: Value) -> Reading:
        """Set an actuator, read it back and deliver that reading.

        Raises:
            ValueRefusedError: it does not take this value.
            SensorError: it can't be set or read.

        """
        with _blame(actuator, passing=ValueRefusedError):
            written = self._call(actuator, partial(actuator.write, value))
            if isinstance(written, Awaitable):
                await self._wait(written)
            outcome = self._call(actuator, actuator.read)
            if isinstance(outcome, Awaitable):
                outcome = await self._wait(outcome)
        reading = self._checked(actuator, outcome)
        self._took(actuator, reading)
        return reading

    async def command(self, actuator: Actuator, value: Value) -> Reading:
        """Set an actuator as `write` does, but not between another one's look and its write."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = WriteTurn(resource_of(actuator), partial(begun.set_result, None))
        try:
            self.turns.enter(turn)
            await begun
            return await self.write(actuator, value)
        finally:
            self.turns.leave(turn)

    async def handled(self, sensor: Sensor, work: Callable[[], Any]) -> Any:
        """Call a handler of a sensor's, after the call of it that is under way.

        Args:
            sensor: whose it is.
            work: calls it; what it returns, or what is to be awaited for that.

        Raises:
            DriverBusyError: the call before it takes too long, so that it was not called.
            Exception: what it raises; TimeoutError if it takes too long, and may go on.

        """
        try:
            await self._wait(self._threads.until_over(sensor))
        except TimeoutError as late:
            raise DriverBusyError("an earlier call has not come back") from late
        outcome = self._call(sensor, work)
        return await self._wait(outcome) if isinstance(outcome, Awaitable) else outcome

    def read_soon(self, sensor: Sensor) -> bool:
        """Read a sensor now that says that it has changed.

        Returns:
            False if a read is under way, which may have begun before: then it is to be asked again.

        """
        if sensor in self._waiting:
            return False
        if self.reads(sensor) and not sensor.is_pushed:
            self._schedule.add(sensor.name, sensor.interval_s, self._clock())
            self._changed.set()
        return True

    def push(self, sensor: Sensor, outcome: Outcome | Exception) -> None:
        """Take a reading that came by itself, or why it did not."""
        try:
            if isinstance(outcome, Exception):
                raise SensorError(sensor.name, said(outcome))
            self._took(sensor, self._checked(sensor, outcome))
        except SensorError as error:
            self._failed(sensor, error)

    def state_of(self, sensor: Sensor) -> str:
        """``good``, ``bad`` if it fails, or ``-`` before its first reading."""
        if sensor.name in self._failing:
            return BAD
        return "good" if sensor.name in self._last else "-"

    async def run(self) -> None:
        """Read what is due, until cancelled; reads under way end with it."""
        async with asyncio.TaskGroup() as reads:
            while True:
                self._changed.clear()
                await self._sample_due(reads)
                next_at = self._schedule.next_timer()
                wait_s = None if next_at is None else max(0.0, next_at - self._clock())
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()

    async def _sample_due(self, reads: asyncio.TaskGroup) -> None:
        for count, name in enumerate(self._schedule.due(self._clock()), 1):
            if count % READS_PER_TURN == 0:
                await asyncio.sleep(0)
            sensor = self._sensors.get(name)
            if sensor is None:  # removed in that turn
                continue
            if sensor.is_pushed:
                self._expect(sensor)
                continue
            if sensor in self._waiting:
                self._overlapped += 1
                continue
            try:
                with _blame(sensor):
                    outcome = self._call(sensor, sensor.read)
                if isinstance(outcome, Awaitable):
                    self._waiting.add(sensor)
                    reads.create_task(self._finish(sensor, outcome), name=f"read {name}")
                else:
                    self._took(sensor, self._checked(sensor, outcome))
            except SensorError as error:
                self._failed(sensor, error)

    def _expect(self, sensor: Sensor) -> None:
        """A reading that comes by itself is late if there was none for an interval."""
        last = self._last.get(sensor.name)
        if last is None or self._clock() - last.taken_at > sensor.interval_s:
            self._failed(sensor, SensorError(sensor.name, f"nothing for {sensor.interval_s:g} s"))

    async def _finish(self, sensor: Sensor, outcome: Awaitable[Any]) -> None:
        name = sensor.name
        try:
            with _blame(sensor):
                value = await self._wait(outcome)
            self._took(sensor, self._checked(sensor, value))
        except SensorError as error:
            self._failures.tried("tell of a failure", partial(self._failed, sensor, error), name)
        finally:
            self._waiting.discard(sensor)

    async def _wait_for(self, sensor: Sensor, outcome: Awaitable[Any]) -> Any:
        """Wait for a reading that was asked for; meanwhile nobody else has to ask."""
        self._asked[sensor.name] = self._asked.get(sensor.name, 0) + 1
        try:
            return await self._wait(outcome)
        finally:
            self._asked[sensor.name] -= 1
            if not self._asked[sensor.name]:
                del self._asked[sensor.name]

    def _call(self, sensor: Sensor, work: Callable[[], Any]) -> Any:
        """Call a driver: what it returns, or what to await for that."""
        if sensor.is_quick or inspect.iscoroutinefunction(work):
            return work()
        return self._in_thread(sensor, work)

    async def _in_thread(self, sensor: Sensor, work: Callable[[], Any]) -> Any:
        outcome = await self._threads.call(sensor, work)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def _wait(self, outcome: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await outcome
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"not done within {self._timeout_s} s") from error

    def _checked(self, sensor: Sensor, outcome: object) -> Reading:
        with _blame(sensor):  # an object of the driver's may raise even when it is looked at
            return as_reading(sensor, outcome, self._wall_clock(), self._clock())

    def _took(self, sensor: Sensor, reading: Reading) -> None:
        if not self.reads(sensor):  # removed while it was read
            return
        self._failing.pop(sensor.name, None)
        self._last[sensor.name] = reading
        number = self._next_number(sensor)
        for record in reading.records(sensor.name, number):
            self._tell_of(sensor, record)
        for listener in self._listeners:
            self._failures.tried("tell of a reading", partial(listener, sensor), sensor.name)

    def _tell_of(self, sensor: Sensor, record: Record) -> None:
        """Deliver one record; whoever fails at it costs no other reading and no other sensor."""
        step = partial(self._deliver, sensor, record)
        self._failures.tried("deliver a reading", step, record.name)

    def _next_number(self, sensor: Sensor) -> int:
        number = self._numbers[sensor.name] = self._numbers.get(sensor.name, 0) + 1
        return number

    def _failed(self, sensor: Sensor, error: SensorError) -> None:
        if not self.reads(sensor):
            return
        self.failed += 1
        failures = self._failing[sensor.name] = self._failing.get(sensor.name, 0) + 1
        again_s = back_off_s(sensor.interval_s, failures)
        self._schedule.add(sensor.name, sensor.interval_s, self._clock() + again_s)
        self._changed.set()
        if failures > 1:  # one line, and one bad reading, for a failure that lasts
            return
        self._report(error)
        number = self._next_number(sensor)
        for name, unit in names_of(sensor):
            bad = Record(name, unit, None, self._wall_clock(), number, BAD)
            self._tell_of(sensor, bad)


def resource_of(sensor: Sensor) -> tuple[bytes, ...]:
    """The path of a sensor's resource (`docs/sensors.md`), by which its writes take turns."""
    return (b"sensors", *sensor.name.encode().split(b"/"))


@contextmanager
def _blame(sensor: Sensor, passing: type[Exception] = SensorError) -> Iterator[None]:
    """Turn whatever a sensor raises into an error that names it; ``passing`` is left as it is."""
    try:
        yield
    except passing:
        raise
    except Exception as error:  # a sensor is a developer's own code: it may raise anything
        raise SensorError(sensor.name, said(error)) from error

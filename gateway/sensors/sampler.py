"""Reads a gateway's sensors when they are due and hands the readings on.

One task serves all sensors. A ``read`` that may wait runs beside it, in a thread or as a task, so
that a slow device holds no other up; while it runs, its next due times are skipped and counted
(A10). A sensor that fails is told of once, as a reading that is bad, and tried less and less often.

A write is done when the driver's ``write`` has returned. What the device says then is a reading of
its own, which may fail without the write having failed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.printable import said
from gateway.base.write_turns import WriteTurns
from gateway.sensors.device_calls import (
    CheckAgain,
    DeviceCalls,
    call_now,
    nothing_against,
    waits_for_nothing,
)
from gateway.sensors.reading import Reading, names_of
from gateway.sensors.reads import Reads
from gateway.sensors.schedule import Schedule, back_off_s
from gateway.sensors.sensor import Actuator, Sensor, SensorError, ValueRefusedError
from gateway.sensors.threads import DriverThreads
from gateway.sensors.values import Outcome
from record_formats.record import Record
from record_formats.value import BAD, Value

MAX_SENSORS = 10_000
READS_PER_TURN = 32  # then the event loop gets a turn, however many sensors are due

CALL_S = 10.0
"""As long as a driver may take for a read or a write."""

ACTUATOR_S = 1.0
"""So long an actuator's state is taken for what it is; others than the gateway may change it."""

DeliverReading = Callable[[Sensor, Record], None]

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
        deliver: DeliverReading,
        *,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[SensorError], None] = log_failure,
        timeout_s: float = CALL_S,
        threads: DriverThreads | None = None,
    ) -> None:
        self.failed = 0
        """Readings that were due and could not be taken."""
        self.turns = WriteTurns()
        """Of all who write to actuators, by the path of each one's resource."""
        self._deliver = deliver
        self._listeners: list[Callable[[Sensor], None]] = []
        self._threads = threads or DriverThreads()
        self._calls = DeviceCalls(self._threads, timeout_s)
        self._wall_clock = wall_clock
        self.now: Callable[[], float] = clock
        """The steady clock that ``Reading.taken_at`` is in."""
        self._report = report
        self._timeout_s = timeout_s
        self._schedule = Schedule()
        self._sensors: dict[str, Sensor] = {}
        self._numbers: dict[str, int] = {}
        self._last: dict[str, Reading] = {}
        self._failing: dict[str, int] = {}
        """The number of failures in a row, by sensor that fails."""
        self._waiting: set[Sensor] = set()
        """Those of which a reading is to be delivered that is not there yet."""
        self._reads = Reads(self._calls, self._has_read, wall_clock, clock)
        self._read_backs: set[asyncio.Task[None]] = set()
        self._overlapped = 0
        self._recalled_s = 0.0
        """The age of the message that a sensor is being given."""
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
        self._schedule.add(sensor.name, sensor.interval_s, self.now() + first_s)
        self._changed.set()

    def add_all(self, sensors: Iterable[Sensor]) -> None:
        """Read several sensors from now on; raises as ``add`` does."""
        for sensor in sensors:
            self.add(sensor)

    def reads(self, sensor: Sensor) -> bool:
        """Return whether this very sensor is read, not another one of its name."""
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
        async with asyncio.timeout(self._timeout_s):
            await self._calls.until_over(sensor)
        await self._calls.call(sensor, sensor.close)

    def close(self) -> None:
        """End what is under way, as far as that can be."""
        self._calls.stop()
        self._threads.close()

    def last(self, sensor: Sensor) -> Reading | None:
        """Return the last reading, however old it is; None before there is one."""
        return self._last.get(sensor.name)

    def at_hand(self, sensor: Sensor) -> Reading | None:
        """Return the last reading while its interval lasts; None if ``current`` has to ask the
        sensor.

        An actuator's lasts `ACTUATOR_S` at most, unless it tells of each change by itself.
        """
        last = self._last.get(sensor.name)
        if last is None:
            return None
        limit_s = sensor.interval_s
        if isinstance(sensor, Actuator) and not sensor.is_pushed:
            limit_s = min(limit_s, ACTUATOR_S)
        fresh = self.now() - last.taken_at <= limit_s
        # A GET does not queue behind a slow device, nor does each one ask it.
        return last if fresh or self._reads.is_under_way(sensor) else None

    async def current(self, sensor: Sensor) -> Reading:
        """Return what is `at_hand`, else a fresh reading.

        That is not delivered: the numbers count the regular ones.

        Raises:
            SensorError: the sensor can't be read.

        """
        last = self.at_hand(sensor)
        if last is not None:
            return last
        if waits_for_nothing(sensor, sensor.read):
            return self._reads.now(sensor)
        return await self._reads.of(sensor)

    async def write(
        self,
        actuator: Actuator,
        value: Value,
        asker: str,
        check: CheckAgain = nothing_against,
    ) -> None:
        """Set an actuator; what it says of itself then is read and delivered behind that.

        Args:
            actuator: which.
            value: of its kind.
            asker: who wants it. All have their turns, however many writes each of them wants.
            check: called when its turn has come; what it raises is raised here, and nothing done.

        Raises:
            ValueRefusedError: it does not take this value; nothing was done.
            SensorBusyError: too many wait for it, or it hangs; nothing was done.
            SensorLateError: it has not come back in time; the value may be set, now or later.
            SensorError: it failed; the value may be set, or be set in part.

        """
        work, is_over = partial(actuator.write, value), partial(self._written, actuator)
        if not waits_for_nothing(actuator, actuator.write):
            await self._calls.call(actuator, work, asker, is_over, check)
            return
        failure: Exception | None = None
        try:
            call_now(actuator, work)
        except Exception as raised:
            failure = raised
            raise
        finally:
            is_over(failure)

    def _written(self, actuator: Actuator, failure: BaseException | None) -> None:
        """Forget what was read before a write, and read the actuator back."""
        if isinstance(failure, ValueRefusedError) or not self.reads(actuator):
            return
        self._last.pop(actuator.name, None)
        step = partial(self._read_back, actuator)
        self._failures.tried("read an actuator back", step, actuator.name)

    def _read_back(self, actuator: Actuator) -> None:
        if waits_for_nothing(actuator, actuator.read):
            self._sample_now(actuator)
        elif actuator not in self._waiting:
            self._waiting.add(actuator)
            reading = asyncio.create_task(self._sample(actuator), name=f"read {actuator.name}")
            self._read_backs.add(reading)
            reading.add_done_callback(self._read_backs.discard)

    async def handled(
        self,
        sensor: Sensor,
        work: Callable[[], Any],
        asker: str,
        check: CheckAgain = nothing_against,
    ) -> Any:
        """Call a handler of a sensor's when its turn has come; raises as `write` does.

        Args:
            sensor: whose it is.
            work: calls it; what it returns, or what is to be awaited for that.
            asker: who wants it; see `write`.
            check: likewise.

        """
        if waits_for_nothing(sensor, work):
            return call_now(sensor, work)
        return await self._calls.call(sensor, work, asker, check=check)

    def read_soon(self, sensor: Sensor) -> bool:
        """Read a sensor now that says that it has changed.

        Returns:
            False if a read is under way, which may have begun before: then it is to be asked again.

        """
        if sensor in self._waiting:
            return False
        if self.reads(sensor) and not sensor.is_pushed:
            self._schedule.add(sensor.name, sensor.interval_s, self.now())
            self._changed.set()
        return True

    def push(self, sensor: Sensor, outcome: Outcome | Exception) -> None:
        """Take a reading that came by itself, or why it did not."""
        try:
            if isinstance(outcome, Exception):
                raise SensorError(sensor.name, said(outcome))
            self._took(sensor, self._reads.checked(sensor, outcome, self._recalled_s))
        except SensorError as error:
            self._failed(sensor, error)

    def begin(self, sensor: Sensor) -> None:
        """Let a sensor begin that is read from now on."""
        self._let(sensor, sensor.begin)

    def hear(self, sensor: Sensor, topic: str, payload: bytes) -> None:
        """Give a sensor a message that it listens to."""
        self._let(sensor, partial(sensor.hear, topic, payload))

    def recall(self, sensor: Sensor, topic: str, payload: bytes, age_s: float) -> None:
        """Give a sensor a message from before it listened.

        What it says is a reading of that time, and late as one that was heard then. One that holds
        no longer is left alone.

        Args:
            sensor: which.
            topic: of the message.
            payload: likewise.
            age_s: so long ago the message came, seconds.

        """
        if sensor.is_pushed and age_s > sensor.interval_s:
            return
        self._recalled_s = age_s
        try:
            self.hear(sensor, topic, payload)
        finally:
            self._recalled_s = 0.0
        last = self._last.get(sensor.name)
        if sensor.is_pushed and last is not None and self.state_of(sensor) != BAD:
            late_at = last.taken_at + sensor.interval_s
            self._schedule.add(sensor.name, sensor.interval_s, late_at)
            self._changed.set()

    def _let(self, sensor: Sensor, work: Callable[[], None]) -> None:
        """Have a driver do something; what it raises is its sensor's failure, and nobody else's."""
        try:
            call_now(sensor, work)
        except SensorError as error:
            self._failed(sensor, error)
        except ValueRefusedError as error:
            self._failed(sensor, SensorError(sensor.name, said(error)))

    def state_of(self, sensor: Sensor) -> str:
        """``good``, ``bad`` if it fails, or ``-`` before its first reading."""
        if sensor.name in self._failing:
            return BAD
        return "good" if sensor.name in self._last else "-"

    async def run(self) -> None:
        """Read what is due, until cancelled; reads under way end with it."""
        try:
            async with asyncio.TaskGroup() as reads:
                while True:
                    self._changed.clear()
                    await self._sample_due(reads)
                    next_at = self._schedule.next_timer()
                    wait_s = None if next_at is None else max(0.0, next_at - self.now())
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait_s):
                            await self._changed.wait()
        finally:
            self._calls.stop(only_own=True)

    async def _sample_due(self, reads: asyncio.TaskGroup) -> None:
        for count, name in enumerate(self._schedule.due(self.now()), 1):
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
            if waits_for_nothing(sensor, sensor.read):
                self._sample_now(sensor)
            else:
                self._waiting.add(sensor)
                reads.create_task(self._sample(sensor), name=f"read {name}")

    def _sample_now(self, sensor: Sensor) -> None:
        try:
            self._took(sensor, self._reads.now(sensor))
        except SensorError as error:
            self._failed(sensor, error)

    def _expect(self, sensor: Sensor) -> None:
        """A reading that comes by itself is late if there was none for an interval."""
        last = self._last.get(sensor.name)
        if last is None or self.now() - last.taken_at > sensor.interval_s:
            self._failed(sensor, SensorError(sensor.name, f"nothing for {sensor.interval_s:g} s"))

    async def _sample(self, sensor: Sensor) -> None:
        name = sensor.name
        try:
            self._took(sensor, await self._reads.of(sensor))
        except SensorError as error:
            self._failures.tried("tell of a failure", partial(self._failed, sensor, error), name)
        finally:
            self._waiting.discard(sensor)

    def _has_read(self, sensor: Sensor, reading: Reading) -> None:
        if self.reads(sensor):  # else removed while it was read
            self._last[sensor.name] = reading

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
        self._schedule.add(sensor.name, sensor.interval_s, self.now() + again_s)
        self._changed.set()
        if failures > 1:  # one line, and one bad reading, for a failure that lasts
            return
        self._report(error)
        number = self._next_number(sensor)
        for name, unit in names_of(sensor):
            bad = Record(name, unit, None, self._wall_clock(), number, BAD)
            self._tell_of(sensor, bad)

"""Calls drivers: one call of a device at a time, in turns, and none is waited for too long.

Who comes while a call is under way waits for a turn: the gateway's own reads first, all others by
turns, however many each of them asks for. A call that has begun goes on though who asked has gone,
or waits no longer: its device is given to nobody else before it is over.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway.base.printable import said
from gateway.sensors.sensor import (
    Sensor,
    SensorBusyError,
    SensorError,
    SensorLateError,
    ValueRefusedError,
)
from gateway.sensors.threads import DriverThreads
from gateway.trust.shares.fair_turns import FairTurns

WAITING_MAX: Final = 16
"""So many calls may wait for one device, beside the gateway's own."""
WAITING_MAX_OF_ASKER: Final = 4
OWN: Final = ""
"""The asker where it is the gateway itself."""

DriverCall = Callable[[], Any]
WhenOver = Callable[[BaseException | None], None]
CheckAgain = Callable[[], None]
"""Raises what keeps a call that waited for its turn from being made."""


def nothing_against() -> None:
    """Let each call be made whose turn has come."""


def waits_for_nothing(sensor: Sensor, work: Callable[..., Any]) -> bool:
    """Return whether a driver's call is over when it returns: then `call_now` it."""
    return sensor.is_quick and not inspect.iscoroutinefunction(work)


def call_now(sensor: Sensor, work: DriverCall) -> Any:
    """Call a driver that waits for nothing; raises as `DeviceCalls.call`."""
    try:
        return work()
    except ValueRefusedError:
        raise
    except BaseException as raised:  # a driver may raise anything, and ends nothing else by it
        raise SensorError(sensor.name, said(raised)) from raised


class _Turn:
    """A place in the queue for a device."""

    __slots__ = ("asker", "came")

    def __init__(self, asker: str) -> None:
        self.asker = asker
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _Line:
    """A device with a call under way, and who waits for it."""

    __slots__ = ("free", "is_stuck", "of_asker", "waiting")

    def __init__(self) -> None:
        self.waiting = FairTurns[_Turn]()
        self.of_asker: Counter[str] = Counter()
        self.is_stuck = False
        """True if the call under way has not come back in time."""
        self.free = asyncio.Event()
        """That nothing is under way any more, and nobody waits."""

    def next(self) -> _Turn | None:
        """Return whose turn it is; it waits no longer."""
        turn = self.waiting.take()
        if turn is not None:
            self.of_asker[turn.asker] -= 1
        return turn


class _Call:
    """A call under way.

    Attributes:
        sensor: whose it is.
        asker: for whom.
        told: has what comes of it, for who waits.
        when_over: is given what the driver raised, or None, when it is over, however late.
        late: ends the waiting for it.

    """

    __slots__ = ("asker", "late", "sensor", "told", "when_over")

    def __init__(self, sensor: Sensor, asker: str, when_over: WhenOver | None) -> None:
        self.sensor = sensor
        self.asker = asker
        self.when_over = when_over
        self.told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.late: asyncio.TimerHandle | None = None


class DeviceCalls:
    """The calls of all drivers.

    Args:
        threads: where those are called that may wait.
        timeout_s: how long a call may take, and how long one waits for its turn.

    """

    def __init__(self, threads: DriverThreads, timeout_s: float) -> None:
        self._threads = threads
        self._timeout_s = timeout_s
        self._lines: dict[Sensor, _Line] = {}
        self._under_way: dict[asyncio.Task[Any], _Call] = {}

    async def call(
        self,
        sensor: Sensor,
        work: DriverCall,
        asker: str = OWN,
        when_over: WhenOver | None = None,
        check: CheckAgain = nothing_against,
    ) -> Any:
        """Call a driver when its turn has come.

        Args:
            sensor: whose driver it is.
            work: calls it; may be async, or return what is to be awaited.
            asker: for whom.
            when_over: is given what the driver raised, or None, when a call that has begun is over,
                though nobody waits for it any more. It must not raise.
            check: called when its turn has come; what it raises is raised here.

        Raises:
            SensorBusyError: it was not called.
            SensorLateError: it was, and has not come back in time.
            ValueRefusedError: it raises that.
            SensorError: it raises anything else.

        """
        await self._turn(sensor, asker)
        try:
            check()
        except BaseException:
            self._pass_on(sensor)
            raise
        call = _Call(sensor, asker, when_over)
        task = asyncio.create_task(self._run(sensor, work), name=f"call {sensor.name}")
        self._under_way[task] = call
        task.add_done_callback(self._ended)
        call.late = asyncio.get_running_loop().call_later(self._timeout_s, self._is_late, task)
        return await call.told

    async def until_over(self, sensor: Sensor) -> None:
        """Wait until no call of a driver is under way."""
        while (line := self._lines.get(sensor)) is not None:
            await line.free.wait()

    def stop(self, *, only_own: bool = False) -> None:
        """End what can be ended, and all waiting for it.

        Args:
            only_own: leave alone what others than the gateway itself asked for.

        """
        for task, call in self._under_way.items():
            if call.asker == OWN or not only_own:
                call.told.cancel()
                task.cancel()

    async def _run(self, sensor: Sensor, work: DriverCall) -> Any:
        try:
            if sensor.is_quick or inspect.iscoroutinefunction(work):
                outcome = work()
            else:
                outcome = await self._threads.call(sensor, work)
            return await outcome if isinstance(outcome, Awaitable) else outcome
        except (ValueRefusedError, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as raised:  # as above
            raise SensorError(sensor.name, said(raised)) from raised

    def _is_late(self, task: asyncio.Task[Any]) -> None:
        """Nobody waits for a call any longer, nor for its device before it is over."""
        call = self._under_way[task]
        self._lines[call.sensor].is_stuck = True
        self._refuse_all(call.sensor)
        name, over_s = call.sensor.name, f"within {self._timeout_s:g} s"
        late: Exception = SensorLateError(name, f"not done {over_s}")
        if self._threads.withdraw(call.sensor):
            why = f"no thread was free {over_s}: other drivers hang"
            late = SensorBusyError(name, why, self._timeout_s)
            call.when_over = None
            task.cancel()
        elif self._threads.over(call.sensor) is None:  # an async one can be ended
            task.cancel()
        if not call.told.done():
            call.told.set_exception(late)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        call = self._under_way.pop(task)
        if call.late is not None:
            call.late.cancel()
        failure: BaseException | None
        if task.cancelled():
            failure = SensorError(call.sensor.name, "the driver cancelled its own call")
        else:
            failure = task.exception()
            if isinstance(failure, GeneratorExit):  # the driver's: nobody closes what goes on
                failure = SensorError(call.sensor.name, said(failure))
        if call.told.done():  # it is late, or who asked has gone
            pass
        elif failure is not None:
            call.told.set_exception(failure)
        else:
            call.told.set_result(task.result())
        over = self._threads.over(call.sensor)
        if over is None:
            self._pass_on(call.sensor)
        else:
            over.add_done_callback(lambda _over: self._pass_on(call.sensor))
        if call.when_over is not None:
            call.when_over(failure)

    # -- turns -----------------------------------------------------------------------------------

    async def _turn(self, sensor: Sensor, asker: str) -> None:
        """Wait until the device is this asker's alone."""
        line = self._lines.get(sensor)
        if line is None:
            self._lines[sensor] = _Line()
            return
        if line.is_stuck:
            raise self._stuck(sensor)
        if asker != OWN:
            self._check_room(line, sensor, asker)
        turn = _Turn(asker)
        line.of_asker[asker] += 1
        line.waiting.put(asker, turn, has_claim=asker == OWN)
        # The gateway's own call is the next but one, which ends or is late in time.
        limit_s = None if asker == OWN else self._timeout_s
        try:
            await asyncio.wait([turn.came], timeout=limit_s)
        except asyncio.CancelledError:
            if not turn.came.done():
                turn.came.cancel()
            elif turn.came.exception() is None:  # it has come, and nobody takes it
                self._pass_on(sensor)
            raise
        if not turn.came.done():
            turn.came.cancel()
            why = f"its turn did not come within {self._timeout_s:g} s"
            raise SensorBusyError(sensor.name, why, self._timeout_s)
        turn.came.result()

    def _check_room(self, line: _Line, sensor: Sensor, asker: str) -> None:
        others = line.of_asker.total() - line.of_asker[OWN]
        if others >= WAITING_MAX or line.of_asker[asker] >= WAITING_MAX_OF_ASKER:
            raise SensorBusyError(sensor.name, f"{others} calls wait for it", self._timeout_s)

    def _stuck(self, sensor: Sensor) -> SensorBusyError:
        return SensorBusyError(sensor.name, "an earlier call has not come back", self._timeout_s)

    def _refuse_all(self, sensor: Sensor) -> None:
        while (turn := self._lines[sensor].next()) is not None:
            if not turn.came.done():
                turn.came.set_exception(self._stuck(sensor))

    def _pass_on(self, sensor: Sensor) -> None:
        line = self._lines[sensor]
        line.is_stuck = False
        while (turn := line.next()) is not None:
            if not turn.came.done():  # who waited has not gone
                turn.came.set_result(None)
                return
        del self._lines[sensor]
        line.free.set()

"""Reads sensors: all who ask for one while it is read are given the same reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.base.printable import said
from gateway.sensors.device_calls import DeviceCalls, call_now
from gateway.sensors.reading import Reading, as_reading
from gateway.sensors.sensor import Sensor, SensorError, ValueRefusedError


class Reads:
    """The reads under way.

    Args:
        calls: calls the drivers.
        has_read: is told of each reading, before who waits for it.
        wall_clock: seconds since 1970.
        clock: seconds, rising steadily.

    """

    def __init__(
        self,
        calls: DeviceCalls,
        has_read: Callable[[Sensor, Reading], None],
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._calls = calls
        self._has_read = has_read
        self._wall_clock = wall_clock
        self._clock = clock
        self._under_way: dict[Sensor, asyncio.Task[Reading]] = {}

    def is_under_way(self, sensor: Sensor) -> bool:
        """Return whether it is read now, or waits for that."""
        return sensor in self._under_way

    def now(self, sensor: Sensor) -> Reading:
        """Read a sensor that waits for nothing.

        Raises:
            SensorError: it can't be read.

        """
        try:
            outcome = call_now(sensor, sensor.read)
        except ValueRefusedError as error:
            raise SensorError(sensor.name, said(error)) from error
        reading = self.checked(sensor, outcome)
        self._has_read(sensor, reading)
        return reading

    async def of(self, sensor: Sensor) -> Reading:
        """Wait for the read under way, which begins if there is none; raises as `now`."""
        task = self._under_way.get(sensor)
        if task is None:
            task = asyncio.create_task(self._read(sensor), name=f"read {sensor.name}")
            self._under_way[sensor] = task
            task.add_done_callback(partial(self._is_over, sensor))
        return await asyncio.shield(task)

    def checked(self, sensor: Sensor, outcome: object, age_s: float = 0.0) -> Reading:
        """Make a reading of what a driver said.

        Args:
            sensor: whose driver.
            outcome: what it said.
            age_s: so long ago that was so, seconds.

        Raises:
            SensorError: it can't be one.

        """
        try:
            return as_reading(sensor, outcome, self._wall_clock() - age_s, self._clock() - age_s)
        except SensorError:
            raise
        except Exception as error:  # an object of the driver's may raise even when looked at
            raise SensorError(sensor.name, said(error)) from error

    async def _read(self, sensor: Sensor) -> Reading:
        try:
            outcome = await self._calls.call(sensor, sensor.read)
        except ValueRefusedError as error:
            raise SensorError(sensor.name, said(error)) from error
        reading = self.checked(sensor, outcome)
        self._has_read(sensor, reading)
        return reading

    def _is_over(self, sensor: Sensor, task: asyncio.Task[Reading]) -> None:
        del self._under_way[sensor]
        if not task.cancelled():
            task.exception()  # for whoever waits; perhaps nobody does any more

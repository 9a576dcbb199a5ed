"""Reads a sensor once before it is saved: what its table would give, or what keeps it from that.

All of it, from the constructor on, is a driver's own code, which may hang. So it has a thread and
an event loop of its own, for a bounded time; a thread that hangs is left alone. Few may hang.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from gateway.base.printable import said
from gateway.sensors.catalogue import ConfiguredSensor, Workshop
from gateway.sensors.reading import as_reading, full_name
from gateway.sensors.sensor import Sensor, SensorError
from light_dataclasses import dataclass

LIMIT_S: Final = 10.0
"""As long as a gateway waits for a driver."""
MOST: Final = 2
"""Trials that may be under way, or hang."""


class TrialFailedError(Exception):
    """A sensor can't be tried, or its driver does not come back; the message says why."""


@dataclass(frozen=True, slots=True)
class TriedSensor:
    """The result of trying one sensor.

    Attributes:
        name: of the sensor; of several values at a time, with the value's name.
        value: what it read; None if nothing.
        unit: of the value.
        quality: of the value: ``good``, ``uncertain`` or ``bad``.
        why: why there is no value; empty if there is one.

    """

    name: str
    value: Any
    unit: str = ""
    quality: str = ""
    why: str = ""


class SensorTrials:
    """Tries sensors, a few at a time.

    Args:
        most: trials that may be under way, or hang.

    """

    def __init__(self, most: int = MOST) -> None:
        self._room = threading.Semaphore(most)

    def tried(
        self,
        workshop: Workshop,
        table: Mapping[str, Any],
        *,
        limit_s: float = LIMIT_S,
        is_afar: bool = False,
    ) -> list[TriedSensor]:
        """Build the sensors of a table, read each once, and close them; waits for that.

        Args:
            workshop: builds sensors.
            table: as in the configuration.
            limit_s: in which all of it has to be done.
            is_afar: the table was sent here, and may not name files or code of this machine.

        Raises:
            SensorConfigError: the table is wrong.
            TrialFailedError: it takes too long, or too many others do.

        """
        if not self._room.acquire(blocking=False):
            raise TrialFailedError("others are tried, or hang: repeat this later")
        outcome: queue.SimpleQueue[list[TriedSensor] | Exception] = queue.SimpleQueue()

        def work() -> None:
            try:
                outcome.put(asyncio.run(_read(workshop, table, is_afar=is_afar)))
            except Exception as error:  # a driver is a developer's own code
                outcome.put(error)
            except BaseException as error:  # and may not end the process
                outcome.put(TrialFailedError(said(error)))
            finally:
                self._room.release()

        threading.Thread(target=work, name="sensor trial", daemon=True).start()
        try:
            came = outcome.get(timeout=limit_s)
        except queue.Empty:
            why = f"the driver has not come back within {limit_s:g} s"
            raise TrialFailedError(why) from None
        if isinstance(came, Exception):
            raise came
        return came


async def _read(
    workshop: Workshop, table: Mapping[str, Any], *, is_afar: bool
) -> list[TriedSensor]:
    found: list[TriedSensor] = []
    for configured in workshop.build([table], is_afar=is_afar):
        found += await _one(configured)
    return found


async def _one(configured: ConfiguredSensor) -> list[TriedSensor]:
    sensor = configured.sensor
    if sensor.topics:
        why = f"its readings come by themselves, on {', '.join(sensor.topics)}"
        return [TriedSensor(sensor.name, None, sensor.unit, why=why)]
    sensor.push = lambda outcome: None
    sensor.publish = lambda topic, payload: None
    try:
        if not sensor.is_pushed:  # else it would begin to observe
            sensor.begin()
        outcome = sensor.read()
        if inspect.isawaitable(outcome):
            outcome = await outcome
        reading = as_reading(sensor, outcome, time.time(), time.monotonic())
    except SensorError as error:
        return [TriedSensor(sensor.name, None, sensor.unit, why=error.why)]
    except Exception as error:  # a driver is a developer's own code
        return [TriedSensor(sensor.name, None, sensor.unit, why=said(error))]
    finally:
        await _closed(sensor)
    return [
        TriedSensor(full_name(sensor.name, part), one.value, one.unit or "", one.quality)
        for part, one in reading.values.items()
    ]


async def _closed(sensor: Sensor) -> None:
    try:
        closing = sensor.close()
        if inspect.isawaitable(closing):
            await closing
    except Exception:  # noqa: S110  # what it read counts, and nobody uses it any more
        pass

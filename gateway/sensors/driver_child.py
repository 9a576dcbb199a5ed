"""A process that calls drivers for another one, and is killed where they hang.

    python -m gateway.sensors.driver_child < REQUEST > ANSWERS

The request is a `DriverRequest`, pickled by the process that starts this one. The answers are
arrays in MessagePack: ``begins`` before each table, then ``found``, ``wrong`` or ``failed``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgpack

from gateway.base.printable import said
from gateway.sensors.catalogue import ConfiguredSensor, Workshop, described
from gateway.sensors.driver_process import ALARM_AFTER_S, DriverRequest
from gateway.sensors.drivers import DriverError
from gateway.sensors.options import SensorConfigError
from gateway.sensors.reading import as_reading, full_name
from gateway.sensors.sensor import Sensor, SensorError

FIRST_TO_GO: Final = "1000"
"""The score by which the kernel ends this process where memory is short, not the gateway."""

CLOSE_S: Final = 2.0
"""So long a sensor that is only made has for giving back what it holds."""

TriedRow = tuple[str, Any, str, str, str]
"""Fields of a `TriedSensor`."""


def main() -> int:
    """Do what the request on standard input says."""
    with contextlib.suppress(OSError), Path("/proc/self/oom_score_adj").open("w") as file:
        file.write(FIRST_TO_GO)
    answers = os.dup(1)
    os.dup2(2, 1)  # what a driver prints is none of them
    request: DriverRequest = pickle.loads(sys.stdin.buffer.read())  # noqa: S301  # of who started it

    def tell(*message: Any) -> None:
        os.write(answers, msgpack.packb(message))

    try:
        tell("found", _come_of(request, tell))
    except SensorConfigError as error:
        tell("wrong", error.key, error.why)
    except DriverError as error:
        tell("failed", str(error))
    except BaseException as error:  # a driver is a developer's own code
        tell("failed", said(error))
    os._exit(0)  # a thread of a driver's may hang


def _come_of(request: DriverRequest, tell: Callable[..., None]) -> Any:
    found: list[Any] = []
    for where, table in request.tables:
        signal.alarm(ceil(request.limit_s + ALARM_AFTER_S))  # it ends, whatever hangs
        tell("begins", where)
        if request.work == "describe":
            return described(table["type"], request.folder).as_json()
        made = Workshop(request.folder).made(table, where, is_afar=request.is_afar)
        if request.work == "read":
            found += asyncio.run(_read(made))
        else:
            _close_in_time(made)
    return found


async def _read(made: list[ConfiguredSensor]) -> list[TriedRow]:
    found: list[TriedRow] = []
    for configured in made:
        found += await _one(configured.sensor)
    return found


def _close_in_time(made: list[ConfiguredSensor]) -> None:
    """Close what was made; one that does not come back from that can be made all the same."""

    async def close() -> None:
        for configured in made:
            await _closed(configured.sensor)

    closing = threading.Thread(target=lambda: asyncio.run(close()), daemon=True)
    closing.start()
    closing.join(CLOSE_S)


async def _one(sensor: Sensor) -> list[TriedRow]:
    if sensor.topics:
        why = f"its readings come by themselves, on {', '.join(sensor.topics)}"
        return [_without(sensor, why)]
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
        return [_without(sensor, error.why)]
    except Exception as error:  # a driver is a developer's own code
        return [_without(sensor, said(error))]
    finally:
        await _closed(sensor)
    return [
        (full_name(sensor.name, part), one.value, one.unit or "", one.quality, "")
        for part, one in reading.values.items()
    ]


def _without(sensor: Sensor, why: str) -> TriedRow:
    return sensor.name, None, sensor.unit, "", why


async def _closed(sensor: Sensor) -> None:
    try:
        closing = sensor.close()
        if inspect.isawaitable(closing):
            await closing
    except Exception:  # noqa: S110  # what it read counts, and nobody uses it any more
        pass


if __name__ == "__main__":
    sys.exit(main())

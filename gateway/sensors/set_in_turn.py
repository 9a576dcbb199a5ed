"""Sets actuators for others than CoAP, whose requests take turns where they come in."""

from __future__ import annotations

import asyncio

from gateway.base.write_turns import WriteTurn
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor
from record_formats.value import Value


async def set_in_turn(sampler: Sampler, actuator: Actuator, value: Value, asker: str) -> None:
    """Set an actuator as `Sampler.write` does, but not between another one's look and its write."""
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin() -> None:
        if not begun.done():  # else it is given up, and its turn is left in a moment
            begun.set_result(None)

    turn = WriteTurn(_resource_of(actuator), begin)
    try:
        sampler.turns.enter(turn)
        await begun
        await sampler.write(actuator, value, asker)
    finally:
        sampler.turns.leave(turn)


def _resource_of(sensor: Sensor) -> tuple[bytes, ...]:
    """Return the path of a sensor's resource (`docs/sensors.md`), by which its writes take
    turns."""
    return (b"sensors", *sensor.name.encode().split(b"/"))

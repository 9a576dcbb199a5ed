"""A device of the demo publishes one reading after the other, and ends when all is acknowledged."""

from __future__ import annotations

import asyncio

from mqtt_peer import LIMIT_S, Bench

from gateway.sensors.recorded import Series
from gateway.tools.demo.device import Device
from record_formats.record import decode


async def test_a_device_publishes_until_it_is_stopped_and_notes_what_was_acknowledged() -> None:
    bench = Bench(anonymous=True)
    await bench.start()
    series = Series("lx", [0.0, 1.0], [3.0, 4.0])
    device = Device("light", "t/light", bench.broker.ports["mqtt"], series, rate_hz=100, speed=100)
    running = asyncio.create_task(device.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            while len(device.notes.acknowledged) < 4:
                await asyncio.sleep(0)
            device.stop()
            await running
    finally:
        running.cancel()
        await bench.stop()
    records = [decode(entry.payload) for entry in bench.entries]
    assert [one.number for one in records] == [one.number for one in device.notes.sent]
    assert [one.value for one in records[:4]] == [3.0, 4.0, 3.0, 4.0]
    assert device.notes.acknowledged == device.notes.sent

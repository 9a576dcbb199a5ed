"""A device of the demo publishes one reading after the other, and ends when all is acknowledged."""

from __future__ import annotations

import asyncio

from mqtt_peer import LIMIT_S, Bench

from gateway.sensors.recorded import Series
from gateway.tools.demo.device import Device, Watcher
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


async def test_a_watcher_asks_for_qos_1_and_notes_the_first_arrival_of_each_message() -> None:
    asked = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(2):
            body = await reader.readexactly(head[1])
            if head[0] >> 4 == 1:
                writer.write(b"\x20\x02\x00\x00")
            elif head[0] >> 4 == 8:
                asked.append(body)
                writer.write(b"\x90\x03" + body[:2] + b"\x01")
                for payload in (b"7", b"8", b"7"):
                    writer.write(b"\x30\x04\x00\x01t" + payload)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    watcher = Watcher(server.sockets[0].getsockname()[1], "t/#", int)
    async with server:
        async with asyncio.timeout(LIMIT_S):
            await watcher.start()
            while not watcher.repeated:
                await asyncio.sleep(0)
        await watcher.stop()
    assert [body[2:] for body in asked] == [b"\x00\x03t/#\x01"]
    assert list(watcher.arrived) == [("t", 7), ("t", 8)]
    assert watcher.arrived["t", 7] <= watcher.arrived["t", 8]
    assert watcher.repeated == 1

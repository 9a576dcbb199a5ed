"""The memory that a client takes which is connected, has subscribed, and does nothing."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from held_objects import held_bytes
from log_world import LogWorld, publish

from gateway.mqtt import Version

CLIENTS = 100
IDLE_BYTES = 4_096
"""Of objects of Python, the client's end in a test included; a real transport takes 1.5 KiB."""
PAYLOAD = bytes(50_000)


async def connect(world: LogWorld, version: Version) -> None:
    for _ in range(CLIENTS):
        await world.client(version, (f"topic/{len(world.clients)}", 1))


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
async def test_an_idle_client_takes_little(version: Version) -> None:
    world = LogWorld()
    await connect(world, version)  # what is made once is not counted
    gc.collect()
    tracemalloc.start()
    try:
        await connect(world, version)
        gc.collect()
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken_bytes / CLIENTS < IDLE_BYTES


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_a_client_sent_last_does_not_stay_with_its_connection(
    version: Version, qos: int
) -> None:
    world = LogWorld()
    number = await world.client(version)
    connection, _ = world.clients[number]
    before = held_bytes(connection)
    world.send(number, publish(version, "nobody/asked", qos, 1 if qos else 0, PAYLOAD))
    await world.turn()
    world.logged.clear()  # the log is on a disk
    assert held_bytes(connection) < before + len(PAYLOAD)

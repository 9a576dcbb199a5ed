"""The memory that a client takes which is connected, has subscribed, and does nothing."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from log_world import LogWorld

from gateway.mqtt import Version

CLIENTS = 100
IDLE_BYTES = 4_096
"""Of objects of Python, the client's end in a test included; a real transport takes 1.5 KiB."""


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

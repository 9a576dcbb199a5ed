"""A client that waits for its CONNACK is not silent while the disk holds that up."""

from __future__ import annotations

import sys
from pathlib import Path

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Wire, World

from gateway.broker.inbound.connection import Connection
from gateway.broker.upkeep import SWEEP_S
from gateway.mqtt import Connect, PropertyId, Version, encode

KEEP_ALIVE_S = 10


async def test_keep_alive_counts_from_the_connack_that_the_disk_holds_up() -> None:
    world = World(0, sync=True)
    world.start()
    world.log.crash_in = 1 << 60
    wire, connection = Wire(), Connection(world.core.service)
    connection.connection_made(wire)
    lasts = {PropertyId.SESSION_EXPIRY_INTERVAL: 60}
    connection.data_received(
        encode(Connect(Version.V5, "dev", False, KEEP_ALIVE_S, properties=lasts), Version.V5)
    )
    await world.settled()
    assert not wire.data
    channel, sweep = connection.peer.channel, world.core.upkeep.sweep
    channel.heard_at_s -= 1_000
    sweep(world.core.now())
    assert not channel.is_closing
    world.log.synced()
    await world.settled()
    assert wire.data
    sweep(world.core.now())
    assert not channel.is_closing
    now_s = world.core.now()
    while now_s < channel.heard_at_s + 1.6 * KEEP_ALIVE_S:  # now it can be heard, and has to be
        now_s += SWEEP_S
        sweep(now_s)
    assert channel.is_closing
    world.close()

"""A CONNECT that asks for a session that lasts is answered though the log takes nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Wire, World

from gateway.broker.durability.durable_persistence import RETRY_WRITE_S
from gateway.broker.inbound.connection import Connection
from gateway.mqtt import Connect, PropertyId, Version, encode

QUOTA_EXCEEDED, SERVER_UNAVAILABLE_311 = 0x97, 3
VERSIONS = {Version.V311: SERVER_UNAVAILABLE_311, Version.V5: QUOTA_EXCEEDED}


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(0, sync=request.param)
    made.start()
    made.log.crash_in = 1 << 60
    made.core.sweep()
    await made.settled()
    made.log.synced()
    yield made
    made.close()


async def connack(world: World, version: Version, *, lasts: bool = True) -> tuple[bool, int]:
    """Send a CONNECT; return whether there is a session, and the code as it is sent."""
    wire, connection = Wire(), Connection(world.core.service)
    connection.connection_made(wire)
    is_5 = version is Version.V5
    properties = {PropertyId.SESSION_EXPIRY_INTERVAL: 60} if is_5 and lasts else {}
    connect = Connect(version, "dev", clean_start=not lasts, properties=properties)
    connection.data_received(encode(connect, version))
    await world.settled()
    if not world.log.is_full:
        world.log.synced()
    assert wire.data, "it was told nothing"
    kind, _, present, code = wire.data[:4]
    assert kind == 0x20
    assert wire.is_cut == (code != 0)
    if not code:
        connection.connection_lost(None)
    return bool(present), code


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_new_session_is_refused_and_taken_when_there_is_room(
    world: World, version: Version
) -> None:
    world.log.is_full = True
    for _ in range(3):
        assert await connack(world, version) == (False, VERSIONS[version])
    assert not len(world.core.sessions)
    world.log.is_full = False
    await asyncio.sleep(2 * RETRY_WRITE_S)
    assert await connack(world, version) == (False, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_that_is_there_is_refused_and_kept(world: World, version: Version) -> None:
    assert await connack(world, version) == (False, 0)
    world.log.is_full = True
    for _ in range(3):
        assert await connack(world, version) == (False, VERSIONS[version])
    world.log.is_full = False
    await asyncio.sleep(2 * RETRY_WRITE_S)
    assert await connack(world, version) == (True, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_whose_session_is_not_to_last_comes_in(
    world: World, version: Version
) -> None:
    world.log.is_full = True
    assert await connack(world, version, lasts=False) == (False, 0)


async def test_the_connection_that_a_session_has_is_not_ended_for_one_that_is_refused(
    world: World,
) -> None:
    client = world.clients[1]
    client.connect(world.core)
    await world.settled()
    world.log.synced()
    client.read()
    assert client.is_accepted
    world.log.is_full = True
    assert await connack(world, Version.V5) == (False, QUOTA_EXCEEDED)
    wire, connection = Wire(), Connection(world.core.service)
    connection.connection_made(wire)
    properties = {PropertyId.SESSION_EXPIRY_INTERVAL: 60}
    connect = Connect(Version.V5, client.name, clean_start=False, properties=properties)
    connection.data_received(encode(connect, Version.V5))
    assert wire.is_cut
    assert client.wire is not None
    assert not client.wire.is_cut

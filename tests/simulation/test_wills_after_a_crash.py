"""Wills over crashes: of who was connected, published once after the restart."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import CrashError, Wire, World

from gateway.broker.durability.durable_persistence import RETRY_WRITE_S
from gateway.broker.inbound.connection import Connection
from gateway.mqtt import (
    Connect,
    Disconnect,
    PropertyId,
    ReasonCode,
    Version,
    Will,
    encode,
)
from tree_handler import batch

WILL = Will("gone", b"bye", 1, True, {})
DELAYED = Will("gone", b"bye", 1, False, {PropertyId.WILL_DELAY_INTERVAL: 3600})


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(0, sync=request.param)
    made.start()
    lasts(made)
    yield made
    made.close()


def lasts(world: World) -> None:
    """No crash but those that the test wants."""
    world.log.crash_in = 1 << 60


def connect(
    world: World, will: Will | None, *, lasting: bool = False, clean: bool = False
) -> Connection:
    connection = Connection(world.core.service)
    connection.connection_made(Wire())
    properties: dict[int, Any] = {PropertyId.SESSION_EXPIRY_INTERVAL: 7200} if lasting else {}
    connect = Connect(Version.V5, "dev", clean_start=clean, will=will, properties=properties)
    connection.data_received(encode(connect, Version.V5))
    return connection


async def turn(world: World) -> None:
    for _ in range(6):
        await asyncio.sleep(0)
        if world.sync:
            world.log.synced()


async def crash(world: World) -> None:
    await world.crash()
    lasts(world)
    await turn(world)


def published(world: World) -> list[bytes]:
    """Return the payloads that stand in the log on the will's topic, over all lives."""
    found = []
    for frame in world.log.frames:
        header = batch.check(frame)
        if header.logged and not header.local:
            found += [e.payload for e in batch.decode(frame, header) if e.topic == "gone"]
    return found


async def test_the_will_of_a_client_that_was_connected_is_published_after_the_crash_once(
    world: World,
) -> None:
    connect(world, WILL)
    await turn(world)
    assert published(world) == []
    await crash(world)
    assert published(world) == [b"bye"]
    kept = world.core.retention.get("gone")
    assert kept is not None
    assert kept.payload == b"bye"
    for _ in range(3):
        await crash(world)
    assert published(world) == [b"bye"]


async def test_it_stands_over_checkpoints(world: World) -> None:
    connect(world, WILL)
    await turn(world)
    await world.checkpoint()
    await crash(world)
    await world.checkpoint()
    await crash(world)
    assert published(world) == [b"bye"]


async def test_a_will_that_was_in_the_log_is_not_published_again(world: World) -> None:
    connection = connect(world, WILL)
    await turn(world)
    connection.connection_lost(None)
    await turn(world)
    assert published(world) == [b"bye"]
    await crash(world)
    assert published(world) == [b"bye"]


@pytest.mark.parametrize("after", range(1, 7))
async def test_killed_at_any_append_it_is_published_once(world: World, after: int) -> None:
    connection = connect(world, WILL)
    await turn(world)
    world.log.crash_in = after
    with suppress(CrashError):
        connection.connection_lost(None)
    await turn(world)
    await crash(world)
    assert published(world) == [b"bye"]


async def test_who_said_goodbye_or_connected_anew_without_one_has_no_will(world: World) -> None:
    connection = connect(world, WILL)
    await turn(world)
    connection.data_received(encode(Disconnect(ReasonCode.SUCCESS), Version.V5))
    connection.connection_lost(None)
    if world.sync:
        world.log.synced()
    await crash(world)
    assert published(world) == []
    connect(world, DELAYED, lasting=True)
    connect(world, None, lasting=True)
    await turn(world)
    await crash(world)
    assert published(world) == []


async def test_a_will_with_a_delay_waits_for_its_client_after_the_crash(world: World) -> None:
    connect(world, DELAYED, lasting=True)
    await turn(world)
    await crash(world)
    assert published(world) == []
    session = world.core.sessions.get("dev")
    assert session.will is not None
    connect(world, None, lasting=True)
    await turn(world)
    assert session.will is None
    await crash(world)
    assert published(world) == []


async def test_it_is_published_when_its_delay_is_over(world: World) -> None:
    connect(world, DELAYED, lasting=True)
    await turn(world)
    await crash(world)
    session = world.core.sessions.get("dev")
    assert session.will is not None
    session.will_at_s = 0.0
    world.core.sweep()
    await turn(world)
    assert published(world) == [b"bye"]


async def test_a_broker_that_is_stopped_leaves_no_will_of_those_connected(world: World) -> None:
    connect(world, WILL)
    await turn(world)
    world.core.stop()
    await world.checkpoint()
    await crash(world)
    assert published(world) == []


async def test_a_client_that_may_no_longer_publish_there_has_no_will_after_the_crash(
    world: World,
) -> None:
    connect(world, WILL)
    await turn(world)
    world.may_publish = lambda client, topic: False
    await crash(world)
    assert published(world) == []
    world.may_publish = None
    await crash(world)
    assert published(world) == []


async def refused(world: World) -> None:
    """Have a client go, its will's delay pass, and the log refuse the will."""
    connection = connect(world, DELAYED, lasting=True)
    await turn(world)
    connection.connection_lost(None)
    await turn(world)
    world.clocks.pass_s(3_601.0)
    world.ahead_s += 3_601.0
    world.log.is_full = True
    world.core.sweep()
    await turn(world)
    assert published(world) == []
    world.log.is_full = False


async def test_a_will_that_was_due_is_published_though_its_client_is_back_right_after_the_crash(
    world: World,
) -> None:
    """It is void only where the client is back before its delay has passed [MQTT-3.1.3-9]."""
    await refused(world)
    await crash(world)
    connect(world, None, lasting=True)
    await turn(world)
    assert published(world) == [b"bye"]
    await crash(world)
    assert published(world) == [b"bye"]


async def test_a_will_that_the_log_refused_does_not_wait_once_more_after_a_power_cut(
    world: World,
) -> None:
    await refused(world)
    await asyncio.sleep(2 * RETRY_WRITE_S)
    assert world.durable.write() is None
    await world.settled()
    world.log.synced()
    world.clocks.power_cut(10.0, is_right=False)
    await crash(world)
    connect(world, None, lasting=True)
    await turn(world)
    assert published(world) == [b"bye"]

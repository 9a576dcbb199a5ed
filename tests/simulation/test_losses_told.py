"""A message that a client waits for and the log lets go is told when it is gone, and once."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Client, World

from gateway.broker.client_roll import ClientRoll
from gateway.broker.limits import NO_LONGER_LOGGED
from gateway.broker.sessions import backlog

MANY = 200
SPARED = 3_000


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(0, sync=False, kept_bytes=0, head_bytes=0, spared_bytes=SPARED)
    made.start()
    made.log.crash_in = 1 << 60
    yield made
    made.close()


async def settle(world: World, *clients: Client) -> None:
    for _ in range(8):
        for client in clients:
            if client.connection is None:
                client.connect(world.core)
            client.read()
        await world.settled()


async def a_publisher_and_one_who_is_away(world: World) -> tuple[Client, Client]:
    publisher, _, away = world.clients[:3]
    publisher.on_acknowledged = lambda _: None
    await settle(world, publisher, away)
    away.subscribe("a/#", 2)
    await settle(world, away)
    away.cut()
    await settle(world)
    return publisher, away


async def away_with_messages(world: World, qos: tuple[int, ...] = (1,)) -> tuple[Client, Client]:
    """A publisher, and a subscriber who is away and for whom as many wait."""
    publisher, away = await a_publisher_and_one_who_is_away(world)
    for number in range(MANY):
        publisher.publish("a/1", qos[number % len(qos)], retain=False)
        if number % 10 == 9:
            await settle(world, publisher)
    await settle(world, publisher)
    assert told(world, away)["queued"] == MANY
    return publisher, away


def told(world: World, client: Client) -> Mapping[str, Any]:
    one = ClientRoll(world.core).one(client.name)
    assert one is not None
    return one


def counted(world: World) -> int:
    world.core.upkeep.sweep(world.core.now())
    return world.core.refusals.counts[NO_LONGER_LOGGED]


def in_memory(world: World) -> int:
    """Those that wait in memory, of which the log needs to have none."""
    return sum(1 for s in world.core.sessions.values() for _ in s.outgoing.backlog.in_memory())


async def trim(world: World) -> None:
    """A checkpoint puts by what it may, and the log lets go of all."""
    kept = world.core.checkpoints
    assert kept is not None
    await kept.checkpoint()
    world.log.trim(0)


@pytest.mark.parametrize("qos", [(1,), (1, 2), (2, 1, 1)])
async def test_a_loss_is_told_when_it_happens_and_not_again_when_the_client_comes_back(
    world: World, qos: tuple[int, ...]
) -> None:
    _, away = await away_with_messages(world, qos)
    at_hand = in_memory(world)
    await trim(world)
    kept = world.core.checkpoints
    assert kept is not None
    assert told(world, away)["dropped"] == 0
    kept.losses.sweep(world.core.now())
    await kept.losses.stop()
    after = told(world, away)
    lost = after["dropped"]
    assert 0 < lost < MANY - at_hand
    assert after["queued"] == MANY - lost
    assert counted(world) == lost
    for _ in range(40):
        await settle(world, away)
    assert told(world, away)["queued"] == 0
    assert len({message.payload for message in away.got}) == MANY - lost
    assert (told(world, away)["dropped"], counted(world)) == (lost, lost)


async def test_what_was_lost_before_a_crash_is_told_by_the_next_life(world: World) -> None:
    _, away = await away_with_messages(world)
    await trim(world)
    await world.crash()
    world.log.crash_in = 1 << 60
    kept = world.core.checkpoints
    assert kept is not None
    await kept.losses.look()
    after = told(world, away)
    assert after["dropped"] == MANY - after["queued"] > 0
    assert counted(world) == after["dropped"]


async def test_while_what_is_put_by_can_not_be_read_nothing_is_called_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    _, away = await away_with_messages(world)
    await trim(world)
    kept = world.core.checkpoints
    assert kept is not None
    world.failing_store.is_failing = True
    kept.losses.sweep(0.0)
    await kept.losses.stop()
    assert told(world, away)["queued"] == MANY
    assert "disk I/O error: looked again in 10 s" in caplog.text
    world.failing_store.is_failing = False
    kept.losses.sweep(9.0)
    await kept.losses.stop()
    assert told(world, away)["queued"] == MANY
    kept.losses.sweep(10.0)
    await kept.losses.stop()
    assert told(world, away)["dropped"] > 0


async def test_nobody_loses_what_is_put_by_for_him(world: World) -> None:
    publisher, away = await a_publisher_and_one_who_is_away(world)
    for _ in range(20):
        publisher.publish("a/1", 1, retain=False)
        await settle(world, publisher)
    await trim(world)
    kept = world.core.checkpoints
    assert kept is not None
    await kept.losses.look()
    assert (told(world, away)["queued"], told(world, away)["dropped"]) == (20, 0)
    assert backlog.HEAD_BYTES == 0 or Path(backlog.__file__).suffix != ".py"

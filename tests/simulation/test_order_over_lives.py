"""A client that was away gets an origin's messages life by life, whoever was killed meanwhile.

The origin's lives are told apart by epochs, which grow unless its disk was lost; so each run is
made with epochs that grow, that fall, and that do neither.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Client, World

from gateway.mqtt import Version
from tree_handler.batch import Epoch

EPOCHS = {"growing": (3, 4, 5, 6), "falling": (9, 8, 7, 6), "drawn": (5, 90, 2, 40)}
PER_LIFE = 4


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(0, sync=False)
    made.start()
    made.log.crash_in = 1 << 60
    yield made
    made.close()


async def crash(world: World, *, with_checkpoint: bool = False, epoch: int = 0) -> None:
    if with_checkpoint:
        await world.checkpoint()
    world.epoch = epoch - 1 if epoch else world.epoch
    await world.crash()
    world.log.crash_in = 1 << 60
    await world.settled()


async def online(world: World, *clients: Client) -> None:
    """Let these have their connections, and answer what they get."""
    for _ in range(6):
        for client in clients:
            if client.connection is None:
                client.connect(world.core)
            client.read()
        await world.settled()


def lives(client: Client, prefix: str) -> list[str]:
    return [p.payload.decode() for p in client.got if p.payload.decode().startswith(prefix)]


def clients(world: World) -> tuple[Client, Client]:
    """A publisher of whom the journal says nothing, and one with whose coming it marks."""
    publisher = Client("p", Version.V5, world.rng, lasts=False)
    late = Client("late", Version.V5, world.rng)
    world.clients += [publisher, late]
    return publisher, late


async def subscribe(world: World, *clients: Client) -> None:
    await online(world, *clients)
    for client in clients:
        client.subscribe("a/#", 1)
    await online(world, *clients)


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("epochs", EPOCHS.values(), ids=EPOCHS)
async def test_a_gateway_that_is_killed_again_and_again_gives_its_own_messages_in_order(
    world: World, epochs: tuple[int, ...], checkpoints: bool
) -> None:
    away = world.clients[0]
    await crash(world, epoch=100)
    await subscribe(world, away)
    away.cut()
    publisher, late = clients(world)
    for life, epoch in enumerate(epochs):
        await crash(world, epoch=epoch, with_checkpoint=checkpoints and life == 2)
        await online(world, publisher)
        for _ in range(PER_LIFE):
            publisher.publish("a/1", 1)
        await online(world, publisher)
        publisher.cut()
        if life % 2:  # the journal marks how far sessions were given what came
            await online(world, late)
            late.cut()
    await crash(world, epoch=50)
    await online(world, away)
    expected = [f"{publisher.name}:{i + 1}" for i in range(PER_LIFE * len(epochs))]
    assert lives(away, publisher.name) == expected


@pytest.mark.parametrize("is_decided", [False, True], ids=["at rest", "while clients come"])
@pytest.mark.parametrize("epochs", EPOCHS.values(), ids=EPOCHS)
async def test_another_origins_lives_come_in_order_after_the_gateway_was_killed(
    world: World, epochs: tuple[int, ...], is_decided: bool
) -> None:
    away = world.clients[0]
    _, late = clients(world)
    await subscribe(world, away)
    away.cut()
    for life, epoch in enumerate(epochs):
        stream: Epoch = ("other", epoch)
        world.log.open(stream)
        for number in range(1, PER_LIFE + 1):
            row = ("a/1", 1, f"o:{life}:{number}".encode())
            world.log.receive(stream, number, row)
            world.core.remote_delivery.publish_batch([row], stream, number)
        if is_decided and life % 2:
            await online(world, late)
            late.cut()
        if life == 1:
            await crash(world)
    await crash(world)
    await online(world, away)
    expected = [f"o:{life}:{n}" for life in range(len(epochs)) for n in range(1, PER_LIFE + 1)]
    assert lives(away, "o:") == expected


async def test_what_repair_brought_of_an_earlier_life_behind_a_later_one_comes_before_it(
    world: World,
) -> None:
    [away] = world.clients[:1]
    await subscribe(world, away)
    away.cut()
    earlier, later = ("other", 3), ("other", 4)
    rows = {stream: ("a/1", 1, f"o:{stream[1]}".encode()) for stream in (earlier, later)}
    for stream in (later, earlier):
        world.log.receive(stream, 1, rows[stream])
    world.log.open(earlier)
    world.log.open(later)
    await crash(world)
    await online(world, away)
    assert lives(away, "o:") == ["o:3", "o:4"]

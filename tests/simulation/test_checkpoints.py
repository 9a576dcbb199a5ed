"""A log that is trimmed behind checkpoints, checkpoints that fail, a log that lost its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Client, World


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(0, sync=request.param, kept_bytes=0)
    made.start()
    made.log.crash_in = 1 << 60
    yield made
    made.close()


async def settle(world: World, *clients: Client) -> None:
    """Let these have their connections, and answer what they get."""
    for _ in range(8):
        for client in clients:
            if client.connection is None:
                client.connect(world.core)
            client.read()
        await world.settled()
        world.log.synced()


async def publish(world: World, client: Client, *, retain: bool = False) -> bytes:
    payload = client.publish("a/1", 1, retain=retain)
    await settle(world, client)
    assert payload in client.acknowledged
    return payload


async def crash(world: World) -> None:
    await world.crash()
    world.log.crash_in = 1 << 60
    await settle(world)


def kept(world: World) -> bytes | None:
    message = world.core.retention.get("a/1")
    return None if message is None else message.payload


@pytest.fixture
async def cast(world: World) -> tuple[Client, Client]:
    """A publisher, and a subscriber who is away."""
    publisher, away = world.clients[:2]
    for client in (publisher, away):
        client.on_acknowledged = lambda _: None
    await settle(world, publisher, away)
    away.subscribe("a/1", 1)
    await settle(world, away)
    away.cut()
    return publisher, away


async def test_what_a_failed_checkpoint_was_to_hold_is_in_the_next_one(
    world: World, cast: tuple[Client, Client]
) -> None:
    publisher, away = cast
    first = await publish(world, publisher, retain=True)
    await settle(world, gone := world.clients[2])
    await world.checkpoint()
    latest = await publish(world, publisher, retain=True)
    world.core.sessions.end(world.core.sessions.get(gone.name))
    await settle(world, publisher)
    world.failing_store.is_failing = True
    await world.checkpoint()
    await world.checkpoint()
    assert not world.log.frames  # a start finds nothing but the checkpoint
    await crash(world)
    assert kept(world) == latest
    assert world.core.sessions.get(gone.name) is None
    await settle(world, away)
    assert [p.payload for p in away.got] == [first, latest]


async def test_nothing_is_trimmed_behind_a_checkpoint_that_failed(
    world: World, cast: tuple[Client, Client]
) -> None:
    publisher, away = cast
    await world.checkpoint()
    frames = len(world.log.frames)
    payload = await publish(world, publisher, retain=True)
    world.failing_store.is_failing = True
    await world.checkpoint()
    assert len(world.log.frames) > frames
    await crash(world)
    assert kept(world) == payload
    await settle(world, away)
    assert [p.payload for p in away.got] == [payload]


async def test_what_waits_for_its_sync_at_a_checkpoint_reaches_its_session_after_a_crash(
    cast: tuple[Client, Client], world: World
) -> None:
    publisher, away = cast
    payload = publisher.publish("a/1", 1)
    await world.settled()
    await world.checkpoint()
    await settle(world, publisher)
    assert payload in publisher.acknowledged
    await crash(world)
    world.failing_store.is_failing = True
    await world.checkpoint()  # and so does the life after it need it, without another one
    await crash(world)
    await settle(world, away)
    assert payload in {p.payload for p in away.got}


async def test_what_comes_while_a_checkpoint_is_written_is_needed_by_the_next_start(
    world: World, cast: tuple[Client, Client]
) -> None:
    publisher, away = cast
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # a real thread
    world.failing_store.may_save.clear()
    under_way = asyncio.create_task(world.checkpoint())
    await world.settled()
    payload = await publish(world, publisher, retain=True)
    world.failing_store.may_save.set()
    await under_way
    await crash(world)
    assert kept(world) == payload
    await settle(world, away)
    assert [p.payload for p in away.got] == [payload]


async def test_what_comes_behind_a_log_that_lost_its_end_is_found_at_the_next_start(
    world: World, cast: tuple[Client, Client]
) -> None:
    publisher, away = cast
    before = [await publish(world, publisher) for _ in range(20)]
    world.kept_bytes = None
    await world.checkpoint()
    old_end = world.log.position
    lost_bytes = sum(world.log.lose_last() for _ in range(12))
    await crash(world)
    assert world.log.missing_bytes == lost_bytes, "it is told"
    late = world.clients[2]
    await settle(world, late)
    late.subscribe("a/1", 1)
    await settle(world, late)
    assert late.subscribed
    late.cut()
    after = await publish(world, publisher)
    assert world.log.position < old_end, "it is to stand before the old end"
    await crash(world)
    await settle(world, away, late)
    assert [p.payload for p in away.got] == [*before, after]
    assert [p.payload for p in late.got] == [after]


async def test_a_small_log_has_its_checkpoint_before_it_outgrows_its_size(
    world: World, cast: tuple[Client, Client]
) -> None:
    publisher, _ = cast
    await world.checkpoint()
    world.log.max_bytes = 8_000
    kept = world.core.checkpoints
    assert kept is not None
    begun, now_s = kept.position, asyncio.get_running_loop().time() + 1
    while kept.position == begun:
        await publish(world, publisher)
        kept.sweep(now_s)
        await kept.settle()
        assert world.log.position - kept.position < 4_000
    assert world.log.position - begun >= 2_000


async def test_a_checkpoint_in_slices_says_how_it_is_when_the_last_of_them_is_done(
    world: World, cast: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.broker.durability.slices.SLICE_S", -1.0)  # a session in each
    publisher, away = cast
    first = await publish(world, publisher)
    others = world.clients[2:]
    await settle(world, *others)
    making = asyncio.ensure_future(world.checkpoint())
    for _ in range(2):  # all of it is copied but for the last
        await asyncio.sleep(0)
    assert not making.done()
    payloads = [publisher.publish("a/1", 1) for _ in range(3)]
    away.connect(world.core)
    while not making.done():
        away.read()
        publisher.read()
        world.log.synced()
        await asyncio.sleep(0)
    await making
    await settle(world, publisher, away)
    away.cut()
    await crash(world)
    await settle(world, publisher, away)
    assert [one.payload for one in away.got] == [first, *payloads]
    assert not away.faults

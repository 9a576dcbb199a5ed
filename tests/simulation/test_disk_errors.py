"""Calls of the log that fail for a while: nothing that was acknowledged is lost by them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Client, World

from gateway.broker.limits import NO_LONGER_LOGGED, NOT_READ
from gateway.broker.sessions import backlog
from tree_handler.retained.hybrid_clock import EARLIEST_US, RetainedVersion
from tree_handler.retained.message import Retained


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(0, sync=request.param, head_bytes=0)
    made.start()
    made.log.crash_in = 1 << 60
    for client in made.clients:
        client.on_acknowledged = lambda _: None
    yield made
    made.close()


async def settle(world: World, *clients: Client) -> None:
    """Let these have their connections, and answer what they get."""
    for _ in range(40):
        for client in clients:
            if client.connection is None:
                client.connect(world.core)
            client.read()
        await world.settled()
        world.log.synced()


async def away(world: World) -> tuple[Client, Client, list[bytes]]:
    """A publisher, a subscriber who is away, and what waits for it."""
    publisher, subscriber = world.clients[:2]
    await settle(world, publisher, subscriber)
    subscriber.subscribe("a/1", 1)
    await settle(world, subscriber)
    subscriber.cut()
    payloads = []
    for _ in range(50):
        payloads.append(publisher.publish("a/1", 1))
        await settle(world, publisher)
    assert publisher.acknowledged == payloads
    return publisher, subscriber, payloads


async def read_again(world: World, *clients: Client) -> None:
    """The broker looks at what is due, a minute later."""
    world.ahead_s += 60.0
    world.core.sweep()
    await settle(world, *clients)


@pytest.mark.skipif(
    Path(backlog.__file__).suffix != ".py", reason="compiled, so few messages wait in memory alone"
)
async def test_who_comes_back_while_the_log_can_not_be_read_gets_all_that_waits_later(
    world: World,
) -> None:
    publisher, subscriber, payloads = await away(world)
    world.log.failing.add("read")
    await settle(world, subscriber)
    payloads.append(publisher.publish("a/1", 1))
    await settle(world, publisher, subscriber)
    world.core.sweep()
    assert subscriber.got == []
    assert world.core.refusals.counts[NOT_READ]
    world.log.failing.clear()
    await read_again(world, subscriber)
    assert [one.payload for one in subscriber.got] == payloads
    assert not world.core.refusals.counts[NO_LONGER_LOGGED]


async def test_who_goes_again_before_the_log_can_be_read_lacks_nothing_after_a_crash(
    world: World,
) -> None:
    _, subscriber, payloads = await away(world)
    world.log.failing.add("read")
    await settle(world, subscriber)
    subscriber.cut()
    await world.checkpoint()
    await world.crash()
    world.log.crash_in = 1 << 60
    await settle(world, subscriber)
    assert [one.payload for one in subscriber.got] == payloads


@pytest.mark.parametrize("call", ["goes_next", "start_sync", "sync"])
async def test_what_a_checkpoint_was_to_hold_whose_disk_fails_is_in_the_next_one(
    world: World, call: str
) -> None:
    publisher, gone = world.clients[0], world.clients[2]
    await settle(world, publisher, gone)
    deleted = publisher.publish("b/1", 1, retain=True)
    await settle(world, publisher)
    await world.checkpoint()
    kept = publisher.publish("a/1", 1, retain=True)
    publisher.publish("b/1", 1, retain=True, payload=b"")
    world.core.sessions.end(world.core.sessions.get(gone.name))
    await settle(world, publisher)
    assert {deleted, kept} <= set(publisher.acknowledged)
    world.log.failing.add(call)
    await world.checkpoint()
    world.log.failing.clear()
    await world.checkpoint()
    world.log.trim(0)
    assert not world.log.frames, "a start finds nothing but the checkpoint"
    await world.crash()
    world.log.crash_in = 1 << 60
    retained = {topic: world.core.retention.get(topic) for topic in ("a/1", "b/1")}
    assert {topic: m and m.payload for topic, m in retained.items()} == {"a/1": kept, "b/1": None}
    assert world.core.sessions.get(gone.name) is None


async def test_a_checkpoint_that_fails_in_any_way_is_told_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = world.clients[0]
    await settle(world, publisher)
    payload = publisher.publish("a/1", 1, retain=True)
    await settle(world, publisher)
    world.failing_store.raises = RuntimeError("can't start new thread")
    world.ahead_s += 1_000.0
    core = world.core
    assert core.checkpoints is not None
    core.sweep()
    await core.checkpoints.settle()  # a thread does it
    core.sweep()
    await core.checkpoints.settle()  # nothing began: it is tried again after a pause
    told = [one for one in caplog.records if "checkpoint" in one.getMessage()]
    assert [one.levelname for one in told] == ["ERROR"]
    assert "can't start new thread" in told[0].getMessage()
    world.failing_store.raises = None
    world.ahead_s += 1_000.0
    while core.checkpoints.position < world.log.position:
        core.sweep()
        await asyncio.sleep(0)
    world.log.trim(0)
    assert not world.log.frames
    await world.crash()
    kept = world.core.retention.get("a/1")
    assert kept is not None
    assert kept.payload == payload


async def test_news_of_a_neighbour_behind_a_long_queue_reach_who_comes_back_after_a_crash(
    world: World,
) -> None:
    _, subscriber, payloads = await away(world)
    version = RetainedVersion(EARLIEST_US + 10**12, 0, "other", 3)
    news = Retained("a/1", version, 9, 1, b"news", {})
    assert world.core.shared_retention.learn(news, world.core.now(), is_news=True)
    await settle(world)
    await world.checkpoint()
    await world.crash()
    world.log.crash_in = 1 << 60
    await settle(world, subscriber)
    assert [one.payload for one in subscriber.got] == [*payloads, b"news"]

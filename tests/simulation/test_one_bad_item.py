"""One item that fails costs no other: a will, a client, a listener, a turn."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Client, Wire, World
from held_objects import held_objects
from held_timers import HeldTimers

from gateway.broker.data_plane import SWEEP_S
from gateway.broker.hooks import Client as Known
from gateway.broker.inbound.connection import Connection
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.sessions import registry
from gateway.broker.sessions.wills import REFUSED, UNFIT
from gateway.mqtt import (
    Connect,
    PropertyId,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
    encode,
)
from tree_handler import batch

DEEP = "a/b/c/d"


class Plugin:
    """A listener that fails at whatever it is told."""

    def connected(self, client: Known) -> None:
        raise RuntimeError("connected")

    def disconnected(self, client: Known, why: str) -> None:
        raise RuntimeError("disconnected")

    def subscribed(self, client: Known, topic_filter: str, qos: int) -> None:
        raise RuntimeError("subscribed")

    def unsubscribed(self, client: Known, topic_filter: str) -> None:
        raise RuntimeError("unsubscribed")


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(0, sync=request.param)
    begin(made)
    for client in made.clients:
        client.on_acknowledged = lambda _: None
    yield made
    made.close()


def begin(world: World) -> None:
    world.start()
    world.log.crash_in = 1 << 60


async def settle(world: World, *clients: Client) -> None:
    for _ in range(8):
        for client in clients:
            if client.connection is None:
                client.connect(world.core)
            client.read()
        await world.settled()
        if not world.log.is_dead:
            world.log.synced()


async def crash(world: World) -> None:
    await world.crash()
    world.log.crash_in = 1 << 60
    await settle(world)


def connect(
    world: World,
    will: Will | None,
    name: str = "dev",
    *,
    version: Version = Version.V5,
    expiry_s: int = 0,
    username: str | None = None,
) -> Connection:
    connection = Connection(world.core.service)
    connection.connection_made(Wire())
    properties: dict[int, Any] = {PropertyId.SESSION_EXPIRY_INTERVAL: expiry_s} if expiry_s else {}
    connect = Connect(
        version, name, clean_start=True, will=will, properties=properties, username=username
    )
    connection.data_received(encode(connect, version))
    return connection


def logged(world: World, topic: str) -> list[bytes]:
    """Return the payloads that stand in the log on a topic, over all lives."""
    found = []
    for frame in world.log.frames:
        header = batch.check(frame)
        if header.logged and not header.local:
            found += [e.payload for e in batch.decode(frame, header) if e.topic == topic]
    return found


async def is_served(world: World) -> bool:
    """Return whether a message of QoS 1 is acknowledged and reaches a subscriber."""
    publisher, subscriber = world.clients[:2]
    await settle(world, publisher, subscriber)
    subscriber.subscribe("a/1", 1)
    await settle(world, subscriber)
    payload = publisher.publish("a/1", 1)
    await settle(world, publisher, subscriber)
    return payload in publisher.acknowledged and payload in {p.payload for p in subscriber.got}


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("delay_s", [0, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_will_whose_topic_is_too_deep_after_a_restart_is_told_and_all_else_is_served(
    world: World, qos: int, delay_s: int, retain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {PropertyId.WILL_DELAY_INTERVAL: delay_s} if delay_s else {}
    connect(world, Will(DEEP, b"deep", qos, retain, properties), expiry_s=60)
    connect(world, Will("gone", b"bye", 1, False, properties), "other", expiry_s=60)
    await settle(world)
    world.limits = replace(world.limits, topic_levels=2)
    await crash(world)
    assert await is_served(world)
    world.ahead_s += 10.0
    world.core.sweep()
    await settle(world)
    assert await is_served(world)
    assert logged(world, "gone") == [b"bye"]
    assert logged(world, DEEP) == []
    assert world.core.refusals.counts[UNFIT] == 1
    assert any(DEEP in one.getMessage() for one in caplog.records if one.levelname == "ERROR")
    await crash(world)
    assert UNFIT not in world.core.refusals.counts, "it was given up in the life before"


async def test_a_will_that_the_log_refuses_is_published_when_it_takes_it(world: World) -> None:
    connection = connect(world, Will("gone", b"bye", 1, True, {}))
    await settle(world)
    world.log.is_full = True
    connection.connection_lost(None)
    await settle(world)
    assert world.core.refusals.counts[REFUSED] == 1
    for _ in range(3):
        world.ahead_s += 60.0
        world.core.sweep()
        await settle(world)
    assert logged(world, "gone") == []
    world.log.is_full = False
    world.ahead_s += 60.0
    for _ in range(2):
        world.core.sweep()
        await settle(world)
    assert logged(world, "gone") == [b"bye"]
    kept = world.core.retention.get("gone")
    assert kept is not None
    assert kept.payload == b"bye"
    await crash(world)
    world.core.sweep()
    await settle(world)
    assert logged(world, "gone") == [b"bye"], "once"


@pytest.mark.parametrize("has_another", [False, True])
@pytest.mark.parametrize("takes_checkpoint", [False, True])
async def test_a_will_that_the_log_refused_outlives_a_crash_beside_its_clients_next_one(
    world: World, takes_checkpoint: bool, has_another: bool
) -> None:
    connection = connect(world, Will("gone", b"first", 1, False, {}))
    await settle(world)
    world.log.is_full = True
    connection.connection_lost(None)
    await settle(world)
    world.log.is_full = False
    world.ahead_s += 1.0  # the journal waits a little before it tries again
    if has_another:
        connect(world, Will("gone", b"second", 1, False, {}))
        await settle(world)
    if takes_checkpoint:
        await world.checkpoint()
    await crash(world)
    assert logged(world, "gone") == [b"first", b"second"][: 1 + has_another]
    await crash(world)
    assert logged(world, "gone") == [b"first", b"second"][: 1 + has_another]


async def test_a_listener_that_fails_costs_no_client_its_session_or_its_will(
    world: World,
) -> None:
    world.plugin = Plugin()
    begin(world)
    connection = connect(world, Will("gone", b"bye", 1, False, {}))
    await settle(world)
    connection.connection_lost(None)
    await settle(world)
    assert logged(world, "gone") == [b"bye"]
    assert world.core.sessions.connected == 0
    assert len(world.core.connections) == 0
    assert await is_served(world)


async def test_a_session_that_can_not_be_ended_keeps_no_other_from_its_end(
    world: World,
) -> None:
    names = ["one", "two", "three"]
    for name in names:
        connection = connect(world, None, name, expiry_s=1)
        request = Subscribe(1, [SubscriptionRequest("a", 1)], {})
        connection.data_received(encode(request, Version.V5))
        connection.connection_lost(None)
    await settle(world)
    bad = world.core.sessions.get("one")
    assert bad is not None
    bad.subscriptions[7] = bad.subscriptions["a"]  # type: ignore[index]  # it is damaged
    world.ahead_s += 10.0
    for _ in range(3):
        world.core.sweep()
    assert [world.core.sessions.get(name) for name in names[1:]] == [None, None]
    assert world.core.refusals.counts["set aside: end of a session"] == 1
    assert await is_served(world)


class Broken(Wire):
    """A connection that nothing can be written to."""

    def write(self, data: Any) -> None:
        raise RuntimeError("a broken transport")


async def test_a_connection_that_can_not_be_written_to_costs_no_other_its_packets(
    world: World,
) -> None:
    connection, wire = Connection(world.core.service), Broken()
    connection.connection_made(wire)
    first = Connect(Version.V5, "broken", clean_start=True)
    connection.data_received(encode(first, Version.V5))
    assert await is_served(world)
    assert wire.is_cut
    assert world.core.refusals.counts["set aside: write to a connection"]


async def test_an_answer_to_what_came_again_that_fails_keeps_no_other_answer_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, acknowledge = 0, Publisher.acknowledge

    def second_fails(publisher: Publisher, qos: int, packet_id: int) -> None:
        nonlocal answers
        answers += 1
        if answers == 2:
            raise RuntimeError("nobody foresaw it")
        acknowledge(publisher, qos, packet_id)

    monkeypatch.setattr(Publisher, "acknowledge", second_fails)
    client = world.clients[0]
    await settle(world, client)
    client.publish("a/1", 2)
    (sent,) = client.sent.values()
    client.send(replace(sent.publish, dup=True))
    await settle(world, client)
    assert answers > 1
    assert await is_served(world)


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
@pytest.mark.parametrize("clean", [False, True])
async def test_who_returns_while_its_refused_connection_drains_counts_once(
    world: World, version: Version, clean: bool
) -> None:
    world.limits = replace(world.limits, connections_per_user=1)
    await crash(world)  # and it starts again with that
    client, other = world.clients[:2]
    client.version = version
    lost = []
    for _ in range(5):
        await settle(world, client)
        assert client.connection is not None
        world.log.is_full = True
        client.publish("a/1", 1)
        await world.settled()
        world.log.is_full = False
        world.ahead_s += 1.0
        lost.append(client.connection)  # of which the transport does not tell yet that it is lost
        client.sent.clear()
        client.connection = client.wire = None
        client.lasts = not clean
        world.core.sweep()
    await settle(world, client)
    assert world.core.sessions.connected == 1
    for connection in lost:
        connection.connection_lost(None)
    assert world.core.sessions.connected == 1
    assert len(world.core.connections) == 1
    client.cut()
    assert world.core.sessions.connected == 0
    await settle(world, other)  # of the same user: there is room for one
    assert world.core.sessions.connected == 1


async def test_users_who_have_gone_leave_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MOST_REMEMBERED", 10)  # of how often each has come
    await crash(world)  # and it starts again with that

    async def held_after(users: range) -> int:
        for number in users:
            connection = connect(world, None, username=f"user-{number}")
            await world.settled()
            assert world.core.sessions.connected == 1
            connection.connection_lost(None)
            await world.settled()
        return held_objects(world.core.sessions)

    before = await held_after(range(50))
    assert await held_after(range(50, 150)) < before + 50


async def test_the_sweep_begins_again_after_whatever_it_met(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0

    def now() -> float:
        nonlocal failures
        failures += 1
        raise RuntimeError("no clock")

    timers = HeldTimers(monkeypatch, SWEEP_S)
    world.core.start()
    assert timers.count == 1
    before, world.core.now = world.core.now, now
    await asyncio.sleep(0)
    timers.run_out()
    world.core.now = before
    assert failures
    assert timers.count == 1
    assert await is_served(world)
    world.core.stop()
    assert timers.count == 0

"""Retained messages for a new subscriber, in turns: what a connection leaves the next one sends."""

from __future__ import annotations

import asyncio

import pytest
from log_world import LogWorld, publish

from gateway.mqtt import (
    ConnAck,
    Connect,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)

V5 = Version.V5
TOPICS = [f"t/{n}" for n in range(6)]


async def retaining(payload: bytes = bytes(100)) -> LogWorld:
    """A broker that has six messages, each of which is a turn's worth."""
    world = LogWorld(write_buffer_bytes=1)
    writer = await world.client(V5)
    for at, topic in enumerate(TOPICS, 1):
        world.send(writer, publish(V5, topic, 1, at, payload, retain=True))
    await world.turn()
    return world


def lasting(world: LogWorld) -> int:
    """A connection of a client whose session outlives it."""
    number = world.opened()
    world.send(number, encode(Connect(V5, "reader", False, properties={17: 60}), V5))
    return number


def subscribed(qos: int) -> bytes:
    return encode(Subscribe(9, [SubscriptionRequest("t/+", qos)], {}), V5)


def topics(world: LogWorld, number: int) -> list[str]:
    found = [one.topic for one in world.written(number) if isinstance(one, Publish)]
    assert len(found) == len(set(found))
    return found


async def gone(world: LogWorld, number: int) -> None:
    world.clients[number][0].connection_lost(None)
    await world.turn()


async def test_a_turn_ends_when_it_has_sent_enough_and_the_next_goes_on() -> None:
    world = await retaining()
    number = lasting(world)
    await world.turn()
    world.send(number, subscribed(1))
    assert not world.is_read(number)
    for _ in range(20):
        await world.turn()
    found = world.written(number)
    assert [type(one) for one in found] == [ConnAck, SubAck, *[Publish] * 6]
    assert sorted(topics(world, number)) == TOPICS
    assert all(one.retain and one.qos == 1 for one in found[2:])
    assert world.is_read(number)


@pytest.mark.parametrize(("qos", "is_owed"), [(1, True), (0, False)])
async def test_what_a_connection_was_not_sent_the_next_one_is_unless_it_was_of_qos_0(
    qos: int, *, is_owed: bool
) -> None:
    world = await retaining()
    first = lasting(world)
    await world.turn()
    world.send(first, subscribed(qos))
    session = world.core.sessions.get("reader")
    assert session is not None
    assert (session.owed is not None) == is_owed
    given = set(session.owed.given) if session.owed is not None else set()
    assert len(given) == is_owed, "a turn's worth"
    await gone(world, first)
    second = lasting(world)
    for _ in range(20):
        await world.turn()
    assert session.owed is None
    got = topics(world, second)
    assert len(got) == (6 if is_owed else 0), "with what was sent, and not acknowledged"


async def test_what_is_left_for_the_next_connection_and_fits_a_turn_is_settled_at_once() -> None:
    world = await retaining(b"x")
    first = lasting(world)
    await world.turn()
    world.send(first, subscribed(1))
    await gone(world, first)
    writer = await world.client(V5)
    for at, topic in enumerate(TOPICS, 1):  # all is deleted meanwhile but for what was given
        session = world.core.sessions.get("reader")
        assert session is not None and session.owed is not None
        if topic not in session.owed.given:
            world.send(writer, publish(V5, topic, 1, at, b"", retain=True))
    await world.turn()
    second = lasting(world)
    assert session.owed is None
    assert world.is_read(second)


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_connection_that_is_closed_meanwhile_is_sent_nothing_more(turns: int) -> None:
    world = await retaining()
    number = lasting(world)
    await world.turn()
    world.send(number, subscribed(1))
    for _ in range(turns):
        await asyncio.sleep(0)
    session = world.core.sessions.get("reader")
    assert session is not None and session.owed is not None
    given = set(session.owed.given)
    world.clients[number][0].peer.channel.close()
    for _ in range(10):
        await world.turn()
    assert session.owed is not None, "the next connection is sent the rest"
    assert session.owed.given == given
    assert sorted(topics(world, number)) == sorted(given)


async def test_a_client_that_does_not_read_is_sent_no_more_until_it_does() -> None:
    world = await retaining()
    number = lasting(world)
    await world.turn()
    world.send(number, subscribed(1))
    connection = world.clients[number][0]
    connection.pause_writing()
    session = world.core.sessions.get("reader")
    assert session is not None and session.owed is not None
    for _ in range(10):
        await world.turn()
    assert len(session.owed.given) == 1
    world.send(number, encode(PubAck(1), V5))
    connection.resume_writing()
    connection.connection_lost(None)

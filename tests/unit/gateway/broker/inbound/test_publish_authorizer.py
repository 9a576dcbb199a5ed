"""Messages that a client publishes: how one passes, is delivered, and what the client is told."""

from __future__ import annotations

from typing import Any

import pytest
from log_world import LogWorld, publish

from gateway.mqtt import PubAck, Publish, PubRec, ReasonCode, SubscriptionRequest, Version, encode
from gateway.mqtt import Subscribe as SubscribePacket

V5, V311 = Version.V5, Version.V311
R = ReasonCode
OVER = "message not retained: the limit of a user"


async def reading(world: LogWorld, version: Version) -> int:
    """A client that sees whether RETAIN was set."""
    number = await world.client(version)
    asked = SubscriptionRequest("#", 2, False, version == V5)
    world.send(number, encode(SubscribePacket(9, [asked], {}), version))
    await world.turn()
    world.clients[number][1].written.clear()
    return number


def got(world: LogWorld, number: int) -> list[Any]:
    packets = [one for one in world.written(number) if isinstance(one, Publish)]
    return [(one.topic, one.payload, one.qos, one.retain) for one in packets]


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_may_not_be_retained_is_refused_or_goes_on_without_if_nobody_can_be_told(
    version: Version, qos: int
) -> None:
    """Here and elsewhere."""
    world = LogWorld({"carries_unlogged": lambda: True}, retained_messages_per_user=1)
    readers = [await reading(world, of) for of in (V311, V5)]
    writer = await world.client(version)
    world.send(writer, publish(version, "kept", 1, 1, b"1", retain=True))
    await world.turn()
    for number in (*readers, writer):
        world.clients[number][1].written.clear()
    world.send(writer, publish(version, "more", qos, qos and 7, b"23", retain=True))
    await world.turn()
    is_refused = version == V5 and qos > 0
    expected = [] if is_refused else [("more", b"23", qos, False)]
    assert [got(world, one) for one in readers] == [expected, expected]
    reason = R.QUOTA_EXCEEDED if is_refused else R.SUCCESS
    answer = {0: [], 1: [PubAck(7, reason)], 2: [PubRec(7, reason)]}[qos]
    assert world.written(writer) == answer
    logged = [row[:3] for row in world.logged[1:]]
    assert logged == ([] if is_refused or not qos else [("more", qos, b"23")])
    assert world.core.retention.get("more") is None
    [(kind, count)] = world.core.refusals.counts.items()
    assert (kind.split(":")[0], count) == ("message not retained", 1)
    world.send(writer, publish(version, "kept", qos, qos and 8, b"2", retain=True))
    await world.turn()
    kept = world.core.retention.get("kept")
    assert kept is not None
    assert kept.payload == b"2"

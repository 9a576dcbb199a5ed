"""A session over its client's connections: what it sends again, and as what that counts."""

from __future__ import annotations

from typing import Any

from log_world import LogWorld, publish

from gateway.mqtt import (
    ConnAck,
    Connect,
    PropertyId,
    PubAck,
    Publish,
    PubRec,
    PubRel,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)

V5 = Version.V5


async def comes(world: LogWorld, *, is_new: bool = False) -> int:
    """The client comes for a session that lasts, and takes two messages at a time."""
    number = world.opened()
    told: dict[int, Any] = {
        PropertyId.SESSION_EXPIRY_INTERVAL: 60,
        PropertyId.RECEIVE_MAXIMUM: 2,
        PropertyId.TOPIC_ALIAS_MAXIMUM: 1,
    }
    world.send(number, encode(Connect(V5, "c", is_new, properties=told), V5))
    await world.turn()
    assert isinstance(world.written(number)[0], ConnAck)
    return number


def published(world: LogWorld, number: int) -> list[Any]:
    """Of each PUBLISH that came: its topic and payload, and whether it came again."""
    packets = [one for one in world.written(number) if isinstance(one, Publish)]
    assert all(one.properties == {PropertyId.TOPIC_ALIAS: 1} for one in packets)
    return [(one.topic, one.payload, one.dup) for one in packets]


async def test_what_waited_and_what_is_sent_again_has_an_alias_and_counts_as_what_it_is() -> None:
    world = LogWorld()
    traffic = world.core.traffic
    number = await comes(world, is_new=True)
    world.send(number, encode(Subscribe(9, [SubscriptionRequest("t", 2)], {}), V5))
    writer = await world.client(V5)
    before = traffic.sent_others, traffic.delivered
    for packet_id, payload in enumerate((b"1", b"2", b"3"), 1):
        world.send(writer, publish(V5, "t", 2 if payload == b"2" else 1, packet_id, payload))
    await world.turn()
    world.send(number, encode(PubAck(1), V5))
    await world.turn()
    assert published(world, number) == [("t", b"1", False), ("", b"2", False), ("", b"3", False)]
    answers = 3
    assert (traffic.sent_others, traffic.delivered) == (before[0] + answers, before[1] + 3)
    world.send(number, encode(PubRec(2), V5))
    await world.turn()
    world.clients[number][0].connection_lost(None)

    before = traffic.sent_others, traffic.delivered
    number = await comes(world)
    assert [type(one) for one in world.written(number)] == [ConnAck, PubRel, Publish]
    assert published(world, number) == [("t", b"3", True)]
    assert (traffic.sent_others, traffic.delivered) == (before[0] + 2, before[1] + 1)

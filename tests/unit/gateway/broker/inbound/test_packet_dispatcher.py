"""Packets of accepted clients, where one of them ends the connection or has the others wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from log_world import LogWorld, publish

from gateway.broker.inbound.publisher import Publisher
from gateway.mqtt import PingResp, PubAck, Version

V5 = Version.V5
PING = b"\xc0\0"


async def test_what_comes_behind_a_message_that_waits_is_handled_when_it_goes_on() -> None:
    world = LogWorld()
    waits: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    topics: list[str] = []

    def private(publisher: Publisher, topic: str, *_: Any) -> bool:
        topics.append(topic)
        if len(topics) == 1:
            publisher.waiting.for_verdict(waits, lambda _: None)
        return True

    world.core.publishing.serve(private)
    number = await world.client(V5)
    others = world.core.traffic.others_read
    first, second = publish(V5, "$coap/a", 1, 7), publish(V5, "$coap/b", 2, 8)
    world.send(number, first + second + PING)
    await world.turn()
    traffic = world.core.traffic
    assert (topics, world.written(number), world.is_read(number)) == (["$coap/a"], [], False)
    assert (traffic.published_bytes, traffic.received_qos_1) == (len(first), 1)
    waits.set_result(True)
    await world.turn()
    assert (topics, world.written(number)) == (["$coap/a", "$coap/b"], [PingResp()])
    assert traffic.published_bytes == len(first) + len(second)
    assert (traffic.received_qos_1, traffic.received_qos_2) == (1, 1)
    assert traffic.others_read == others + 1


async def test_nothing_is_handled_behind_a_message_that_ends_the_connection() -> None:
    world = LogWorld()

    def private(publisher: Publisher, *_: Any) -> bool:
        publisher.channel.close()
        return True

    world.core.publishing.serve(private)
    number = await world.client(V5)
    world.send(number, publish(V5, "$coap/a", 1, 7) + publish(V5, "t", 1, 8) + PING)
    await world.turn()
    assert (world.written(number), world.logged) == ([], [])


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_message_of_qos_2_that_comes_again_and_is_forbidden_now_is_answered_as_its_first(
    *, is_known: bool
) -> None:
    """The first is in the log: who sent it must not take it for refused."""
    allowed = True
    world = LogWorld({"may_publish": lambda client, topic: allowed})
    number = await world.client(V5)
    if is_known:
        world.send(number, publish(V5, "t", 2, 7))
        await world.turn()
        world.clients[number][1].written.clear()
    allowed = False
    world.core.forget_decisions()
    again = bytearray(publish(V5, "t", 2, 7))
    again[0] |= 8
    world.send(number, bytes(again))
    await world.turn()
    [answer] = world.written(number)
    assert (answer.packet_id, answer.reason) == (7, 0 if is_known else 0x87)
    assert len(world.logged) == is_known
    assert world.core.refusals.counts == {"publication to a forbidden topic": 1}


async def test_a_message_to_a_forbidden_topic_is_refused_in_5_0_and_acknowledged_in_3_1_1() -> None:
    """[MQTT-3.3.5-2] of 3.1.1: it has no other way to say so."""
    world = LogWorld({"may_publish": lambda client, topic: topic == "mine"})
    found = []
    for version in (Version.V311, V5):
        number = await world.client(version)
        world.send(number, publish(version, "mine", 1, 7) + publish(version, "other", 1, 8))
        await world.turn()
        found.append(sorted((one.packet_id, one.reason) for one in world.written(number)))
        assert all(isinstance(one, PubAck) for one in world.written(number))
    assert found == [[(7, 0), (8, 0)], [(7, 0), (8, 0x87)]]
    assert [row[0] for row in world.logged] == ["mine", "mine"]

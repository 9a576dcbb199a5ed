"""Messages that a client has on its way: so many they may be, and what counts as one."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest
from log_world import LogWorld, publish

from gateway.mqtt import Disconnect, PubAck, PubComp, PubRec, PubRel, ReasonCode, Version, encode

V5, V311 = Version.V5, Version.V311
R = ReasonCode


async def sent(
    world: LogWorld, number: int, *messages: tuple[int, int], version: Version = V5
) -> None:
    """The client publishes messages, each with its QoS and packet identifier."""
    world.send(number, b"".join(publish(version, "t", qos, one) for qos, one in messages))
    await world.turn()


@pytest.mark.parametrize("qos_of", [(1, 1, 1), (2, 2, 2), (1, 2, 1)])
async def test_so_many_messages_may_be_on_their_way_and_one_more_ends_the_connection(
    qos_of: Sequence[int],
) -> None:
    """[MQTT-3.3.4-7]; 3.1.1 knows no such limit, and QoS 0 none either."""
    for version, count, is_over in ((V5, 2, False), (V5, 3, True), (V311, 3, False)):
        world = LogWorld(receive_maximum=2)
        number = await world.client(version)
        world.holds = True
        messages = [(qos, packet_id) for packet_id, qos in enumerate(qos_of[:count], 1)]
        await sent(world, number, (0, 0), *messages, (0, 0), version=version)
        assert world.is_closing(number) == is_over
        ends = [one.reason for one in world.written(number) if isinstance(one, Disconnect)]
        assert ends == ([R.RECEIVE_MAXIMUM_EXCEEDED] if is_over else [])


async def test_what_is_acknowledged_makes_room_qos_1_by_puback_and_qos_2_by_its_release() -> None:
    world = LogWorld(receive_maximum=2)
    number = await world.client(V5)
    for packet_id in range(1, 6):
        await sent(world, number, (1, packet_id))
    await sent(world, number, (2, 6), (2, 7))
    await sent(world, number, (2, 6))  # again: it is on its way as it was
    for packet_id in range(6, 10):
        world.send(number, encode(PubRel(packet_id), V5))
        await sent(world, number, (2, packet_id + 2))
    assert not world.is_closing(number)
    acks = [one for one in world.written(number) if isinstance(one, PubAck)]
    assert acks == [PubAck(packet_id) for packet_id in range(1, 6)]
    done = [one for one in world.written(number) if isinstance(one, PubComp)]
    assert done == [PubComp(packet_id) for packet_id in range(6, 10)]
    await sent(world, number, (2, 12))
    assert world.is_closing(number)


@pytest.mark.parametrize(("qos", "answer"), [(1, PubAck), (2, PubRec)])
async def test_what_the_log_refuses_makes_room_and_its_client_is_told_why(
    qos: int, answer: type[PubAck | PubRec]
) -> None:
    world = LogWorld(receive_maximum=2)
    number = await world.client(V5)
    world.refusal = OSError(errno.ENOSPC, "full")
    for packet_id in range(1, 6):
        await sent(world, number, (qos, packet_id))
    refused = [answer(packet_id, R.QUOTA_EXCEEDED) for packet_id in range(1, 6)]
    assert (world.written(number), world.is_closing(number)) == (refused, False)
    old = await world.client(V311)
    await sent(world, old, (qos, 1), version=V311)
    assert (world.written(old), world.is_closing(old)) == ([], True)


async def test_a_release_of_what_is_not_on_its_way_is_answered_so_and_makes_no_room() -> None:
    world = LogWorld(receive_maximum=2)
    number = await world.client(V5)
    await sent(world, number, (2, 1), (2, 2))
    world.send(number, encode(PubRel(9), V5))
    await sent(world, number, (2, 3))
    assert PubComp(9, R.PACKET_IDENTIFIER_NOT_FOUND) in world.written(number)
    assert world.is_closing(number)
    old = await world.client(V311)
    world.send(old, encode(PubRel(9), V311))
    await world.turn()
    assert world.written(old) == [PubComp(9)]

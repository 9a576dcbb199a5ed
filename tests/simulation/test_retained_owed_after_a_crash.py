"""Retained messages for a SUBSCRIBE come, all of them and once, if their sending is cut off."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Wire, World

from gateway.broker.inbound.connection import Connection
from gateway.broker.outbound.message import Message
from gateway.broker.retained import retained_sender
from gateway.mqtt import (
    Connect,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
    decode,
    encode,
    packet_end,
)

TOPICS = [f"t/{number}" for number in range(20)]


class Device:
    """A client whose session lasts, and which acknowledges what it gets."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.is_subscribed = False
        self._unreleased: set[int] = set()

    def connect(self, world: World) -> None:
        self.connection = Connection(world.core.service)
        self.wire = Wire()
        self.connection.connection_made(self.wire)
        lasting: dict[int, Any] = {PropertyId.SESSION_EXPIRY_INTERVAL: 7200}
        self.send(Connect(Version.V5, "dev", clean_start=False, properties=lasting))

    def send(self, packet: Any) -> None:
        self.connection.data_received(encode(packet, Version.V5))

    def subscribe(self, qos: int) -> None:
        self.send(Subscribe(1, [SubscriptionRequest("t/#", qos)], {}))

    def read(self) -> None:
        data = bytes(self.wire.data)
        self.wire.data.clear()
        while (span := packet_end(data, 0, 1 << 24)) is not None:
            packet = decode(data[0], data[span[0] : span[1]], Version.V5)
            data = data[span[1] :]
            match packet:
                case SubAck():
                    self.is_subscribed = True
                case Publish(qos=1):
                    if not (packet.dup and packet.topic in self.got):  # its PUBACK was lost
                        self.got.append(packet.topic)
                    self.send(PubAck(packet.packet_id or 0))
                case Publish(qos=2):
                    if packet.packet_id not in self._unreleased:
                        self._unreleased.add(packet.packet_id or 0)
                        self.got.append(packet.topic)
                    self.send(PubRec(packet.packet_id or 0))
                case PubRel():
                    self._unreleased.discard(packet.packet_id)
                    self.send(PubComp(packet.packet_id))

    def stops_reading(self) -> None:
        """So no more is sent to it for now."""
        self.connection.pause_writing()

    def goes(self) -> None:
        self.connection.connection_lost(None)


@pytest.fixture(params=[False, True], ids=["from the log", "from a checkpoint"])
async def world(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    # Two messages a turn.
    monkeypatch.setattr(retained_sender, "TURN_S", -1.0)
    monkeypatch.setattr(retained_sender, "PORTION", 2)
    made = World(0, sync=False)
    made.start()
    lasts(made)
    made.takes_checkpoints = request.param
    publish(made, *TOPICS)
    await turns(6)
    yield made
    made.close()


def lasts(world: World) -> None:
    """No crash but those that the test wants."""
    world.log.crash_in = 1 << 60


def publish(world: World, *topics: str) -> None:
    """Somebody publishes on these topics, retained."""
    for topic in topics:
        world.core.commit_queue.publish_own(Message(topic, topic.encode(), b"x", 2, True))
    world.core.commit_queue.commit()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def crash(world: World) -> None:
    if world.takes_checkpoints:
        await world.checkpoint()
    await world.crash()
    lasts(world)


async def finish(device: Device) -> None:
    for _ in range(100):
        await turns(1)
        device.read()


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("cut_after", [0, 1, 4])
async def test_it_comes_after_a_crash_that_cut_it_off(
    world: World, qos: int, cut_after: int
) -> None:
    device = Device()
    device.connect(world)
    device.subscribe(qos)
    await turns(cut_after + 1)
    device.read()
    assert device.is_subscribed
    device.stops_reading()
    assert len(device.got) < len(TOPICS)
    await crash(world)
    device.connect(world)
    await finish(device)
    assert sorted(device.got) == sorted(TOPICS)


async def test_it_comes_after_any_number_of_crashes(world: World) -> None:
    device = Device()
    device.connect(world)
    device.subscribe(2)
    for _ in range(3):
        await turns(1)
        device.read()
        await crash(world)
        device.connect(world)
    await finish(device)
    assert sorted(device.got) == sorted(TOPICS)
    await crash(world)
    device.connect(world)
    await finish(device)
    assert len(device.got) == len(TOPICS)


async def test_it_comes_after_a_connection_that_failed_meanwhile(world: World) -> None:
    device = Device()
    device.connect(world)
    device.subscribe(1)
    await turns(2)
    device.read()
    device.goes()
    await turns(2)
    assert len(device.got) < len(TOPICS)
    device.connect(world)
    await finish(device)
    assert sorted(device.got) == sorted(TOPICS)


async def test_what_was_replaced_meanwhile_comes_once_by_the_subscription(world: World) -> None:
    device = Device()
    device.connect(world)
    device.subscribe(1)
    await turns(1)
    device.stops_reading()
    await crash(world)
    owed = world.core.sessions.get("dev").owed
    assert owed is not None
    [replaced, *_] = set(TOPICS) - owed.given
    publish(world, replaced)
    await turns(6)
    await crash(world)
    device.connect(world)
    await finish(device)
    assert sorted(device.got) == sorted(TOPICS)


async def test_a_session_that_ends_is_owed_nothing(world: World) -> None:
    device = Device()
    device.connect(world)
    device.subscribe(1)
    await turns(1)
    await crash(world)
    world.core.sessions.end(world.core.sessions.get("dev"))
    publish(world, TOPICS[0])
    await turns(6)
    await crash(world)
    device.connect(world)
    await finish(device)
    assert device.got == []

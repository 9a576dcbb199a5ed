"""Retained messages are decided by versions, in life and after a crash, by log or checkpoint."""

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

from broker_world import Wire, World

from gateway.broker.durability.restored_retained import unearthed
from gateway.broker.durability.saved import SavedTombstone
from gateway.broker.inbound.connection import Connection
from gateway.mqtt import (
    Connect,
    PropertyId,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    decode,
    encode,
    packet_end,
)
from tree_handler.proof import Verdict
from tree_handler.retained.hybrid_clock import EARLIEST_US, RetainedVersion
from tree_handler.retained.message import VERSION, Retained
from tree_handler.retained.proof import RetainedProofs
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

NOW_US = EARLIEST_US + 10**12
OTHER = ("other", 7)


@pytest.fixture(params=[False, True], ids=["from the log", "from a checkpoint"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(0, sync=False)
    made.start()
    lasts(made)
    made.takes_checkpoints = request.param
    yield made
    made.close()


def lasts(world: World) -> None:
    """No crash but those that the test wants."""
    world.log.crash_in = 1 << 60


class Device:
    """A client with a session that lasts."""

    def __init__(self, world: World) -> None:
        self.connection = Connection(world.core.service)
        self.wire = Wire()
        self.connection.connection_made(self.wire)
        lasting: dict[int, Any] = {PropertyId.SESSION_EXPIRY_INTERVAL: 7200}
        self.send(Connect(Version.V5, "dev", clean_start=False, properties=lasting))

    def send(self, packet: Any) -> None:
        self.connection.data_received(encode(packet, Version.V5))

    def subscribe(self, topic_filter: str) -> None:
        self.send(Subscribe(1, [SubscriptionRequest(topic_filter, 1)], {}))

    def got(self) -> list[bytes]:
        """Payloads of all that came since the last call."""
        found = []
        data = bytes(self.wire.data)
        self.wire.data.clear()
        while (span := packet_end(data, 0, 1 << 24)) is not None:
            packet = decode(data[0], data[span[0] : span[1]], Version.V5)
            data = data[span[1] :]
            if isinstance(packet, Publish):
                assert VERSION not in packet.properties
                found.append(packet.payload)
        return found


async def turn() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def crash(world: World) -> None:
    if world.takes_checkpoints:
        await world.checkpoint()
    await world.crash()
    lasts(world)
    await turn()


def arrives(world: World, payload: bytes, physical_us: int, number: int) -> None:
    """Another gateway's message comes by the tree."""
    row = ("t", 1 | 4, payload, {VERSION: (physical_us, 0)})
    world.core.remote_delivery.publish_batch([row], OTHER, number)


def told(payload: bytes, physical_us: int) -> Retained:
    """A neighbour tells of one."""
    version = RetainedVersion(physical_us, 0, *OTHER)
    dead_s = None if payload else 5.0
    return Retained("t", version, 3, 1, payload, {}, None, dead_s)


def kept(world: World) -> bytes | None:
    message = world.core.retention.get("t")
    return None if message is None else message.payload


async def test_an_older_message_reaches_subscribers_and_is_not_retained(world: World) -> None:
    device = Device(world)
    device.subscribe("t")
    arrives(world, b"new", NOW_US + 5, 1)
    arrives(world, b"old", NOW_US, 2)
    await turn()
    assert device.got() == [b"new", b"old"]
    assert kept(world) == b"new"


async def test_who_writes_after_a_message_from_the_future_replaces_it(world: World) -> None:
    future_us = NOW_US + 10 * 365 * 24 * 3600 * 10**6
    arrives(world, b"future", future_us, 1)
    device = Device(world)
    device.send(Publish("t", b"mine", 1, True, packet_id=1))
    await turn()
    assert kept(world) == b"mine"
    await crash(world)
    assert kept(world) == b"mine"
    version = world.core.retention.versions.version("t")
    assert version is not None
    assert version.physical_us == future_us


async def test_what_was_deleted_stays_deleted_after_a_crash_when_an_older_message_comes(
    world: World,
) -> None:
    device = Device(world)
    device.send(Publish("t", b"x", 1, True, packet_id=1))
    device.send(Publish("t", b"", 1, True, packet_id=2))
    await turn()
    for _ in range(2):
        await crash(world)
        assert world.core.retention.versions.tombstone("t") is not None
        arrives(world, b"old", EARLIEST_US, 1)
        assert kept(world) is None


async def test_what_a_neighbour_told_outlives_a_crash_and_subscribers_got_it_once(
    world: World,
) -> None:
    device = Device(world)
    device.subscribe("t")
    await turn()
    assert world.core.shared_retention.learn(told(b"news", NOW_US), world.core.now(), is_news=True)
    await turn()
    assert device.got() == [b"news"]
    await crash(world)
    assert kept(world) == b"news"
    session = world.core.sessions.get("dev")
    assert len(session.outgoing.inflight) == 1
    assert not session.outgoing.backlog.count
    assert world.core.shared_retention.told("t", world.core.now()) == told(b"news", NOW_US)


def proven(retained: Retained) -> Retained:
    """It, as its origin signed it."""
    (found,) = RetainedProofs(ModelSigner(OTHER[0]), ModelRing(), "t").prove([retained])
    return found


READER = RetainedProofs(None, ModelRing(), "t")


@pytest.mark.parametrize("payload", [b"x", b""])
async def test_what_proves_a_message_of_another_gateway_is_in_the_checkpoint(
    world: World, payload: bytes
) -> None:
    one = proven(told(payload, NOW_US))
    assert world.core.shared_retention.learn(one, world.core.now(), is_news=False)
    await turn()
    await crash(world)
    versions = world.core.retention.versions
    assert versions.version("t") == one.version
    # The journal, which the release before reads too, has none: neighbours are asked for it.
    assert versions.proof("t") == (one.proof if world.takes_checkpoints else b"")
    assert bool(versions.unproven) is not world.takes_checkpoints
    for _ in range(2):  # one that comes later is kept as well
        versions = world.core.retention.versions
        versions.prove("t", one.version, one.proof)
        await world.checkpoint()
        await crash(world)
    assert world.core.retention.versions.proof("t") == one.proof


async def test_a_message_that_expired_here_is_proven_to_have_had_an_expiry(world: World) -> None:
    version = RetainedVersion(NOW_US, 0, *OTHER)
    one = proven(Retained("t", version, 3, 1, b"x", {2: 5}))
    row = ("t", 1 | 4, b"x", {VERSION: version[:2], 2: 5}, one.proof)
    world.core.remote_delivery.publish_batch([row], OTHER, 3)
    world.core.retention.expire(world.core.now() + 6.0)
    told = world.core.shared_retention.told("t", world.core.now() + 6.0)
    assert told is not None and told.qos is None
    proof = world.core.retention.versions.proof("t")
    assert READER.check(replace(told, proof=proof)) is Verdict.PROVEN
    assert READER.check(replace(told, proof=one.proof)) is not Verdict.PROVEN


async def test_a_deletion_that_a_neighbour_told_of_outlives_a_crash(world: World) -> None:
    arrives(world, b"x", NOW_US, 1)
    now_s = world.core.now()
    assert world.core.shared_retention.learn(told(b"", NOW_US + 1), now_s, is_news=True)
    world.durable.sweep(now_s)  # nobody is sent anything that would wait for it
    await crash(world)
    assert kept(world) is None
    assert world.core.retention.versions.tombstone("t") is not None


def test_a_tombstone_ages_over_a_restart_and_never_backwards() -> None:
    version = RetainedVersion(NOW_US, 0, *OTHER)
    saved = SavedTombstone(version, 3, 1, NOW_US - 60_000_000)
    assert unearthed(saved, 1000.0, NOW_US).since_s == 940.0
    assert unearthed(saved, 1000.0, NOW_US - 90_000_000).since_s == 1000.0


async def test_what_the_log_hands_out_again_after_a_restart_is_not_given_again(
    world: World,
) -> None:
    device = Device(world)
    device.subscribe("t")
    arrives(world, b"one", NOW_US, 4)
    arrives(world, b"two", NOW_US + 1, 5)
    await turn()
    assert device.got() == [b"one", b"two"]
    arrives(world, b"two", NOW_US + 1, 5)
    await turn()
    assert device.got() == []


async def test_what_expires_leaves_a_tombstone_of_its_own_version(world: World) -> None:
    device = Device(world)
    soon: dict[int, Any] = {PropertyId.MESSAGE_EXPIRY_INTERVAL: 1}
    device.send(Publish("t", b"x", 1, True, packet_id=1, properties=soon))
    await turn()
    versions = world.core.retention.versions
    before = versions.digest()
    world.core.retention.expire(world.core.now() + 2)
    assert kept(world) is None
    assert versions.digest() == before

"""Packets that come alone in their reads are handled together as they would be one by one."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_transport import MemoryTransport
from surroundings import hooks

from gateway.broker.hooks import Committed
from gateway.broker.inbound.connection import Connection
from gateway.broker.server import BrokerCore
from gateway.mqtt import (
    Connect,
    Disconnect,
    PingReq,
    PubAck,
    Publish,
    PubRec,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    decode,
    encode,
    packet_end,
)
from tree_handler.batch import MAX_ENTRIES, Row

VERSIONS = [Version.V311, Version.V5]
ACKS = (0x40, 0x50, 0x62, 0x70)
TOPICS = ["a", "b", "b/" + 200 * "c"]


@dataclass
class World:
    """A broker, its log, and clients that send each packet in a read of its own."""

    core: BrokerCore = field(init=False)
    logged: list[Row] = field(default_factory=list)
    clients: list[tuple[Connection, MemoryTransport]] = field(default_factory=list)
    refusal: OSError | None = None

    def __post_init__(self) -> None:
        self.core = BrokerCore(hooks(commit=self._commit))

    def _commit(self, logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        if self.refusal is None:
            self.logged += logged
        if done is not None:
            done(1 if self.refusal is None else 0, self.refusal)

    async def client(self, version: int, *subscriptions: tuple[str, int]) -> int:
        connection, transport = Connection(self.core), MemoryTransport()
        connection.connection_made(transport)
        number = len(self.clients)
        self.clients.append((connection, transport))
        name = f"client-{number}"
        connect = Connect(Version(version), name, True, 60, None, None, None, {}, False)
        connection.data_received(encode(connect, version))
        for packet_id, (topic, qos) in enumerate(subscriptions, 1):
            subscribe = Subscribe(packet_id, [SubscriptionRequest(topic, qos)], {})
            connection.data_received(encode(subscribe, version))
        await self.turn()
        transport.written.clear()
        return number

    def send(self, number: int, packet: bytes, *, one_by_one: bool = False) -> None:
        connection = self.clients[number][0]
        if one_by_one:
            connection.handle(packet)
            self.core.turns.has_read()
        else:
            connection.data_received(packet)

    def begin_turn(self) -> None:
        """Let the last client send PINGREQ until reads wait for others of the same turn."""
        connection = self.clients[-1][0]
        while not self.core.turns.is_scheduled:
            connection.data_received(encode(PingReq(), connection.version))

    async def turn(self) -> None:
        await asyncio.sleep(0)
        while self.core.turns.is_scheduled or self.core.acceptance.waiting_bytes:
            await asyncio.sleep(0)

    def written(self, number: int) -> list[Any]:
        """The packets that a client got."""
        connection, transport = self.clients[number]
        data, at, found = bytes(transport.written), 0, list[Any]()
        while at < len(data):
            bounds = packet_end(data, at, 1 << 24)
            assert bounds is not None
            body, end = bounds
            found.append(decode(data[at], data[body:end], connection.version))
            at = end
        return found


def publish(version: int, topic: str, qos: int, packet_id: int, payload: bytes = b"x") -> bytes:
    return encode(Publish(topic, payload, qos, False, False, packet_id or None, {}), version)


@st.composite
def reads(draw: st.DrawFn) -> tuple[int, int, int | None, int]:
    """Of which client, and what: kind, topic or none, packet identifier."""
    kind = draw(st.integers(0, 9))
    return (
        draw(st.integers(0, 2)),
        kind,
        draw(st.integers(0, len(TOPICS) - 1)) if kind < 5 else None,
        draw(st.integers(1, 3)),
    )


def made(version: int, kind: int, topic: int | None, packet_id: int) -> bytes:
    if topic is None:
        return encode(PingReq(), version) if kind == 9 else bytes((ACKS[kind - 5], 2, 0, packet_id))
    qos = (1, 2, 1, 2, 0)[kind]
    return publish(version, TOPICS[topic], qos, packet_id if qos else 0, b"%d" % kind)


def by_kind(packets: list[Any]) -> dict[str, list[Any]]:
    """In their order, but for that of different kinds, which nothing promises: QoS 0 does not wait
    for the log, where the others may be all that a turn brought or a part of it."""
    found: dict[str, list[Any]] = {}
    for packet in packets:
        kind = type(packet).__name__
        if isinstance(packet, Publish):
            kind += "" if packet.qos else " of QoS 0"
        found.setdefault(kind, []).append(packet)
    return found


async def outcome(
    version: int, turns: list[list[tuple[int, int, int | None, int]]], *, one_by_one: bool
) -> tuple[object, ...]:
    world = World()
    for grants in ([("a", 1), ("b/#", 2)], [("a", 2)], [], []):
        await world.client(version, *grants)
    for topic in TOPICS:  # so that its route is known
        world.core.route(topic.encode())
    for turn in turns:
        world.begin_turn()  # so that both ways all is read in one turn
        for number, *what in turn:
            if not world.clients[number][0].is_closing:
                world.send(number, made(version, *what), one_by_one=one_by_one)
        await world.turn()
    traffic = world.core.traffic
    counted = (traffic.packets_received, traffic.published, traffic.received_qos_1)
    also = (traffic.received_qos_2, traffic.delivered, traffic.delivered_bytes, traffic.bytes_sent)
    sessions = {name: set(one.incoming) for name, one in world.core.sessions.items()}
    told = [by_kind(world.written(number)) for number in range(len(world.clients))]
    closed = [connection.is_closing for connection, _ in world.clients]
    world.core.stop()
    return told, world.logged, closed, sessions, counted, also


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(turns=st.lists(st.lists(reads(), max_size=12), max_size=4))
def test_what_comes_together_ends_as_what_comes_one_by_one(
    version: int, turns: list[list[tuple[int, int, int | None, int]]]
) -> None:
    together, one_by_one = (
        asyncio.run(outcome(version, turns, one_by_one=way)) for way in (False, True)
    )
    assert together == one_by_one


@pytest.mark.parametrize("is_lost", [False, True], ids=["closes", "is lost"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_who_goes_after_a_message_alone_has_published_it(
    version: int, *, is_lost: bool
) -> None:
    world = World()
    reader = await world.client(version, ("a", 1))
    writer, _ = await world.client(version), await world.client(version)
    world.core.route(b"a")
    world.begin_turn()
    world.send(writer, publish(version, "a", 1, 1))
    if is_lost:
        world.clients[writer][0].connection_lost(None)
    else:
        world.send(writer, encode(Disconnect(0, {}), version))
    await world.turn()
    assert [packet.payload for packet in world.written(reader)] == [b"x"]
    world.core.stop()


async def test_what_the_log_refuses_is_refused_to_each_and_delivered_to_nobody() -> None:
    world = World()
    reader = await world.client(Version.V5, ("a", 2))
    writers = [await world.client(Version.V5) for _ in range(3)]
    await world.client(Version.V5)
    world.core.route(b"a")
    world.begin_turn()
    world.refusal = OSError(errno.ENOSPC, "disk full")
    for writer in writers:
        world.send(writer, publish(Version.V5, "a", 1 + writer % 2, 7))
    await world.turn()
    for writer in writers:
        kind = PubRec if writer % 2 else PubAck
        assert world.written(writer) == [kind(7, ReasonCode.QUOTA_EXCEEDED)]
    assert world.written(reader) == []
    world.refusal = None
    world.begin_turn()
    for writer in writers:  # a refused QoS 2 message is unknown: it is taken when it comes again
        world.send(writer, publish(Version.V5, "a", 1 + writer % 2, 7))
    await world.turn()
    assert len(world.written(reader)) == len(writers)
    world.core.stop()


async def test_more_than_a_batch_holds_is_logged_and_acknowledged_in_order() -> None:
    world = World()
    reader, writer = await world.client(Version.V311, ("a", 0)), await world.client(Version.V311)
    await world.client(Version.V311)
    world.core.route(b"a")
    world.begin_turn()
    count = MAX_ENTRIES + 10
    for number in range(1, count + 1):
        world.send(writer, publish(Version.V311, "a", 1, number, b"%d" % number))
    await world.turn()
    expected = [b"%d" % number for number in range(1, count + 1)]
    assert [row[2] for row in world.logged] == expected
    assert [packet.payload for packet in world.written(reader)] == expected
    assert [packet.packet_id for packet in world.written(writer)] == list(range(1, count + 1))
    world.core.stop()


async def test_who_does_not_read_is_told_why_the_connection_ends_all_the_same() -> None:
    world = World()
    client = await world.client(Version.V5)
    connection = world.clients[client][0]
    connection.pause_writing()
    connection.disconnect(ReasonCode.USE_ANOTHER_SERVER)
    assert world.written(client) == [Disconnect(ReasonCode.USE_ANOTHER_SERVER, {})]
    world.core.stop()

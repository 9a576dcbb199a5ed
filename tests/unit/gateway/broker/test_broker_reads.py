"""However packets come in reads and turns, they end alike, and a turn's are dealt with together."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_world import LogWorld, publish

from gateway.base.turns import READS_ALONE
from gateway.mqtt import (
    Disconnect,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    ReasonCode,
    Version,
    encode,
)
from tree_handler.batch import MAX_ENTRIES

VERSIONS = [Version.V311, Version.V5]
PUBREL = 0x62
ACKS = (0x40, 0x40, PUBREL, 0x70)
NEVER_SENT = 200
"""Packet identifiers that no client here is ever sent are above this one."""
TOPICS = ["a", "b", "b/" + 200 * "c"]


@st.composite
def reads(draw: st.DrawFn) -> tuple[int, int, int | None, int]:
    """Draw a packet: client, kind, topic or none, and packet identifier.

    An answer to what a client was sent, or will be, depends on the turn: of the wrong kind it ends
    the client, before that it is none.
    """
    kind = draw(st.integers(0, 9))
    is_answer = 5 <= kind < 9 and ACKS[kind - 5] != PUBREL
    return (
        draw(st.integers(0, 2)),
        kind,
        draw(st.integers(0, len(TOPICS) - 1)) if kind < 5 else None,
        draw(st.integers(1, 3)) + (NEVER_SENT if is_answer else 0),
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
    version: int, turns: list[list[tuple[int, int, int | None, int]]], *, together: bool
) -> tuple[object, ...]:
    world = LogWorld()
    for grants in ([("a", 1), ("b/#", 2)], [("a", 2)], [], []):
        await world.client(version, *grants)
    for turn in turns:
        for number, *what in turn:
            if not world.is_closing(number):
                world.send(number, made(version, *what))
            if not together:
                await world.turn()
        await world.turn()
    traffic = world.core.traffic
    counted = (traffic.packets_read, traffic.published, traffic.received_qos_1)
    also = (traffic.received_qos_2, traffic.delivered, traffic.delivered_bytes, traffic.bytes_sent)
    sessions = {name: set(one.incoming) for name, one in world.core.sessions.items()}
    told = [by_kind(world.written(number)) for number in range(len(world.clients))]
    closed = [world.is_closing(number) for number in range(len(world.clients))]
    world.core.stop()
    return told, world.logged, closed, sessions, counted, also


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(turns=st.lists(st.lists(reads(), max_size=12), max_size=4))
def test_what_many_clients_send_in_one_turn_ends_as_what_each_sends_in_its_own(
    version: int, turns: list[list[tuple[int, int, int | None, int]]]
) -> None:
    together, one_by_one = (
        asyncio.run(outcome(version, turns, together=way)) for way in (True, False)
    )
    assert together == one_by_one


@pytest.mark.parametrize("is_lost", [False, True], ids=["closes", "is lost"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_who_goes_after_a_message_alone_has_published_it(
    version: int, *, is_lost: bool
) -> None:
    world = LogWorld()
    reader = await world.client(version, ("a", 1))
    writer, _ = await world.client(version), await world.client(version)
    world.send(writer, publish(version, "a", 1, 1))
    if is_lost:
        world.clients[writer][0].connection_lost(None)
    else:
        world.send(writer, encode(Disconnect(0, {}), version))
    await world.turn()
    assert [packet.payload for packet in world.written(reader)] == [b"x"]
    world.core.stop()


async def test_what_the_log_refuses_is_refused_to_each_and_delivered_to_nobody() -> None:
    world = LogWorld()
    reader = await world.client(Version.V5, ("a", 2))
    writers = [await world.client(Version.V5) for _ in range(3)]
    await world.client(Version.V5)
    world.refusal = OSError(errno.ENOSPC, "disk full")
    for writer in writers:
        world.send(writer, publish(Version.V5, "a", 1 + writer % 2, 7))
    await world.turn()
    for writer in writers:
        kind = PubRec if writer % 2 else PubAck
        assert world.written(writer) == [kind(7, ReasonCode.QUOTA_EXCEEDED)]
    assert world.written(reader) == []
    world.refusal = None
    for writer in writers:  # a refused QoS 2 message is unknown: it is taken when it comes again
        world.send(writer, publish(Version.V5, "a", 1 + writer % 2, 7))
    await world.turn()
    assert len(world.written(reader)) == len(writers)
    world.core.stop()


async def test_more_than_a_batch_holds_is_logged_and_acknowledged_in_order() -> None:
    world = LogWorld()
    reader, writer = await world.client(Version.V311, ("a", 0)), await world.client(Version.V311)
    await world.client(Version.V311)
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
    world = LogWorld()
    client = await world.client(Version.V5)
    world.clients[client][0].pause_writing()
    world.core.close_to_clients()
    [told] = world.written(client)
    assert isinstance(told, Disconnect)
    assert told.reason == ReasonCode.USE_ANOTHER_SERVER
    world.core.stop()


@pytest.mark.parametrize("version", VERSIONS)
async def test_acknowledgements_in_one_read_are_answered_each_and_in_their_order(
    version: int,
) -> None:
    world = LogWorld()
    writer = await world.client(version)
    numbers = range(1, 300)
    world.send(writer, b"".join(publish(version, "a", 2, number) for number in numbers))
    await world.turn()
    assert [packet.packet_id for packet in world.written(writer)] == list(numbers)
    world.clients[writer][1].written.clear()
    world.send(writer, b"".join(b"\x62\2" + number.to_bytes(2, "big") for number in numbers))
    await world.turn()
    answers = world.written(writer)
    assert {type(answer) for answer in answers} == {PubComp}
    assert [answer.packet_id for answer in answers] == list(numbers)
    world.core.stop()


def _count_writes(world: LogWorld, number: int) -> list[bytes]:
    wire, writes = world.clients[number][1], list[bytes]()

    def write(data: Any) -> None:
        writes.append(bytes(data))

    wire.write = write  # type: ignore[method-assign]
    return writes


async def test_what_several_reads_of_a_turn_bring_is_written_once() -> None:
    world = LogWorld()
    clients = [await world.client(Version.V311) for _ in range(3)]
    reader = await world.client(Version.V311, ("a", 1))
    writes = _count_writes(world, reader)
    counts = []
    for _ in range(READS_ALONE + 3):
        for client in clients:
            world.send(client, publish(Version.V311, "a", 1, 1))
        await world.turn()
        counts.append(len(writes))
        writes.clear()
    assert counts[-3:] == [1, 1, 1]  # the first may have ended their turns themselves
    world.core.stop()


async def test_after_a_read_that_was_alone_in_its_turn_the_next_few_do_not_wait() -> None:
    world = LogWorld()
    writer = await world.client(Version.V311)
    reader = await world.client(Version.V311, ("a", 1))
    writes = _count_writes(world, reader)
    at_once = []
    for number in range(1, 30):
        world.send(writer, publish(Version.V311, "a", 1, number))
        at_once.append(bool(writes))
        await world.turn()
        assert len(writes) == 1
        writes.clear()
    assert any(at_once)
    assert not all(at_once)  # now and then one waits, to see whether it is still alone
    world.core.stop()

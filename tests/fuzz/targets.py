"""Targets of the fuzzer, and what must hold whatever comes in.

The first byte of an input is the protocol version to decode by (5 for 5, else 3.1.1); the second
says how the rest reaches a connection: where it is cut, and whether another client's session is
there before. Everything after is what the client sends. Time stands still but where it is moved.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from memory_transport import MemoryTransport
from raw_packets import Packets, parse
from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Client, Committed
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from gateway.mqtt import PacketError, Scanner, Version, body_at, decode, encode, packet_end

LIMITS = Limits(
    connect_bytes=4_096,
    packet_bytes=8_192,
    payload_bytes=4_096,
    queue_messages=20,
    queue_bytes=20_000,
    all_queues_bytes=30_000,
    inflight_messages=10,
    inflight_bytes=10_000,
    receive_maximum=10,
    subscriptions_per_session=10,
    topic_aliases=4,
    sessions=5,
)
BYSTANDER = "bystander-5c2f18d0"
"""No client takes this session over: it can't guess the identifier."""

_LOG = logging.getLogger("gateway")


# -- the parser ------------------------------------------------------------------------------------


def parser(data: bytes) -> None:
    """Packets are found and read, or refused by `PacketError`, and what is read can be written."""
    if len(data) < 2:
        return
    version = Version.V5 if data[0] == Version.V5 else Version.V311
    how, stream = data[1], data[2:]
    found = _scanned([stream], version)
    assert _scanned(_cut(stream, how, 16), version) == found, "depends on where the stream is cut"
    for packet in found:
        try:
            _decode(packet[0], packet[body_at(packet) :], version)
        except PacketError as error:
            assert str(error).isprintable()


def _scanned(pieces: list[bytes], version: int) -> list[bytes]:
    """The packets of a stream, up to one that is broken."""
    scanner = Scanner(LIMITS.packet_bytes)
    scanner.agree(version, LIMITS.packet_bytes)
    found: list[bytes] = []
    try:
        for piece in pieces:
            scanner.feed(piece)
            while packets := scanner.take(3):
                found += packets
    except PacketError as error:
        assert str(error).isprintable()
    return found


def _decode(first: int, body: bytes, version: int) -> None:
    packet = decode(first, body, version)
    assert str(packet).isprintable()
    written_in = getattr(packet, "version", version)
    again = encode(packet, written_in)
    assert _scanned([again], written_in) == [again]
    assert decode(again[0], again[body_at(again) :], written_in) == packet


# -- a connection ----------------------------------------------------------------------------------


class Transport(MemoryTransport):
    """Nothing may be written after the end; closing is carried out at the end of the turn."""

    def write(self, data: Any) -> None:
        assert not self.is_closed, "written after it was closed"
        super().write(data)

    def write_eof(self) -> None:
        self.is_closed = True

    def can_write_eof(self) -> bool:
        return True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """A neighbour's connection is handed over."""


def connection(data: bytes) -> None:
    """A client's bytes end in whole answers, whatever their cuts; others get whole packets.

    Once it has gone nothing of it is left.
    """
    if len(data) < 2:
        return
    how, stream = data[1], data[2:]
    chance, secrets.token_hex = secrets.token_hex, _alike
    level = _LOG.level
    _LOG.setLevel(logging.CRITICAL)
    try:
        _LOOP.run_until_complete(_connection(how, stream))
    finally:
        secrets.token_hex = chance
        _LOG.setLevel(level)


def _alike(nbytes: int | None = None) -> str:
    """Assigned client identifiers that are alike in each conversation."""
    return "0f" * (nbytes or 1)


_LOOP = asyncio.new_event_loop()


async def _connection(how: int, stream: bytes) -> None:
    at_once = await _converse([stream], how)
    in_pieces = await _converse(_cut(stream, how, 16), how)
    assert in_pieces == at_once, "the answers depend on where the stream is cut"
    await _converse(_cut(stream, how, 4), how, turns=True)


def _cut(stream: bytes, how: int, pieces_max: int) -> list[bytes]:
    """The stream in pieces, of a size that grows by a step, both taken from ``how``."""
    size, step, at = 1 + (how & 15), how >> 4, 0
    pieces = []
    while at < len(stream) and len(pieces) < pieces_max - 1:
        pieces.append(stream[at : at + size])
        at += size
        size += step
    return [*pieces, stream[at:]]


async def _converse(pieces: list[bytes], how: int, *, turns: bool = False) -> bytes:
    """A client sends the pieces to a fresh broker; what it is answered.

    Args:
        pieces: what is read, one after the other.
        how: bit 4 sets a bystander's version, bit 5 that in which the client comes back.
        turns: each is read in a turn of the loop of its own, half a second after the other.

    """
    around = hooks(commit=_commit, carries_unlogged=lambda: True, links=_link)
    clock = [0.0]
    core = DataPlane(around, LIMITS, now=lambda: clock[0])
    try:
        version = 5 if how & 16 else 4
        mqtt = Packets(version)
        bystander, seen = _opened(core)
        bystander.data_received(mqtt.connect(BYSTANDER, keep_alive_s=0))
        bystander.data_received(mqtt.subscribe(1, ("#", 2)))
        client, transport = _opened(core)
        for piece in pieces:
            client.data_received(piece)
            _check_bounds(client)
            if turns:
                clock[0] += 0.5
                await _turn(core)
        await _turn(core)
        channel = client.peer.channel
        publisher, version_spoken = client.peer.publisher, channel.version
        session = None if publisher is None else publisher.session
        was_closed, written = transport.is_closed, bytes(transport.written)
        client.connection_lost(None)
        await _turn(core)
        assert session is None or session.channel is None
        if session is not None and core.sessions.get(session.client_id) is session:
            await _come_back(core, session.client, 5 if how & 32 else 4)
            core.sessions.end(session)
            await _turn(core)
        _check_packets(written, version_spoken)
        _check_packets(bytes(seen.written), version)
        assert bystander.peer.session is not None
        assert not bystander.peer.channel.is_closing
        bystander.connection_lost(None)
        await _turn(core)
        _check_nothing_left(core)
        return written + bytes((was_closed,))
    finally:
        core.stop()


async def _come_back(core: DataPlane, client: Client, version: int) -> None:
    """The client resumes its session, perhaps in the other version, and is sent what waited."""
    again, transport = _opened(core)
    again.data_received(
        Packets(version).connect(client.client_id, clean=False, username=client.username)
    )
    await _turn(core)
    _check_packets(bytes(transport.written), version)
    again.connection_lost(None)
    await _turn(core)


def _commit(logged: object, unlogged: object, done: Committed | None) -> None:
    if done is not None:
        done(1, None)


async def _link(*_: object) -> None:
    """A neighbour's connection is another's business."""


def _opened(core: DataPlane) -> tuple[Connection, Transport]:
    opened, transport = Connection(core.service), Transport()
    opened.connection_made(transport)
    return opened, transport


async def _turn(core: DataPlane) -> None:
    for _ in range(3):  # what is committed is delivered, and that is written
        await asyncio.sleep(0)
    core.sweep()
    await asyncio.sleep(0)
    assert not core.commit_queue.is_due


def _check_packets(written: bytes, version: int) -> None:
    at = 0
    while at < len(written):
        found = packet_end(written, at, 1 << 20)
        assert found is not None, "part of a packet was written"
        start, end = found
        assert start == at + 2 or written[start - 1], "a length of more bytes than needed"
        decode(written[at], written[start:end], version)
        parse(written[at], written[start:end], version)
        at = end


def _check_bounds(client: Connection) -> None:
    assert client.peer.scanner.buffered_bytes <= LIMITS.packet_bytes + (1 << 16)
    session = client.peer.session
    if session is not None:
        assert session.outgoing.backlog.count <= LIMITS.queue_messages
        assert len(session.outgoing.inflight) <= LIMITS.inflight_messages
        assert len(session.incoming) <= 65_535
        assert len(session.subscriptions) <= LIMITS.subscriptions_per_session
        assert session.outgoing.backlog.size_bytes <= LIMITS.all_queues_bytes


def _check_nothing_left(core: DataPlane) -> None:
    assert (len(core.connections), len(core.sessions)) == (0, 0)
    assert (len(core.subscriptions), core.subscriptions.bytes_held) == (0, 0)
    assert core.budget.used_bytes == 0
    assert not core.sessions.offline_count


TARGETS: Mapping[str, Callable[[bytes], None]] = {"parser": parser, "connection": connection}

"""One connection to a neighbour: hand-shake, then packets both ways.

The shell of a link reads, cuts packets and hands them up; it knows nothing of trees. Its send
buffer is bounded: beyond `SEND_LIMIT_BYTES` the link counts as full until it has drained, and
the log is the queue meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.links import handshake, wire
from gateway.links.handshake import Acceptor, Credentials, Dialler, HandshakeError
from gateway.links.wire import Packet, ReturnCode, Type
from tree_handler.errors import ProtocolError

SEND_LIMIT_BYTES = 1 << 20
HANDSHAKE_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 2.0
USER_TIMEOUT_MS = 5_000
"""TCP gives up on unacknowledged data after this long."""


class LinkClosedError(ConnectionError):
    """The neighbour closed the connection, or said DISCONNECT."""


@dataclass(slots=True, eq=False)
class Link:
    """An authenticated connection to a neighbour.

    Attributes:
        number: this gateway's name for the link, never reused while it runs.
        peer_id: the neighbour's gateway id.
        dialler_id: which of the two dialled; decides which of two links of a pair stays.
        address: the neighbour's socket address, for status.

    """

    number: int
    peer_id: str
    dialler_id: str
    address: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    stream: wire.Reader
    sent_bytes: int = 0
    received_bytes: int = 0
    full: bool = False

    async def receive(self) -> Packet:
        """The next packet.

        Raises:
            LinkClosedError: the connection ended.
            ProtocolError: the neighbour sent what no link sends.

        """
        while (packet := self.stream.next()) is None:
            data = await self.reader.read(65536)
            if not data:
                raise LinkClosedError(f"closed by {self.peer_id or self.address}")
            self.received_bytes += len(data)
            self.stream.feed(data)
        if packet.type is Type.DISCONNECT:
            raise LinkClosedError(f"{self.peer_id} said DISCONNECT")
        return packet

    def send(self, packet: bytes) -> None:
        """Queue bytes; `full` tells when to stop."""
        if self.writer.is_closing():
            return
        self.sent_bytes += len(packet)
        self.writer.write(packet)
        if self.queued_bytes > SEND_LIMIT_BYTES:
            self.full = True

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait in the send buffer."""
        return self.writer.transport.get_write_buffer_size()

    def drained(self) -> bool:
        """Whether a full link has emptied; resets `full`."""
        if self.full and self.queued_bytes < SEND_LIMIT_BYTES // 4:
            self.full = False
            return True
        return False

    async def finish(self) -> None:
        """Send what is queued, say DISCONNECT and close, within `FINISH_TIMEOUT_S`."""
        self.send(wire.disconnect())
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                self.writer.close()
                await self.writer.wait_closed()

    def close(self) -> None:
        """Close at once; what is queued and unsent is lost here and repaired later."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.transport.abort()


def _tune(writer: asyncio.StreamWriter) -> str:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    peer = writer.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "?"


async def dial(host: str, port: int, own: Credentials, numbers: Iterator[int]) -> Link:
    """Connect to a gateway's MQTT port as a neighbour.

    Raises:
        OSError: unreachable, timed out (TimeoutError) or closed.
        HandshakeError: another tree, the wrong key, or this gateway itself.
        ProtocolError: what answers is no gateway.

    """
    async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            address = _tune(writer)
            core = Dialler(own, secrets.token_bytes(handshake.NONCE_BYTES))
            link = Link(0, "", own.gateway_id, address, reader, writer, wire.Reader())
            link.send(core.connect.encode())
            answer = await link.receive()
            if answer.type is not Type.CONNACK or answer.body != bytes((0, ReturnCode.ACCEPTED)):
                raise HandshakeError("refused by the neighbour", answer.body)
            peer_id, proof = core.receive(await _auth(link))
            link.send(wire.publish(handshake.TOPIC, proof))
        except BaseException:
            writer.transport.abort()
            raise
    link.stream.limit = wire.MAX_PACKET_BYTES
    link.peer_id = peer_id
    link.number = next(numbers)
    return link


async def accept(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    first: bytes,
    own: Credentials,
    numbers: Iterator[int],
) -> Link:
    """Answer a neighbour that dialled; ``first`` is what was read of its CONNECT.

    Raises:
        OSError: timed out (TimeoutError) or closed.
        ProtocolError: not a neighbour of this tree (HandshakeError), or not a link's CONNECT.

    """
    link = Link(0, "", "", _tune(writer), reader, writer, wire.Reader())
    link.stream.feed(first)
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            core = await _greeted(link, own)
            link.send(wire.connack(ReturnCode.ACCEPTED))
            link.send(wire.publish(handshake.TOPIC, core.answer))
            core.receive(await _auth(link))
    except BaseException:
        writer.close()  # not aborted: a refused neighbour is to read the CONNACK
        raise
    link.stream.limit = wire.MAX_PACKET_BYTES
    link.peer_id = link.dialler_id = core.peer_id
    link.number = next(numbers)
    return link


async def _greeted(link: Link, own: Credentials) -> Acceptor:
    first = await link.receive()
    if first.type is not Type.CONNECT:
        raise ProtocolError("first packet on a link", str(first))
    try:
        connect = wire.Connect.decode(first.body)
        return Acceptor(own, secrets.token_bytes(handshake.NONCE_BYTES), connect)
    except ProtocolError:
        link.send(wire.connack(ReturnCode.NOT_AUTHORIZED))
        raise


async def _auth(link: Link) -> bytes:
    packet = await link.receive()
    if packet.type is not Type.PUBLISH:
        raise HandshakeError("packet in the hand-shake", str(packet))
    topic, payload = wire.split_publish(packet.body)
    if topic != handshake.TOPIC:
        raise HandshakeError("topic in the hand-shake", topic)
    return payload

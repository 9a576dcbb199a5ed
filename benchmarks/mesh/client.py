"""MQTT 3.1.1 clients in the namespaces of a run, all in this process, so that one clock counts.

Only what counting needs. A QoS 1 message is sent once and never again: where its acknowledgement
does not come it is in doubt, and what comes twice is the tree's doing. A QoS 2 exchange goes on
after a reconnect, as the standard asks, so it is exactly once from end to end. Subscribers have
durable sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from benchmarks.mesh.count import Count, Stream, payload
from benchmarks.mesh.namespaces import Namespace

RETRY_S = 0.01
CONNECT_S = 2.0
PORT = 1883
_SILENT_S = 30.0


class Client(asyncio.Protocol):
    """A client identifier, connected for as long as it is kept.

    Args:
        namespace: from which it connects.
        address: of the gateway.
        client_id: its identifier.
        clean: true if its session ends with each connection.

    """

    def __init__(
        self, namespace: Namespace, address: str, client_id: str, *, clean: bool = False
    ) -> None:
        self.client_id = client_id
        self.is_connected = False
        self.was_connected = asyncio.Event()
        self._namespace = namespace
        self._address = address
        self._clean = clean
        self._transport: asyncio.Transport | None = None
        self._input = bytearray()
        self._lost: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def keep(self) -> None:
        """Connect, and again whenever the connection ends."""
        self._task = asyncio.create_task(self._keep(), name=self.client_id)

    async def stop(self) -> None:
        """Let go."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._transport is not None:
            self._transport.abort()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                sock = self._namespace.socket()
                sock.setblocking(False)
                self._lost = loop.create_future()
                self._input.clear()
                try:
                    async with asyncio.timeout(CONNECT_S):
                        await loop.sock_connect(sock, (self._address, PORT))
                        await loop.create_connection(lambda: self, sock=sock)
                except BaseException:
                    sock.close()
                    raise
                self._send(_connect(self.client_id, clean=self._clean))
                await self._lost
            await asyncio.sleep(RETRY_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.is_connected = False
        self._went()
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._input += data
        buffer = memoryview(bytes(self._input))
        at, end = 0, len(buffer)
        while end - at >= 2:
            length, shift, start = 0, 0, at + 1
            while start < end:
                digit = buffer[start]
                start += 1
                length |= (digit & 0x7F) << shift
                shift += 7
                if digit < 0x80:
                    break
            else:
                break
            if digit >= 0x80 or end - start < length:
                break
            self._receive(buffer[at], buffer[start : start + length])
            at = start + length
        del self._input[:at]

    def _receive(self, first: int, body: memoryview) -> None:
        if first & 0xF0 == 0x20:
            if body[1]:
                raise RuntimeError(f"{self.client_id}: CONNACK {body[1]}")
            self.is_connected = True
            self._came(session_present=bool(body[0] & 1))
            self.was_connected.set()

    def _came(self, *, session_present: bool) -> None:
        """The gateway has accepted the connection."""

    def _went(self) -> None:
        """The connection has ended."""


class Publisher(Client):
    """Publishes to one gateway on one or more topics.

    Args:
        count: is told what was sent and acknowledged.
        streams: one for each topic; of one QoS.
        size: of a payload, in bytes.
        window: messages without acknowledgement at most.

    """

    def __init__(
        self,
        namespace: Namespace,
        address: str,
        client_id: str,
        streams: list[Stream],
        *,
        size: int = 64,
        window: int = 200,
    ) -> None:
        super().__init__(namespace, address, client_id, clean=streams[0].qos < 2)
        self.streams = streams
        self.skipped = 0
        """Messages that were due and not sent: no connection, or the window was full."""
        self._size = size
        self._window = window
        self._turn = 0
        self._packet_id = 0
        self._outgoing: dict[int, tuple[Stream, int, bytes]] = {}
        self._released: dict[int, None] = {}

    @property
    def unsettled(self) -> int:
        """Exchanges that are not over."""
        return len(self._outgoing) + len(self._released)

    def publish(self) -> None:
        """Send the next message, if it can be sent now."""
        if not self.is_connected or self.unsettled >= self._window:
            self.skipped += 1
            return
        stream = self.streams[self._turn % len(self.streams)]
        self._turn += 1
        stream.sent += 1
        body = payload(stream.number, stream.sent, time.monotonic(), self._size)
        topic = _field(stream.topic.encode())
        if not stream.qos:
            stream.acknowledged.add(stream.sent, stream.sent)
            self._send(_packet(0x30, topic + body))
            return
        packet_id = self._next_id()
        rest = topic + packet_id.to_bytes(2, "big") + body
        self._outgoing[packet_id] = (stream, stream.sent, rest)
        self._send(_packet(0x30 | stream.qos << 1, rest))

    def _next_id(self) -> int:
        while True:
            self._packet_id = self._packet_id % 65535 + 1
            if self._packet_id not in self._outgoing and self._packet_id not in self._released:
                return self._packet_id

    def _came(self, *, session_present: bool) -> None:
        for stream in self.streams:
            stream.connections.append(stream.sent + 1)
        if not session_present:
            self._outgoing.clear()  # in doubt, as the gateway knows nothing of them
            self._released.clear()
        for packet_id in self._released:
            self._send(_ack(0x62, packet_id))
        for _, _, rest in self._outgoing.values():
            self._send(_packet(0x3C, rest))  # QoS 2 and DUP

    def _went(self) -> None:
        if self._clean:
            self._outgoing.clear()

    def _receive(self, first: int, body: memoryview) -> None:
        kind = first & 0xF0
        if kind not in (0x40, 0x50, 0x70):
            super()._receive(first, body)
            return
        packet_id = body[0] << 8 | body[1]
        if kind == 0x70:  # PUBCOMP
            self._released.pop(packet_id, None)
            return
        out = self._outgoing.pop(packet_id, None)
        if out is not None:
            stream, number, _ = out
            stream.acknowledged.add(number, number)
        if kind == 0x50:  # PUBREC
            self._released[packet_id] = None
            self._send(_ack(0x62, packet_id))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The topic filters of a subscriber, and the QoS of all of them."""

    topic_filters: list[str]
    qos: int = 2


class Subscriber(Client):
    """Has a durable session with one filter or more, and notes each arrival.

    Args:
        count: is told.
        wanted: the filters that it subscribes to, and their QoS.
        clean: for a session that ends with the connection.

    """

    def __init__(
        self,
        namespace: Namespace,
        address: str,
        client_id: str,
        count: Count,
        wanted: Wanted,
        *,
        clean: bool = False,
        seen: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(namespace, address, client_id, clean=clean)
        self.subscribed = asyncio.Event()
        self._count = count
        self._wanted = wanted
        self._seen = seen
        self._unreleased: set[int] = set()

    def _came(self, *, session_present: bool) -> None:
        if session_present:
            return
        if self.subscribed.is_set() and not self._clean:
            self._count.lost_sessions.append(self.client_id)
        self._unreleased.clear()
        qos = bytes((self._wanted.qos,))
        filters = b"".join(_field(f.encode()) + qos for f in self._wanted.topic_filters)
        self._send(_packet(0x82, b"\0\1" + filters))

    def _receive(self, first: int, body: memoryview) -> None:
        kind = first & 0xF0
        if kind == 0x30:
            self._receive_publish(first, body)
        elif kind == 0x60:  # PUBREL
            packet_id = body[0] << 8 | body[1]
            self._unreleased.discard(packet_id)
            self._send(_ack(0x70, packet_id))
        elif kind == 0x90:
            assert all(code < 0x80 for code in body[2:]), bytes(body)
            self.subscribed.set()
        else:
            super()._receive(first, body)

    def _receive_publish(self, first: int, body: memoryview) -> None:
        qos = first >> 1 & 3
        at = 2 + (body[0] << 8 | body[1])
        if qos:
            packet_id = body[at] << 8 | body[at + 1]
            at += 2
            self._send(_ack(0x40 if qos == 1 else 0x50, packet_id))
            if qos == 2:
                if packet_id in self._unreleased:
                    return
                self._unreleased.add(packet_id)
        again = qos == 1 and bool(first & 8)
        self._count.arrived(self.client_id, body[at:], time.monotonic(), again=again)
        self._seen()


def _connect(client_id: str, *, clean: bool) -> bytes:
    flags = 0x02 if clean else 0
    return _packet(0x10, _field(b"MQTT") + bytes((4, flags, 0, 0)) + _field(client_id.encode()))


def _ack(first: int, packet_id: int) -> bytes:
    return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))


def _field(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _packet(first: int, body: bytes) -> bytes:
    length, out = len(body), bytearray((first,))
    while True:
        length, low = length >> 7, length & 0x7F
        if not length:
            out.append(low)
            return bytes(out) + body
        out.append(low | 0x80)

"""One connection to a neighbour: packets both ways; it knows nothing of trees.

What is handed to the transport can't be overtaken by a hello, so no more is than its `Window` says;
the rest waits in a `SendQueue`. What has come is acknowledged once it is dealt with.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Final, cast

from mypy_extensions import mypyc_attr

from gateway.node.links import wire
from gateway.node.links.refusal import RefusedError, reason
from gateway.node.links.send_queue import BATCH_LIMIT_BYTES, CONTROL_LIMIT_BYTES, SendQueue
from gateway.node.links.window import ACKNOWLEDGE_BYTES, MAX_BYTES, Window
from gateway.node.links.wire import LinkPacket, Type
from tree_handler.errors import ProtocolError

BEHIND_DATA_BYTES: Final = 2 * ACKNOWLEDGE_BYTES
"""A hello that is sent behind more than this tells of the queue, and not of the way."""
LARGE_READ_BYTES: Final = 128 * 1024
"""After a read of so much others have their turn: clients, and other neighbours' hellos."""
FINISH_TIMEOUT_S: Final = 2.0


@mypyc_attr(native_class=False)
class LinkClosedError(ConnectionError):
    """The neighbour closed the connection, or said DISCONNECT."""


class Link(asyncio.Protocol):
    """A connection to a neighbour, whoever dialled.

    Attributes:
        number: this gateway's name for the link, never reused while it runs.
        peer_id: the neighbour's gateway id.
        dialler_id: which of the two dialled; decides which of two links of a pair stays.
        address: where the neighbour is, as its transport says it, for status.
        peer_epoch: the neighbour's boot epoch.
        peer_port: where a neighbour that dialled takes links itself; 0 if it doesn't.
        additions: what the neighbour understands besides (`wire.Additions`).
        was_left: the neighbour has ended it itself.
        window: what is sent, and what may be.
        received_bytes: what came.
        heard_at: when the last of it came, on the loop's clock.

    Args:
        address: as far as it is known yet.

    """

    def __init__(self, address: str = "?") -> None:
        self.number = 0
        self.peer_id = ""
        self.dialler_id = ""
        self.address = address
        self.peer_port = 0
        self.peer_epoch = 0
        self.additions = wire.Additions.NONE
        self.was_left = False
        self.window = Window()
        self.received_bytes = 0
        self.heard_at = -math.inf
        self._acknowledged_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._reader = wire.LinkReader()
        self._assembly = wire.Assembly()
        self._queue = SendQueue()
        self._transport: asyncio.Transport | None = None
        self._receive: Callable[[Link, LinkPacket], None] | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._room: list[asyncio.Future[None]] = []
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._is_turn_under_way = False

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, or by whoever hands a transport over."""
        carrying = cast(asyncio.Transport, transport)
        if self._transport is not None or self._ended.done():
            carrying.abort()  # one too many, or too late: nobody would ever close it
            return
        self._transport = carrying
        carrying.set_write_buffer_limits(MAX_BYTES)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.received_bytes += len(data)
        self.heard_at = self._loop.time()
        self._reader.feed(data)
        if self._receive is not None:
            self._hand_up(self._receive)
            if len(data) >= LARGE_READ_BYTES and self._transport is not None:
                # An event loop may read a socket many times in a turn, while it brings as much.
                self._transport.pause_reading()
                self._loop.call_soon(self._read_on)
        elif self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None  # to abort one that has gone would end it a second time
        self._end(reason(exc) if exc else f"closed by {self.peer_id or self.address}")
        if not self._closed.done():
            self._closed.set_result(None)

    # -- receiving -----------------------------------------------------------------------------

    async def receive(self) -> LinkPacket:
        """Return the next packet, while nobody serves the link.

        Raises:
            LinkClosedError: the connection ended.
            RefusedError: the neighbour ended it, and said why.
            ProtocolError: the neighbour sent what no link sends.

        """
        while (packet := self._reader.next()) is None:
            if self._ended.done():
                raise LinkClosedError(self._ended.result())
            self._arrival = self._loop.create_future()
            await self._arrival
        if packet.type is Type.DISCONNECT:
            if packet.body:
                raise RefusedError(packet.body[0])
            raise LinkClosedError(f"{self.peer_id or self.address} said DISCONNECT")
        return packet

    async def serve(self, receive: Callable[[Link, LinkPacket], None]) -> str:
        """Hand up each packet until the link ends; return why it did.

        Args:
            receive: takes this link and a packet; the link ends if it raises ProtocolError or
                OSError.

        """
        self._reader.limit = wire.MAX_PACKET_BYTES
        self._receive = receive
        self._hand_up(receive)
        return await asyncio.shield(self._ended)

    def _hand_up(self, receive: Callable[[Link, LinkPacket], None]) -> None:
        reader, assembly, ended = self._reader, self._assembly, self._ended
        try:
            while not ended.done() and (packet := reader.next()) is not None:
                if packet.type is Type.PUBLISH:
                    if (whole := assembly.add(packet)) is not None:
                        receive(self, whole)
                elif packet.type is Type.PUBACK:
                    self.window.acknowledge(wire.taken(packet.body), self._loop.time())
                    self._pump()
                elif packet.type is Type.DISCONNECT:
                    self.was_left = True
                    self._end(f"{self.peer_id} said DISCONNECT")
                else:
                    receive(self, packet)
            if self.received_bytes - self._acknowledged_bytes >= ACKNOWLEDGE_BYTES:
                self._acknowledged_bytes = self.received_bytes
                self.send(wire.puback(self.received_bytes))
        except (OSError, ProtocolError) as error:
            self._end(str(error))

    # -- sending -------------------------------------------------------------------------------

    def send(self, packet: bytes) -> None:
        """Send a hello or the like: it goes before all else, however much waits."""
        self._queue.add_hello(packet)
        self._pump()

    def send_ahead(self, topic: bytes, payload: bytes) -> None:
        """Send a control message among the hellos, in their order, if it is short enough."""
        if len(payload) <= wire.PIECE_BYTES:
            self.send(wire.publish(topic, payload))
        else:
            self.send_control(topic, payload)

    def send_control(self, topic: bytes, payload: bytes) -> None:
        """Send a control message: it goes before all batches."""
        self._queue.add_control(topic, payload)
        if self._queue.control_bytes > CONTROL_LIMIT_BYTES:
            self._end("the neighbour does not read: control messages queued over the limit")
        self._pump()

    def send_batch(self, topic: bytes, frame: bytes, unlogged: int = 0) -> None:
        """Send a batch; ``unlogged`` is the number of its messages, for QoS 0."""
        if self._queue.logged_bytes > BATCH_LIMIT_BYTES:
            self._end("the neighbour does not read: batches queued over the limit")
        self._queue.add_batch(topic, frame, unlogged)
        self._pump()

    @property
    def is_full(self) -> bool:
        """Return whether batches of the log are to wait there."""
        return self._queue.is_full

    async def room(self) -> None:
        """Wait until batches of the log may be queued.

        Raises:
            LinkClosedError: the link has ended.

        """
        while not self._ended.done():
            if self._queue.has_room:
                return
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._room.append(waiter)
            await waiter
        raise LinkClosedError(self._ended.result())

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait in the queue and in the transport."""
        if self._transport is None:
            return 0
        return self._queue.size + self._transport.get_write_buffer_size()

    @property
    def dropped(self) -> int:
        """QoS 0 messages that were dropped because too many waited."""
        return self._queue.dropped

    @property
    def is_behind_data(self) -> bool:
        """Return whether what is sent now waits for much that was sent before.

        A round trip that is measured meanwhile is longer than the way.
        """
        return self.window.under_way > BEHIND_DATA_BYTES

    def _pump(self) -> None:
        """Write the first packet of a turn at once, and what comes after it together."""
        if self._ended.done():
            self._queue.clear()
        elif not self._is_turn_under_way:
            self._is_turn_under_way = True
            self._loop.call_soon(self._turn_ended)
            self._write()

    def _turn_ended(self) -> None:
        self._is_turn_under_way = False
        if self._queue.size:
            self._write()

    def _write(self) -> None:
        transport, queue, window = self._transport, self._queue, self.window
        if transport is None or self._ended.done():
            return
        buffers, size = queue.take(window.size - window.under_way)
        if buffers:
            window.has_sent(size, self._loop.time())
            transport.writelines(buffers)
        if self._room and queue.has_room:
            self._wake_those_who_wait_for_room()

    # -- the end -------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Send what is queued, say DISCONNECT and close, within `FINISH_TIMEOUT_S`."""
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                await self.room()
                if (transport := self._transport) is None:
                    return
                buffers, size = self._queue.take(self._queue.size + 1)
                transport.writelines([*buffers, farewell := wire.disconnect()])
                self.window.has_sent(size + len(farewell), self._loop.time())
                transport.close()
                await asyncio.shield(self._closed)

    def leave(self) -> None:
        """Say DISCONNECT and close, as `finish` for who can't wait."""
        self.send(wire.disconnect())
        if self._transport is not None:
            self._transport.close()

    def refuse(self, refusal: int | None = None) -> None:
        """Close so that the neighbour still reads what was sent, and last why, if that is given."""
        if refusal is not None:
            self.send(wire.disconnect(refusal))
        if self._transport is not None:
            self._transport.close()

    def close(self) -> None:
        """Close at once; what is queued and unsent is lost here and repaired later."""
        self._end("closed here")

    def _end(self, why: str) -> None:
        if self._ended.done():
            return
        self._ended.set_result(why)
        if self._transport is not None:
            self._transport.abort()
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        self._wake_those_who_wait_for_room()

    def _wake_those_who_wait_for_room(self) -> None:
        waiters, self._room = self._room, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

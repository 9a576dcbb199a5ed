"""One connection to a neighbour: packets both ways; it knows nothing of trees.

What is handed to the transport can't be overtaken by a hello, so no more is than its `Window` says;
the rest waits in a `SendQueue`. What has come is acknowledged once it is dealt with. That takes
turns with what other links bring (`LinkTurns`); while a link waits for its own, it is not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final, cast

from mypy_extensions import mypyc_attr

from gateway.node.links import wire
from gateway.node.links.link_turns import LinkTurns
from gateway.node.links.refusal import RefusedError, reason
from gateway.node.links.send_queue import SendQueue
from gateway.node.links.window import ACKNOWLEDGE_BYTES, MAX_BYTES, Window
from gateway.node.links.wire import LinkPacket, Type
from tree_handler.errors import ProtocolError

BEHIND_DATA_BYTES: Final = 2 * ACKNOWLEDGE_BYTES
"""A hello that is sent behind more than this tells of the queue, and not of the way."""
LARGE_READ_BYTES: Final = 128 * 1024
"""After a read of so much others have their turn: clients, and other neighbours' hellos."""
FINISH_TIMEOUT_S: Final = 2.0
HELD_MAX_S: Final = 10.0
UNREAD_LIMIT_BYTES: Final = 2 * MAX_BYTES
"""More than its window has never been under way to a neighbour that reads, but for few hellos."""


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
        self._loop = asyncio.get_running_loop()
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
        self._turns: LinkTurns | None = None
        self._waits_for_turn = False
        """True if packets that have come are dealt with in a later round."""
        self._held_s = 0.0
        self._held_since = math.inf
        self._lost: str | None = None
        """The reason for which the connection has ended, while packets wait that came before."""

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, or by whoever hands a transport over."""
        carrying = cast(asyncio.Transport, transport)
        if self._transport is not None or self._ended.done():
            carrying.abort()  # one too many, or too late: nobody would ever close it
            return
        self._transport = carrying
        carrying.set_write_buffer_limits(UNREAD_LIMIT_BYTES)

    def pause_writing(self) -> None:
        """Called by the event loop: the neighbour does not read, whatever it has acknowledged."""
        why = "the neighbour does not read: more waits for it than may be under way"
        self._loop.call_soon(self._end, why)  # the transport is in the midst of a write

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.received_bytes += len(data)
        self.heard_at = self._loop.time()
        self._reader.feed(data)
        if self._receive is not None:
            if not self._waits_for_turn:
                self._hand_up(self._receive)
            if len(data) >= LARGE_READ_BYTES and not self._waits_for_turn:
                # An event loop may read a socket many times in a turn, while it brings as much.
                self._read_no_more()
                self._loop.call_soon(self._read_on)
        elif self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _read_no_more(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._waits_for_turn:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None  # to abort one that has gone would end it a second time
        why = reason(exc) if exc else f"closed by {self.peer_id or self.address}"
        if self._waits_for_turn:
            self._lost = why  # what it has said before counts
        else:
            self._end(why)
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

    async def serve(
        self, receive: Callable[[Link, LinkPacket], None], turns: LinkTurns | None = None
    ) -> str:
        """Hand up each packet until the link ends; return why it did.

        Args:
            receive: takes this link and a packet; the link ends if it raises ProtocolError or
                OSError.
            turns: those of all links; None if there is no other.

        """
        self._reader.limit = wire.MAX_PACKET_BYTES
        self._receive = receive
        self._turns = LinkTurns() if turns is None else turns
        self._hand_up(receive)
        return await self.until_ended()

    async def until_ended(self) -> str:
        """Wait until the link has ended, and return why it did."""
        return await asyncio.shield(self._ended)

    def _go_on(self) -> None:
        """Hand up what waited: it is this link's turn."""
        self._waits_for_turn = False
        if self._ended.done() or self._receive is None:
            return
        try:
            self._hand_up(self._receive)
        except BaseException as error:  # as an event loop ends a connection whose reader fails
            self._end(repr(error))
            raise
        if self._waits_for_turn:
            return
        if self._lost is not None:
            self._end(self._lost)
        self._read_on()

    def hold(self, wait_s: float) -> None:
        """Hand up nothing more for so long; to be called by who is handed a packet.

        A link that had to be held for `HELD_MAX_S` without a break ends.
        """
        self._held_s = wait_s
        if not wait_s:
            self._held_since = math.inf
        elif self._held_since == math.inf:
            self._held_since = self._loop.time()
        elif self._loop.time() - self._held_since > HELD_MAX_S:
            self._end(f"{self.peer_id} has said more for {HELD_MAX_S:.0f} s than anybody has to")

    def _hand_up(self, receive: Callable[[Link, LinkPacket], None]) -> None:
        """Hand up packets until there is none, or it is the turn of others."""
        turns = self._turns
        assert turns is not None
        now = monotonic()  # an event loop's clock may stand still for the time of a callback
        until_s = now + turns.left_s()
        done_at = self._handed_up(receive, now, until_s)
        turns.took(done_at - now)
        if self._held_s:
            self._loop.call_later(self._held_s, self._go_on)
        elif done_at >= until_s and self._reader.waiting_bytes:
            turns.wait(self._go_on)
        else:
            self._acknowledge(self.received_bytes)
            return
        self._held_s = 0.0
        self._waits_for_turn = True
        self._read_no_more()
        self._acknowledge(self.received_bytes - self._reader.waiting_bytes)

    def _handed_up(
        self, receive: Callable[[Link, LinkPacket], None], now: float, until_s: float
    ) -> float:
        """Hand up packets until a time; return when that ended."""
        reader, assembly, ended = self._reader, self._assembly, self._ended
        try:
            while now < until_s and not self._held_s and not ended.done():
                if (packet := reader.next()) is None:
                    break
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
                now = monotonic()
        except (OSError, ProtocolError) as error:
            self._end(str(error))
        return now

    def _acknowledge(self, taken: int) -> None:
        if taken - self._acknowledged_bytes >= ACKNOWLEDGE_BYTES:
            self._acknowledged_bytes = taken
            self.send(wire.puback(taken))

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
        if self._queue.is_over_limit:
            self._end("the neighbour does not read: control messages queued over the limit")
        self._pump()

    def send_batch(self, topic: bytes, frame: bytes, unlogged: int = 0) -> None:
        """Send a batch; ``unlogged`` is the number of its messages, for QoS 0."""
        if self._queue.is_over_limit:
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
        self._write()  # what waits may be an empty word, which has no size

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
                buffers, size = self._queue.take(sys.maxsize)
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

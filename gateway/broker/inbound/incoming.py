"""What was read of a connection and is not handled yet.

Reads are cut into whole packets by the walk of `connection`; what is left over waits here: the
beginning of a packet, all packets behind a decision that takes time, and all that would keep the
event loop from its other connections for too long. A read is therefore walked in slices, and
after `TURN_S` the rest waits for the next turn while the socket is not read: a flooding client is
slowed by TCP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.broker.outbound.outgoing import Outgoing
from gateway.mqtt import PacketError

if TYPE_CHECKING:
    from gateway.broker.server import BrokerCore

T = TypeVar("T")

SLICE_BYTES = 8 * 1024
"""Walked before the first look at the clock; slices grow while they cost little."""
SLICE_BYTES_MAX = 64 * 1024
TURN_S = 0.01
"""A connection's packets are handled for so long before others have their turn."""
_CHUNKS_MAX = 1_024
"""Pieces of a packet that are kept as they came; a piece of one byte takes forty."""

_log = logging.getLogger(__name__)


class Incoming(Outgoing):
    """The reading side of a connection, but for what the packets say.

    Attributes:
        chunks: what was read and is not handled yet.
        verdict: what that waits for: a decision, or the next turn; None if only for more.
        turn_ends_s: when other connections are to have their turn, on the loop's clock.

    """

    __slots__ = ("_chunk_bytes", "_wanted_bytes", "chunks", "turn_ends_s", "verdict")

    def __init__(self, core: BrokerCore) -> None:
        super().__init__(core)
        self.heard_at_s = core.now()
        self.turn_ends_s = 0.0
        self.chunks: list[bytes] = []
        self._chunk_bytes = 0
        self._wanted_bytes = 0
        self.verdict: asyncio.Future[Any] | None = None

    def _walk(self, data: bytes, at: int, stop: int) -> int:
        raise NotImplementedError

    def fail(self, error: PacketError) -> None:
        """The client broke the protocol."""
        raise NotImplementedError

    @property
    def buffered_bytes(self) -> int:
        """What waits to be written, and what was read and waits."""
        return super().buffered_bytes + (self._chunk_bytes if self.chunks else 0)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.handle(data)
        self.core.turns.has_read()

    def handle(self, data: bytes) -> None:
        """Handle what was read, or keep it."""
        if self.is_closing:
            return
        core = self.core
        core.traffic.bytes_read += len(data)
        now_s = core.now()
        if self.session is not None:  # before that, what counts is when it was opened
            self.heard_at_s = now_s
        self.turn_ends_s = now_s + TURN_S
        if self.chunks:
            self.chunks.append(data)
            self._chunk_bytes += len(data)
            if self.verdict is not None or self._chunk_bytes < self._wanted_bytes:
                if len(self.chunks) > _CHUNKS_MAX:
                    self.chunks = [b"".join(self.chunks)]
                return
            data = b"".join(self.chunks)
            self.chunks.clear()
        elif self.verdict is not None:
            self._keep(data, 0)
            return
        self._read(data)

    def _read(self, data: bytes) -> None:
        size = len(data)
        at = 0
        slice_bytes = SLICE_BYTES
        try:
            while True:
                stop = at + slice_bytes
                at = self._walk(data, at, stop if stop < size else size)
                if at >= size or self.is_closing:
                    break
                left_s = self.turn_ends_s - self.core.now()
                if self.verdict is None and left_s < 0:
                    self.give_way()
                if self.verdict is not None:
                    self._keep(data, at)
                    break
                if left_s > TURN_S / 2 and slice_bytes < SLICE_BYTES_MAX:
                    slice_bytes *= 2
        except PacketError as error:
            self.fail(error)
        session = self.session
        if session is not None and session.is_busy:
            self.send_waiting()  # what acknowledgements have made room for

    def _keep(self, data: bytes, at: int, wanted_bytes: int = 0) -> None:
        """Keep what begins a packet that is not all there yet, or that has to wait."""
        self._wanted_bytes = wanted_bytes
        self.chunks.append(data[at:] if at else data)
        self._chunk_bytes = len(data) - at

    def _forget(self) -> None:
        self.chunks.clear()
        if self.verdict is not None:
            self.verdict.cancel()

    # -- waiting -------------------------------------------------------------------------------

    @property
    def has_had_its_turn(self) -> bool:
        """Whether others have to wait for this connection already too long."""
        return self.core.now() > self.turn_ends_s

    def give_way(self) -> None:
        """Let the client's further packets wait until other connections had their turn."""
        self.wait_for(asyncio.sleep(0), lambda _: None)

    def wait_for(self, verdict: Awaitable[T], then: Callable[[T | None], None]) -> None:
        """Let the client's further packets wait; ``then`` gets the result, None if it failed."""
        task = asyncio.ensure_future(verdict)
        self.verdict = task
        self.stall()

        def decided(done: asyncio.Future[T]) -> None:
            if done.cancelled() or self.verdict is not done:
                return
            self.verdict = None
            self.resume()
            error = done.exception()
            if error is not None:
                _log.error("%s: a decision failed: %s", self.address, error, exc_info=error)
            if self.is_closing:
                return
            try:
                then(None if error is not None else done.result())
            except PacketError as broken:
                self.fail(broken)
            if self.verdict is None and not self.is_closing and self.chunks:
                data = b"".join(self.chunks)
                self.chunks.clear()
                self.turn_ends_s = self.core.now() + TURN_S
                self._read(data)
            self.core.turns.kick()

        task.add_done_callback(decided)

"""Paced reading of a connection: in turns, where a few bytes cost much.

Between two turns others have as much time as the last one took. As long as anything is left of a
read the socket is not read: who sends much is slowed by TCP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.trust.tls.layer_transport import Layer, LayerTransport

PART_S: Final = 0.002
"""So long a connection is served in a turn."""
PIECE_BYTES: Final = 1_024
"""Between two looks at the clock."""


class PacedReading:
    """Reads for one connection.

    Args:
        take: takes the next bytes; False where no more are to come.
        turn_ends: called behind the last ones of a turn.

    """

    def __init__(self, take: Callable[[bytes], bool], turn_ends: Callable[[], None]) -> None:
        self._take = take
        self._turn_ends = turn_ends
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._reads = True
        self._is_held_up = False
        self._next_turn: asyncio.Handle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Read from here."""
        self._transport = transport

    def end(self) -> None:
        """The connection has gone, with all that was read and not taken, and is let go of."""
        self._transport, self._unread = None, b""
        self._take, self._turn_ends = _take_no_more, _nobody_is_told
        if self._next_turn is not None:
            self._next_turn.cancel()

    def feed(self, data: bytes) -> None:
        """Take what was read, at once as far as it is this connection's turn."""
        self._unread += data
        if self._next_turn is None and not self._is_held_up:
            self._take_turn()

    def hold_up(self, *, is_held_up: bool) -> None:
        """Read nothing for now, or read again."""
        self._is_held_up = is_held_up
        self._flow()

    def _take_turn(self) -> None:
        self._next_turn = None
        now = asyncio.get_running_loop().time
        begun_s = now()
        data, at, goes_on = self._unread, 0, True
        while at < len(data) and goes_on:
            goes_on = self._take(data[at : at + PIECE_BYTES])
            at += PIECE_BYTES
            if now() - begun_s > PART_S:
                break
        self._unread = data[at:] if goes_on and self._transport is not None else b""
        self._turn_ends()
        self._flow(now() - begun_s)

    def _flow(self, pause_s: float = 0.0) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if (reads := not (self._unread or self._is_held_up)) is not self._reads:
            self._reads = reads
            (self._transport.resume_reading if reads else self._transport.pause_reading)()
        if self._unread and not self._is_held_up and self._next_turn is None:
            loop = asyncio.get_running_loop()
            self._next_turn = loop.call_later(pause_s, self._take_next_turn)

    def _take_next_turn(self) -> None:
        transport = self._transport
        try:
            self._take_turn()
        except Exception:
            if transport is not None:
                transport.abort()  # as the event loop does where a read fails: none would follow
            raise


def _take_no_more(_data: bytes) -> bool:
    return False


def _nobody_is_told() -> None:
    pass


class PacedTransport(LayerTransport):
    """The transport of what a layer carries whose reads are paced."""

    def __init__(self, below: asyncio.Transport, layer: Layer, reading: PacedReading) -> None:
        super().__init__(below, layer)
        self._reading = reading

    def pause_reading(self) -> None:
        """Do not read for now."""
        self._reading.hold_up(is_held_up=True)

    def resume_reading(self) -> None:
        """Read again."""
        self._reading.hold_up(is_held_up=False)

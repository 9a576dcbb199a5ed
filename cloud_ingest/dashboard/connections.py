"""Connections of browsers: one that asks nothing makes room for another, and is closed in time.

aiohttp serves them and knows no such limits; so each has a protocol before aiohttp's, which
passes on all that it is told.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from gateway.access.failed_attempts import network_of
from gateway.shares.connection_room import ConnectionRoom, Standing

CONNECTIONS_MAX: Final = 512
CONNECTIONS_PER_ADDRESS: Final = 64
"""Of those that are not logged in; with more the one that waits longest is closed."""
HEAD_S: Final = 5.0
"""From the connection to the end of the first request's head, TLS not included."""


class BrowserConnections:
    """All that are open."""

    def __init__(self) -> None:
        self._room: ConnectionRoom[_Connection] = ConnectionRoom(
            CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS, lambda one: one.standing
        )

    def __len__(self) -> int:
        """How many there are."""
        return len(self._room)

    def accept(self, serving: asyncio.Protocol) -> asyncio.Protocol:
        """The protocol of a connection that is to be served by another."""
        return _Connection(self._room, serving)


def has_asked(transport: asyncio.BaseTransport | None, *, is_known: bool) -> None:
    """A request has come.

    Args:
        transport: of its connection; None if that has gone.
        is_known: whether its sender is logged in.

    """
    protocol = None if transport is None else cast(asyncio.Transport, transport).get_protocol()
    if isinstance(protocol, _Connection):
        protocol.asked(is_known=is_known)


class _Connection(asyncio.Protocol):
    def __init__(self, room: ConnectionRoom[_Connection], serving: asyncio.Protocol) -> None:
        self.standing = Standing.SILENT
        self._room = room
        self._serving = serving
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        address = str((made.get_extra_info("peername") or ("",))[0])
        going = self._room.opened(self, network_of(address))
        for one in going:
            one.abort()
        if self not in going:
            self._deadline = asyncio.get_running_loop().call_later(HEAD_S, self.abort)
            self._serving.connection_made(made)

    def asked(self, *, is_known: bool) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.standing = max(self.standing, Standing.ACCEPTED if is_known else Standing.ASKING)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is None:  # it was turned away
            return
        self._deadline.cancel()
        self._room.closed(self)
        self._serving.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is not None:
            self._serving.data_received(data)

    def eof_received(self) -> bool | None:
        return self._serving.eof_received()

    def pause_writing(self) -> None:
        self._serving.pause_writing()

    def resume_writing(self) -> None:
        self._serving.resume_writing()

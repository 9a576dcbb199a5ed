"""Connections of browsers: one that asks nothing makes room for another, and is closed in time.

aiohttp serves them and knows no such limits; so each has a protocol before aiohttp's, which
passes on all that it is told. TLS is a layer below that protocol, for the event loop's own tells of
a connection only after a handshake, for which it waits a minute.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Final, cast

from gateway.trust.shares.connection_room import ConnectionRoom, ConnectionStage
from gateway.trust.shares.failed_attempts import network_of
from gateway.trust.tls.layer import TlsLayer

CONNECTIONS_MAX: Final = 512
CONNECTIONS_PER_ADDRESS: Final = 64
"""Of those that are not logged in; with more the one that waits longest is closed."""
HEAD_S: Final = 5.0
"""From the connection to the end of the first request's head, TLS included."""

_log = logging.getLogger(__name__)


class BrowserConnections:
    """The open connections of the dashboard, bounded in all and for each address.

    Args:
        tls: for HTTPS; None for HTTP.

    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._room: ConnectionRoom[_Connection] = ConnectionRoom(
            CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS, lambda one: one.standing
        )

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._room)

    def accept(self, serving: asyncio.Protocol) -> asyncio.Protocol:
        """Return the protocol of a connection that is to be served by another."""
        connection = _Connection(self._room, serving)
        if self._tls is None:
            return connection
        return TlsLayer(
            connection,
            self._tls,
            accepted=connection.accepted,
            secured=lambda _certificate: True,
            failed=connection.failed,
        )


def has_asked(transport: asyncio.BaseTransport | None, *, is_known: bool) -> None:
    """Note that a request has come.

    Args:
        transport: of its connection; None if that has gone.
        is_known: whether its sender is logged in.

    """
    protocol = None if transport is None else cast(asyncio.Transport, transport).get_protocol()
    if isinstance(protocol, _Connection):
        protocol.asked(is_known=is_known)


class _Connection(asyncio.Protocol):
    def __init__(self, room: ConnectionRoom[_Connection], serving: asyncio.Protocol) -> None:
        self.standing = ConnectionStage.SILENT
        self._room = room
        self._serving = serving
        self._is_served = False
        self._raw: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def accepted(self, transport: asyncio.Transport) -> bool:
        self._raw = transport
        address = str((transport.get_extra_info("peername") or ("",))[0])
        going = self._room.opened(self, network_of(address))
        for one in going:
            one.abort()
        if self in going:
            return False
        self._deadline = asyncio.get_running_loop().call_later(HEAD_S, self.abort)
        return True

    def failed(self, error: Exception) -> None:
        _log.debug("a browser: TLS handshake failed: %s", error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if self._raw is not None or self.accepted(made):
            self._is_served = True
            self._serving.connection_made(made)

    def asked(self, *, is_known: bool) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.standing = max(
            self.standing, ConnectionStage.ACCEPTED if is_known else ConnectionStage.ASKING
        )

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._room.closed(self)
        if self._is_served:
            self._serving.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_served:
            self._serving.data_received(data)

    def eof_received(self) -> bool | None:
        return self._serving.eof_received() if self._is_served else None

    def pause_writing(self) -> None:
        if self._is_served:
            self._serving.pause_writing()

    def resume_writing(self) -> None:
        if self._is_served:
            self._serving.resume_writing()

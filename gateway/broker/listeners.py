"""Where the broker listens, and what stands between a socket and a `Connection`.

Plain TCP is the connection's own transport; TLS and websockets come between. Each connection
counts, and its time to be accepted runs, from the first byte on: a client that draws out a
handshake is limited as one that says nothing is.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from gateway.broker.certificates import CertificateError, identify
from gateway.broker.connection import Connection
from gateway.broker.server import BrokerCore
from gateway.broker.tls import Tls
from gateway.broker.websocket import WebSocket, WebSocketRules


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that is listened on.

    Attributes:
        scheme: ``mqtt``, ``mqtts``, ``ws`` or ``wss``.
        host: address to listen on.
        port: TCP port, 0 for a free one.

    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.scheme in ("mqtts", "wss")

    @property
    def is_websocket(self) -> bool:
        """Whether MQTT comes in websockets."""
        return self.scheme in ("ws", "wss")


class ListenError(OSError):
    """An address can't be listened on.

    Args:
        listener: which.
        error: why not.

    """

    def __init__(self, listener: Listener, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.listener = listener


async def listen(
    listener: Listener, core: BrokerCore, tls: Callable[[], Tls | None], rules: WebSocketRules
) -> asyncio.Server:
    """Listen on an address.

    Args:
        listener: where, and for what.
        core: serves the connections.
        tls: what holds for new connections, if it is secure.
        rules: which websockets are granted.

    Raises:
        ListenError: the address is in use or not this machine's.

    """

    def accepted() -> asyncio.Protocol:
        connection = Connection(core)
        carried = WebSocket(connection, rules) if listener.is_websocket else connection
        if not listener.is_secure:
            return carried
        current = tls()
        assert current is not None
        return TlsHandshake(connection, carried, current)

    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(accepted, listener.host, listener.port, reuse_address=True)
    except OSError as error:
        raise ListenError(listener, error) from error


class TlsHandshake(asyncio.Protocol):
    """Takes a connection through its TLS handshake, then puts TLS under what it carries.

    Args:
        connection: what serves the client.
        carried: what gets the bytes: the connection, or its websocket.
        tls: the server's side.

    """

    def __init__(self, connection: Connection, carried: asyncio.Protocol, tls: Tls) -> None:
        self._connection = connection
        self._carried = carried
        self._tls = tls
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._connection.connection_made(transport)  # counted, and may be over a limit
        if not self._connection.is_closing:
            transport = cast(asyncio.Transport, transport)
            transport.pause_reading()
            self._connection.core.start_task(self._shake_hands(transport))

    def data_received(self, data: bytes) -> None:
        """Called by the event loop, with what came along with the end of the handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._connection.connection_lost(exc)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        connection = self._connection
        core = connection.core
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._tls.context,
                server_side=True,
                ssl_handshake_timeout=core.limits.connect_s,
            )
            # None, or told to be gone, where the client left at that moment.
            if secured is None or connection.transport is None:
                connection.connection_lost(None)
                return
            tls = secured.get_extra_info("ssl_object")
            der = tls.getpeercert(binary_form=True)
            connection.certificate = None if der is None else identify(der)
        except (OSError, CertificateError) as error:
            if not connection.is_closing:
                why = _why(error)
                core.refused("TLS handshake failed", f"{connection.address}: {why}")
            transport.abort()
            connection.connection_lost(None)
            return
        secured.set_protocol(self._carried)
        self._carried.connection_made(secured)
        for data in self._early:
            self._carried.data_received(data)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # OpenSSL's, in capitals and underscores
    return reason.lower().replace("_", " ") if reason else str(error) or type(error).__name__

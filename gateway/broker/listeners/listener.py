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

from mypy_extensions import mypyc_attr

from gateway.broker.inbound.connection import Connection
from gateway.broker.listeners.websocket import WebSocket, WebSocketRules
from gateway.broker.server import BrokerCore
from gateway.tls.certificates import CertificateError, identify
from gateway.tls.context import Tls
from gateway.tls.layer import TlsLayer


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


@mypyc_attr(native_class=False)
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
        return _tls_layer(connection, carried, current)

    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(accepted, listener.host, listener.port, reuse_address=True)
    except OSError as error:
        raise ListenError(listener, error) from error


def _tls_layer(connection: Connection, carried: asyncio.Protocol, tls: Tls) -> TlsLayer:
    """TLS under a connection, or under its websocket."""

    def accepted(transport: asyncio.Transport) -> bool:
        connection.connection_made(transport)  # counted, and may be over a limit
        return not connection.is_closing

    def secured(der: bytes | None) -> bool:
        try:
            connection.certificate = None if der is None else identify(der)
        except CertificateError as error:
            failed(error)
            return False
        return True

    def failed(error: Exception) -> None:
        connection.core.refused("TLS handshake failed", f"{connection.address}: {_why(error)}")

    return TlsLayer(carried, tls.context, accepted=accepted, secured=secured, failed=failed)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # OpenSSL's, in capitals and underscores
    return reason.lower().replace("_", " ") if reason else str(error) or type(error).__name__

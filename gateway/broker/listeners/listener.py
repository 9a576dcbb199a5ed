"""One listener of the broker, and what stands between a socket and a `Connection`.

Plain TCP is the connection's own transport; TLS and websockets come between. Each connection
counts, and its time to be accepted runs, from the first byte on: a client that draws out a
handshake is limited as one that says nothing is. Behind a proxy that is so from its header on.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mypy_extensions import mypyc_attr

from gateway.base import event_loop
from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.inbound.connection import Connection, Service
from gateway.broker.listeners.websocket_rules import WebSocketRules
from gateway.broker.proxy_protocol.layer import ProxiedConnection, Proxies, ProxyNetwork
from gateway.trust.tls.certificates import CertificateError, identify
from gateway.trust.tls.context import Tls
from gateway.trust.tls.layer import TlsLayer
from light_dataclasses import dataclass

FREE_PORT_TRIES: Final = 20
"""For one that is free at all of several addresses."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One port that is listened on.

    Attributes:
        scheme: ``mqtt``, ``mqtts``, ``ws`` or ``wss``.
        hosts: addresses to listen on.
        port: TCP port, 0 for one that is free at all of them.
        proxies: addresses whose connections begin with a header of the PROXY protocol.

    """

    scheme: str
    hosts: tuple[str, ...]
    port: int
    proxies: tuple[ProxyNetwork, ...] = ()

    def at(self, host: str) -> str:
        """One of its addresses, with the port."""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def is_secure(self) -> bool:
        """Return whether it speaks TLS."""
        return self.scheme in ("mqtts", "wss")

    @property
    def is_websocket(self) -> bool:
        """Return whether MQTT comes in websockets."""
        return self.scheme in ("ws", "wss")


@mypyc_attr(native_class=False)
class ListenError(OSError):
    """An address can't be listened on.

    Args:
        listener: which.
        host: the address.
        error: why not.

    """

    def __init__(self, listener: Listener, host: str, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.listener = listener
        self.address = listener.at(host)


class NoCertificateError(ValueError):
    """A listener is secure and there is no certificate for it.

    Args:
        listener: which.

    """

    def __init__(self, listener: Listener) -> None:
        super().__init__(f"{listener.scheme} on port {listener.port}: no certificate")
        self.listener = listener


class Listeners:
    """All that a broker listens on.

    Args:
        service: serves the connections.
        tls: what holds for new connections of those that are secure; None if none is.
        rules: which websockets are granted.

    """

    def __init__(self, service: Service, tls: Tls | None, rules: WebSocketRules) -> None:
        self._service = service
        self._tls = tls
        self._rules = rules
        self._servers: dict[str, list[asyncio.Server]] = {}

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by scheme."""
        return {scheme: _port_of(servers[0]) for scheme, servers in self._servers.items()}

    def follow(self, tls: Tls | None) -> None:
        """Go by other certificates from the next connection on."""
        self._tls = tls

    async def open(self, listener: Listener) -> None:
        """Listen on a port.

        Args:
            listener: where, and for what; the only one of its scheme.

        Raises:
            NoCertificateError: it is secure, and nothing holds for it.
            ListenError: the address is in use or not this machine's.

        """

        carry = self._in_websocket() if listener.is_websocket else None

        def accepted() -> asyncio.Protocol:
            service = self._service
            connection = Connection(service, takes_links=carry is None)
            carried: asyncio.Protocol = connection if carry is None else carry(connection)
            if not listener.is_secure:
                return carried
            tls = self._certificates(listener)
            return _tls_layer(connection, carried, tls, service.output.refusals)

        loop = asyncio.get_running_loop()
        proxies = Proxies(listener.proxies, self._service.output.refusals, loop)

        def proxied() -> asyncio.Protocol:
            return ProxiedConnection(proxies, accepted)

        if listener.is_secure:
            self._certificates(listener)
        made = proxied if listener.proxies else accepted
        is_chosen_here = listener.port == 0 and len(listener.hosts) > 1
        for left in reversed(range(FREE_PORT_TRIES if is_chosen_here else 1)):
            try:
                self._servers[listener.scheme] = await _open(listener, made)
                return
            except ListenError as error:
                if not left or error.errno != errno.EADDRINUSE:
                    raise

    def _in_websocket(self) -> Callable[[Connection], asyncio.Protocol]:
        """Return what carries a connection in a websocket."""
        from gateway.broker.listeners.websocket import (  # noqa: PLC0415  # only where it is listened
            WebSocket,
        )

        limits, refusals = self._service.limits, self._service.output.refusals
        return lambda connection: WebSocket(connection, self._rules, limits, refusals)

    def _certificates(self, listener: Listener) -> Tls:
        if self._tls is None:
            raise NoCertificateError(listener)
        return self._tls

    def close(self) -> None:
        """Listen no more; connections stay.

        It is not waited for: since Python 3.12 that would wait for links too, which end later.
        """
        for servers in self._servers.values():
            _close(servers)
        self._servers.clear()


async def _open(
    listener: Listener, accepted: Callable[[], asyncio.Protocol]
) -> list[asyncio.Server]:
    """Listen on all addresses of a listener, or on none."""
    servers: list[asyncio.Server] = []
    for host in listener.hosts:
        port = _port_of(servers[0]) if servers else listener.port
        try:
            servers.append(await event_loop.listen(accepted, host, port))
        except OSError as error:
            _close(servers)
            raise ListenError(listener, host, error) from error
    return servers


def _close(servers: Iterable[asyncio.Server]) -> None:
    for server in servers:
        server.close()


def _port_of(server: Any) -> int:
    """A server's port. Its sockets are a tuple, says asyncio; uvloop's are in a list."""
    found: Sequence[socket.socket] = server.sockets
    return int(found[0].getsockname()[1])


def _tls_layer(
    connection: Connection, carried: asyncio.Protocol, tls: Tls, refusals: CountedLines
) -> TlsLayer:
    """TLS under a connection, or under its websocket."""
    peer = connection.peer

    def accepted(transport: asyncio.Transport) -> bool:
        connection.connection_made(transport)  # counted, and may be over a limit
        return not peer.channel.is_closing

    def secured(der: bytes | None) -> bool:
        try:
            peer.proved(None if der is None else identify(der))
        except CertificateError as error:
            failed(error)
            return False
        return True

    def failed(error: Exception) -> None:
        refusals.count("TLS handshake failed", f"{peer.channel.address}: {_why(error)}")

    return TlsLayer(carried, tls.context, accepted=accepted, secured=secured, failed=failed)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # OpenSSL's, in capitals and underscores
    return reason.lower().replace("_", " ") if reason else str(error) or type(error).__name__

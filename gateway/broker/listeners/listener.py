"""One listener of the broker, and what stands between a socket and a `Connection`.

Plain TCP is the connection's own transport; TLS and websockets come between. Each connection
counts, and its time to be accepted runs, from the first byte on: a client that draws out a
handshake is limited as one that says nothing is. Behind a proxy that is so from its header on.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from gateway.base import event_loop
from gateway.broker.inbound.connection import Connection, Service
from gateway.broker.listeners.websocket_rules import WebSocketRules
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.broker.proxy_protocol.layer import ProxyNetwork
    from gateway.trust.tls.context import Tls

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
        """Return one of its addresses, with the port."""
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
        secure = self._in_tls(listener) if listener.is_secure else None

        def accepted() -> asyncio.Protocol:
            connection = Connection(self._service, takes_links=carry is None)
            carried: asyncio.Protocol = connection if carry is None else carry(connection)
            return carried if secure is None else secure(connection, carried)

        made = self._behind_proxies(listener, accepted) if listener.proxies else accepted
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

    def _in_tls(
        self, listener: Listener
    ) -> Callable[[Connection, asyncio.Protocol], asyncio.Protocol]:
        """Return what puts TLS below a connection, or below its websocket."""
        from gateway.broker.listeners.tls_below import (  # noqa: PLC0415  # only where it is listened
            tls_below,
        )

        self._certificates(listener)  # they may be others by the first connection, but are there
        refusals = self._service.output.refusals
        return lambda connection, carried: tls_below(
            connection, carried, self._certificates(listener).context, refusals
        )

    def _behind_proxies(
        self, listener: Listener, accepted: Callable[[], asyncio.Protocol]
    ) -> Callable[[], asyncio.Protocol]:
        """Return what reads a proxy's header before a connection is accepted."""
        from gateway.broker.proxy_protocol.layer import (  # noqa: PLC0415  # only where there are any
            ProxiedConnection,
            Proxies,
        )

        loop = asyncio.get_running_loop()
        proxies = Proxies(listener.proxies, self._service.output.refusals, loop)
        return lambda: ProxiedConnection(proxies, accepted)

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
    """Return a server's port. Its sockets are a tuple, says asyncio; uvloop's are in a list."""
    found: Sequence[socket.socket] = server.sockets
    return int(found[0].getsockname()[1])

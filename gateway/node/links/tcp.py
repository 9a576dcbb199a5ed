"""Links over TCP, inside TLS or without: how one is dialled, and what comes to a listener."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.node.links.transport import FarEnd
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.mqtt import Connect
    from gateway.node.links.link_tls import LinkTls
    from gateway.node.links.node import TreeNode
    from gateway.trust.tls.peer_certificate import PeerCertificate

USER_TIMEOUT_MS: Final = 5_000
"""TCP gives up on unacknowledged data after this long."""


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """The host and port at which a neighbour takes links: an `Address`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> TcpAddress:
        """Read ``host:port``."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    async def connect(self, link: asyncio.Protocol, tls: LinkTls | None) -> FarEnd:
        """Connect to it; without ``tls`` over plain TCP.

        Raises:
            OSError, HandshakeError: see `Address`.

        """
        loop = asyncio.get_running_loop()
        context = None if tls is None else tls.context
        transport, _ = await loop.create_connection(lambda: link, self.host, self.port, ssl=context)
        try:
            return _far_end(transport, tls)
        except BaseException:
            transport.close()
            raise


class TcpLinks:
    """Hands neighbours that came to the port of the clients over to a node.

    Args:
        node: serves them.

    """

    def __init__(self, node: TreeNode) -> None:
        self._node = node

    def why_no_link(
        self, connect: Connect, certificate: PeerCertificate | None, address: str
    ) -> str:
        """Return why a gateway may not open a link: `LinkAdmission.why_no_link`."""
        return self._node.admission.why_no_link(connect, certificate, address)

    async def accept(self, transport: asyncio.Transport, first: bytes) -> None:
        """Serve a neighbour that dialled, until its link ends.

        Args:
            transport: the connection, of which nothing is read for now.
            first: what was read of it.

        """
        try:
            far_end = _far_end(transport)
        except OSError:  # it has gone in between, which is nobody's failure
            transport.abort()
            return
        await self._node.accept(transport, first, far_end)


def _far_end(transport: asyncio.Transport, dialled_with: LinkTls | None = None) -> FarEnd:
    """Make a connection ready for a link, and return who is there.

    Raises:
        OSError: the connection is closed already.
        HandshakeError: what was dialled has no gateway's certificate.

    """
    _tune(transport.get_extra_info("socket"))
    host, port, *_ = transport.get_extra_info("peername") or ("?", 0)
    shown_id = None
    if dialled_with is not None:
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        shown_id = dialled_with.dialled(certificate or b"")
    address = f"{host}:{port}" if port else host
    return FarEnd(address, host, shown_id, partial(TcpAddress, host))


def _tune(sock: socket.socket | None) -> None:
    if sock is None:
        return
    tcp = socket.IPPROTO_TCP
    sock.setsockopt(tcp, socket.TCP_NODELAY, 1)
    sock.setsockopt(tcp, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)

"""Plain CoAP over UDP for aiocoap, the server's side (RFC 7252)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import Any

from aiocoap import interfaces
from aiocoap.numbers.constants import COAP_PORT, MAX_REGULAR_BLOCK_SIZE_EXP

from dtls.datagrams import DatagramSockets, PeerAddress, join_host_port
from dtls.identity import ANONYMOUS
from dtls.transport import decode_message

_log = logging.getLogger(__name__)


class UdpAddress(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """A peer that nobody vouches for.

    Attributes:
        identity: always `ANONYMOUS`.
        peer: where it is.

    """

    scheme = "coap"
    is_multicast = False
    is_multicast_locally = False
    maximum_block_size_exp = MAX_REGULAR_BLOCK_SIZE_EXP  # aiocoap sets it on instances
    identity = ANONYMOUS

    def __init__(self, peer: PeerAddress, sockets: DatagramSockets) -> None:
        self.peer = peer
        self._sockets = sockets

    @property
    def hostinfo(self) -> str:
        """The peer as the authority of a URI."""
        return join_host_port(self.peer.sockaddr[0], self.peer.sockaddr[1], COAP_PORT)

    @property
    def hostinfo_local(self) -> str:
        """Ourselves, as the peer sees us, as the authority of a URI."""
        return join_host_port(self._sockets.local_host(self.peer), self._sockets.port, COAP_PORT)

    @property
    def uri_base(self) -> str:
        """The peer as the base of a URI."""
        return f"{self.scheme}://{self.hostinfo}"

    @property
    def uri_base_local(self) -> str:
        """Ourselves, as the peer sees us, as the base of a URI."""
        return f"{self.scheme}://{self.hostinfo_local}"

    @property
    def blockwise_key(self) -> PeerAddress:
        """Blocks from one address belong together."""
        return self.peer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UdpAddress) and self.peer == other.peer

    def __hash__(self) -> int:
        return hash(self.peer)

    def __repr__(self) -> str:
        return f"<{self.uri_base}>"


class UdpTransport(interfaces.MessageInterface):  # type: ignore[misc]  # aiocoap is untyped
    """aiocoap's message interface for a plain UDP port.

    Args:
        socks: bound, from `dtls.datagrams.listen`.
        message_manager: aiocoap's, takes the messages.

    """

    def __init__(self, socks: Sequence[socket.socket], message_manager: Any) -> None:
        self._messages: Any = message_manager
        self._sockets = DatagramSockets(socks, self._on_datagrams, self._on_error)
        self._closed = False
        self.port = self._sockets.port

    def send(self, message: Any) -> None:
        """Send a message of aiocoap's."""
        if not self._closed:
            self._sockets.send(message.encode(), message.remote.peer)

    async def recognize_remote(self, remote: object) -> bool:
        """Whether an address is of this kind."""
        return isinstance(remote, UdpAddress)

    async def determine_remote(self, _message: object) -> None:
        """A server's port sends no requests."""
        return

    async def shutdown(self) -> None:
        """Close the socket."""
        self._closed = True
        self._sockets.close()

    def _on_datagrams(self, batch: list[tuple[bytes, PeerAddress]]) -> None:
        for datagram, peer in batch:
            message = decode_message(datagram, UdpAddress(peer, self._sockets))
            if message is None:
                _log.debug("no CoAP message from %s: %d bytes", peer.sockaddr, len(datagram))
            else:
                self._messages.dispatch_message(message)

    def _on_error(self, failure: OSError) -> None:
        _log.debug("datagram not delivered: %s", failure)

"""A UDP port with plain CoAP (RFC 7252)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence

from coap_engine.message import CoapPeer
from dtls.datagrams import TURN_S, Batch, PeerAddress, read_all
from gateway.coap.peers import udp_peer

_log = logging.getLogger(__name__)


class UdpPort:
    """The sockets of one port.

    Args:
        socks: bound, from `dtls.datagrams.listen`.
        receive: takes a datagram, who sent it and when; must not raise.
        turn_ended: called with the time when the first datagram of a wake-up is taken, and when
            all are.

    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        receive: Callable[[bytes, CoapPeer, float], None],
        turn_ended: Callable[[float], None],
    ) -> None:
        self._receive = receive
        self._turn_ended = turn_ended
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._sockets = read_all(socks, self._on_datagrams, self._on_error)
        self.port = self._sockets[0].port

    def send(self, datagram: bytes, to: PeerAddress) -> None:
        """Send a datagram by the socket that its receiver's address names; none once closed."""
        if not self._closed:
            self._sockets[to.socket_number].send(datagram, to)

    def local_host(self, peer: PeerAddress) -> str:
        """Return the address of ours that a peer talks to."""
        return self._sockets[peer.socket_number].local_host(peer)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Let sockets of groups be bound to this port, inside; no other process can meanwhile.

        A program that binds it at the same moment would have to want to share it, as well.
        """
        try:
            for one in self._sockets:
                one.share(True)
            yield
        finally:
            for one in self._sockets:
                one.share(False)

    def close(self) -> None:
        """Close the sockets; what is sent afterwards is dropped."""
        self._closed = True
        for one in self._sockets:
            one.close()

    def _on_datagrams(self, batch: Batch) -> None:
        now = self._loop.time()
        receive = self._receive
        count, until = 0, 0.0
        for datagram, address in batch:
            receive(datagram, udp_peer(address), now)
            count += 1
            if count == 1:
                # The one who asks alone is answered before it is looked whether others do.
                self._turn_ended(now)
                until = time.monotonic() + TURN_S  # uvloop's own clock stands still in a turn
            elif time.monotonic() >= until:
                break
        if count > 1:
            self._turn_ended(now)

    def _on_error(self, failure: OSError) -> None:
        _log.debug("datagram not delivered: %s", failure)

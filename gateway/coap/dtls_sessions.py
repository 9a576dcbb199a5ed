"""Peers of a CoAP server over DTLS: their sessions, and what they show of themselves.

It is imported where there is a key or a certificate to show: it brings OpenSSL's DTLS.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coap_engine.message import CoapPeer
from dtls.datagrams import PeerAddress
from dtls.endpoint_limits import EndpointLimits
from dtls.identity import PeerIdentity
from dtls.keystore import Keystore
from dtls.transport import DtlsPort
from gateway.coap.credentials import DtlsCredentials
from gateway.coap.handshake_log import HandshakeLog
from gateway.coap.peers import SessionAddress, session_peer, shown_by
from gateway.coap.requester import Requester
from gateway.coap.shell import EngineShell

if TYPE_CHECKING:
    from gateway.trust.tls.context import Tls


class DtlsSessions:
    """The peers over DTLS: tells the engine of them, and gives their sessions what it says.

    Args:
        socks: bound.
        keystore: keys of the peers that may connect.
        tls: what is presented, and whose certificates are taken; None for keys alone.
        limits: how much they may take.
        shell: takes what they say.

    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        keystore: Keystore,
        tls: Tls | None,
        limits: EndpointLimits,
        shell: EngineShell,
    ) -> None:
        self._shell = shell
        credentials = self._credentials = DtlsCredentials(keystore, tls)
        self._log = HandshakeLog(asyncio.get_running_loop())
        self._peers: dict[int, CoapPeer] = {}
        self._requesters: dict[int, Requester] = {}
        self._is_encrypted = False
        """Datagrams of DTLS wait for `flush`."""
        self.port = DtlsPort(socks, credentials.context(), self, limits)

    def renew(self, keystore: Keystore, tls: Tls | None) -> None:
        """Go by others: whose key or certificate is no longer accepted is disconnected."""
        credentials = DtlsCredentials(keystore, tls)
        before, self._credentials = self._credentials, credentials
        if not credentials.are(before):
            self.port.follow(credentials.context())
        for session_id, peer in list(self._peers.items()):
            identity = shown_by(peer)
            if not credentials.still_accept(identity, before):
                what = "certificate" if identity.der else "key"
                self.port.end(session_id, f"its {what} is no longer accepted")

    def send(self, datagram: bytes, to: SessionAddress) -> None:
        """Encrypt a datagram, to go out with `flush`."""
        self.port.send(to.session_id, datagram)
        self._is_encrypted = True

    def flush(self) -> None:
        """Send what is encrypted."""
        if self._is_encrypted:
            self._is_encrypted = False
            self.port.flush()

    def close(self) -> None:
        """End all sessions."""
        self.port.close()
        self._log.close()

    def requester(self, session_id: int) -> Requester:
        """Return a peer as resources see it.

        Raises:
            LookupError: its session is gone.

        """
        requester = self._requesters.get(session_id)
        if requester is None:  # made for who asks: many only shake hands
            peer = self._peers[session_id]
            assert isinstance(peer.address, SessionAddress)
            address = peer.address.address
            local = (self.port.local_host(address), self.port.port)
            key = (session_id, address)
            requester = Requester("coaps", peer.address.identity, address, local, key)
            self._requesters[session_id] = requester
        return requester

    def session_established(
        self, session_id: int, address: PeerAddress, identity: PeerIdentity
    ) -> None:
        """Note the peer of a new session, and write a line of it to the log."""
        self._peers[session_id] = session_peer(session_id, address, identity)
        self._log.established(address, identity)

    def handshake_failed(self, address: PeerAddress, reason: str, now: float) -> None:
        """Write to the log that a peer has not shown who it is."""
        self._log.failed(address, reason)

    def session_received(self, session_id: int, plaintext: bytes, now: float) -> None:
        """Hand a datagram to the engine, as its peer's."""
        self._shell.receive(plaintext, self._peers[session_id], now)

    def session_moved(self, session_id: int, address: PeerAddress) -> None:
        """Note the peer's new address; requests to it are sent there from now on."""
        self._requesters.pop(session_id, None)
        self._peers[session_id] = session_peer(
            session_id, address, shown_by(self._peers[session_id])
        )

    def session_closed(self, session_id: int, reason: str, now: float) -> None:
        """Forget a session: its requests, its observations, and its peer."""
        self._requesters.pop(session_id, None)
        peer = self._peers.pop(session_id)
        self._shell.forget(peer, now)
        if isinstance(peer.address, SessionAddress):
            self._log.ended(peer.address.address, peer.address.identity, reason)

    def turn_ended(self, now: float) -> None:
        """Have the engine send what the datagrams of this turn came to."""
        self._shell.turn_ended(now)

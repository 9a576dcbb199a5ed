"""The server's UDP port with DTLS: an `Endpoint`, its sockets and its timer.

What goes through the sessions is not known here: a `SessionUser` takes plaintext and gives it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Sequence
from typing import Protocol

from dtls.context import ServerContext
from dtls.core_timer import CoreTimer
from dtls.datagrams import TURN_S, Batch, PeerAddress, host_of, read_all
from dtls.endpoint import Endpoint
from dtls.endpoint_limits import DEFAULT_LIMITS, EndpointCounters, EndpointLimits
from dtls.errors import MessageTooLargeError, SessionClosedError
from dtls.events import Closed, Established, Failed, Moved, Received
from dtls.identity import PeerIdentity

_log = logging.getLogger(__name__)


class SessionUser(Protocol):
    """The layer above the sessions, which is told of them. None of its methods may raise."""

    def session_established(
        self, session_id: int, address: PeerAddress, identity: PeerIdentity
    ) -> None:
        """A peer has shown who it is."""

    def handshake_failed(self, address: PeerAddress, reason: str, now: float) -> None:
        """A peer that receives where it says to be has not shown who it is."""

    def session_received(self, session_id: int, plaintext: bytes, now: float) -> None:
        """A datagram's plaintext came from an established session."""

    def session_moved(self, session_id: int, address: PeerAddress) -> None:
        """An established session goes on from another port of its host."""

    def session_closed(self, session_id: int, reason: str, now: float) -> None:
        """An established session is gone."""

    def turn_ended(self, now: float) -> None:
        """The datagrams of this wake-up are taken: say now what there is to say."""


class DtlsPort:
    """All sessions at the sockets of one port.

    Args:
        socks: bound, from `dtls.datagrams.listen`.
        context: the keys.
        user: talks through the sessions.
        limits: how much peers may take.

    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        context: ServerContext,
        user: SessionUser,
        limits: EndpointLimits = DEFAULT_LIMITS,
    ) -> None:
        self._endpoint = Endpoint(context, secrets.token_bytes, limits, host_of)
        self._user = user
        self._loop = asyncio.get_running_loop()
        self._timer = CoreTimer(self._on_timer)
        self._closed = False
        self._sockets = read_all(socks, self._on_datagrams, self._on_error)
        self.port = self._sockets[0].port

    @property
    def counters(self) -> EndpointCounters:
        """Return the counts since the start."""
        return self._endpoint.counters

    @property
    def half_open(self) -> int:
        """Handshakes under way."""
        return self._endpoint.half_open

    @property
    def sessions(self) -> int:
        """Peers whose handshake is complete."""
        return self._endpoint.established

    def local_host(self, address: PeerAddress) -> str:
        """Return the address of ours that a peer talks to."""
        return self._sockets[address.socket_number].local_host(address)

    def send(self, session_id: int, plaintext: bytes) -> None:
        """Encrypt a message, to go out with `flush`; one for a session that is gone is dropped."""
        if self._closed:
            return
        try:
            self._endpoint.send(session_id, plaintext)
        except SessionClosedError:
            _log.debug("message for session %d, which is gone", session_id)
        except MessageTooLargeError as too_large:
            _log.warning("message to session %d: %s", session_id, too_large)

    def follow(self, context: ServerContext) -> None:
        """Go by other keys from now on; sessions stay until `end`."""
        now = self._loop.time()
        self._endpoint.follow(context)
        self._hand_over(now)
        self._end_turn(now)

    def end(self, session_id: int, reason: str) -> None:
        """End a session; its user hears of it."""
        now = self._loop.time()
        self._endpoint.end(session_id, reason)
        self._hand_over(now)
        self._end_turn(now)

    def flush(self) -> None:
        """Send what is encrypted."""
        for datagram, address in self._endpoint.datagrams_to_send():
            assert isinstance(address, PeerAddress)
            self._sockets[address.socket_number].send(datagram, address)
        if not self._closed:
            self._timer.set(self._endpoint.next_timer())

    def close(self) -> None:
        """Tell all peers and close the sockets; the user hears of no end."""
        self._endpoint.close()
        self._closed = True
        self.flush()
        self._timer.cancel()
        for one in self._sockets:
            one.close()

    def _on_datagrams(self, batch: Batch) -> None:
        now = self._loop.time()
        until = time.monotonic() + TURN_S  # uvloop's own clock stands still in a turn
        for datagram, address in batch:
            self._endpoint.receive_datagram(datagram, address, now)
            self._hand_over(now)
            if time.monotonic() >= until:
                break
        self._end_turn(now)

    def _on_timer(self) -> None:
        now = self._loop.time()
        self._endpoint.handle_timer(now)
        self._hand_over(now)
        self._end_turn(now)

    def _on_error(self, failure: OSError) -> None:
        _log.debug("datagram not delivered: %s", failure)

    def _hand_over(self, now: float) -> None:
        for event in self._endpoint.events():
            match event:
                case Received(session_id, plaintext):
                    self._user.session_received(session_id, plaintext, now)
                case Established(session_id, PeerAddress() as address, identity):
                    self._user.session_established(session_id, address, identity)
                case Failed(PeerAddress() as address, reason):
                    self._user.handshake_failed(address, reason, now)
                case Moved(session_id, PeerAddress() as address):
                    self._user.session_moved(session_id, address)
                case Closed(session_id, reason):
                    self._user.session_closed(session_id, reason, now)

    def _end_turn(self, now: float) -> None:
        self._user.turn_ended(now)
        self.flush()

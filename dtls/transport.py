"""CoAP over DTLS for aiocoap, the server's side (RFC 7252, section 9.1).

`DtlsTransport` is aiocoap's message interface over an `Endpoint` and a socket. It does not hold
a message back: what a peer may do is decided by who serves it, by `DtlsAddress.identity`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from aiocoap import error, interfaces
from aiocoap.message import Message
from aiocoap.numbers.constants import COAPS_PORT, MAX_REGULAR_BLOCK_SIZE_EXP

from dtls.context import ServerContext
from dtls.datagrams import DatagramSockets, PeerAddress, join_host_port
from dtls.endpoint import (
    DEFAULT_LIMITS,
    Closed,
    Endpoint,
    EndpointCounters,
    EndpointLimits,
    Established,
    Event,
    Received,
)
from dtls.errors import MessageTooLargeError, SessionClosedError
from dtls.identity import PeerIdentity

_log = logging.getLogger(__name__)


class DtlsAddress(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """A peer as aiocoap and resources see it: one object for one session.

    Two sessions are never equal, whatever their address: what belongs to one must not be
    answered in another (RFC 7252, section 9.1.2).

    Attributes:
        identity: who the peer is.
        session_id: the endpoint's number of the session.

    """

    scheme = "coaps"
    is_multicast = False
    is_multicast_locally = False
    hostinfo = hostinfo_local = ""  # set for each instance; aiocoap declares them abstract
    maximum_block_size_exp = MAX_REGULAR_BLOCK_SIZE_EXP  # aiocoap sets it on instances

    def __init__(self, session_id: int, identity: PeerIdentity, peer: str, local: str) -> None:
        self.session_id = session_id
        self.identity = identity
        self.hostinfo = peer
        self.hostinfo_local = local

    @property
    def uri_base(self) -> str:
        """The peer as the base of a URI."""
        return f"{self.scheme}://{self.hostinfo}"

    @property
    def uri_base_local(self) -> str:
        """Ourselves, as the peer sees us, as the base of a URI."""
        return f"{self.scheme}://{self.hostinfo_local}"

    @property
    def authenticated_claims(self) -> tuple[str, ...]:
        """What aiocoap's own authorisation looks at."""
        return (str(self.identity),) if self.identity.may_write else ()

    @property
    def blockwise_key(self) -> tuple[int, PeerIdentity]:
        """Blocks of one session belong together, others do not."""
        return (self.session_id, self.identity)

    def __repr__(self) -> str:
        return f"<{self.identity} at {self.uri_base}>"


class DtlsTransport(interfaces.MessageInterface):  # type: ignore[misc]  # aiocoap is untyped
    """aiocoap's message interface for the server.

    Args:
        socks: bound, from `dtls.datagrams.listen`.
        context: the keys.
        message_manager: aiocoap's, takes the messages.
        limits: how much peers may take.

    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        context: ServerContext,
        message_manager: Any,
        limits: EndpointLimits = DEFAULT_LIMITS,
    ) -> None:
        self._endpoint = Endpoint(context, secrets.token_bytes, limits)
        self._messages: Any = message_manager
        self._peers: dict[int, DtlsAddress] = {}
        self._events: deque[Event] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._sockets = DatagramSockets(socks, self._on_datagrams, self._on_error)
        self.port = self._sockets.port

    @property
    def counters(self) -> EndpointCounters:
        """What happened since the start."""
        return self._endpoint.counters

    @property
    def sessions(self) -> int:
        """Peers whose handshake is complete."""
        return self._endpoint.established

    def send(self, message: Any) -> None:
        """Send a message of aiocoap's; one for a session that is gone is dropped."""
        if self._closed:
            return
        try:
            self._endpoint.send(message.remote.session_id, message.encode())
        except SessionClosedError:
            _log.debug("message for a session that is gone: %r", message.remote)
        except MessageTooLargeError as too_large:
            _log.warning("message to %r: %s", message.remote, too_large)
        self._flush()

    async def recognize_remote(self, remote: object) -> bool:
        """Whether an address is one of ours and alive."""
        return isinstance(remote, DtlsAddress) and self._peers.get(remote.session_id) is remote

    async def determine_remote(self, _message: object) -> None:
        """A server opens no sessions."""
        return

    async def shutdown(self) -> None:
        """Tell all peers and close the socket."""
        self._endpoint.close()
        self._flush()
        self._closed = True
        self._peers.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._sockets.close()

    def _on_datagrams(self, batch: list[tuple[bytes, PeerAddress]]) -> None:
        now = self._loop.time()
        for datagram, peer in batch:
            self._endpoint.receive_datagram(datagram, peer, now)
        self._pump()

    def _on_timer(self) -> None:
        self._endpoint.handle_timer(self._loop.time())
        self._pump()

    def _on_error(self, failure: OSError) -> None:
        _log.debug("datagram not delivered: %s", failure)

    def _pump(self) -> None:
        self._events.extend(self._endpoint.events())
        try:
            while self._events:
                self._handle(self._events.popleft())
        finally:  # a message that breaks its reader must not stop the others
            self._flush()
            if self._timer is not None:
                self._timer.cancel()
            due = self._endpoint.next_timer()
            if self._events:
                due = self._loop.time()
            self._timer = None if due is None else self._loop.call_at(due, self._on_timer)

    def _handle(self, event: Event) -> None:
        match event:
            case Established(session_id, PeerAddress() as address, identity):
                peer = join_host_port(address.sockaddr[0], address.sockaddr[1], COAPS_PORT)
                local = join_host_port(self._sockets.local_host(address), self.port, COAPS_PORT)
                self._peers[session_id] = DtlsAddress(session_id, identity, peer, local)
                _log.info("session with %s at %s", identity, peer)
            case Received(session_id, plaintext):
                if (remote := self._peers.get(session_id)) is not None:
                    self._dispatch(plaintext, remote)
            case Closed(session_id, reason):
                remote = self._peers.pop(session_id, None)
                if remote is not None:
                    # Not now: the task of a request that came just before must begin first.
                    self._loop.call_soon(self._ended, remote, reason)

    def _ended(self, remote: DtlsAddress, reason: str) -> None:
        """End what aiocoap still does for a peer that is gone, its observations above all."""
        if not self._closed:
            _log.info("session with %s ended: %s", remote.identity, reason)
            self._messages.dispatch_error(error.RemoteServerShutdown(reason), remote)

    def _dispatch(self, plaintext: bytes, remote: DtlsAddress) -> None:
        message = decode_message(plaintext, remote)
        if message is None:
            _log.info("no CoAP message from %r: %d bytes", remote, len(plaintext))
        else:
            self._messages.dispatch_message(message)

    def _flush(self) -> None:
        for datagram, address in self._endpoint.datagrams_to_send():
            assert isinstance(address, PeerAddress)
            self._sockets.send(datagram, address)


def decode_message(data: bytes, remote: object) -> Any | None:
    """An aiocoap message from its bytes, None if they are none (RFC 7252, section 3)."""
    try:
        return Message.decode(data, remote=remote)
    except (error.UnparsableMessage, ValueError):  # ValueError: an option that is no UTF-8
        return None

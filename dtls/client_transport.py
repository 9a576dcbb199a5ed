"""CoAP over DTLS for aiocoap, the client's side (RFC 7252, section 9.1)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any

from aiocoap import error, interfaces
from aiocoap.message import Message
from aiocoap.numbers.constants import COAPS_PORT, MAX_REGULAR_BLOCK_SIZE_EXP

from dtls.context import ClientContext
from dtls.datagrams import Batch, DatagramSocket, PeerAddress, join_host_port
from dtls.errors import DtlsError, HandshakeFailedError, HandshakeTimeoutError
from dtls.session import DtlsSession, SessionState

_log = logging.getLogger(__name__)


class ServerAddress(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """A server that we have a session with, as aiocoap sees it: one object for one session.

    Two sessions are never equal, whatever their address: what belongs to one must not be
    answered in another (RFC 7252, section 9.1.2).
    """

    scheme = "coaps"
    is_multicast = False
    is_multicast_locally = False
    hostinfo = hostinfo_local = ""  # set for each instance; aiocoap declares them abstract
    maximum_block_size_exp = MAX_REGULAR_BLOCK_SIZE_EXP  # aiocoap sets it on instances

    def __init__(self, number: int, association: Association, peer: str, local: str) -> None:
        self.association = association
        self._number = number
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
    def blockwise_key(self) -> int:
        """Blocks of one session belong together, others do not."""
        return self._number

    def __repr__(self) -> str:
        return f"<{self.uri_base}>"


class Association:
    """One session and its socket.

    Args:
        context: identity and key.
        sock: connected to the server, not blocking.

    Attributes:
        session: the session.
        answered: whether the server sent anything at all.
        heard: messages that came in the session.
        is_lost: the server knows nothing of the session any more, as far as can be told.

    """

    def __init__(self, context: ClientContext, sock: socket.socket) -> None:
        self.session = DtlsSession(context)
        self.answered = False
        self.heard = 0
        self.is_lost = False
        self.remote: ServerAddress | None = None
        self.messages: Any = None
        self._peer = PeerAddress(sock.getpeername())
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._socket = DatagramSocket(sock, self._on_datagrams, self._on_error)

    async def handshake(self, timeout_s: float, deadline: float) -> None:
        """Wait for the session.

        Args:
            timeout_s: how long somebody waits for it in all, for the error.
            deadline: until when, by the loop's clock.

        Raises:
            HandshakeFailedError: the server refused.
            HandshakeTimeoutError: it did not complete the handshake in time.
            OSError: the network says that nobody is there.

        """
        self.session.start(self._loop.time())
        self._pump()
        try:
            async with asyncio.timeout_at(deadline):
                await self._done
        except TimeoutError:
            raise HandshakeTimeoutError(timeout_s, answered=self.answered) from None

    @property
    def is_usable(self) -> bool:
        """Return whether a request may be sent in the session."""
        return self.session.state is SessionState.ESTABLISHED and not self.is_lost

    def hosts(self) -> tuple[str, str]:
        """Peer and local authority of a URI."""
        peer, local = self._peer.sockaddr, self._socket.sockaddr
        return (
            join_host_port(peer[0], peer[1], COAPS_PORT),
            join_host_port(local[0], local[1], COAPS_PORT),
        )

    def send(self, plaintext: bytes) -> None:
        """Encrypt and send; errors as `DtlsSession.send`."""
        self.session.send(plaintext)
        self._pump()

    def close(self) -> None:
        """Tell the server and close the socket."""
        self.session.close("closed by us")
        self._pump()  # a session that is closed has no timer
        self._socket.close()

    def _on_datagrams(self, batch: Batch) -> None:
        for datagram, _ in batch:
            self.answered = True
            self.session.receive_datagram(datagram, self._loop.time())
        self._pump()

    def _on_timer(self) -> None:
        self.session.handle_timer(self._loop.time())
        self._pump()

    def _on_error(self, failure: OSError) -> None:
        if not self._done.done():
            self._done.set_exception(failure)
            return
        self.is_lost = True  # who listens there later may have started anew
        if self.remote is not None:
            self.messages.dispatch_error(failure, self.remote)

    def _pump(self) -> None:
        session = self.session
        for datagram in session.datagrams_to_send():
            self._socket.send(datagram, self._peer)
        if not self._done.done():
            if session.was_established:
                self._done.set_result(None)
            elif session.state is SessionState.CLOSED:
                self._done.set_exception(HandshakeFailedError(session.reason))
        for plaintext in session.received():
            self.heard += 1
            message = decode_message(plaintext, self.remote)
            if message is not None and self.remote is not None:
                self.messages.dispatch_message(message)
        if session.state is SessionState.CLOSED and self.remote is not None:
            remote, self.remote = self.remote, None
            self.messages.dispatch_error(error.RemoteServerShutdown(session.reason), remote)
        if self._timer is not None:
            self._timer.cancel()
        due = session.next_timer()
        self._timer = None if due is None else self._loop.call_at(due, self._on_timer)


class DtlsClientTransport(interfaces.MessageInterface):  # type: ignore[misc]  # aiocoap is untyped
    """aiocoap's message interface for a client: one session for each server.

    Args:
        context: identity and key.
        message_manager: aiocoap's, takes the messages.

    """

    def __init__(self, context: ClientContext, message_manager: Any) -> None:
        self._context = context
        self._messages: Any = message_manager
        self._servers: dict[tuple[str, int], ServerAddress] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}
        """Held while a session is looked for or opened."""
        self._numbers = 0

    async def connect(self, host: str, port: int, timeout_s: float) -> ServerAddress:
        """Return the session with a server, opened if there is none yet, or the one before is lost.

        Raises:
            HandshakeFailedError: the server refused.
            HandshakeTimeoutError: it did not complete the handshake in time.
            OSError: the name is unknown (`socket.gaierror`), or nobody is there.

        """
        opening = self._opening.setdefault((host, port), asyncio.Lock())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:  # who asks meanwhile is to have the same session
            async with asyncio.timeout_at(deadline):
                await opening.acquire()
        except TimeoutError:
            raise HandshakeTimeoutError(timeout_s, answered=False) from None
        try:
            known = self._servers.get((host, port))
            if known is not None and known.association.is_usable:
                return known
            if known is not None:
                # Who still waits in it does so for as long as he wants.
                known.association.remote = None
                known.association.close()
            return await self._open(host, port, timeout_s, deadline)
        finally:
            opening.release()

    async def _open(self, host: str, port: int, timeout_s: float, deadline: float) -> ServerAddress:
        """Open a session; arguments as `Association.handshake`, errors as `connect`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, sockaddr = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.connect(sockaddr)
        except OSError:
            sock.close()
            raise
        association = Association(self._context, sock)
        with contextlib.ExitStack() as undo:  # a cancelled caller, too, leaves no socket behind
            undo.callback(association.close)
            await association.handshake(timeout_s, deadline)
            undo.pop_all()
        self._numbers += 1
        remote = ServerAddress(self._numbers, association, *association.hosts())
        association.messages = self._messages
        association.remote = self._servers[host, port] = remote
        return remote

    def send(self, message: Any) -> None:
        """Send a message of aiocoap's.

        A session may have ended since `connect` gave it; whoever waits for an answer is told.
        """
        remote = message.remote
        try:
            remote.association.send(message.encode())
        except DtlsError as failure:
            _log.info("message to %r: %s", remote, failure)
            ended = error.RemoteServerShutdown(str(failure))
            # Not now: aiocoap notes only after this call that the message has gone.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._messages.dispatch_error, ended, remote)

    def noting_silence(self, remote: ServerAddress) -> Callable[[], None]:
        """Return what is to be called if no answer comes to a request that is sent now.

        A server that says nothing at all in a session, not even that a request has come, may have
        started anew: it leaves records of a session that it does not know unanswered (RFC 6347,
        section 4.1.2.7). The next request opens another one.
        """
        association = remote.association
        before = association.heard

        def is_silent() -> None:
            if association.heard == before:
                association.is_lost = True

        return is_silent

    async def recognize_remote(self, remote: object) -> bool:
        """Return whether an address is one of ours."""
        return isinstance(remote, ServerAddress) and remote in self._servers.values()

    async def determine_remote(self, _message: object) -> None:
        """Sessions are opened by `connect`, where a caller can wait and learn what failed."""
        return

    async def shutdown(self) -> None:
        """Close all sessions."""
        servers, self._servers = list(self._servers.values()), {}
        for remote in servers:
            remote.association.remote = None
            remote.association.close()


def decode_message(data: bytes, remote: object) -> Any | None:
    """Return an aiocoap message from its bytes, None if they are none (RFC 7252, section 3)."""
    try:
        return Message.decode(data, remote=remote)
    except (error.UnparsableMessage, ValueError):  # ValueError: an option that is no UTF-8
        return None

"""DTLS as tests make it: contexts from an authority's files, and a client on a socket."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from authority import Authority, Issued
from cryptography import x509
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL

from dtls.certificates import SUITES, ServerCertificates, unwrapped
from dtls.context import Context
from dtls.errors import IdentityError
from dtls.identity import PeerIdentity, Proof
from dtls.session import DtlsSession, SessionState
from gateway.trust.tls.certificates import identify
from gateway.trust.tls.peer_certificate import CertificateError

_lib: Any = Binding().lib
_ffi: Any = Binding().ffi


class CertificateClientContext(Context):
    """A client that shows a certificate, and takes servers of one authority alone.

    Args:
        shown: what it shows; None for nothing.
        authority: whose servers it takes.
        suites: what it offers.
        between: certificates between its own and the authority.

    Attributes:
        x509: what pyOpenSSL knows of the context.

    """

    def __init__(
        self,
        shown: Issued | None,
        authority: Authority,
        suites: Sequence[str] = SUITES,
        between: Sequence[x509.Certificate] = (),
    ) -> None:
        self.x509 = SSL.Context(SSL.DTLS_CLIENT_METHOD)
        super().__init__(unwrapped(self.x509), suites, is_server=False)
        if shown is not None:
            self.x509.use_certificate(shown.x509)
            self.x509.use_privatekey(load_pem_private_key(shown.key.read_bytes(), None))
        for each in between:
            self.x509.add_extra_chain_cert(each)
        self.x509.load_verify_locations(str(authority.file))
        self.x509.set_verify(SSL.VERIFY_PEER)


def server_certificates(
    own: Issued,
    *authorities: Authority,
    revoked: Sequence[bytes] = (),
    wall_clock: Callable[[], float] = time.time,
) -> ServerCertificates:
    """Return a server's certificate and whose clients it takes; ``revoked`` are lists in PEM."""
    return ServerCertificates(
        [own.x509],
        load_pem_private_key(own.key.read_bytes(), None),
        [authority.x509 for authority in authorities],
        _identity_of,
        wall_clock,
        [x509.load_pem_x509_crl(each) for each in revoked],
    )


def _identity_of(der: bytes) -> PeerIdentity:
    try:
        found = identify(der)
    except CertificateError as error:
        raise IdentityError(str(error)) from error
    return PeerIdentity(Proof.CERTIFICATE, found.name, found.roles, der)


def kept(client: DtlsSession) -> Any:
    """Return the session that a client keeps, to resume it later."""
    assert client._connection is not None
    return _ffi.gc(_lib.SSL_get1_session(client._connection._ssl), _lib.SSL_SESSION_free)


def take_up(client: DtlsSession, session: Any) -> None:
    """Have a client that has not begun yet go on with a session."""
    assert client._connection is not None
    assert _lib.SSL_set_session(client._connection._ssl, session) == 1


class DtlsPeer:
    """A client at a socket of its own; as a context it is there with a session, and then gone.

    Args:
        context: whom it shows itself to be.
        port: of the server, on loopback.
        host: its own address.
        limit_s: so long it tries.

    """

    def __init__(
        self, context: Context, port: int, host: str = "127.0.0.1", limit_s: float = 60.0
    ) -> None:
        self.session = DtlsSession(context)
        self._context = context
        self._limit_s = limit_s
        self._received: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind((host, 0))
        self._socket.connect(("127.0.0.1", port))

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def handshake(self) -> float:
        """Shake hands; how long that took, in seconds.

        Raises:
            ConnectionRefusedError: the server refused, with the reason as the client knows it.
            TimeoutError: it took too long.

        """
        begin = self._loop.time()
        if self.session.next_timer() is None:
            self.session.start(begin)
        async with asyncio.timeout(self._limit_s):
            while self.session.state is SessionState.HANDSHAKING:
                await self._turn()
        if self.session.state is SessionState.CLOSED:
            raise ConnectionRefusedError(self.session.reason)
        self._flush()
        return self._loop.time() - begin

    async def begin(self) -> None:
        """Show that we receive here, and go no further yet."""
        self.session.start(self._loop.time())
        await self._turn()
        await asyncio.sleep(0.05)

    async def ask(self, datagram: bytes) -> bytes:
        """Send a message, again after a second, and wait for the answer."""
        async with asyncio.timeout(self._limit_s):
            while True:
                self.session.send(datagram)
                end = self._loop.time() + 1.0
                while self._loop.time() < end:
                    await self._turn(until=end)
                    if self.session.state is SessionState.CLOSED:
                        raise ConnectionResetError(self.session.reason)
                    for message in self.session.received():
                        if message[1]:  # else it is acknowledged, and the answer comes later
                            return message

    def send(self, datagram: bytes) -> None:
        """Send a message."""
        self.session.send(datagram)
        self._flush()

    async def next(self) -> bytes:
        """Wait for a message."""
        async with asyncio.timeout(self._limit_s):
            while not (found := self._received):
                await self._turn()
                if self.session.state is SessionState.CLOSED:
                    raise ConnectionResetError(self.session.reason)
                found += self.session.received()
        return found.pop(0)

    async def closed(self) -> str:
        """Wait until the server ends the session."""
        async with asyncio.timeout(self._limit_s):
            while self.session.state is not SessionState.CLOSED:
                await self._turn()
        return self.session.reason

    def reboot(self) -> None:
        """Know nothing any more, at the same port."""
        self.session = DtlsSession(self._context)

    def inject(self, datagram: bytes) -> None:
        """Send what is not of the session, from the same address and port."""
        self._socket.send(datagram)

    def close(self) -> None:
        """Be gone; the server is told."""
        self.session.close("enough")
        self._flush()
        self._socket.close()

    async def _turn(self, until: float = float("inf")) -> None:
        self._flush()
        due = min(self.session.next_timer() or float("inf"), until)
        left_s = None if due == float("inf") else max(due - self._loop.time(), 0.0)
        try:
            datagram = await asyncio.wait_for(self._loop.sock_recv(self._socket, 1 << 16), left_s)
        except TimeoutError:
            self.session.handle_timer(self._loop.time())
        else:
            self.session.receive_datagram(datagram, self._loop.time())
        self._flush()

    def _flush(self) -> None:
        for datagram in self.session.datagrams_to_send():
            self._socket.send(datagram)

    async def __aenter__(self) -> Self:
        await self.handshake()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

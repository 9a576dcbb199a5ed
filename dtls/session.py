"""One DTLS association, in either role (sans-I/O).

Life: HANDSHAKING, then ESTABLISHED, then CLOSED; from any state to CLOSED. A closed session
keeps no object of the crypto library; what it still had to send can be taken.

The verbs: `receive_datagram`, `handle_timer` when `next_timer` says so, `send`; after each of
them take `datagrams_to_send` and `received`. Times are seconds of any clock that does not jump.
OpenSSL times its retransmissions by the system's clock; a session only translates what is left
of its timer into the caller's time. The sessions of one context are for one thread; those of
others may be in other threads.
"""

from __future__ import annotations

import enum
from typing import Final

from dtls.context import Context
from dtls.errors import (
    IdentityError,
    MessageTooLargeError,
    OpenSslError,
    PeerClosedError,
    SessionClosedError,
)
from dtls.identity import ANONYMOUS, PeerIdentity
from dtls.openssl_connection import OpenSslConnection
from dtls.records import pack_datagrams

MTU_BYTES: Final = 1232
"""UDP payload that passes every IPv6 link unfragmented: 1280 - 40 - 8 (RFC 8200, section 5)."""


class SessionState(enum.Enum):
    """The stage of a session, which only goes on to a later one: after `CLOSED` there is none."""

    HANDSHAKING = "handshaking"
    ESTABLISHED = "established"
    CLOSED = "closed"


class DtlsSession:
    """One association with one peer.

    Args:
        context: role and keys.
        cookie_verified: for a server whose endpoint made the cookie exchange: the first datagram
            is then a ClientHello with a cookie that is good.

    Attributes:
        state: see `SessionState`.
        identity: who the peer is; `ANONYMOUS` before the handshake is complete.
        was_established: whether the handshake was completed at some time.
        reason: why the session is closed; empty before.

    """

    def __init__(self, context: Context, *, cookie_verified: bool = False) -> None:
        self.state = SessionState.HANDSHAKING
        self.was_established = False
        self.identity: PeerIdentity = ANONYMOUS
        self.reason = ""
        self._context = context
        self._awaits_hello = cookie_verified
        self._offered = b""
        self._plaintexts: list[bytes] = []
        self._datagrams: list[bytes] = []
        self._timer_at: float | None = None
        self._connection: OpenSslConnection | None = OpenSslConnection(
            context.ssl_context, MTU_BYTES, is_server=context.is_server
        )

    def start(self, now: float) -> None:
        """For a client: make the first flight."""
        self._advance(now)

    def receive_datagram(self, datagram: bytes, now: float) -> None:
        """Take whole records from the peer. Forged and repeated ones have no effect."""
        if self._connection is None:
            return
        self._connection.feed(datagram)
        self._advance(now)

    def handle_timer(self, now: float) -> None:
        """Send the last flight again; closes the session after a dozen tries."""
        if self._connection is None or self._timer_at is None or now < self._timer_at:
            return
        try:
            self._connection.repeat()
        except OpenSslError as error:
            self._shut(str(error))
            return
        self._advance(now)

    @property
    def offered(self) -> str:
        """The PSK identity whose key the peer is to prove; empty before, and without one."""
        return self._offered.decode("utf-8", "backslashreplace")

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due; None while no flight waits for an answer."""
        return self._timer_at

    def datagrams_to_send(self) -> list[bytes]:
        """Take what is to be sent to the peer, in order."""
        datagrams, self._datagrams = self._datagrams, []
        return datagrams

    def received(self) -> list[bytes]:
        """Take the plaintexts that came, one for each record."""
        plaintexts, self._plaintexts = self._plaintexts, []
        return plaintexts

    def send(self, plaintext: bytes) -> None:
        """Encrypt one record.

        Raises:
            SessionClosedError: there is no session yet, or no more.
            MessageTooLargeError: it would not fit into one datagram.

        """
        if self._connection is None or self.state is not SessionState.ESTABLISHED:
            raise SessionClosedError(self.reason or "the handshake is not complete")
        size_bytes_max = self._connection.room_bytes()
        if len(plaintext) > size_bytes_max:
            raise MessageTooLargeError(len(plaintext), size_bytes_max)
        self._connection.write(plaintext)
        self._drain(self._connection)

    def close(self, reason: str) -> None:
        """End the session; an established one tells the peer (close_notify)."""
        if self._connection is None:
            return
        if self.state is SessionState.ESTABLISHED:
            try:
                self._connection.shut_down()
            except OpenSslError as error:
                reason = f"{reason} ({error})"
        self._shut(reason)

    def _advance(self, now: float) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if self._awaits_hello:
                self._awaits_hello = not connection.listen()
            if self.state is SessionState.HANDSHAKING and not self._awaits_hello:
                self._handshake(connection)
            if self.state is SessionState.ESTABLISHED:
                while plaintext := connection.read():
                    self._plaintexts.append(plaintext)
            self._drain(connection)
            self._time(connection, now)
        except PeerClosedError:
            self.close("closed by the peer")
        except OpenSslError as error:
            refusals = self._context.refusals
            self._shut(refusals[0] if refusals else str(error))
            refusals.clear()
        except IdentityError as nobody:
            connection.shut_down()
            self._shut(str(nobody))

    def _handshake(self, connection: OpenSslConnection) -> None:
        offered = self._context.offered
        offered.clear()
        self._context.refusals.clear()
        try:
            is_complete = connection.handshake()
        finally:
            if offered:
                self._offered = offered.pop()
        if is_complete:
            self.identity = self._context.identity_of(connection, self._offered)
            self.state = SessionState.ESTABLISHED
            self.was_established = True

    def _time(self, connection: OpenSslConnection, now: float) -> None:
        """Note when the last flight is due again; an established session has none."""
        left_s = connection.left_s() if self.state is SessionState.HANDSHAKING else None
        self._timer_at = None if left_s is None else now + left_s

    def _drain(self, connection: OpenSslConnection) -> None:
        if records := connection.take():
            self._datagrams.extend(pack_datagrams(records, MTU_BYTES))

    def _shut(self, reason: str) -> None:
        if self._connection is not None:
            self._drain(self._connection)  # the alert that says why
        self._connection = None
        self._timer_at = None
        self.state = SessionState.CLOSED
        self.reason = reason

"""Errors that this package raises. No message ever carries a key."""

from __future__ import annotations

from collections.abc import Iterable


class DtlsError(Exception):
    """Base of all errors of this package."""


class DtlsRecordError(DtlsError):
    """Bytes that claim to be a ClientHello are none; the message names the field."""


class OpenSslError(DtlsError):
    """OpenSSL sees no way on; ``str(error)`` is its word for the fault."""


class PeerClosedError(DtlsError):
    """The peer has said that no more comes (close_notify)."""


class KeystoreError(DtlsError):
    """A key file or an entry of it can't be used.

    Attributes:
        source: the file, as it was named.
        line: the line at fault, counted from 1; None if the file as a whole is.
        what: what is wrong with it.
        more: what else is wrong.

    """

    def __init__(
        self, source: str, line: int | None, what: str, more: Iterable[KeystoreError] = ()
    ) -> None:
        super().__init__(f"{source}: {what}" if line is None else f"{source}:{line}: {what}")
        self.source = source
        self.line = line
        self.what = what
        self.more = tuple(more)


class CertificateKeyError(DtlsError):
    """A server's key is of no kind that can be used over DTLS; the message names it."""


class IdentityError(DtlsError):
    """A peer has proved something that names nobody: ``str(error)`` is one line."""


class SessionClosedError(DtlsError):
    """There is no established session to send on."""


class MessageTooLargeError(DtlsError):
    """A plaintext does not fit into one datagram.

    Attributes:
        size_bytes: what was to be sent.
        size_bytes_max: what fits.

    """

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(f"{size_bytes} bytes do not fit into a datagram of {size_bytes_max}")
        self.size_bytes = size_bytes
        self.size_bytes_max = size_bytes_max


class HandshakeFailedError(DtlsError):
    """The peer refused the handshake, or answered with what is no handshake.

    Attributes:
        reason: the alert or the fault, as the crypto library names it.

    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"handshake refused: {reason}")
        self.reason = reason


class HandshakeTimeoutError(DtlsError):
    """No session in time.

    Attributes:
        answered: whether the peer answered at all. If it did, the key is most likely wrong:
            a server discards a Finished that it can't decrypt (RFC 6347, 4.1.2.7).

    """

    def __init__(self, timeout_s: float, *, answered: bool) -> None:
        super().__init__(
            f"no session within {timeout_s:g} s: "
            + (
                "the peer answered, but not to the key, which is probably wrong"
                if answered
                else "silence"
            )
        )
        self.answered = answered


class SocketError(DtlsError):
    """A socket can't be opened at the address asked for; the message names both."""

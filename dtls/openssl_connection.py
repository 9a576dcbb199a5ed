"""OpenSSL's object for one association, between two memory buffers of its own.

It is called through the binding of `cryptography`, past pyOpenSSL, whose `Connection` costs as much
to make as OpenSSL's own, raises an exception for every step that waits for the peer, and takes a
new buffer of 64 KiB for every read: together a third of what a handshake and a message cost here.
"""

from __future__ import annotations

from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding

from dtls.errors import OpenSslError, PeerClosedError
from dtls.openssl_forms import certificate_der, fault, session_der

_lib: Final[Any] = Binding().lib
_ffi: Final[Any] = Binding().ffi
_NULL: Final[Any] = _ffi.NULL
_NONE: Final[int] = _lib.SSL_ERROR_NONE
_WANT_READ: Final[int] = _lib.SSL_ERROR_WANT_READ
_ZERO_RETURN: Final[int] = _lib.SSL_ERROR_ZERO_RETURN
_AUTO_RETRY: Final[int] = _lib.SSL_MODE_AUTO_RETRY
_NOWHERE: Final[Any] = _ffi.new("char **")
_SOMEWHERE: Final[Any] = _ffi.gc(_lib.BIO_ADDR_new(), _lib.BIO_ADDR_free)
"""As `_NOWHERE` written to and never read; what is read is made for each call, because others go
on in their threads while OpenSSL works."""
_new_buffer: Final[Any] = _ffi.new_allocator(should_clear_after_alloc=False)
_PLAINTEXT_BYTES_MAX: Final = 2**14
"""RFC 5246, section 6.2.1: no record has more."""


class OpenSslConnection:
    """Steps of one association. Each raises `OpenSslError` where OpenSSL sees no way on.

    Args:
        context: OpenSSL's, with role and keys (``SSL_CTX *``); it has to live as long.
        mtu_bytes: of the datagrams that it makes.
        is_server: the role.

    """

    __slots__ = ("_incoming", "_outgoing", "_ssl")

    def __init__(self, context: Any, mtu_bytes: int, *, is_server: bool) -> None:
        ssl: Any = _lib.SSL_new(context)
        if ssl == _NULL:
            raise OpenSslError(fault())
        self._ssl: Any = _ffi.gc(ssl, _lib.SSL_free)
        # Both are freed with it.
        self._incoming: Any = _lib.BIO_new(_lib.BIO_s_mem())
        self._outgoing: Any = _lib.BIO_new(_lib.BIO_s_mem())
        _lib.SSL_set_bio(ssl, self._incoming, self._outgoing)
        # Else a step would stop behind each record that is none of the handshake.
        _lib.SSL_set_mode(ssl, _AUTO_RETRY)
        _lib.SSL_set_mtu(ssl, mtu_bytes)
        if is_server:
            _lib.SSL_set_accept_state(ssl)
        else:
            _lib.SSL_set_connect_state(ssl)

    def feed(self, datagram: bytes) -> None:
        """Take a datagram of the peer."""
        _lib.BIO_write(self._incoming, datagram, len(datagram))

    def listen(self) -> bool:
        """Take a ClientHello whose cookie has been checked, and return whether what was fed is
        one."""
        result: int = _lib.DTLSv1_listen(self._ssl, _SOMEWHERE)
        return result > 0 or (result < 0 and self._must_wait(result))

    def handshake(self) -> bool:
        """Go on with the handshake, and return whether it is complete."""
        result: int = _lib.SSL_do_handshake(self._ssl)
        return result > 0 or self._must_wait(result)

    def shown(self) -> bytes:
        """Return the certificate (DER) that the peer has shown, in this handshake or in that of the
        session that is resumed; empty if none."""
        x509: Any = _lib.SSL_get_peer_certificate(self._ssl)
        if x509 == _NULL:
            return b""
        try:
            return certificate_der(x509)
        finally:
            _lib.X509_free(x509)

    def session(self) -> bytes:
        """Return the session in OpenSSL's form (DER), once the handshake is complete."""
        return session_der(_lib.SSL_get_session(self._ssl))

    def read(self) -> bytes:
        """Return the plaintext of the next record that was fed; empty if there is none.

        Raises:
            PeerClosedError: no more comes.

        """
        if _lib.BIO_get_mem_data(self._incoming, _NOWHERE) <= 0 and not _lib.SSL_pending(self._ssl):
            return b""
        buffer: Any = _new_buffer("char[]", _PLAINTEXT_BYTES_MAX)
        size: int = _lib.SSL_read(self._ssl, buffer, _PLAINTEXT_BYTES_MAX)
        if size <= 0:
            self._must_wait(size)
            return b""
        return bytes(_ffi.buffer(buffer, size))

    def write(self, plaintext: bytes) -> None:
        """Encrypt one record."""
        result: int = _lib.SSL_write(self._ssl, plaintext, len(plaintext))
        if result <= 0:
            self._must_wait(result)

    def room_bytes(self) -> int:
        """Return how long a plaintext may be to fit into one datagram."""
        return int(_lib.DTLS_get_data_mtu(self._ssl))

    def take(self) -> bytes:
        """Return what is to be sent: whole records, one after the other."""
        size: int = _lib.BIO_get_mem_data(self._outgoing, _NOWHERE)
        if size <= 0:
            return b""
        buffer: Any = _new_buffer("char[]", size)
        return bytes(_ffi.buffer(buffer, _lib.BIO_read(self._outgoing, buffer, size)))

    def left_s(self) -> float | None:
        """Return when the last flight is to be sent again, in seconds from now.

        None if it is not.
        """
        seconds: Any = _ffi.new("time_t *")
        microseconds: Any = _ffi.new("long *")
        if not _lib.Cryptography_DTLSv1_get_timeout(self._ssl, seconds, microseconds):
            return None
        return float(seconds[0]) + float(microseconds[0]) / 1_000_000

    def repeat(self) -> None:
        """Send the last flight again, if its time has come."""
        result: int = _lib.DTLSv1_handle_timeout(self._ssl)
        if result < 0:
            self._must_wait(result)

    def shut_down(self) -> None:
        """Tell the peer that no more comes (close_notify)."""
        result: int = _lib.SSL_shutdown(self._ssl)
        if result < 0:
            self._must_wait(result)

    def _must_wait(self, result: int) -> bool:
        """False: the step waits for the peer. Raise whatever else it came to."""
        error: int = _lib.SSL_get_error(self._ssl, result)
        if error == _ZERO_RETURN:
            raise PeerClosedError
        if error not in (_WANT_READ, _NONE):
            raise OpenSslError(fault())
        return False

"""OpenSSL's object for one association, between two memory buffers of its own.

pyOpenSSL makes it and knows its verification. The steps that each datagram takes are called past
pyOpenSSL, which would raise an exception for every one that waits for the peer, and take a new
buffer of 64 KiB for every read: together a third of what a handshake and a message cost here.
"""

from __future__ import annotations

from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL

_lib: Final[Any] = Binding().lib
_ffi: Final[Any] = Binding().ffi
_WANT_READ: Final[int] = _lib.SSL_ERROR_WANT_READ
_ZERO_RETURN: Final[int] = _lib.SSL_ERROR_ZERO_RETURN
_NOWHERE: Final[Any] = _ffi.new("char **")
_BUFFER_BYTES: Final = 2**16
_BUFFER: Final[Any] = _ffi.new("char[]", _BUFFER_BYTES)
"""For one call at a time, each of which copies out what it read; a record has at most 16 KiB."""
_SECONDS: Final[Any] = _ffi.new("time_t *")
_MICROSECONDS: Final[Any] = _ffi.new("long *")
_SOMEWHERE: Final[Any] = _ffi.gc(_lib.BIO_ADDR_new(), _lib.BIO_ADDR_free)


class OpenSslConnection:
    """Steps of one association. Each raises `SSL.Error` where OpenSSL sees no way on.

    Args:
        context: role and keys.
        mtu_bytes: of the datagrams that it makes.
        is_server: the role.

    Attributes:
        whole: pyOpenSSL's object of it.

    """

    __slots__ = ("_incoming", "_outgoing", "_ssl", "whole")

    def __init__(self, context: SSL.Context, mtu_bytes: int, *, is_server: bool) -> None:
        self.whole = whole = SSL.Connection(context, None)
        # pyOpenSSL keeps these to itself, and they live as long as its object.
        self._ssl: Any = whole._ssl
        self._incoming: Any = whole._into_ssl
        self._outgoing: Any = whole._from_ssl
        _lib.SSL_set_mtu(self._ssl, mtu_bytes)
        if is_server:
            _lib.SSL_set_accept_state(self._ssl)
        else:
            _lib.SSL_set_connect_state(self._ssl)

    def feed(self, datagram: bytes) -> None:
        """Take a datagram of the peer."""
        _lib.BIO_write(self._incoming, datagram, len(datagram))

    def listen(self) -> bool:
        """Take a ClientHello whose cookie has been checked; whether what was fed is one."""
        result: int = _lib.DTLSv1_listen(self._ssl, _SOMEWHERE)
        return result > 0 or (result < 0 and self._must_wait(result))

    def handshake(self) -> bool:
        """Go on with the handshake; whether it is complete."""
        result: int = _lib.SSL_do_handshake(self._ssl)
        return result > 0 or self._must_wait(result)

    def read(self) -> bytes:
        """The plaintext of the next record that was fed; empty if there is none.

        Raises:
            SSL.ZeroReturnError: the peer has closed.

        """
        if _lib.BIO_get_mem_data(self._incoming, _NOWHERE) <= 0 and not _lib.SSL_pending(self._ssl):
            return b""
        size: int = _lib.SSL_read(self._ssl, _BUFFER, _BUFFER_BYTES)
        if size <= 0:
            self._must_wait(size)
            return b""
        return bytes(_ffi.buffer(_BUFFER, size))

    def write(self, plaintext: bytes) -> None:
        """Encrypt one record."""
        result: int = _lib.SSL_write(self._ssl, plaintext, len(plaintext))
        if result <= 0:
            self._must_wait(result)

    def room_bytes(self) -> int:
        """How long a plaintext may be to fit into one datagram."""
        return int(_lib.DTLS_get_data_mtu(self._ssl))

    def take(self) -> bytes:
        """What is to be sent: whole records, one after the other."""
        size: int = _lib.BIO_get_mem_data(self._outgoing, _NOWHERE)
        if size <= 0:
            return b""
        buffer = _BUFFER if size <= _BUFFER_BYTES else _ffi.new("char[]", size)
        return bytes(_ffi.buffer(buffer, _lib.BIO_read(self._outgoing, buffer, size)))

    def left_s(self) -> float | None:
        """When the last flight is to be sent again, in seconds from now; None if it is not."""
        if not _lib.Cryptography_DTLSv1_get_timeout(self._ssl, _SECONDS, _MICROSECONDS):
            return None
        seconds: int = _SECONDS[0]
        microseconds: int = _MICROSECONDS[0]
        return seconds + microseconds / 1_000_000

    def repeat(self) -> None:
        """Send the last flight again, if its time has come."""
        self.whole.DTLSv1_handle_timeout()

    def shut_down(self) -> None:
        """Tell the peer that no more comes (close_notify)."""
        result: int = _lib.SSL_shutdown(self._ssl)
        if result < 0:
            self._must_wait(result)

    def _must_wait(self, result: int) -> bool:
        """False: the step waits for the peer. Raise whatever else it came to."""
        error: int = _lib.SSL_get_error(self._ssl, result)
        if error == _ZERO_RETURN:
            raise SSL.ZeroReturnError
        if error != _WANT_READ:
            self.whole._raise_ssl_error(self._ssl, result)
        return False

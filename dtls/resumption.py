"""Sessions that are resumed by a ticket (RFC 5077): whose they were, and how long they may be.

A ticket is the whole state of a session, encrypted with a key of its context; the server keeps
nothing for it. So a context that takes the place of another makes all tickets of that one void,
which is how a key or certificate that is gone stays gone.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL

TICKET_S = 2 * 3600
"""So long a ticket counts."""
_PSK_IDENTITY = 0xA8
"""Its place in OpenSSL's form of a session: context-specific tag 8, constructed."""

_lib: Any = Binding().lib
_ffi: Any = Binding().ffi


def allow(context: SSL.Context) -> None:
    """Have a server give tickets, and take them."""
    context.set_timeout(TICKET_S)
    # What a certificate has proved counts in contexts of this name alone.
    context.set_session_id(b"hedgerow")


def is_resumed(connection: SSL.Connection) -> bool:
    """Whether a handshake that is complete went on with a session of before."""
    return bool(_lib.SSL_session_reused(connection._ssl))


def psk_identity(connection: SSL.Connection) -> bytes:
    """The PSK identity in a connection's session; empty if it began without one."""
    form = _ffi.new("unsigned char **")  # to nowhere: OpenSSL takes memory for it, which is ours
    size: int = _lib.i2d_SSL_SESSION(_lib.SSL_get_session(connection._ssl), form)
    if size <= 0:
        return b""
    try:
        return find_psk_identity(bytes(_ffi.buffer(form[0], size)))
    finally:
        _lib.OPENSSL_free(form[0])


def find_psk_identity(form: bytes) -> bytes:
    """The PSK identity in OpenSSL's form (DER) of a session; empty if there is none."""
    fields = _content(form, 0)[1]
    at = 0
    while at < len(fields):
        tag = fields[at]
        end, value = _content(fields, at)
        if tag == _PSK_IDENTITY:
            return _content(value, 0)[1]
        at = end
    return b""


def _content(form: bytes, at: int) -> tuple[int, bytes]:
    """Where one value of DER ends, and what is in it (X.690, sections 8.1.3 and 10.1)."""
    length, begin = form[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(form[at + 2 : begin], "big")
    return begin + length, form[begin : begin + length]

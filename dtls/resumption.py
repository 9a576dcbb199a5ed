"""Sessions that are resumed by a ticket (RFC 5077): whose they were, and how long they may be.

A ticket is the whole state of a session, encrypted with a key of its context; the server keeps
nothing for it. So a context that takes the place of another makes all tickets of that one void,
which is how a key or certificate that is gone stays gone.
"""

from __future__ import annotations

from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding

_lib: Final[Any] = Binding().lib

_NAME: Final = b"hedgerow"
TICKET_S: Final = 2 * 3600
"""So long a ticket counts."""
_PSK_IDENTITY: Final = 0xA8
"""Its place in OpenSSL's form of a session: context-specific tag 8, constructed."""


def allow(context: Any) -> None:
    """Have a server's context (``SSL_CTX *``) give tickets, and take them."""
    _lib.SSL_CTX_set_timeout(context, TICKET_S)
    # What a certificate has proved counts in contexts of this name alone.
    named = _lib.SSL_CTX_set_session_id_context(context, _NAME, len(_NAME))
    assert named == 1


def psk_identity(form: bytes) -> bytes:
    """Return the PSK identity in OpenSSL's form (DER) of a session; empty if there is none."""
    at, end = _content(form, 0)
    while at < end:
        begin, behind = _content(form, at)
        if form[at] == _PSK_IDENTITY:
            begin, behind = _content(form, begin)
            return form[begin:behind]
        at = behind
    return b""


def _content(form: bytes, at: int) -> tuple[int, int]:
    """Return where what is in one value of DER begins and ends (X.690, sections 8.1.3 and 10.1)."""
    length, begin = form[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(form[at + 2 : begin], "big")
    return begin, begin + length

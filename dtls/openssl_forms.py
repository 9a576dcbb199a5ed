"""What OpenSSL's objects are as bytes (DER)."""

from __future__ import annotations

from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding

_lib: Final[Any] = Binding().lib
_ffi: Final[Any] = Binding().ffi
_NULL: Final[Any] = _ffi.NULL
_MEMORY: Final[Any] = _lib.BIO_s_mem()
_START: Final[Any] = _ffi.new("char **")
_FORM: Final[Any] = _ffi.new("unsigned char **")
"""Of one call at a time, as all here."""


def certificate_der(x509: Any) -> bytes:
    """A certificate (``X509 *``)."""
    bio: Any = _lib.BIO_new(_MEMORY)
    try:
        if _lib.i2d_X509_bio(bio, x509) != 1:
            return b""
        size: int = _lib.BIO_get_mem_data(bio, _START)
        return bytes(_ffi.buffer(_START[0], size))
    finally:
        _lib.BIO_free(bio)


def session_der(session: Any) -> bytes:
    """A session (``SSL_SESSION *``); it holds the key. Empty if there is none."""
    _FORM[0] = _NULL  # to nowhere: OpenSSL takes memory for it, which is ours
    size: int = _lib.i2d_SSL_SESSION(session, _FORM)
    if size <= 0:
        return b""
    try:
        return bytes(_ffi.buffer(_FORM[0], size))
    finally:
        _lib.OPENSSL_free(_FORM[0])

"""OpenSSL's objects as bytes (DER), and its faults as words."""

from __future__ import annotations

from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding

_lib: Final[Any] = Binding().lib
_ffi: Final[Any] = Binding().ffi
_MEMORY: Final[Any] = _lib.BIO_s_mem()


def certificate_der(x509: Any) -> bytes:
    """Return a certificate (``X509 *``) in DER; empty if OpenSSL can't write it."""
    bio: Any = _lib.BIO_new(_MEMORY)
    try:
        if _lib.i2d_X509_bio(bio, x509) != 1:
            return b""
        start: Any = _ffi.new("char **")
        size: int = _lib.BIO_get_mem_data(bio, start)
        return bytes(_ffi.buffer(start[0], size))
    finally:
        _lib.BIO_free(bio)


def session_der(session: Any) -> bytes:
    """Return a session (``SSL_SESSION *``); it holds the key. Empty if there is none."""
    form: Any = _ffi.new("unsigned char **")  # to nowhere: OpenSSL takes memory for it, now ours
    size: int = _lib.i2d_SSL_SESSION(session, form)
    if size <= 0:
        return b""
    try:
        return bytes(_ffi.buffer(form[0], size))
    finally:
        _lib.OPENSSL_free(form[0])


def fault() -> str:
    """OpenSSL's word for what went wrong; its queue, which this empties, has the deepest last."""
    code, last = _lib.ERR_get_error(), 0
    while code:
        code, last = _lib.ERR_get_error(), code
    word: Any = _lib.ERR_reason_error_string(last)
    return bytes(_ffi.string(word)).decode() if word != _ffi.NULL else "no reason is given"

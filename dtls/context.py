"""State that all sessions of one role share: the crypto library's context and the keys.

pyOpenSSL has no call for pre-shared keys, but the binding below it, the one of `cryptography`,
has OpenSSL's own: so pyOpenSSL, and with it X.509, is loaded where certificates are shown alone.
New keys mean a new context: sessions keep the one they began with. A server's takes both kinds of
credentials; which of them it is, the cipher suite says that was agreed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.bindings.openssl.binding import Binding

from dtls import resumption
from dtls.errors import IdentityError, OpenSslError
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from dtls.openssl_connection import OpenSslConnection
from dtls.openssl_forms import fault

if TYPE_CHECKING:
    from dtls.certificates import ServerCertificates

_lib: Any = Binding().lib
_ffi: Any = Binding().ffi

_DTLS_1_2 = 0xFEFD
_IDENTITY_BYTES_MAX = 128
"""RFC 4279, section 5.3."""

PSK_SUITES = (
    "ECDHE-PSK-CHACHA20-POLY1305",  # forward secrecy, RFC 7905
    "PSK-AES128-GCM-SHA256",
    "PSK-AES128-CCM",
    "PSK-AES128-CCM8",  # mandatory for CoAP: RFC 7252, section 9.1.3.1
)
"""In order of preference, which is the server's."""


class Context:
    """OpenSSL settings that hold for both roles.

    Attributes:
        is_server: the role.
        ssl_context: OpenSSL's (``SSL_CTX *``).
        offered: the PSK identity whose key the handshake step under way has asked for; empty if
            it asked for none. A step is one synchronous call, so one list serves all sessions.
        refusals: why the step under way does not take what the peer has shown; as `offered`.

    Args:
        ssl_context: OpenSSL's (``SSL_CTX *``), which nobody has used yet.
        suites: what is agreed to, best first.
        is_server: the role.

    Raises:
        OpenSslError: OpenSSL has none of the suites, or not this version of DTLS.

    """

    def __init__(self, ssl_context: Any, suites: Sequence[str], *, is_server: bool) -> None:
        self.is_server = is_server
        self.offered: list[bytes] = []
        self.refusals: list[str] = []
        self.ssl_context = ssl_context
        # OpenSSL counts suites with a tag of 8 bytes as weak; CoAP makes one of them mandatory.
        taken = f"{':'.join(suites)}:@SECLEVEL=0".encode()
        if not (
            _lib.SSL_CTX_set_min_proto_version(ssl_context, _DTLS_1_2)
            and _lib.SSL_CTX_set_max_proto_version(ssl_context, _DTLS_1_2)
            and _lib.SSL_CTX_set_cipher_list(ssl_context, taken)
        ):
            raise OpenSslError(fault())
        _lib.SSL_CTX_set_options(
            ssl_context,
            _lib.SSL_OP_NO_QUERY_MTU  # there is no socket to ask
            | _lib.SSL_OP_CIPHER_SERVER_PREFERENCE
            | _lib.SSL_OP_NO_RENEGOTIATION,
        )
        _lib.SSL_CTX_set_session_cache_mode(ssl_context, _lib.SSL_SESS_CACHE_OFF)

    def identity_of(self, _connection: OpenSslConnection, offered: bytes) -> PeerIdentity:
        """Return who the peer of a complete handshake is.

        Args:
            offered: the PSK identity whose key it took; empty if it took none.

        Raises:
            IdentityError: it may not be that any more.

        """
        return psk_peer(offered) if offered else ANONYMOUS


class ServerContext(Context):
    """For sessions that clients open.

    Args:
        key_of: gives the key of a PSK identity, None if it is not known. It must not raise.
        certificates: what the server presents and takes beside keys; None for keys alone.

    """

    def __init__(
        self,
        key_of: Callable[[bytes], bytes | None],
        certificates: ServerCertificates | None = None,
    ) -> None:
        # A client that has both shows its key: it costs either side less.
        if certificates is None:
            super().__init__(_made(_lib.DTLS_server_method()), PSK_SUITES, is_server=True)
        else:
            from dtls.certificates import new_context, unwrapped  # noqa: PLC0415  # only where there are some

            shown, suites = new_context(), (*PSK_SUITES, *certificates.suites)
            super().__init__(unwrapped(shown), suites, is_server=True)
            self._verify = certificates.install(shown, self.refusals.append)
        self._certificates = certificates
        offered, refusals = self.offered, self.refusals
        resumption.allow(self.ssl_context)

        def psk(_ssl: object, c_identity: object, c_key: object, key_bytes_max: int) -> int:
            identity = bytes(_ffi.string(c_identity))
            key = key_of(identity)
            if key is None or len(key) > key_bytes_max:
                name = identity[:_IDENTITY_BYTES_MAX].decode("utf-8", "backslashreplace")
                refusals.append(f"unknown psk identity {name!r}")
                return 0  # OpenSSL then sends the alert unknown_psk_identity
            _ffi.memmove(c_key, key, len(key))
            offered[:] = [identity]
            return len(key)

        self._psk = _ffi.callback(
            "unsigned int(SSL *, const char *, unsigned char *, unsigned int)", psk
        )
        _lib.SSL_CTX_set_psk_server_callback(self.ssl_context, self._psk)
        # OpenSSL takes a ClientHello that carries a cookie, and so number 1, only if it is
        # asked to check the cookie. The endpoint has checked it before any session exists.
        self._cookie = _ffi.callback(
            "int (*)(SSL *, unsigned char *, unsigned int)", lambda _ssl, _cookie, _bytes: 1
        )
        _lib.SSL_CTX_set_cookie_verify_cb(self.ssl_context, self._cookie)

    def identity_of(self, connection: OpenSslConnection, offered: bytes) -> PeerIdentity:
        """Return the peer's identity; a resumed session holds the one that it began with."""
        if offered:
            return psk_peer(offered)
        if self._certificates is not None and (shown := connection.shown()):
            return self._certificates.identity(shown)
        if name := resumption.psk_identity(connection.session()):
            return psk_peer(name)
        raise IdentityError("no proof of who it is")


class ClientContext(Context):
    """For sessions that we open with one identity.

    Args:
        identity: the PSK identity, sent in clear text.
        key: the key that goes with it.

    Raises:
        ValueError: the identity is empty or over 128 bytes.

    """

    def __init__(self, identity: str, key: bytes) -> None:
        super().__init__(_made(_lib.DTLS_client_method()), PSK_SUITES, is_server=False)
        name = identity.encode()
        if not 0 < len(name) <= _IDENTITY_BYTES_MAX or b"\0" in name:
            raise ValueError(f"PSK identity: {identity[:40]!r}")

        def psk(
            _ssl: object,
            _hint: object,
            c_identity: object,
            identity_bytes_max: int,
            c_key: object,
            key_bytes_max: int,
        ) -> int:
            if len(name) >= identity_bytes_max or len(key) > key_bytes_max:
                return 0
            _ffi.memmove(c_identity, name + b"\0", len(name) + 1)
            _ffi.memmove(c_key, key, len(key))
            return len(key)

        self._psk = _ffi.callback(
            "unsigned int(SSL *, const char *, char *, unsigned int,"
            " unsigned char *, unsigned int)",
            psk,
        )
        _lib.SSL_CTX_set_psk_client_callback(self.ssl_context, self._psk)


def psk_peer(identity: bytes) -> PeerIdentity:
    """Return the peer that has the key of an identity, as that came from the wire."""
    return PeerIdentity(Proof.PSK, identity.decode("utf-8", "backslashreplace"))


def _made(method: Any) -> Any:
    """Make OpenSSL's context for a method (``SSL_METHOD *``).

    Raises:
        OpenSslError: there is no memory for it.

    """
    made = _lib.SSL_CTX_new(method)
    if made == _ffi.NULL:
        raise OpenSslError(fault())
    return _ffi.gc(made, _lib.SSL_CTX_free)

"""X.509 on the server's side: what it presents, and what it checks of its clients.

RFC 7252, section 9.1.3.3: both sides show a certificate with a key for ECDSA on P-256; beyond that
clients may have one for Ed25519 (RFC 8422), which OpenSSL does not let a server show over DTLS.
OpenSSL verifies chain, times, extended key usage (clientAuth, if the certificate has any) and
revocation lists; what it does not know, such as names, is asked of ``identify``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL, crypto

from dtls.errors import CertificateKeyError, IdentityError
from dtls.identity import PeerIdentity
from dtls.openssl_forms import certificate_der
from light_dataclasses import dataclass

SUITES = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-CCM",
    "ECDHE-ECDSA-AES128-CCM8",  # mandatory for CoAP: RFC 7252, section 9.1.3.3
)
"""In order of preference."""
_SIGNATURES = b"ECDSA+SHA256:ed25519:ECDSA+SHA384"
REMEMBERED_MAX = 256
"""Certificates that are known to be good."""
_DIGEST_BYTES_MIN = 28
_RSA_BITS_MIN = 2048
_TIMES = frozenset((9, 10))  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED

_lib: Any = Binding().lib
_ffi: Any = Binding().ffi

IdentifyPeer = Callable[[bytes], PeerIdentity]
"""Returns the identity of a verified certificate (DER); raises `IdentityError` if it has none."""


def unusable_key(key: PrivateKeyTypes) -> str:
    """Return why a server can't show a certificate with this key; empty if it can."""
    if isinstance(key, EllipticCurvePrivateKey):
        curve = key.curve.name
        return "" if curve == SECP256R1.name else f"a key on {curve}; over DTLS it must be on P-256"
    kind = type(key).__name__.strip("_").removesuffix("PrivateKey")
    return f"a key for {kind}; over DTLS it must be for ECDSA on P-256"


def new_context() -> SSL.Context:
    """Return a server's context of pyOpenSSL, which knows certificates, that has none yet."""
    return SSL.Context(SSL.DTLS_SERVER_METHOD)


def unwrapped(context: SSL.Context) -> Any:
    """Return OpenSSL's own context (``SSL_CTX *``): pyOpenSSL has no calls for all that it can."""
    return context._context


@dataclass(frozen=True, slots=True)
class ServerCertificates:
    """The certificate of a server, and the rules by which it accepts those of clients.

    Attributes:
        own: the server's certificate, followed by those between it and its authority.
        key: its private key.
        authorities: whose certificates clients may show.
        revoked: what those have revoked; nothing is looked at if there is no list.
        identify: who a verified certificate is.
        wall_clock: the time, in seconds since 1970; the sessions' own clock knows no dates.

    Raises:
        CertificateKeyError: the key is not for P-256.

    """

    own: Sequence[x509.Certificate]
    key: PrivateKeyTypes
    authorities: Sequence[x509.Certificate]
    identify: IdentifyPeer
    wall_clock: Callable[[], float]
    revoked: Sequence[x509.CertificateRevocationList] = ()

    def __post_init__(self) -> None:
        if why := unusable_key(self.key):
            raise CertificateKeyError(why)

    @property
    def suites(self) -> Sequence[str]:
        """Return the suites of handshakes that show it."""
        return SUITES

    def install(self, context: SSL.Context, refuse: Callable[[str], None]) -> object:
        """Have a context present these, and require of clients that they show one.

        Args:
            context: of the server. A handshake with a pre-shared key asks for no certificate.
            refuse: is told why a client's is not taken.

        Returns:
            What OpenSSL calls: it has to live as long as the context.

        """
        context.use_certificate(self.own[0])
        context.use_privatekey(self.key)  # type: ignore[arg-type]  # one of those it takes
        for between in self.own[1:]:
            context.add_extra_chain_cert(between)
        store = context.get_cert_store()
        assert store is not None
        for authority in self.authorities:
            store.add_cert(crypto.X509.from_cryptography(authority))
            context.add_client_ca(authority)
        for revoked in self.revoked:
            store.add_crl(revoked)
        if self.revoked:
            store.set_flags(crypto.X509StoreFlags.CRL_CHECK)
        # pyOpenSSL has no call for this one.
        taken = _lib.SSL_CTX_set1_sigalgs_list(unwrapped(context), _SIGNATURES)
        assert taken == 1

        judge = _Judge(self)

        def verify(is_ok: int, checked: object) -> int:
            error = 0 if is_ok else _lib.X509_STORE_CTX_get_error(checked)
            depth = _lib.X509_STORE_CTX_get_error_depth(checked)
            shown = certificate_der(_lib.X509_STORE_CTX_get_current_cert(checked))
            why = judge.why_not(shown, error, depth)
            if why:
                refuse(why)
                if not error:  # the alert then is bad_certificate
                    _lib.X509_STORE_CTX_set_error(checked, _lib.X509_V_ERR_CERT_REJECTED)
            return not why

        # pyOpenSSL's own asks for an object of its own for each connection.
        called = _ffi.callback("int (*)(int, X509_STORE_CTX *)", verify)
        required = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
        _lib.SSL_CTX_set_verify(unwrapped(context), required, called)
        return called

    def identity(self, der: bytes) -> PeerIdentity:
        """Return the identity in a certificate, which a session that is resumed brings unverified.

        Raises:
            IdentityError: it is nobody's, or has expired meanwhile.

        """
        ends_s = x509.load_der_x509_certificate(der).not_valid_after_utc.timestamp()
        if ends_s < self.wall_clock():
            raise IdentityError("certificate has expired")
        return self.identify(der)


class _Judge:
    """A verifier whose verdict on each certificate of a chain OpenSSL takes after its own.

    What is found of one that is good is remembered: of authorities it is the same each time, and
    devices come again.
    """

    def __init__(self, certificates: ServerCertificates) -> None:
        self._certificates = certificates
        self._good: OrderedDict[tuple[bytes, bool], None] = OrderedDict()

    def why_not(self, der: bytes, error: int, depth: int) -> str:
        """Return why a certificate of a chain is refused; empty if it is accepted."""
        known = (der, depth == 0)
        if not error and known in self._good:
            self._good.move_to_end(known)
            return ""
        try:
            why = self._fault(x509.load_der_x509_certificate(der), error, depth)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            why = "certificate that can't be read"  # a stranger may have made it
        if not why:
            self._good[known] = None
            if len(self._good) > REMEMBERED_MAX:
                self._good.popitem(last=False)
        return why

    def _fault(self, certificate: x509.Certificate, error: int, depth: int) -> str:
        if error:
            word = _ffi.string(_lib.X509_verify_cert_error_string(error)).decode()
            why = f"{word}{_times(certificate) if error in _TIMES else ''}"
        elif certificate in self._certificates.authorities:
            why = ""
        else:
            why = _weakness(certificate) or ("" if depth else self._nobody(certificate))
        # Whoever comes chooses the name: it must not break a line of a log, nor fill one.
        return why and f"certificate of {certificate.subject.rfc4514_string()[:80]!r}: {why}"

    def _nobody(self, certificate: x509.Certificate) -> str:
        try:
            self._certificates.identify(certificate.public_bytes(Encoding.DER))
        except IdentityError as nobody:
            return str(nobody)
        return ""


def _weakness(certificate: x509.Certificate) -> str:
    """Return what OpenSSL would refuse by itself, were its level not 0 for the sake of CCM_8."""
    key, digest = certificate.public_key(), certificate.signature_hash_algorithm
    if digest is not None and digest.digest_size < _DIGEST_BYTES_MIN:
        return f"signed with {digest.name}"
    if isinstance(key, RSAPublicKey) and key.key_size < _RSA_BITS_MIN:
        return f"RSA with {key.key_size} bits"
    return ""


def _times(certificate: x509.Certificate) -> str:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f" ({begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC)"

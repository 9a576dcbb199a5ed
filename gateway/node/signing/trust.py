"""Check that a certificate from somebody is that of a gateway of this fleet.

It asks of it what a link's TLS handshake asks (`gateway.node.links.link_tls`): a chain to a trusted
authority (RFC 5280, section 6), not revoked (6.3, of the gateway's own certificate alone), the role
``gateway`` or ``collector``, a common name that is a gateway id, both extended key usages if it has
any. But for the time: the ring judges that, for what was signed before a certificate ended may come
after it.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import crypto

from gateway.trust.certificates.signature_keys import PublicKey, is_for_signing
from gateway.trust.credentials import certificate_files
from gateway.trust.tls.certificates import identify
from gateway.trust.tls.context import TlsFiles, revocations
from gateway.trust.tls.peer_certificate import GATEWAY_ROLE, LINKED_ROLES, CertificateError
from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name

MAX_CHAIN = 4
"""Certificates from a gateway's own towards its authority."""
MAX_CERTIFICATE_BYTES = 8_192
_USAGES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_NO_CHECK_TIME = 0x20_0000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which pyOpenSSL has no name."""
_REVOKED = 23
"""X509_V_ERR_CERT_REVOKED, likewise."""

Chain = tuple[bytes, ...]
"""Certificates in DER: a gateway's own, then those between it and its authority."""


class UntrustedError(ProtocolError):
    """A certificate is not one of a gateway of this fleet; it says why."""


class EndedAuthorityError(UntrustedError):
    """A certificate's authority has ended by the clock of who was asked, which may be wrong."""


class RevokedCertificateError(UntrustedError):
    """A certificate was revoked by its authority."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The facts that a certificate proves.

    Attributes:
        gateway_id: whose it is.
        key: its key.
        from_s: since when, in seconds since 1970.
        until_s: until when.
        only_receives: it is a collector's, and no gateway's.

    """

    gateway_id: str
    key: PublicKey
    from_s: float
    until_s: float
    only_receives: bool = False


class Trust:
    """The authorities of a fleet and what they have revoked.

    Args:
        authorities: that are trusted, and others between them and gateways.
        revoked: their lists; none to look at none.

    """

    def __init__(
        self,
        authorities: Sequence[x509.Certificate],
        revoked: Sequence[x509.CertificateRevocationList] = (),
    ) -> None:
        self._store = store = crypto.X509Store()
        for authority in authorities:
            store.add_cert(crypto.X509.from_cryptography(authority))
        for crl in revoked:
            store.add_crl(crl)
        store.set_flags(_NO_CHECK_TIME | (crypto.X509StoreFlags.CRL_CHECK if revoked else 0))

    @classmethod
    def read(cls, files: TlsFiles) -> Trust:
        """Read the files of a link.

        Raises:
            TlsFileError: one can't be read.

        """
        if files.client_ca is None:
            raise ValueError("links without an authority")
        trusted = certificate_files.certificates("client_ca_file", files.client_ca)
        return cls(trusted, revocations(files, trusted))

    def check(self, chain: Chain, now_s: float) -> CertificateFacts:
        """Return what a chain proves.

        Args:
            chain: as it was handed over.
            now_s: the wall clock, seconds since 1970: authorities must not have ended.

        Raises:
            EndedAuthorityError: one of its authorities has ended.
            RevokedCertificateError: its authority takes it back. Whether that authority signed it
                may not have been looked at.
            UntrustedError: nothing.

        """
        if not 0 < len(chain) <= MAX_CHAIN or max(map(len, chain)) > MAX_CERTIFICATE_BYTES:
            raise UntrustedError("chain of certificates, length", len(chain))
        try:
            own, *between = [x509.load_der_x509_certificate(der) for der in chain]
            key = own.public_key()
            name, roles = _gateway_of(own, chain[0])
        except (ValueError, UnsupportedAlgorithm) as error:
            raise UntrustedError("certificate", str(error)) from error
        if not isinstance(key, PublicKey) or not is_for_signing(key):
            raise UntrustedError("certificate with a key that is neither Ed25519 nor P-256", name)
        for authority in self._chain(own, between, name)[1:]:
            if authority.not_valid_after_utc.timestamp() < now_s:
                raise EndedAuthorityError("certificate of an authority that has ended", name)
        return CertificateFacts(
            name,
            key,
            _s(own.not_valid_before_utc),
            _s(own.not_valid_after_utc),
            only_receives=GATEWAY_ROLE not in roles,
        )

    def _chain(
        self, own: x509.Certificate, between: Sequence[x509.Certificate], name: str
    ) -> list[x509.Certificate]:
        others = [crypto.X509.from_cryptography(one) for one in between]
        asked = crypto.X509StoreContext(self._store, crypto.X509.from_cryptography(own), others)
        try:
            return [one.to_cryptography() for one in asked.get_verified_chain()]
        except crypto.X509StoreContextError as error:
            if error.errors[0] == _REVOKED:
                raise RevokedCertificateError(f"certificate: {error}", name) from error
            raise UntrustedError(f"certificate: {error}", name) from error


def _gateway_of(certificate: x509.Certificate, der: bytes) -> tuple[str, frozenset[str]]:
    """Return the id of the gateway or collector whose certificate it says it is, and its roles.

    Raises:
        ValueError: it is none.

    """
    try:
        peer = identify(der)
    except CertificateError as error:
        raise UntrustedError(str(error)) from error
    if not LINKED_ROLES.intersection(peer.roles):
        raise UntrustedError(f"certificate without the role {GATEWAY_ROLE}", peer.name)
    extensions = certificate.extensions
    try:
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        pass
    else:
        if any(usage not in usages for usage in _USAGES):
            raise UntrustedError("certificate that is not for both ends of a link", peer.name)
    try:
        if not extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature:
            raise UntrustedError("certificate that is not for signatures", peer.name)
    except x509.ExtensionNotFound:
        pass
    return check_name("name of a gateway's certificate", peer.name), peer.roles


def _s(time: datetime.datetime) -> float:
    return time.timestamp()

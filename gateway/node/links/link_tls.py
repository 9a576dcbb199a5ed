"""Mutual TLS on links: what this gateway shows its neighbours, and what it asks of them.

Both ends show a certificate of the fleet's authority that says it is a gateway's (the role URI
``urn:hedgerow:role:gateway``) and whose (the common name is the gateway id). The host name is not
looked at: a neighbour is who its certificate says, wherever it was found. Who dials may be a
collector (``urn:hedgerow:role:collector``), which is a leaf: it carries nothing for others. The
proof of the tree's key (`handshake`) runs inside.
"""

from __future__ import annotations

import ssl
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.node.links.handshake import HandshakeError
from gateway.trust.credentials import crl as crls
from gateway.trust.credentials.certificate_files import certificates
from gateway.trust.credentials.tls_file_faults import NoGatewayError, TlsFileError
from gateway.trust.tls.certificates import identify
from gateway.trust.tls.context import Tls, TlsFiles, naming
from gateway.trust.tls.peer_certificate import (
    GATEWAY_ROLE,
    LINKED_ROLES,
    CertificateError,
    PeerCertificate,
)

GATEWAY_ALONE: Final = frozenset({GATEWAY_ROLE})
_USAGES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class LinkTls:
    """The TLS of one gateway's links, as its files said when they were read.

    Attributes:
        context: for a link that is dialled.
        own_roles: of the gateway's own certificate.

    Args:
        files: the gateway's own certificate and the fleet's authority.
        gateway_id: this gateway's.
        roles: its certificate has one of these.

    Raises:
        TlsFileError: a file is not usable.
        NoGatewayError: the certificate is not this gateway's.

    """

    def __init__(
        self, files: TlsFiles, gateway_id: str, roles: frozenset[str] = GATEWAY_ALONE
    ) -> None:
        self._tls = Tls(files)
        self.own_roles = _check_own(files, gateway_id, roles)
        self.context = _context(files, self._tls)
        self._shown: dict[str, bytes] = {}
        """The newest certificate of each neighbour, by gateway id."""
        self._leaves: set[str] = set()

    @property
    def over(self) -> tuple[TlsFileError, ...]:
        """Return what of the files is over by this machine's clock: see `Tls`."""
        return self._tls.over

    def follow(self, before: LinkTls) -> list[str]:
        """Go on where another reading of the files has been used until now.

        Returns:
            The gateways whose links must end: their certificate has been revoked, has expired or is
            of an authority no longer trusted.

        """
        lost = []
        for gateway_id, der in before._shown.items():
            if self._tls.still_accepts(der, before._tls):
                self._shown[gateway_id] = der
                if before.is_leaf(gateway_id):
                    self._leaves.add(gateway_id)
            else:
                lost.append(gateway_id)
        return lost

    def dialled(self, der: bytes) -> str:
        """Return the gateway that answered, whose certificate the TLS handshake has verified.

        Args:
            der: the certificate; empty where none was shown.

        Raises:
            HandshakeError: its certificate is no gateway's.

        """
        try:
            certificate = identify(der)
        except CertificateError as error:
            raise HandshakeError("certificate", str(error)) from error
        if GATEWAY_ROLE not in certificate.roles:
            raise HandshakeError(_without(GATEWAY_ROLE), certificate.name)
        if why := self.why_not(certificate, certificate.name):
            raise HandshakeError(why, certificate.name)
        return certificate.name

    def why_not(self, certificate: PeerCertificate | None, gateway_id: str) -> str:
        """Return why a verified certificate is not that of this gateway; nothing if it is.

        Args:
            certificate: None where none was shown.
            gateway_id: who its holder says it is.

        """
        if certificate is None:
            return "a link without a certificate"
        if not LINKED_ROLES.intersection(certificate.roles):
            return _without(GATEWAY_ROLE)
        if certificate.name != gateway_id:
            return f"a link of {gateway_id!r} with the certificate of {certificate.name!r}"
        self._shown[gateway_id] = certificate.der
        if GATEWAY_ROLE in certificate.roles:
            self._leaves.discard(gateway_id)
        else:
            self._leaves.add(gateway_id)
        return ""

    def is_leaf(self, gateway_id: str) -> bool:
        """Return whether a neighbour's certificate is a collector's, which forwards nothing."""
        return gateway_id in self._leaves


def _without(role: str) -> str:
    return f"a link with a certificate without the role {role}"


def _context(files: TlsFiles, tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # see above
    with naming("certificate_file", files.certificate):
        context.load_cert_chain(files.certificate, files.key, password="")
    if files.client_ca is None:
        raise TlsFileError("client_ca_file", files.certificate, "without an authority of gateways")
    with naming("client_ca_file", files.client_ca):
        context.load_verify_locations(files.client_ca)
    with naming("client_crl_file", files.client_crl or files.client_ca):
        crls.load(context, tls.revoked)
    return context


def _check_own(files: TlsFiles, gateway_id: str, roles: frozenset[str]) -> frozenset[str]:
    """Return whether neighbours would accept the gateway's own certificate; said here, not there.

    Returns:
        All of its roles.

    """

    def wrong(why: str) -> NoGatewayError:
        return NoGatewayError("certificate_file", files.certificate, why)

    certificate = certificates("certificate_file", files.certificate)[0]
    try:
        own = identify(certificate.public_bytes(Encoding.DER))
    except CertificateError as error:
        raise wrong(str(error)) from error
    if not roles.intersection(own.roles):
        lacking = " or ".join(f"urn:hedgerow:role:{role}" for role in sorted(roles))
        raise wrong(f"no certificate of a {' or '.join(sorted(roles))}: {lacking} is missing")
    if own.name != gateway_id:
        raise wrong(f"the certificate of {own.name!r}, and this gateway is {gateway_id!r}")
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return own.roles
    if any(usage not in usages for usage in _USAGES):
        raise wrong("its extended key usage must be both for servers and for clients")
    return own.roles

"""User name and roles in a client's certificate.

The name is the subject's common name, as Mosquitto's ``use_identity_as_username`` has it. Roles
are URIs of the subject's alternative names: ``urn:hedgerow:role:NAME``. All else in it is left
to the TLS handshake, which has verified the certificate before it comes here.
"""

from __future__ import annotations

import re

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.trust.tls.peer_certificate import CertificateError, PeerCertificate

NAME_CHARACTERS_MAX = 256
_ROLE = re.compile(r"urn:hedgerow:role:([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)")


def identify(der: bytes) -> PeerCertificate:
    """Read a verified certificate.

    Raises:
        CertificateError: it has no common name, several, or one that can be no user name; or it
            can't be read.

    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        roles = frozenset(_roles(certificate))
    except (ValueError, x509.DuplicateExtension) as error:
        raise CertificateError("certificate that can't be read") from error
    if len(names) != 1:
        raise CertificateError(f"certificate with {len(names)} common names")
    name = names[0].value
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise CertificateError("certificate whose common name is empty or too long")
    if not name.isprintable():
        raise CertificateError("certificate whose common name has control characters")
    return PeerCertificate(name, roles, der)


def _roles(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
    return [found[1] for uri in uris if (found := _ROLE.fullmatch(uri))]

"""User name and roles in a client's certificate.

The name is the subject's common name, as Mosquitto's ``use_identity_as_username`` has it. Roles
are URIs of the subject's alternative names: ``urn:hedgerow:role:NAME``. All else in it is left
to the TLS handshake, which has verified the certificate before it comes here.
"""

from __future__ import annotations

import re
from dataclasses import field

from cryptography import x509
from cryptography.x509.oid import NameOID

from light_dataclasses import dataclass

NAME_CHARACTERS_MAX = 256
GATEWAY_ROLE = "gateway"
COLLECTOR_ROLE = "collector"
LINKED_ROLES = frozenset({GATEWAY_ROLE, COLLECTOR_ROLE})
"""The roles whose holders have links: gateways, and collectors, which only receive."""
_ROLE = re.compile(r"urn:hedgerow:role:([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)")


class CertificateError(ValueError):
    """A verified certificate says nothing that can be used: ``str(error)`` is one line."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The identity that a client proved with its certificate.

    Attributes:
        name: the user name.
        roles: what else it is.
        der: the certificate itself; empty for a session that outlived it.

    """

    name: str
    roles: frozenset[str] = frozenset()
    der: bytes = field(default=b"", repr=False, compare=False)


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
    except ValueError as error:
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

"""What the certificates of a fleet have in common (RFC 5280)."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.certificates.names import is_address


def builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    """A certificate's names, key and times, without its extensions."""
    # From a day ago: a Pi without a clock of its own may be behind.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - datetime.timedelta(days=1))
        .not_valid_after(now() + datetime.timedelta(days=days))
    )


def usage(*, signs: bool) -> x509.KeyUsage:
    """What a key may be used for: an authority's, or another's (section 4.2.1.3)."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def alternative_names(name: str, role: str, addresses: Iterable[str]) -> list[x509.GeneralName]:
    """What a certificate says of its holder: its role, and where it may be met (4.2.1.6)."""
    found: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"urn:hedgerow:role:{role}")]
    hosts = [name, *addresses]
    if role == "gateway":
        hosts += [f"{name}.local", "localhost", "127.0.0.1", "::1"]
    for host in dict.fromkeys(hosts):
        if is_address(host):
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        else:
            found.append(x509.DNSName(host))
    return found


def named(common_name: str) -> x509.Name:
    """A name that is a common name alone."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def now() -> datetime.datetime:
    """The time, with its zone."""
    return datetime.datetime.now(datetime.UTC)

"""Forms that the certificates of a fleet have in common (RFC 5280)."""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gateway.trust.certificates import private_keys
from gateway.trust.certificates.names import is_address
from gateway.trust.certificates.signature_keys import PrivateKey, PublicKey
from gateway.trust.tls.peer_certificate import LINKED_ROLES

ENROLMENT = "enrolment"
"""The role of the service that issues certificates: a server alone."""
BEHIND = datetime.timedelta(days=1)
"""Certificates and lists begin so long ago: a Pi without a clock of its own may be behind."""
_ROLE = "urn:hedgerow:role:"


def authority(key: PrivateKey, days: int) -> x509.Certificate:
    """Return a new authority's certificate, which it signs itself."""
    # A name of its own (RFC 5280, 4.1.2.6): where two are trusted, each one's list is found by it.
    subject = named(f"hedgerow fleet {secrets.token_hex(4)}")
    return (
        _builder(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, private_keys.digest(key))
    )


def certificate(  # as many as a certificate has to say
    issuer: x509.Certificate,
    issuer_key: PrivateKey,
    key: PublicKey,
    name: str,
    others: x509.SubjectAlternativeName,
    days: int,
    serial: int | None = None,
) -> x509.Certificate:
    """Return a certificate of somebody.

    Args:
        issuer: who vouches.
        issuer_key: with this key.
        key: whose.
        name: the common name.
        others: what else is said of the holder, see `alternative_names`.
        days: how long it is valid; never longer than the issuer's.
        serial: its number (4.1.2.2); None to draw one.

    """
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = _builder(named(name), issuer.subject, key, days, issuer.not_valid_after_utc, serial)
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_extended(roles_of(others))), critical=False)
        .add_extension(others, critical=False)
        .add_extension(identifier, critical=False)
        .sign(issuer_key, private_keys.digest(issuer_key))
    )


def revocations(
    issuer: x509.Certificate,
    key: PrivateKey,
    serials: Iterable[tuple[int, datetime.datetime]],
    number: int,
    days: int,
) -> x509.CertificateRevocationList:
    """Return an authority's list of what it has revoked (section 5).

    Args:
        issuer: whose list.
        key: its key.
        serials: what is revoked, and when.
        number: greater than that of all lists before (5.2.3).
        days: until it has to be renewed.

    """
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .add_extension(identifier, critical=False)
        .add_extension(x509.CRLNumber(number), critical=False)
        .last_update(now() - BEHIND)
        .next_update(now() + datetime.timedelta(days=days))
    )
    for serial, when in sorted(serials):
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when)
        builder = builder.add_revoked_certificate(revoked.build())
    return builder.sign(key, private_keys.digest(key))


def request(key: PrivateKey, name: str, others: x509.SubjectAlternativeName) -> bytes:
    """Return a request for a certificate by another authority (PKCS#10, RFC 2986), in PEM.

    Args:
        key: whose, which signs it.
        name: the common name.
        others: what else is to be said of the holder, see `alternative_names`.

    """
    builder = x509.CertificateSigningRequestBuilder().subject_name(named(name))
    builder = builder.add_extension(others, critical=False)
    return builder.sign(key, private_keys.digest(key)).public_bytes(serialization.Encoding.PEM)


def alternative_names(
    name: str, roles: Sequence[str], addresses: Iterable[str]
) -> x509.SubjectAlternativeName:
    """Return the names for a certificate's holder: its roles and addresses (4.2.1.6)."""
    found: list[x509.GeneralName] = [
        x509.UniformResourceIdentifier(f"{_ROLE}{role}") for role in roles
    ]
    hosts = [name, *addresses]
    if LINKED_ROLES.intersection(roles):
        hosts += [f"{name}.local", "localhost", "127.0.0.1", "::1"]
    for host in dict.fromkeys(hosts):
        if is_address(host):
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        else:
            found.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(found)


def alternative_names_of(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    """Return what a certificate says of its holder; nothing if it says nothing."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])
    return found.value


def roles_of(others: x509.SubjectAlternativeName) -> tuple[str, ...]:
    """Return the roles among alternative names."""
    uris = others.get_values_for_type(x509.UniformResourceIdentifier)
    return tuple(uri.removeprefix(_ROLE) for uri in uris if uri.startswith(_ROLE))


def common_name(name: x509.Name) -> str:
    """Return a subject's or an issuer's common name; all of the name if it has none."""
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string()


def named(common_name: str) -> x509.Name:
    """Return a name that is a common name alone."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def made_at(certificate: x509.Certificate) -> datetime.datetime:
    """Return when one of ours was made."""
    return certificate.not_valid_before_utc + BEHIND


def now() -> datetime.datetime:
    """Return the time, with its zone."""
    return datetime.datetime.now(datetime.UTC)


def _extended(roles: Sequence[str]) -> list[x509.ObjectIdentifier]:
    """Return the ends of TLS that it is for (4.2.1.12): a user's certificate serves nobody."""
    if LINKED_ROLES.intersection(roles):
        return [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    if ENROLMENT in roles:
        return [ExtendedKeyUsageOID.SERVER_AUTH]
    return [ExtendedKeyUsageOID.CLIENT_AUTH]


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: PublicKey,
    days: int,
    latest: datetime.datetime | None = None,
    serial: int | None = None,
) -> x509.CertificateBuilder:
    """Return a certificate's names, key and times, without its extensions."""
    until = now() + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number() if serial is None else serial)
        .not_valid_before(now() - BEHIND)
        .not_valid_after(until if latest is None else min(until, latest))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Return what a key may be used for: an authority's, or another's (section 4.2.1.3)."""
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

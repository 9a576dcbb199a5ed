"""A certificate authority of a test's own: what it issues lies in PEM files."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: Path
    key: Path
    x509: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.x509.public_bytes(Encoding.DER)


class Authority:
    """Issues certificates and revokes them.

    Args:
        folder: for the files.
        name: of the authority, and of its file.
        above: who issues its certificate; None for itself.
        expired: whether its own certificate has ended.

    """

    def __init__(
        self,
        folder: Path,
        name: str = "authority",
        above: Authority | None = None,
        *,
        expired: bool = False,
    ) -> None:
        self._folder = folder
        self._name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = subject if above is None else above.x509.subject
        issuer_key = self.key if above is None else above.key
        self._certificate = (
            _builder(subject, issuer, self.key.public_key(), issuer_key.public_key(), -2 * expired)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(issuer_key, hashes.SHA256())
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(
        self,
        *names: str,
        roles: Iterable[str] = (),
        is_server: bool = False,
        is_gateway: bool = False,
        is_collector: bool = False,
        expired: bool = False,
        is_early: bool = False,
        has_usage: bool = True,
        password: bytes | None = None,
        ed25519: bool = False,
        later_days: int = 0,
        ends_in_s: float | None = None,
    ) -> Issued:
        """A certificate with these common names; of a gateway or collector it is for both ends.

        One that is early is not valid yet; one without usage has no extended key usage. It begins
        and ends so many days later, or it ends in so many seconds.
        """
        key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey
        key = Ed25519PrivateKey.generate() if ed25519 else ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
        usage = [ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH]
        if is_gateway or is_collector:
            usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            roles, is_server = [*roles, "gateway" if is_gateway else "collector"], True
        others: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(role if ":" in role else f"urn:hedgerow:role:{role}")
            for role in roles
        ]
        if is_server:
            others += [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
        builder = (
            _builder(
                subject,
                self._certificate.subject,
                key.public_key(),
                self.key.public_key(),
                -2 if expired else 2 if is_early else later_days,
                ends_in_s,
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
        )
        if has_usage:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        stem = f"{certificate.serial_number:x}"
        issued = Issued(self._folder / f"{stem}.pem", self._folder / f"{stem}.key.pem", certificate)
        issued.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        encryption = BestAvailableEncryption(password) if password else NoEncryption()
        issued.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return issued

    @property
    def x509(self) -> x509.Certificate:
        """Its certificate."""
        return self._certificate

    def revoke(self, *revoked: Issued, outdated: bool = False, number: int | None = None) -> bytes:
        """The list of what is revoked, in PEM."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(now - 3 * DAY)
            .next_update(now - DAY if outdated else now + DAY)
        )
        if number is not None:
            builder = builder.add_extension(x509.CRLNumber(number), critical=False)
        for issued in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(issued.x509.serial_number)
                .revocation_date(now - DAY)
                .build()
            )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def client_context(self, issued: Issued | None = None) -> ssl.SSLContext:
        """Return the TLS context of a client that trusts this authority."""
        context = ssl.create_default_context(cafile=self.file)
        if issued is not None:
            context.load_cert_chain(issued.certificate, issued.key)
        return context


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | Ed25519PublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    shifted_days: int,
    ends_in_s: float | None = None,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC) + shifted_days * DAY
    lives = DAY if ends_in_s is None else datetime.timedelta(seconds=ends_in_s)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + lives)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
        )
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
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

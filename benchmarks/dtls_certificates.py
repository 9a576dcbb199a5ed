"""Certificates for servers and clients over DTLS that are measured."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


class DtlsCertificates:
    """An authority, and what it issues to a server and to a client: PEM files.

    Args:
        folder: for the files.

    """

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        self._folder = folder
        self.authority = folder / "authority.pem"
        own = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        signed = own.sign(self._key, hashes.SHA256())
        self.authority.write_bytes(signed.public_bytes(Encoding.PEM))
        self.server = self._issue("localhost", ExtendedKeyUsageOID.SERVER_AUTH)
        self.client = self._issue("bench", ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, name: str, usage: x509.ObjectIdentifier) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = (
            self._builder(_named(name), key)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName([local]), critical=False)
        )
        certificate, file = self._folder / f"{name}.pem", self._folder / f"{name}.key.pem"
        signed = builder.sign(self._key, hashes.SHA256())
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        file.touch(mode=0o600)
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        file.write_bytes(key.private_bytes(*form))
        return certificate, file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

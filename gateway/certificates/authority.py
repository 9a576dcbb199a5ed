"""The authority of a fleet: it issues certificates, renews them and revokes them.

Its folder holds ``ca.pem`` and ``ca.key.pem``, ``NAME.pem`` and ``NAME.key.pem`` of each name, and
``revoked.pem``, the list of what is revoked. Keys have mode 0600 (RFC 5958, not encrypted).
"""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.certificates import x509_forms as forms

PEM = serialization.Encoding.PEM
CA_DAYS = 20 * 365
DAYS = 730
"""For so long the certificates of gateways are valid, and the list of what is revoked."""


class AuthorityError(ValueError):
    """A file of the authority can't be used; the message names it or its folder."""


class Authority:
    """A fleet's authority; one that is not there yet is made.

    Args:
        folder: of its files, for its owner alone.

    Raises:
        AuthorityError: a file of it can't be used.
        OSError: a file can't be read or written.

    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self._folder = folder
        try:
            self._key, self._certificate = _read(folder) or _make(folder)
        except (ValueError, TypeError) as error:  # a file that is no PEM, a key under a password
            raise _unusable(folder, error) from error

    def has(self, name: str) -> bool:
        """Whether a name has a certificate."""
        return self._file(name).exists()

    def issue(
        self, name: str, addresses: Iterable[str] = (), *, role: str = "gateway", days: int = DAYS
    ) -> Path:
        """Make a key and a certificate; one that the name has is replaced.

        Args:
            name: the certificate's common name: a gateway's id, or a user's.
            addresses: where its holder is reached, besides the names that every gateway has.
            role: of its holder (docs/access.md).
            days: how long it is valid.

        Returns:
            The certificate's file.

        Raises:
            OSError: a file can't be written.

        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        names = forms.alternative_names(name, role, addresses)
        issuer, issuer_key = self._certificate.subject, self._key.public_key()
        certificate = (
            forms.builder(forms.named(name), issuer, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(forms.usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        _write_key(self._folder / f"{name}.key.pem", key)
        self._file(name).write_bytes(certificate.public_bytes(PEM))
        return self._file(name)

    def revoke(self, names: Iterable[str] = (), days: int = DAYS) -> None:
        """Renew the list of what is revoked, with these certificates added.

        Args:
            names: whose.
            days: how long the list is valid.

        Raises:
            AuthorityError: a certificate or the list can't be used.
            OSError: a file can't be read or written.

        """
        try:
            serials = {_certificate(self._file(name)).serial_number for name in names}
            serials |= self._revoked()
        except (ValueError, TypeError) as error:
            raise _unusable(self._folder, error) from error
        now = forms.now()
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .add_extension(issuer_key, critical=False)
            .last_update(now - datetime.timedelta(days=1))
            .next_update(now + datetime.timedelta(days=days))
        )
        for serial in sorted(serials):
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(revoked.build())
        self._list.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(PEM))

    @property
    def _list(self) -> Path:
        return self._folder / "revoked.pem"

    def _revoked(self) -> set[int]:
        if not self._list.exists():
            return set()
        return {one.serial_number for one in x509.load_pem_x509_crl(self._list.read_bytes())}

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.pem"


def _read(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None:
    key_file, file = folder / "ca.key.pem", folder / "ca.pem"
    if not key_file.exists():
        return None
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise AuthorityError(f"{key_file}: no key of an elliptic curve")
    return key, _certificate(file)


def _make(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own (RFC 5280, 4.1.2.6): where two are trusted, each one's list is found by it.
    subject = forms.named(f"hedgerow fleet {secrets.token_hex(4)}")
    certificate = (
        forms.builder(subject, subject, key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(forms.usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder / "ca.key.pem", key)
    (folder / "ca.pem").write_bytes(certificate.public_bytes(PEM))
    return key, certificate


def _certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def _unusable(folder: Path, error: Exception) -> AuthorityError:
    if isinstance(error, AuthorityError):
        return error
    return AuthorityError(f"{folder}: a file of it can't be used: {error}")


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(PEM, *form))

"""TLS of the broker's listeners: files of certificates -> the context of new connections.

What is wrong with a file is found when it is read, and the error names it: OpenSSL would tell
only the client that comes first.
"""

from __future__ import annotations

import datetime
import enum
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_log = logging.getLogger(__name__)


class TlsFileError(ValueError):
    """A file of certificates is not usable: ``str(error)`` is one line.

    Args:
        field: which: ``certificate_file``, ``key_file``, ``client_ca_file``, ``client_crl_file``.
        why: what is wrong with it.

    """

    def __init__(self, field: str, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.field = field


class ClientCertificate(enum.Enum):
    """Whether clients show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where a listener's certificates are, all in PEM.

    Attributes:
        certificate: the server's, followed by those between it and its authority.
        key: its private key, not encrypted.
        client_certificate: whether clients show one.
        client_ca: the authorities whose certificates clients may show.
        client_crl: what those have revoked.

    Raises:
        ValueError: clients show certificates, and there are no authorities.

    """

    certificate: Path
    key: Path
    client_certificate: ClientCertificate = ClientCertificate.NONE
    client_ca: Path | None = None
    client_crl: Path | None = None

    def __post_init__(self) -> None:
        if self.client_ca is None and self.client_certificate is not ClientCertificate.NONE:
            raise ValueError(f"client certificates are {self.client_certificate.value}: of whom?")


class Tls:
    """A listener's TLS, as its files last said.

    Attributes:
        context: for new connections.

    Args:
        files: where the certificates are.

    Raises:
        TlsFileError: a file is not usable.

    """

    def __init__(self, files: TlsFiles) -> None:
        _check_certificate(files)
        self._authorities: list[x509.Certificate] = []
        self._revoked: list[x509.CertificateRevocationList] = []
        if files.client_ca is not None and files.client_certificate is not ClientCertificate.NONE:
            self._authorities = _certificates("client_ca_file", files.client_ca)
            if files.client_crl is not None:
                self._revoked = _revocations(files.client_crl, self._authorities)
        self.context = _context(files)

    def still_accepts(self, der: bytes, before: Tls) -> bool:
        """Whether a certificate that was verified before would be again.

        Where the authorities are others now, one that was issued by an authority between it and
        ours is not accepted: only a handshake shows that one, so its client has to come again.

        Args:
            der: the certificate.
            before: what verified it.

        """
        certificate = x509.load_der_x509_certificate(der)
        if certificate.not_valid_after_utc < _now():
            return False
        if any(
            crl.issuer == certificate.issuer
            and crl.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
            for crl in self._revoked
        ):
            return False
        if self._authorities == before._authorities:
            return True
        return any(_issued(certificate, authority) for authority in self._authorities)


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # An empty password, since OpenSSL would ask for one at the terminal.
    with _naming("certificate_file", files.certificate):
        context.load_cert_chain(files.certificate, files.key, password="")
    if files.client_ca is None or files.client_certificate is ClientCertificate.NONE:
        return context
    # A resumed session would bring its certificate back unchecked after it was revoked.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    with _naming("client_ca_file", files.client_ca):
        context.load_verify_locations(files.client_ca)
    if files.client_crl is not None:
        with _naming("client_crl_file", files.client_crl):
            context.load_verify_locations(files.client_crl)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    is_required = files.client_certificate is ClientCertificate.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _check_certificate(files: TlsFiles) -> None:
    certificate = _certificates("certificate_file", files.certificate)[0]
    if certificate.not_valid_after_utc < _now():
        raise TlsFileError("certificate_file", files.certificate, _expired(certificate))
    if certificate.not_valid_before_utc > _now():
        # Not refused: a Pi without a clock of its own starts in the past.
        begins = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        _log.warning("%s: not valid before %s", files.certificate, begins)
    data = _read("key_file", files.key)
    try:
        key = serialization.load_pem_private_key(data, None)
    except TypeError as error:
        raise TlsFileError("key_file", files.key, "the key is encrypted") from error
    except (ValueError, UnsupportedAlgorithm) as unusable:
        raise TlsFileError("key_file", files.key, "no private key in PEM") from unusable
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        why = f"not the key of the certificate in {files.certificate}"
        raise TlsFileError("key_file", files.key, why)


def _certificates(field: str, path: Path) -> list[x509.Certificate]:
    data = _read(field, path)
    try:
        found = x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise TlsFileError(field, path, "no certificate in PEM") from error
    if field == "client_ca_file" and all(one.not_valid_after_utc < _now() for one in found):
        raise TlsFileError(field, path, _expired(found[0]))
    return found


def _revocations(
    path: Path, authorities: list[x509.Certificate]
) -> list[x509.CertificateRevocationList]:
    found: list[x509.CertificateRevocationList] = []
    marker = b"-----BEGIN X509 CRL-----"
    for part in _read("client_crl_file", path).split(marker)[1:]:
        try:
            found.append(x509.load_pem_x509_crl(marker + part))
        except ValueError as error:
            raise TlsFileError("client_crl_file", path, "a list that can't be read") from error
    if not found:
        raise TlsFileError("client_crl_file", path, "no certificate revocation list in PEM")
    for crl in found:
        if not any(_signed(crl, authority) for authority in authorities):
            raise TlsFileError("client_crl_file", path, "signed by none of client_ca_file")
        # OpenSSL would refuse every client's certificate.
        if crl.next_update_utc is not None and crl.next_update_utc < _now():
            when = f"{crl.next_update_utc:%Y-%m-%d %H:%M} UTC"
            raise TlsFileError("client_crl_file", path, f"was to be renewed until {when}")
    return found


def _signed(crl: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    key = cast(CertificateIssuerPublicKeyTypes, authority.public_key())
    try:
        return crl.issuer == authority.subject and crl.is_signature_valid(key)
    except (TypeError, UnsupportedAlgorithm):  # a key that signs nothing
        return False


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read(field: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsFileError(field, path, error.strerror or "can't be read") from error


def _expired(certificate: x509.Certificate) -> str:
    return f"expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"


@contextmanager
def _naming(field: str, path: Path) -> Iterator[None]:
    """Have an error of OpenSSL name the file."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise TlsFileError(field, path, why) from error


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)

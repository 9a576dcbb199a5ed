"""TLS of the broker's listeners: files of certificates -> the context of new connections.

What is wrong with a file is found when it is read, and the error names it: OpenSSL would tell
only the client that comes first.
"""

from __future__ import annotations

import datetime
import enum
import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dtls import private_file
from gateway.trust.credentials import crl as crls
from gateway.trust.credentials.certificate_files import certificates, read, revocation_lists
from gateway.trust.credentials.crl import Crl
from gateway.trust.credentials.tls_file_faults import TlsFaults, TlsFileError
from light_dataclasses import dataclass

_log = logging.getLogger(__name__)


class ClientCertificate(enum.Enum):
    """A rule for whether clients show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a listener's certificates, all in PEM.

    Attributes:
        certificate: the server's, followed by those between it and its authority.
        key: its private key, not encrypted.
        client_certificate: whether clients show one.
        client_ca: the authorities whose certificates clients may show.
        client_crl: what those have revoked.
        spread: lists of them that neighbours handed over: `gateway.trust.credentials.crl.united`.

    Raises:
        ValueError: clients show certificates, and there are no authorities.

    """

    certificate: Path
    key: Path
    client_certificate: ClientCertificate = ClientCertificate.NONE
    client_ca: Path | None = None
    client_crl: Path | None = None
    spread: tuple[Crl, ...] = ()

    def __post_init__(self) -> None:
        if self.client_ca is None and self.client_certificate is not ClientCertificate.NONE:
            raise ValueError(f"client certificates are {self.client_certificate.value}: of whom?")


class Tls:
    """A listener's TLS, as its files last said.

    Attributes:
        context: for new connections.
        own: the certificate that is shown, and those between it and its authority.
        key: its private key.
        authorities: whose certificates clients may show; empty if they show none.
        revoked: what those have revoked.
        over: what of all this is over by this machine's clock, which lets nobody in: OpenSSL judges
            each handshake by its own time, and who is shown a certificate that is over refuses it.

    Args:
        files: where the certificates are.

    Raises:
        TlsFileError: a file is not usable; it holds all that is wrong with them.

    """

    def __init__(self, files: TlsFiles) -> None:
        faults = TlsFaults()
        self.own: list[x509.Certificate] = []
        with faults.noting():
            self.own = certificates("certificate_file", files.certificate)
        with faults.noting():
            _check_times(files.certificate, self.own[:1])
        with faults.noting():
            self.key = _checked_key(files, self.own)
        self.authorities: list[x509.Certificate] = []
        self.revoked: list[Crl] = []
        if files.client_ca is not None and files.client_certificate is not ClientCertificate.NONE:
            with faults.noting():
                self.authorities = certificates("client_ca_file", files.client_ca)
            with faults.noting():
                _check_authorities(files.client_ca, self.authorities)
            with faults.noting():
                self.revoked = revocations(files, self.authorities, faults)
        faults.hold()
        self.over = faults.over
        self.context = _context(files, self.revoked)

    def still_accepts(self, der: bytes, before: Tls) -> bool:
        """Return whether a certificate that was verified before would be again.

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
            for crl in self.revoked
        ):
            return False
        if self.authorities == before.authorities:
            return True
        return any(_issued(certificate, authority) for authority in self.authorities)

    def shows_and_takes(self) -> tuple[object, ...]:
        """Return what to compare it by: another key is another certificate."""
        return self.own, self.authorities, self.revoked


def _context(files: TlsFiles, revoked: Sequence[Crl]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # An empty password, since OpenSSL would ask for one at the terminal.
    with naming("certificate_file", files.certificate):
        context.load_cert_chain(files.certificate, files.key, password="")
    if files.client_ca is None or files.client_certificate is ClientCertificate.NONE:
        return context
    # A resumed session would bring its certificate back unchecked after it was revoked.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    with naming("client_ca_file", files.client_ca):
        context.load_verify_locations(files.client_ca)
    with naming("client_crl_file", files.client_crl or files.client_ca):
        crls.load(context, revoked)
    is_required = files.client_certificate is ClientCertificate.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _check_times(path: Path, own: Sequence[x509.Certificate]) -> None:
    for certificate in own:
        if certificate.not_valid_after_utc < _now():
            raise TlsFileError("certificate_file", path, _expired(certificate), is_over=True)
        if certificate.not_valid_before_utc > _now():
            # Not refused: a Pi without a clock of its own starts in the past.
            begins = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            _log.warning("%s: not valid before %s", path, begins)


def _checked_key(files: TlsFiles, own: Sequence[x509.Certificate]) -> PrivateKeyTypes:
    """Return the key, which is the certificate's if that could be read."""
    data = read("key_file", files.key, private_file.read)
    try:
        key = serialization.load_pem_private_key(data, None)
    except TypeError as error:
        raise TlsFileError("key_file", files.key, "the key is encrypted") from error
    except (ValueError, UnsupportedAlgorithm) as unusable:
        raise TlsFileError("key_file", files.key, "no private key in PEM") from unusable
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(*form)
    if own and own[0].public_key().public_bytes(*form) != public:
        why = f"not the key of the certificate in {files.certificate}"
        raise TlsFileError("key_file", files.key, why)
    return key


def _check_authorities(path: Path, found: Sequence[x509.Certificate]) -> None:
    if found and all(one.not_valid_after_utc < _now() for one in found):
        raise TlsFileError("client_ca_file", path, _expired(found[0]), is_over=True)


def revocations(
    files: TlsFiles, authorities: Sequence[x509.Certificate], faults: TlsFaults | None = None
) -> list[Crl]:
    """Return the lists to go by: the newer of those of the file and those that are spread.

    Args:
        files: of a listener.
        authorities: of them; what is wrong with a list is not looked for if there are none.
        faults: told of lists that are over by the clock; they count.

    Raises:
        TlsFileError: the file is not usable.

    """
    path = files.client_crl
    if path is None:
        return crls.united(None, files.spread, authorities, _now())
    found = revocation_lists("client_crl_file", path)
    if not found:
        raise TlsFileError("client_crl_file", path, "no certificate revocation list in PEM")
    lists = crls.united([crl for _, crl in found], files.spread, authorities, _now())
    told = [crl for _, crl in found]
    faults = TlsFaults() if faults is None else faults
    for line, crl in (*found, *((0, one) for one in lists if one not in told)):
        with faults.noting():
            _check_list(path, line, crl, authorities, counts=crl in lists)
    faults.hold()
    return lists


def _check_list(
    path: Path, line: int, crl: Crl, authorities: Sequence[x509.Certificate], *, counts: bool
) -> None:
    # Without authorities these are at fault.
    if authorities and not any(crls.has_signed(one, crl) for one in authorities):
        raise TlsFileError("client_crl_file", path, "signed by none of client_ca_file", line)
    # OpenSSL would refuse every client's certificate.
    if counts and crls.has_ended(crl, _now()):
        when = f"{crl.next_update_utc:%Y-%m-%d %H:%M} UTC"
        whence = "" if line else "the newer list that a neighbour handed over "
        why = f"{whence}was to be renewed until {when}"
        raise TlsFileError("client_crl_file", path, why, line, is_over=True)


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _expired(certificate: x509.Certificate) -> str:
    return f"expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"


@contextmanager
def naming(field: str, path: Path) -> Iterator[None]:
    """Have an error of OpenSSL, or of the system below it, name the file.

    Raises:
        TlsFileError: in its place.

    """
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise TlsFileError(field, path, why) from error


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)

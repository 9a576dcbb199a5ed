"""The times at which certificates and revocation lists of a listener's files end."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.trust.certificates.expiry import CertificateExpiry
from gateway.trust.credentials import crl as crls
from gateway.trust.credentials.certificate_files import certificates, revocation_lists

if TYPE_CHECKING:
    from gateway.trust.tls.context import TlsFiles


def read(files: TlsFiles, section: str = "") -> tuple[CertificateExpiry, ...]:
    """Return what the files of a listener hold; a list without a next update does not end.

    Args:
        files: where they are.
        section: of the configuration, with a dot; empty for that of MQTT.

    Raises:
        TlsFileError: one can't be read.

    """
    found: list[CertificateExpiry] = []
    given = (("certificate_file", files.certificate), ("client_ca_file", files.client_ca))
    for field, path in given:
        if path is not None:
            each = certificates(field, path)
            ends = ((one.subject, one.not_valid_after_utc.timestamp()) for one in each)
            found += _numbered(section + field, ends)
    if files.client_ca is not None:
        field = "client_crl_file"
        authorities = certificates("client_ca_file", files.client_ca)
        found += _numbered(section + field, _lists(field, files, authorities))
    return tuple(found)


def _numbered(field: str, found: Iterable[tuple[x509.Name, float]]) -> Iterator[CertificateExpiry]:
    for number, (name, ends_s) in enumerate(found, 1):
        yield CertificateExpiry(field, number, _named(name), ends_s)


def _lists(
    field: str, files: TlsFiles, authorities: Sequence[x509.Certificate]
) -> Iterator[tuple[x509.Name, float]]:
    path = files.client_crl
    told = None if path is None else [one for _, one in revocation_lists(field, path)]
    now = datetime.datetime.now(datetime.UTC)
    for one in crls.united(told, files.spread, authorities, now):
        if one.next_update_utc is not None:
            yield one.issuer, one.next_update_utc.timestamp()


def _named(name: x509.Name) -> str:
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(common[0].value) if common else name.rfc4514_string()

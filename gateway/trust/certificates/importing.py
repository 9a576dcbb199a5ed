"""Import from a key store, a trust store or PEM: what a gateway takes, as which files. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from cryptography import x509

from gateway.trust.certificates.authority_folder import is_of
from gateway.trust.certificates.pkcs12_files import KeystoreContent, Pkcs12Error
from gateway.trust.certificates.signature_keys import PrivateKey
from light_dataclasses import dataclass


class NoKeyError(Pkcs12Error):
    """A certificate came without its key, and none that waits is that."""


@dataclass(frozen=True, slots=True)
class ImportedContent:
    """The keys and certificates that are imported.

    Attributes:
        key: the gateway's own; None where only authorities are.
        chain: its certificate, and those between it and its authority; empty without a key.
        authorities: who vouch for others.

    """

    key: PrivateKey | None
    chain: Sequence[x509.Certificate]
    authorities: Sequence[x509.Certificate]


def imported(
    content: KeystoreContent[PrivateKey], keys: Iterable[PrivateKey], now: datetime.datetime
) -> ImportedContent:
    """Return what a gateway takes over.

    Args:
        content: of a file.
        keys: that wait for a certificate, where the file has one without its key.
        now: the time.

    Raises:
        Pkcs12Error: it is of no use to a gateway.

    """
    if content.key is not None and content.certificate is None:
        raise Pkcs12Error("a key without a certificate: put both into one file")
    content = _with_key(content, keys)
    own = content.certificate
    if content.key is not None and own is not None:
        if own.not_valid_after_utc < now:
            raise Pkcs12Error(f"its certificate ended {own.not_valid_after_utc:%Y-%m-%d}")
        return ImportedContent(content.key, [own, *content.between], content.roots)
    authorities = content.roots or content.authorities
    if not authorities:
        raise Pkcs12Error("neither a key nor a certificate")
    return ImportedContent(None, (), authorities)


def _with_key(
    content: KeystoreContent[PrivateKey], keys: Iterable[PrivateKey]
) -> KeystoreContent[PrivateKey]:
    """Return a certificate that an authority has answered a request with, beside the key of
    before."""
    leaves = [one for one in content.authorities if not _vouches(one)]
    if content.key is not None or not leaves:
        return content
    for key in keys:
        for one in leaves:
            if is_of(key, one):
                others = [other for other in content.authorities if other != one]
                return KeystoreContent(key, one, others)
    raise NoKeyError("no key that waits here is of its certificate: make a request first")


def _vouches(certificate: x509.Certificate) -> bool:
    return is_authority(certificate) or certificate.issuer == certificate.subject


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether a certificate says that its holder vouches for others."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.value.ca

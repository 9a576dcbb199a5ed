"""The names in files of certificates and revocation lists, for the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from gateway.trust.certificates import stores
from gateway.trust.certificates.x509_forms import common_name
from gateway.trust.credentials import certificate_files


def is_store(path: Path) -> bool:
    """Return whether a file is a store under a password, whose names nobody reads."""
    return stores.is_store(path)


def certificates(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each certificate of a file: its name, and what it is (DER).

    Raises:
        TlsFileError: the file can't be read, or has none.

    """
    for one in certificate_files.certificates("certificate_file", path):
        name = f"{common_name(one.subject)} {one.serial_number:x}"
        yield name, one.public_bytes(Encoding.DER)


def revoked(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each certificate that a file's lists revoke: its number, and who issued it.

    Raises:
        TlsFileError: the file can't be read, or a list in it.

    """
    for _, one in certificate_files.revocation_lists("client_crl_file", path):
        for each in one:
            yield f"{each.serial_number:x}", common_name(one.issuer)

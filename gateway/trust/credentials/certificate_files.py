"""Files of certificates and revocation lists in PEM, and all that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from cryptography import x509

from gateway.trust.credentials.tls_file_faults import TlsFaults, TlsFileError

_CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 )?CERTIFICATE-----")
_CRL = re.compile(rb"-----BEGIN X509 CRL-----")

T = TypeVar("T")


def read(field: str, path: Path, way: Callable[[Path], bytes] = Path.read_bytes) -> bytes:
    """Return what a file holds.

    Args:
        field: which it is, for the error.
        path: of the file.
        way: reads it, or raises an `OSError`.

    Raises:
        TlsFileError: it can't be read.

    """
    try:
        return way(path)
    except OSError as error:
        raise TlsFileError(field, path, error.strerror or "can't be read") from error


def certificates(field: str, path: Path) -> list[x509.Certificate]:
    """Return the certificates of a file, one or more.

    Raises:
        TlsFileError: it can't be read, has none, or one in it is none.

    """
    found = _each(field, path, _CERTIFICATE, x509.load_pem_x509_certificate, "a certificate")
    if not found:
        raise TlsFileError(field, path, "no certificate in PEM")
    return [certificate for _, certificate in found]


def revocation_lists(field: str, path: Path) -> list[tuple[int, x509.CertificateRevocationList]]:
    """Return the revocation lists of a file, each with the number of its first line.

    Raises:
        TlsFileError: it can't be read, or one in it is none.

    """
    return _each(field, path, _CRL, x509.load_pem_x509_crl, "a list")


def whole_lists(data: bytes) -> list[x509.CertificateRevocationList]:
    """Return the revocation lists in PEM that can be read, whatever stands between them."""
    found: list[x509.CertificateRevocationList] = []
    starts = [one.start() for one in _CRL.finditer(data)]
    for start, end in pairwise((*starts, len(data))):
        with suppress(ValueError):
            found.append(x509.load_pem_x509_crl(data[start:end]))
    return found


def _each(
    field: str, path: Path, begin: re.Pattern[bytes], load: Callable[[bytes], T], what: str
) -> list[tuple[int, T]]:
    data = read(field, path)
    starts = [found.start() for found in begin.finditer(data)]
    faults = TlsFaults()
    found: list[tuple[int, T]] = []
    for start, end in pairwise((*starts, len(data))):
        line = data.count(b"\n", 0, start) + 1
        with faults.noting():
            try:
                found.append((line, load(data[start:end])))
            except ValueError as error:
                raise TlsFileError(field, path, f"{what} that can't be read", line) from error
    faults.hold()
    return found

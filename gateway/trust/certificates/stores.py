"""Key stores and trust stores of a gateway that are under a password, as files that OpenSSL reads.

Where ``certificate_file``, ``key_file`` or ``client_ca_file`` is PKCS#12 (``.p12``, ``.pfx``), or
the key is encrypted PEM, its content is put in PEM into a file that is nowhere but in memory
(memfd_create(2)): no disk ever has the key in the clear.
"""

from __future__ import annotations

import functools
import os
import weakref
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dtls import private_file
from gateway.base import systemd_credentials
from gateway.trust.certificates import key_work, pkcs12_files
from gateway.trust.certificates.key_work import KeyWorkError
from gateway.trust.certificates.pkcs12_files import Pkcs12Error
from gateway.trust.credentials.certificate_files import read
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import TlsFiles
from light_dataclasses import dataclass

STORES = (".p12", ".pfx")
REMEMBERED = 16
"""Files that are not unpacked again while they are the same: their passwords are slow to try."""


def is_store(path: Path) -> bool:
    """Return whether a file is PKCS#12, by its name."""
    return path.suffix.lower() in STORES


def in_the_clear(files: TlsFiles, password_file: Path | None = None) -> TlsFiles:
    """Return files that OpenSSL reads, with what is in others.

    Args:
        files: of a listener.
        password_file: its first line opens those under a password; None for systemd's credential
            ``hedgerow-keystore-password``.

    Raises:
        TlsFileError: one can't be opened.

    """
    certificate, key = files.certificate, files.key
    if is_store(certificate):
        certificate = _opened("certificate_file", certificate, password_file).chain
    if is_store(key) or _is_encrypted(key):
        key = _opened("key_file", key, password_file).key
    authorities = files.client_ca
    if authorities is not None and is_store(authorities):
        authorities = _opened("client_ca_file", authorities, password_file).trusted
    return replace(files, certificate=certificate, key=key, client_ca=authorities)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """A file as it was read."""

    path: Path
    changed_ns: int
    bytes: int
    inode: int


class _InMemory:
    """The content of a store, each part as a file in memory."""

    def __init__(self, chain: bytes, key: bytes, trusted: bytes) -> None:
        self._descriptors: list[int] = []
        self.chain = self._file("certificates", chain)
        self.key = self._file("key", key)
        self.trusted = self._file("authorities", trusted)
        weakref.finalize(self, _close, self._descriptors)

    def _file(self, name: str, data: bytes) -> Path:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        self._descriptors.append(descriptor)
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, data)
        return Path(f"/proc/self/fd/{descriptor}")


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _opened(field: str, path: Path, password_file: Path | None) -> _InMemory:
    try:
        found = path.stat()
        stamp = _Stamp(path, found.st_mtime_ns, found.st_size, found.st_ino)
        password = systemd_credentials.password(
            password_file, systemd_credentials.KEYSTORE_PASSWORD
        )
        return _unpacked(stamp, password)
    except OSError as error:
        raise TlsFileError(field, path, error.strerror or "can't be read") from error
    except (Pkcs12Error, systemd_credentials.CredentialError) as error:
        raise TlsFileError(field, path, str(error)) from error


@functools.lru_cache(REMEMBERED)
def _unpacked(stamp: _Stamp, password: bytes | None) -> _InMemory:
    data = private_file.read(stamp.path)
    if not is_store(stamp.path):
        return _InMemory(b"", _decrypted(data, password), b"")
    content = pkcs12_files.unpack_any(data, password)
    key = b""
    if content.key is not None:
        key = content.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own = [] if content.certificate is None else [content.certificate]
    chain = pkcs12_files.as_pem([*own, *content.between])
    trusted = content.roots or content.authorities
    return _InMemory(chain, key, pkcs12_files.as_pem(trusted))


def _is_encrypted(path: Path) -> bool:
    # What else is wrong with it is told by who reads it.
    try:
        return b"ENCRYPTED" in read("key_file", path)
    except TlsFileError:
        return False


def _decrypted(data: bytes, password: bytes | None) -> bytes:
    if not password:
        raise Pkcs12Error("the key is encrypted, and there is no password for it")
    try:
        key_work.check_pem(data)
        key = serialization.load_pem_private_key(data, password)
    except KeyWorkError as error:
        raise Pkcs12Error(f"a key that is not opened here: {error}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Pkcs12Error("the password does not open the key") from error
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

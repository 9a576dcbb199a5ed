"""Files of a section that take over what an administrator has uploaded, and how they are written.

All of it is looked at as a reload would look, in memory, before a byte is on the disk. A file keeps
its form: PEM stays PEM, a store stays a store, and a key under a password stays under one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cryptography import x509

from gateway.base import replaced_file, systemd_credentials
from gateway.process.access import secure_files
from gateway.process.configuration.config import GatewaySettings
from gateway.trust.certificates import pkcs12_files, private_keys, stores
from gateway.trust.certificates.importing import ImportedContent
from gateway.trust.certificates.pkcs12_files import KeystoreContent, Pkcs12Error
from gateway.trust.certificates.signature_keys import PrivateKey
from light_dataclasses import dataclass

SECTIONS: Final = ("mqtt", "coap", "console")
OWN, AUTHORITIES = "own", "authorities"
PARTS: Final = (OWN, AUTHORITIES)
"""Of a section: its own key and certificate, or whom it trusts."""
SECRET, OPEN = 0o600, 0o644
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    OWN: ("key_file", "certificate_file"),
    AUTHORITIES: ("client_ca_file",),
}


class UnfitUploadError(ValueError):
    """The upload can't take the place of what is there: ``str(error)`` is one line."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The file of a section that an upload replaces.

    Attributes:
        section: one of `SECTIONS`.
        part: one of `PARTS`.

    """

    section: str
    part: str


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is written.

    Attributes:
        path: of it.
        data: all of its content.
        clear: the same in PEM, not encrypted.
        mode: of a new file.
        instead_of: what the file held when the change was begun; empty if it was not there.

    """

    path: Path
    data: bytes
    clear: bytes
    mode: int
    instead_of: bytes


class KeyFiles:
    """The files of certificates that a configuration names.

    Args:
        settings: name them.

    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings

    def paths(self, place: KeyPlace) -> list[Path]:
        """Return the files of a place, the key's first.

        Raises:
            UnfitUploadError: the configuration names none.

        """
        section = getattr(self._settings, place.section)
        found = [getattr(section, field) for field in _FIELDS[place.part]]
        if None in found:
            missing = _FIELDS[place.part][found.index(None)]
            why = "the configuration names no such file: add it on the machine first"
            raise UnfitUploadError(f"{place.section}.{missing}: {why}")
        return found

    def waiting(self) -> Path:
        """Return where a key waits for its certificate: beside the broker's own.

        Raises:
            UnfitUploadError: the configuration names no key of the broker.

        """
        key_file, _ = self.paths(KeyPlace("mqtt", OWN))
        return key_file.with_name("requested.key.pem")

    def held(self, place: KeyPlace) -> Mapping[Path, bytes]:
        """Return what the files of a place hold now; nothing for one that is not there.

        Raises:
            UnfitUploadError: as `paths`.
            OSError: one can't be read.

        """
        return {path: old(path) for path in self.paths(place)}

    def trusted(self, place: KeyPlace) -> list[x509.Certificate]:
        """Return whom a section trusts now.

        Raises:
            UnfitUploadError: as `paths`.
            TlsFileError: the file can't be opened.

        """
        (file,) = self.paths(KeyPlace(place.section, AUTHORITIES))
        data = file.read_bytes()
        if stores.is_store(file):
            content = pkcs12_files.unpack_any(data, self._password())
            return list(content.roots or content.authorities)
        return x509.load_pem_x509_certificates(data)

    def has_password(self) -> bool:
        """Return whether a password is there, by which stores are opened and written."""
        return bool(self._password())

    def planned(
        self, place: KeyPlace, content: ImportedContent, instead_of: Mapping[Path, bytes]
    ) -> list[PlannedFile]:
        """Return what is written, the key first: who reads between the two names the file at fault.

        Args:
            place: whose files are written.
            content: of the upload.
            instead_of: see `held`; of the moment at which the change was begun.

        Raises:
            UnfitUploadError: the upload has not what the place takes, or no password is there.

        """
        paths = self.paths(place)
        if place.part == AUTHORITIES:
            return [self._authorities(paths[0], content.authorities, instead_of[paths[0]])]
        if content.key is None:
            why = "it has no key and no certificate of one: is it a trust store?"
            raise UnfitUploadError(why)
        key_file, certificate_file = paths
        clear_key = private_keys.as_pem(content.key)
        chain = pkcs12_files.as_pem(content.chain)
        own, *between = content.chain
        whole: KeystoreContent[PrivateKey] = KeystoreContent(
            content.key, own, [*between, *content.authorities]
        )
        found: list[PlannedFile] = []
        for path, clear, mode in ((key_file, clear_key, SECRET), (certificate_file, chain, OPEN)):
            if stores.is_store(path):
                data = pkcs12_files.pack(whole, self._needed(path))
            elif path == key_file and b"ENCRYPTED" in instead_of[path]:
                data = private_keys.as_pem(content.key, self._needed(path))
            else:
                data = clear
            its_mode = SECRET if stores.is_store(path) else mode
            found.append(PlannedFile(path, data, clear, its_mode, instead_of[path]))
        return found

    def _authorities(
        self, path: Path, authorities: Sequence[x509.Certificate], instead_of: bytes
    ) -> PlannedFile:
        if not authorities:
            raise UnfitUploadError("it has no certificate of an authority")
        clear = pkcs12_files.as_pem(authorities)
        if not stores.is_store(path):
            return PlannedFile(path, clear, clear, OPEN, instead_of)
        trusted: KeystoreContent[PrivateKey] = KeystoreContent(None, None, authorities)
        packed = pkcs12_files.pack(trusted, self._needed(path))
        return PlannedFile(path, packed, clear, SECRET, instead_of)

    def check(self, files: Sequence[PlannedFile]) -> None:
        """Check that a reload would take the files over; nothing of it is written.

        Raises:
            ConfigError: it would not; it names the field.

        """
        with contextlib.ExitStack() as stack:
            clear = {one.path: stack.enter_context(_in_memory(one.clear)) for one in files}
            in_both = {one.path for one in files if sum(o.path == one.path for o in files) > 1}
            settings = self._settings
            for name in SECTIONS:
                section = getattr(settings, name)
                others = {
                    field: clear[file]
                    for field in (*_FIELDS[OWN], *_FIELDS[AUTHORITIES])
                    if (file := getattr(section, field)) in clear and file not in in_both
                }
                if in_both & {section.key_file, section.certificate_file}:
                    key, chain = (stack.enter_context(_in_memory(one.clear)) for one in files)
                    others |= {"key_file": key, "certificate_file": chain}
                if others:
                    settings = replace(settings, **{name: replace(section, **others)})
            secure_files.read(settings)

    def write(self, files: Sequence[PlannedFile]) -> None:
        """Write them, each by one rename, and on the disk before the next.

        Raises:
            OvertakenError: somebody has edited one since the change was begun, and that stands.
            OSError: one can't be written; it names it. All others hold what they held.

        """
        written: list[PlannedFile] = []
        try:
            for one in {one.path: one for one in files}.values():
                _replace(one, one.data, one.instead_of)
                written.append(one)
        except OSError:
            for one in written:  # a key alone would not fit to the certificate that is there
                with contextlib.suppress(OSError):
                    _replace(one, one.instead_of, one.data)
            raise

    def _needed(self, path: Path) -> bytes:
        password = self._password()
        if not password:
            raise UnfitUploadError(f"{path}: the gateway has no password to write it with")
        return password

    def _password(self) -> bytes | None:
        try:
            return systemd_credentials.password(
                self._settings.keys.password_file, systemd_credentials.KEYSTORE_PASSWORD
            )
        except systemd_credentials.CredentialError as error:
            raise Pkcs12Error(str(error)) from error


def _replace(file: PlannedFile, data: bytes, instead_of: bytes) -> None:
    replaced_file.replace(
        file.path,
        data,
        is_durable=True,
        keeps_owner=True,
        mode=file.mode,
        instead_of=instead_of,
    )


def old(path: Path) -> bytes:
    """Return what a file holds now; nothing if it is not there."""
    return path.read_bytes() if path.exists() else b""


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[Path]:
    """Yield a file that is nowhere but in memory (memfd_create(2))."""
    descriptor = os.memfd_create("checked", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, data)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)

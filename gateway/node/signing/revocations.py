"""The newest revocation list of each authority, from files and from neighbours, kept over a start.

A list proves itself by its authority's signature (RFC 5280, section 5). A newer one has a greater
CRL number, or the same and a later thisUpdate; an older one is never taken, whoever hands it over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.base.kept_file import DamagedFileError, KeptFile
from gateway.trust.credentials import certificate_files
from gateway.trust.credentials import crl as crls
from gateway.trust.credentials.crl import Crl, Edition
from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError

if TYPE_CHECKING:
    from gateway.trust.tls.context import TlsFiles

FILE_NAME = "revoked.pem"
MAX_BYTES = 1 << 20
"""Of a list, in DER: some 25,000 certificates."""
MAX_AUTHORITIES = 16
"""The most authorities whose lists travel; those of more do not."""
_WITHOUT = (
    "each list in it that is whole still counts; others count when a neighbour hands them over, or "
    "from the configured client_crl_file"
)

_log = logging.getLogger(__name__)


class UntrustedListError(ProtocolError):
    """A revocation list is none to go by; it says why."""


@dataclass(frozen=True, slots=True)
class Revoking:
    """The authorities that may revoke, and their revocation lists, as files have them.

    Attributes:
        authorities: whose lists count.
        lists: of the configuration.

    """

    authorities: tuple[x509.Certificate, ...] = ()
    lists: tuple[Crl, ...] = ()

    @classmethod
    def read(cls, *files: TlsFiles | None) -> Revoking:
        """Read the files of listeners.

        Raises:
            TlsFileError: one can't be read.

        """
        authorities, lists = list[x509.Certificate](), list[Crl]()
        for one in files:
            if one is not None and one.client_ca is not None:
                authorities += certificate_files.certificates("client_ca_file", one.client_ca)
            if one is not None and one.client_crl is not None:
                found = certificate_files.revocation_lists("client_crl_file", one.client_crl)
                lists += [crl for _, crl in found]
        return cls(tuple(authorities), tuple(lists))

    def joined(self, *others: Revoking) -> Revoking:
        """Return what this one and others say together."""
        authorities, lists = self.authorities, self.lists
        for one in others:
            authorities, lists = (*authorities, *one.authorities), (*lists, *one.lists)
        return Revoking(authorities, lists)


class Revocations:
    """The lists of one gateway or collector.

    Args:
        folder: its state, where they are kept.
        clock: the wall clock, seconds since 1970.

    Attributes:
        lists: those that it has. What is found in the folder counts from the first `follow` on:
            who goes by lists looks at whose they are. Those of authorities that are not trusted
            stay too, `MAX_AUTHORITIES` of them: they may be trusted again.

    Raises:
        OSError: the file of the folder can't be read now. To go on without it would let in whom
            its lists keep out, and write over them.

    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = _file(folder)
        self._clock = clock
        self._authorities: dict[bytes, x509.Certificate] = {}
        self._newest: dict[bytes, Crl] = {}
        self._untrusted: list[Crl] = []
        self._saving = threading.Lock()
        self._is_kept = True
        self.lists: tuple[Crl, ...] = tuple(self._load())

    @property
    def wall_s(self) -> float:
        """The wall clock, seconds since 1970."""
        return self._clock()

    @property
    def editions(self) -> dict[bytes, Edition]:
        """Return the edition of each authority's list, by the authority's name."""
        return {name: crls.edition_of(crl) for name, crl in self._newest.items()}

    def encoded(self, name: bytes) -> bytes | None:
        """An authority's list in DER; None if there is none, or it is too large to travel."""
        if (crl := self._newest.get(name)) is None:
            return None
        der = crl.public_bytes(Encoding.DER)
        return der if len(der) <= MAX_BYTES else None

    def is_newer(self, name: bytes, edition: Edition) -> bool:
        """Return whether a list would be taken that is so new."""
        if name not in self._authorities:
            return False
        own = self._newest.get(name)
        return own is None or edition > crls.edition_of(own)

    def follow(self, revoking: Revoking) -> bool:
        """The files were read; returns whether a list is new by them."""
        before = self.editions
        self._authorities = {
            crls.name_of(one): one for one in revoking.authorities[:MAX_AUTHORITIES]
        }
        self._warn_of_older(revoking.lists)
        trusted = list(self._authorities.values())
        self._newest = crls.newest((*revoking.lists, *self.lists), trusted)
        self._untrusted = [
            crl for crl in self.lists if not any(crls.has_signed(one, crl) for one in trusted)
        ][-MAX_AUTHORITIES:]
        is_new = self.editions != before
        if is_new or len(self.lists) != len(self._newest) + len(self._untrusted):
            self._keep()
        return is_new

    def take(self, name: bytes, der: bytes) -> bool:
        """Take a list that somebody handed over.

        Args:
            name: of its authority.
            der: the list.

        Returns:
            Whether it is newer than the one that was here.

        Raises:
            UntrustedListError: it is no list of that authority, or none to go by.

        """
        if len(der) > MAX_BYTES:
            raise UntrustedListError("revocation list too large, bytes", len(der))
        if (authority := self._authorities.get(name)) is None:
            raise UntrustedListError("revocation list of an authority that is not trusted", name)
        try:
            crl = x509.load_der_x509_crl(der)
            # Before its extensions are read, of which whoever made it up may have put in 90,000.
            is_signed = crls.has_signed(authority, crl)
            edition = crls.edition_of(crl) if is_signed else (crls.NO_NUMBER, 0.0)
        except ValueError as error:
            raise UntrustedListError("revocation list", str(error)) from error
        if not is_signed:
            raise UntrustedListError("revocation list that its authority has not signed", name)
        if not self.is_newer(name, edition):
            return False
        now = datetime.fromtimestamp(self._clock(), UTC)
        if not crls.is_whole(crl):
            raise UntrustedListError("revocation list that is a part of one", edition)
        if crls.has_ended(crl, now) or crl.last_update_utc > now:
            raise UntrustedListError("revocation list that is not valid now", edition)
        self._newest[name] = crl
        self._keep()
        return True

    def _warn_of_older(self, told: Sequence[Crl]) -> None:
        """Say of lists that their authority has begun to count anew: they count for nothing."""
        trusted = list(self._authorities.values())
        before = crls.newest(self.lists, trusted)
        for name, crl in crls.newest(told, trusted).items():
            if (own := before.get(name)) is None:
                continue
            (number, at_s), (known, known_at_s) = crls.edition_of(crl), crls.edition_of(own)
            if number < known and at_s > known_at_s:
                what = "the list of %s has number %d, and an earlier one has %d: it does not count"
                _log.error(what, crl.issuer.rfc4514_string(), number, known)

    def save(self) -> str:
        """Keep what is new since it was kept last: waits for the disk, in any thread.

        Returns:
            Why it is not kept, which the log says too; empty if it is.

        """
        with self._saving:
            if self._is_kept:
                return ""
            self._is_kept = True
            pem = b"".join(crl.public_bytes(Encoding.PEM) for crl in self.lists)
            try:
                self._file.write(pem)
            except OSError as error:  # they count all the same, until the next start
                self._is_kept = False
                _log.error("revocation lists are not kept: %s", error)
                return str(error)
        return ""

    def _keep(self) -> None:
        self.lists = (*self._newest.values(), *self._untrusted)
        self._is_kept = False
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.save()
        else:
            loop.run_in_executor(None, self.save)

    def _load(self) -> list[Crl]:
        return self._file.read(_lists, salvage=certificate_files.whole_lists) or []


def kept_lists(folder: Path) -> list[Crl]:
    """Return the lists that a state folder has, and leave the file as it is; for who only looks."""
    try:
        return _file(folder).look(_lists)
    except DamagedFileError as damage:
        return certificate_files.whole_lists(damage.data)
    except OSError:
        return []


def _file(folder: Path) -> KeptFile:
    return KeptFile(folder / FILE_NAME, _WITHOUT, is_durable=True)


def _lists(data: bytes) -> list[Crl]:
    found = certificate_files.whole_lists(data)
    if data.count(b"-----BEGIN") != len(found) or bool(data.strip()) != bool(found):
        raise ValueError("holds what is no revocation list")
    return found

"""The revocation lists of one gateway or collector, kept over a start; which count: `newest_lists`.

Where nobody may revoke and no list is kept, nothing of X.509 is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.base.kept_file import DamagedFileError, KeptFile
from gateway.node.signing.revoking import Revoking, UntrustedListError

if TYPE_CHECKING:
    from gateway.node.signing.newest_lists import NewestLists
    from gateway.trust.credentials.crl import Crl
    from gateway.trust.credentials.crl_edition import Edition

FILE_NAME = "revoked.pem"
_WITHOUT = (
    "each list in it that is whole still counts; others count when a neighbour hands them over, or "
    "from the configured client_crl_file"
)

_log = logging.getLogger(__name__)


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
        self._newest: NewestLists | None = None
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
        return {} if self._newest is None else self._newest.editions

    def encoded(self, name: bytes) -> bytes | None:
        """Return an authority's list in DER; None if there is none, or it is too large to
        travel."""
        return None if self._newest is None else self._newest.encoded(name)

    def is_newer(self, name: bytes, edition: Edition) -> bool:
        """Return whether a list would be taken that is so new."""
        return self._newest is not None and self._newest.is_newer(name, edition)

    def follow(self, revoking: Revoking) -> bool:
        """Note that the files were read; return whether a list is new by them."""
        before, kept = self.editions, self.lists
        if self._newest is None and not (revoking.authorities or kept):
            return False
        from gateway.node.signing.newest_lists import NewestLists  # noqa: PLC0415  # X.509 takes a while to load

        self._newest = newest = NewestLists(revoking, kept)
        for issuer, number, known in newest.counted_anew(revoking.lists, kept):
            what = "the list of %s has number %d, and an earlier one has %d: it does not count"
            _log.error(what, issuer, number, known)
        is_new = self.editions != before
        if is_new or len(kept) != len(newest.lists):
            self._keep(newest)
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
        if self._newest is None:
            raise UntrustedListError("revocation list of an authority that is not trusted", name)
        is_new = self._newest.take(name, der, datetime.fromtimestamp(self._clock(), UTC))
        if is_new:
            self._keep(self._newest)
        return is_new

    def save(self) -> str:
        """Keep what is new since it was kept last: waits for the disk, in any thread.

        Returns:
            Why it is not kept, which the log says too; empty if it is.

        """
        with self._saving:
            if self._is_kept:
                return ""
            self._is_kept = True
            from gateway.trust.credentials import crl as crls  # noqa: PLC0415  # as the lists are

            try:
                self._file.write(crls.in_pem(self.lists))
            except OSError as error:  # they count all the same, until the next start
                self._is_kept = False
                _log.error("revocation lists are not kept: %s", error)
                return str(error)
        return ""

    def _keep(self, newest: NewestLists) -> None:
        self.lists = newest.lists
        self._is_kept = False
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.save()
        else:
            loop.run_in_executor(None, self.save)

    def _load(self) -> list[Crl]:
        return self._file.read(_lists, salvage=_whole_lists) or []


def kept_lists(folder: Path) -> list[Crl]:
    """Return the lists that a state folder has, and leave the file as it is; for who only looks."""
    try:
        return _file(folder).look(_lists)
    except DamagedFileError as damage:
        return _whole_lists(damage.data)
    except OSError:
        return []


def _file(folder: Path) -> KeptFile:
    return KeptFile(folder / FILE_NAME, _WITHOUT, is_durable=True)


def _lists(data: bytes) -> list[Crl]:
    found = _whole_lists(data)
    if data.count(b"-----BEGIN") != len(found) or bool(data.strip()) != bool(found):
        raise ValueError("holds what is no revocation list")
    return found


def _whole_lists(data: bytes) -> list[Crl]:
    from gateway.trust.credentials import certificate_files  # noqa: PLC0415  # X.509, for who has lists

    return certificate_files.whole_lists(data)

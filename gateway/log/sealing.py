"""Segments to which nothing is appended any more, until the disk has them and their indexes.

The kernel tells of what it could not write once, and then counts it as written: the next sync of
the same file says that all is well. So a segment whose sync failed is suspect, and no sync that
covers it succeeds before it was written again: as a new file, on other blocks, which takes its
name when the disk has it. So is a segment that somebody has deleted: its
descriptor still has it.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.base import replaced_file
from gateway.log.damage import Damage
from gateway.log.index import SUFFIX
from gateway.log.segment import Segment
from light_dataclasses import dataclass

RETRY_S: Final = 1.0
"""A segment that could not be written again is left alone for so long; until then syncs fail."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A segment, its descriptor and its index."""

    segment: Segment
    fd: int
    index: bytes


class Sealing:
    """Completes segments when the log is synced; it happens in a thread, for a disk is slow.

    They come before the newest: nothing is durable of which an earlier part may be lost.

    Args:
        damage: told of what was lost before it could be written again.
        now: a clock that goes on steadily, in seconds.

    """

    def __init__(self, damage: Damage, now: Callable[[], float]) -> None:
        self._damage = damage
        self._now = now
        self._unsynced: deque[_Sealed] = deque()
        self._unindexed: deque[_Sealed] = deque()
        self.is_suspect = False
        """True if one of them has to be written again."""
        self._is_new = False
        """True if the folder on the disk may lack the newest segment's name."""
        self._retry_at_s = 0.0
        self._refusal: OSError | None = None

    @property
    def unsynced(self) -> int:
        """Segments that the disk may lack."""
        return len(self._unsynced)

    @property
    def unfinished(self) -> int:
        """Segments that have no index yet."""
        return len(self._unsynced) + len(self._unindexed)

    def add(self, segment: Segment, fd: int, index: bytes) -> None:
        """Take over a segment, its descriptor, and what is to stand in its index."""
        self._unsynced.append(_Sealed(segment, fd, index))
        self.is_suspect = self.is_suspect or segment.is_suspect

    def begun(self) -> None:
        """There is a new segment, whose name the folder has to keep."""
        self._is_new = True

    def complete(self, folder_fd: int, newest: Segment, *, has_followed: bool = True) -> None:
        """Force them to the disk, then write their indexes; what fails is tried again.

        Args:
            folder_fd: of the folder, which is synced if there is a new segment in it.
            newest: the segment that is appended to; suspect if the folder may lack its name.
            has_followed: whether anything stands behind them. An index tells a start that a
                segment with something in it came next, so it is not written before.

        Raises:
            OSError: the disk does not take a segment, or the folder.

        """
        while self._unsynced:
            self._force(self._unsynced[0])
            sealed = self._unsynced.popleft()
            os.close(sealed.fd)
            self._unindexed.append(sealed)
        if self._is_new:
            self._is_new = False
            try:
                os.fsync(folder_fd)
            except OSError:
                self._is_new = newest.is_suspect = True
                raise
        while self._unindexed and has_followed:
            sealed = self._unindexed[0]
            try:
                replaced_file.replace(sealed.segment.path.with_suffix(SUFFIX), sealed.index)
            except OSError:  # a full disk; a start does without
                break
            self._unindexed.popleft()

    def _force(self, sealed: _Sealed) -> None:
        segment = sealed.segment
        if not segment.is_suspect:
            try:
                sync_named(sealed.fd, segment.path)
            except OSError:
                segment.is_suspect = self.is_suspect = True
                raise
            return
        if self._refusal is not None and self._now() < self._retry_at_s:
            refused = self._refusal
            raise OSError(refused.errno, refused.strerror, refused.filename)
        try:
            self._write_again(sealed)
        except OSError as error:
            self._refusal, self._retry_at_s = error, self._now() + RETRY_S
            raise
        self._refusal = None
        segment.is_suspect = False
        self.is_suspect = any(other.segment.is_suspect for other in self._unsynced)

    def _write_again(self, sealed: _Sealed) -> None:
        """Write what the kernel still has of it to other blocks; what it has lost is told.

        A file that was deleted is there as long as its descriptor is.
        """
        segment, path = sealed.segment, sealed.segment.path
        source = Path("/proc/self/fd", str(sealed.fd)) if is_deleted(sealed.fd, path) else path
        data = source.read_bytes()[: segment.length]
        self._damage.look_anew(path)
        for _ in self._damage.readable(path, data):
            pass
        replaced_file.replace(path, data, is_durable=True, mode=0o600)
        _log.warning("%s: written again, since a sync of it had failed", path)

    def close(self) -> None:
        """Let go of the descriptors."""
        for sealed in self._unsynced:
            os.close(sealed.fd)
        self._unsynced.clear()


def sync_named(fd: int, path: Path) -> None:
    """Force a file to the disk, and see to it that a start will find it.

    Args:
        fd: its descriptor.
        path: its name.

    Raises:
        OSError: the disk does not take it, or somebody has deleted it.

    """
    os.fdatasync(fd)
    if is_deleted(fd, path):
        raise OSError(errno.ENOENT, "another program has deleted it", str(path))


def is_deleted(fd: int, path: Path) -> bool:
    """Return whether an open file has no name any more; some file systems count no names."""
    found = os.fstat(fd)
    if found.st_nlink:
        return False
    try:
        return not os.path.samestat(found, path.stat())
    except FileNotFoundError:
        return True

"""Segments to which nothing is appended any more, until the disk has them and their indexes."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway import replaced_file
from gateway.log.segment import Segment

INDEX_SUFFIX: Final = ".index"


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A segment, its descriptor and its index."""

    path: Path
    fd: int
    index: bytes


class Sealing:
    """Completes segments when the log is synced; it happens in a thread, for a disk is slow.

    They come before the newest: nothing is durable of which an earlier part may be lost.
    """

    def __init__(self) -> None:
        self._unsynced: deque[_Sealed] = deque()
        self._unindexed: deque[_Sealed] = deque()
        self._is_new = False
        """Whether the folder on the disk may lack the newest segment's name."""

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
        self._unsynced.append(_Sealed(segment.path, fd, index))

    def begun(self) -> None:
        """There is a new segment, whose name the folder has to keep."""
        self._is_new = True

    def complete(self, folder_fd: int) -> None:
        """Force them to the disk, then write their indexes; what fails is tried again.

        Args:
            folder_fd: of the folder, which is synced if there is a new segment in it.

        Raises:
            OSError: the disk does not take a segment, or the folder.

        """
        while self._unsynced:
            os.fdatasync(self._unsynced[0].fd)
            sealed = self._unsynced.popleft()
            os.close(sealed.fd)
            self._unindexed.append(sealed)
        while self._unindexed:
            sealed = self._unindexed[0]
            try:
                replaced_file.replace(sealed.path.with_suffix(INDEX_SUFFIX), sealed.index)
            except OSError:  # a full disk; a start does without
                break
            self._unindexed.popleft()
        if self._is_new:
            self._is_new = False
            try:
                os.fsync(folder_fd)
            except OSError:
                self._is_new = True
                raise

    def close(self) -> None:
        """Let go of the descriptors."""
        for sealed in self._unsynced:
            os.close(sealed.fd)
        self._unsynced.clear()

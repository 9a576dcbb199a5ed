"""The failure of a disk for which a log refuses batches: when it begins, and when it is over."""

from __future__ import annotations

import os
from pathlib import Path


class DiskFailure:
    """The failure of one log's disk.

    A full disk may have room for a short batch behind the last one. That it was taken is no sign
    that others would be, so a failure is over when a batch was taken, or has room, that is as long
    as the longest one that was refused.

    Args:
        folder: on the disk.

    Attributes:
        why: the reason why batches are refused; empty while they are taken.

    """

    def __init__(self, folder: Path) -> None:
        self.why = ""
        self._folder = folder
        self._refused_bytes = 0
        self._is_unsynced = False

    def refused(self, error: OSError, length: int) -> None:
        """Note that a batch of this length was refused."""
        self.why, self._refused_bytes = _told(error), max(length, self._refused_bytes)

    def took(self, length: int) -> None:
        """Note that a batch of this length was taken."""
        if length >= self._refused_bytes or self._room_bytes() >= self._refused_bytes:
            self._refused_bytes = 0
            self._end()

    def unsynced(self, error: OSError) -> None:
        """Note that a sync failed: what was taken is acknowledged to nobody."""
        self.why, self._is_unsynced = _told(error), True

    def synced(self) -> None:
        """Note that a sync succeeded."""
        if self._is_unsynced:
            self._is_unsynced = False
            self._end()

    def _end(self) -> None:
        if not self._refused_bytes and not self._is_unsynced:
            self.why = ""

    def _room_bytes(self) -> int:
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            return 0
        return disk.f_bavail * disk.f_frsize


def _told(error: OSError) -> str:
    return error.strerror or str(error)

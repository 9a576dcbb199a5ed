"""A disk that writes down what it is handed, in order: ``recorded_disk.py IMAGE RECORD FOLDER``.

FOLDER then has one file, the disk, which a loop device can stand on. Each write goes into IMAGE and
RECORD, each flush into RECORD. So RECORD says of each moment what was certain to outlive a cut, and
what a card may have lost: all that came after the last flush.

What is in RECORD says `recordings`, which reads it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from pathlib import Path

import mfusepy
from recordings import DISK, FLUSH, HEAD


class RecordedDisk(mfusepy.Operations):
    """The folder with the disk.

    Args:
        image: the file that holds what the disk has.
        record: the file that is written.

    """

    use_ns = True

    def __init__(self, image: Path, record: Path) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._record = record.open("wb", buffering=0)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """Return what the folder is, or the disk with its size."""
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
        if path != f"/{DISK}":
            raise mfusepy.FuseOSError(errno.ENOENT)
        size = os.fstat(self._image).st_size
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": size}

    def readdir(self, path: str, fh: int) -> list[str]:
        """Return the names in the folder."""
        return [".", "..", DISK]

    def open(self, path: str, flags: int) -> int:
        """Let everybody in who may."""
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Return bytes of the disk."""
        return os.pread(self._image, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Take bytes, and write down that they came."""
        self._record.write(HEAD.pack(time.monotonic(), offset, len(data)) + data)
        return os.pwrite(self._image, data, offset)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """Write down that all before this is certain."""
        self._record.write(HEAD.pack(time.monotonic(), FLUSH, 0))
        return 0


if __name__ == "__main__":
    image, record, folder = map(Path, sys.argv[1:])
    # One call at a time: the record has the order in which the disk was handed them.
    mfusepy.FUSE(RecordedDisk(image, record), str(folder), foreground=True, nothreads=True)

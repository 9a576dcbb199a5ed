"""Finds out without writing whether a disk still takes what is written to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_TAKES_NOTHING: Final = (errno.EROFS, errno.EIO)


def takes_nothing(folder: Path, written: Path) -> bool | None:
    """Return whether the disk of a folder takes nothing any more; None if it does not say.

    A disk that is mounted to be read only says so by its flag. ext4 that has met an error says
    since Linux 6.12 that it can be written to, and refuses: with EIO, and reading as well, or later
    with EROFS (its commits d3476f3dad4a and 8f984530c242). It does so when a file is opened for
    writing, which by itself writes nothing.

    Args:
        folder: on the disk.
        written: a file in it that its owner writes to; it is opened, and left as it is.

    """
    try:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return True
    except OSError as error:
        return True if error.errno in _TAKES_NOTHING else None
    try:
        os.close(os.open(written, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:  # such as none of that name, which says nothing of the disk
        return error.errno in _TAKES_NOTHING
    return False

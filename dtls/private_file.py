"""Files with secrets: nobody may read them but their owner and, where he says so, his group.

A group is allowed, since a service reads keys of root's (mode 0640, or systemd's credentials).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IRWXO


class OpenToOthersError(PermissionError):
    """A file with secrets lets others in.

    Args:
        path: the file.
        mode: its permission bits.

    """

    def __init__(self, path: Path, mode: int) -> None:
        super().__init__(None, f"mode {mode:04o} lets others in: chmod 600 the file", str(path))


def read(path: Path) -> bytes:
    """Read a file with secrets.

    Raises:
        OpenToOthersError: others may read it, or anybody but its owner may write it.
        OSError: it can't be read.

    """
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & _OTHERS:
            raise OpenToOthersError(path, mode)
        return file.read()

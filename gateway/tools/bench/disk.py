"""Measurement of the time that a disk takes until it has what was written."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from gateway.tools.bench.figures import AnswerTimes

WRITES: Final = 100
"""400 KiB in all: a card wears."""
_BLOCK: Final = bytes(4096)


def sync_times(folder: Path) -> AnswerTimes:
    """Write 4 KiB again and again, and force each to the disk, as the log of a gateway does.

    Raises:
        OSError: the disk does not take them.

    """
    path = folder / "sync"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        took_s: list[float] = []
        for _ in range(WRITES):
            began_s = time.perf_counter()
            os.write(fd, _BLOCK)
            os.fdatasync(fd)
            took_s.append(time.perf_counter() - began_s)
    finally:
        os.close(fd)
        path.unlink()
    return AnswerTimes.of(took_s)

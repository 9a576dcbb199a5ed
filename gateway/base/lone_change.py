"""One command at a time changes a file that it reads, changes and writes anew."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(path: Path, *, is_patient: bool = True) -> Iterator[None]:
    """Let no other command change a file meanwhile: wait until none does.

    Its folder is locked, since the file itself becomes another one at each change.

    Args:
        path: the file, which need not be there, or a link to it.
        is_patient: waits; else who finds another command at work is told so.

    Raises:
        BlockingIOError: another command is at work, and this one does not wait.
        OSError: its folder can't be opened, or links lead in a circle.

    """
    try:
        folder = path.resolve().parent
    except RuntimeError as error:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)

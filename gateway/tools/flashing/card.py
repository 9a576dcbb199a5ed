"""A disk or an image's file that is written and read back, past the kernel's caches."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.tools.flashing.errors import CardWriteError, RefusalError

CHUNK_BYTES = 4 << 20
"""The bytes written at a time: a whole number of the erase blocks of a card."""
ALIGNMENT_BYTES = 4096
_BLKFLSBUF = 0x1261
"""Forgets what is cached of a block device (linux/fs.h)."""


class Card:
    """A card, or a file in its place, that is written and read at any offset.

    Args:
        descriptor: open for reading and writing.
        name: for messages.
        is_device: a disk, not a file.

    """

    def __init__(self, descriptor: int, name: str, *, is_device: bool) -> None:
        self._descriptor = descriptor
        self._name = name
        self._is_device = is_device
        # Memory that begins at a page, as O_DIRECT wants it.
        self._buffer = mmap.mmap(-1, CHUNK_BYTES)

    def write_at(self, offset_bytes: int, data: bytes) -> None:
        """Write a chunk.

        Raises:
            CardWriteError: it is full, or fails.

        """
        self._past_caches(len(data) % ALIGNMENT_BYTES == 0 and offset_bytes % ALIGNMENT_BYTES == 0)
        self._buffer[: len(data)] = data
        written = 0
        with self._named("writing", offset_bytes):
            while written < len(data):
                with memoryview(self._buffer)[written : len(data)] as left:
                    count = os.pwrite(self._descriptor, left, offset_bytes + written)
                if count == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += count
                if written % ALIGNMENT_BYTES:
                    self._past_caches(False)

    def read_at(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Read at most a chunk; less where it ends.

        Raises:
            CardWriteError: it fails.

        """
        self._past_caches(size_bytes % ALIGNMENT_BYTES == 0 and offset_bytes % ALIGNMENT_BYTES == 0)
        got = 0
        with self._named("reading", offset_bytes):
            while got < size_bytes:
                with memoryview(self._buffer)[got:size_bytes] as left:
                    count = os.preadv(self._descriptor, [left], offset_bytes + got)
                if count == 0:
                    break
                got += count
                if got % ALIGNMENT_BYTES:
                    self._past_caches(False)
        return self._buffer[:got]

    def sync(self) -> None:
        """Wait until all is on the card, and forget what is cached of it.

        Raises:
            CardWriteError: something could not be written.

        """
        with self._named("writing", None):
            os.fsync(self._descriptor)
        if self._is_device:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._descriptor, _BLKFLSBUF)
        if hasattr(os, "posix_fadvise"):  # macOS has none
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Let others have it."""
        self._buffer.close()
        os.close(self._descriptor)

    def _past_caches(self, wanted: bool) -> None:
        """Switch O_DIRECT; file systems in memory and macOS have none, and do without."""
        if not hasattr(os, "O_DIRECT"):
            return
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        new = flags | os.O_DIRECT if wanted else flags & ~os.O_DIRECT
        if new != flags:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, new)

    @contextmanager
    def _named(self, doing: str, offset_bytes: int | None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            at = "" if offset_bytes is None else f" at {offset_bytes >> 20} MiB"
            if error.errno == errno.ENOSPC:
                raise CardWriteError(f"{self._name}: full{at}: the image is larger") from error
            raise CardWriteError(
                f"{self._name}: {doing} failed{at}: {error.strerror or error}"
            ) from error


@contextmanager
def opened(path: Path, *, is_device: bool) -> Iterator[Card]:
    """Open a disk for this process alone, or make a new file.

    Args:
        path: the disk, or a file that is not there yet.
        is_device: which of the two.

    Raises:
        RefusalError: it can't be opened, or the file is there.

    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_EXCL | (0 if is_device else os.O_CREAT)
    try:
        # With O_EXCL the kernel hands out no disk that is mounted, and mounts none that is out.
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError as error:
        raise RefusalError(f"--to: {path}: is there already, and stays as it is") from error
    except OSError as error:
        why = "in use" if error.errno == errno.EBUSY else error.strerror or str(error)
        raise RefusalError(f"--to: {path}: {why}") from error
    card = Card(descriptor, str(path), is_device=is_device)
    try:
        yield card
    finally:
        card.close()

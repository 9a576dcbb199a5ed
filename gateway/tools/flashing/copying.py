"""An image's way onto a card, and back: written once, read back whole.

The beginning, which holds the partition table, is written as the last: a card that was cut off in
between has none, and no Pi starts from half a system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from gateway.tools.flashing.card import CHUNK_BYTES
from gateway.tools.flashing.errors import CardWriteError, ReadBackError
from light_dataclasses import dataclass

SLACK_BYTES = 64 << 20
"""The most that an image has behind its last partition; more is no image but a bomb."""

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class ReadableDisk(Protocol):
    """A disk that can be written and read: `Card`."""

    def write_at(self, offset_bytes: int, data: bytes) -> None:
        """Write a chunk."""

    def read_at(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Read at most a chunk."""

    def sync(self) -> None:
        """Wait until all is on the card, and forget what is cached of it."""


@dataclass(frozen=True, slots=True)
class WrittenImage:
    """The sizes and digests that a card has to give back.

    Attributes:
        size_bytes: of the image.
        digests: of its chunks, in their order.
        head: its beginning, which is written when all else is done.

    """

    size_bytes: int
    digests: tuple[bytes, ...]
    head: bytes


def write(
    read: Callable[[int], bytes], disk: ReadableDisk, end_bytes: int, progress: Progress
) -> WrittenImage:
    """Write an image, its first chunk as the last one.

    Args:
        read: gives its next bytes, as many as are asked for unless it ends.
        disk: takes them.
        end_bytes: where its last partition ends.
        progress: is told of each chunk.

    Raises:
        CardWriteError: as of `write_but_head`.
        ReadBackError: its beginning was read back differently.

    """
    written = write_but_head(read, disk, end_bytes, progress, CHUNK_BYTES)
    write_head(disk, written)
    return written


def write_but_head(
    read: Callable[[int], bytes],
    disk: ReadableDisk,
    end_bytes: int,
    progress: Progress,
    head_bytes: int,
) -> WrittenImage:
    """Write an image without its beginning, which is zeros until `write_head`.

    Args:
        read: gives its next bytes, as many as are asked for unless it ends.
        disk: takes them.
        end_bytes: where its last partition ends.
        progress: is told of each chunk.
        head_bytes: how long its beginning is, a chunk at most.

    Raises:
        CardWriteError: the card fails or is full, or the image is damaged, cut off or endless.

    """
    first = read(CHUNK_BYTES)
    head = first[:head_bytes]
    disk.write_at(0, bytes(len(first)))
    digests, size = [_digest(first)], len(first)
    while len(chunk := read(CHUNK_BYTES)) > 0:
        if size + len(chunk) > end_bytes + SLACK_BYTES:
            raise CardWriteError(
                f"the image goes on behind its last partition, which ends at {end_bytes} bytes"
            )
        disk.write_at(size, chunk)
        digests.append(_digest(chunk))
        size += len(chunk)
        progress(min(size, end_bytes), end_bytes)
    if size < end_bytes:
        raise CardWriteError(
            f"the image is cut off: {size} bytes, and its last partition ends at {end_bytes}"
        )
    if len(head) < len(first):
        disk.write_at(len(head), first[len(head) :])
    disk.sync()
    return WrittenImage(size, tuple(digests), head)


def write_head(disk: ReadableDisk, written: WrittenImage) -> None:
    """Write the beginning, and read it back: from now on a Pi starts from it.

    Raises:
        ReadBackError: it is another one.
        CardWriteError: it can't be written or read.

    """
    disk.write_at(0, written.head)
    disk.sync()
    if disk.read_at(0, len(written.head)) != written.head:
        raise ReadBackError("the partition table was read back differently: the card is damaged")


def verify(
    disk: ReadableDisk, written: WrittenImage, progress: Progress, *, has_head: bool = True
) -> None:
    """Read all of it back.

    Args:
        disk: what it was written to.
        written: what it has to give back.
        progress: is told of each chunk.
        has_head: whether its beginning has been written.

    Raises:
        ReadBackError: a byte is another one.
        CardWriteError: it can't be read.

    """
    offset = 0
    for digest in written.digests:
        size = min(CHUNK_BYTES, written.size_bytes - offset)
        found = disk.read_at(offset, size)
        if offset == 0 and not has_head:
            found = written.head + found[len(written.head) :]
        if _digest(found) != digest:
            raise ReadBackError(
                f"what was read back differs between {offset} and {offset + size} bytes: "
                "the card or its reader is damaged, or larger on paper than it is"
            )
        offset += size
        progress(offset, written.size_bytes)


def _digest(chunk: bytes) -> bytes:
    return hashlib.blake2b(chunk, digest_size=16).digest()


ProgressOfStep = Callable[[str], Progress]
"""Begins to show a step, such as writing, and returns what is told how far it is."""

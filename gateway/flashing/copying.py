"""An image's way onto a card, and back: written once, read back whole.

The first chunk, which holds the partition table, is written as the last one: a card that was cut
off in between has none, and no Pi starts from half a system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.flashing.card import CHUNK_BYTES
from gateway.flashing.errors import CardWriteError, ReadBackError

SLACK_BYTES = 64 << 20
"""What an image may have behind its last partition; more is no image but a bomb."""

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class ReadableDisk(Protocol):
    """What a `Card` does."""

    def write_at(self, offset_bytes: int, data: bytes) -> None:
        """Write a chunk."""

    def read_at(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Read at most a chunk."""

    def sync(self) -> None:
        """Wait until all is on the card, and forget what is cached of it."""


@dataclass(frozen=True, slots=True)
class WrittenImage:
    """What a card has to give back.

    Attributes:
        size_bytes: of the image.
        digests: of its chunks, in their order.

    """

    size_bytes: int
    digests: tuple[bytes, ...]


def write(
    read: Callable[[int], bytes], disk: ReadableDisk, end_bytes: int, progress: Progress
) -> WrittenImage:
    """Write an image.

    Args:
        read: gives its next bytes, as many as are asked for unless it ends.
        disk: takes them.
        end_bytes: where its last partition ends.
        progress: is told of each chunk.

    Raises:
        CardWriteError: the card fails or is full, or the image is damaged, cut off or endless.

    """
    first = read(CHUNK_BYTES)
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
    disk.sync()
    disk.write_at(0, first)
    disk.sync()
    return WrittenImage(size, tuple(digests))


def verify(disk: ReadableDisk, written: WrittenImage, progress: Progress) -> None:
    """Read all of it back.

    Raises:
        ReadBackError: a byte is another one.
        CardWriteError: it can't be read.

    """
    offset = 0
    for digest in written.digests:
        size = min(CHUNK_BYTES, written.size_bytes - offset)
        if _digest(disk.read_at(offset, size)) != digest:
            raise ReadBackError(
                f"what was read back differs between {offset} and {offset + size} bytes: "
                "the card or its reader is damaged, or larger on paper than it is"
            )
        offset += size
        progress(offset, written.size_bytes)


def _digest(chunk: bytes) -> bytes:
    return hashlib.blake2b(chunk, digest_size=16).digest()

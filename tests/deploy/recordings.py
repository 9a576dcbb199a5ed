"""A recording of all that a card in a Pi was handed, and the cards that power cuts leave of it.

A disk's flush is a promise: all that it was handed before outlives a cut. What came later it may
have kept or not, in whatever order, in pieces of `PIECE_BYTES`. `Recording.cut` draws which.

A record is, for each thing that the disk was handed, `HEAD`: the time in seconds of the system's
monotonic clock, the offset and the length in bytes; and then the bytes. A flush has `FLUSH` for its
offset, and no bytes.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cards
from cards import Card
from commands import until

HEAD = struct.Struct("<dqI")
FLUSH = -1
DISK = "disk"
"""The name of the only file in the folder of `recorded_disk`."""
PIECE_BYTES = 4096
"""A card keeps such a piece, or it does not; it is a block of the ext4."""
SHARES = (0.0, 0.5, 1.0)
"""So much of what was not flushed may have been kept: nothing, some of it, all."""


@dataclass(frozen=True)
class Left:
    """The card that a cut leaves.

    Attributes:
        card: with all that was flushed, and what was drawn of the rest.
        unsynced: how many pieces were handed over and not flushed.
        kept: how many of these are on the card.

    """

    card: Card
    unsynced: int
    kept: int


@dataclass(frozen=True)
class _Write:
    """Bytes that the disk was handed: for which place on it, and where the record has them."""

    offset: int
    at: int
    length: int


@dataclass(frozen=True)
class Recording:
    """A card's life in a Pi.

    Attributes:
        before: the card at its beginning.
        record: the file that says what it was handed.

    """

    before: Card
    record: Path

    def cut(self, name: str, moments_s: Sequence[float], draw: random.Random) -> Iterator[Left]:
        """Make the cards of power cuts at these moments.

        Args:
            name: how the files begin.
            moments_s: on the system's monotonic clock, the earliest first.
            draw: says what is kept of what was not flushed.

        """
        certain = self.before.copied(f"{name}-certain")
        pending: list[_Write] = []
        with self.record.open("rb") as record:
            handed = self._handed(record.fileno())
            time_s, write = next(handed, (float("inf"), None))
            for number, moment_s in enumerate(moments_s):
                while time_s <= moment_s:
                    if write is None:
                        _apply(certain, record.fileno(), pending)
                        pending.clear()
                    else:
                        pending.append(write)
                    time_s, write = next(handed, (float("inf"), None))
                pieces = [piece for one in pending for piece in _pieces(one)]
                share = draw.choice(SHARES)
                kept = [piece for piece in pieces if draw.random() < share]
                card = certain.copied(f"{name}-{number}")
                _apply(card, record.fileno(), kept)
                yield Left(card, len(pieces), len(kept))
        certain.remove()

    def writes_s(self) -> list[float]:
        """Return when the card was handed something, in order, on the system's monotonic clock."""
        with self.record.open("rb") as record:
            handed = self._handed(record.fileno())
            return [time_s for time_s, write in handed if write is not None]

    def remove(self) -> None:
        """Have its room again."""
        self.before.remove()
        self.record.unlink()

    def _handed(self, record: int) -> Iterator[tuple[float, _Write | None]]:
        """Each thing in order with its time; None for a flush."""
        at = 0
        while len(head := os.pread(record, HEAD.size, at)) == HEAD.size:
            time_s, offset, length = HEAD.unpack(head)
            at += HEAD.size
            yield time_s, None if offset == FLUSH else _Write(offset, at, length)
            at += length


def _pieces(write: _Write) -> Iterator[_Write]:
    for begin in range(0, write.length, PIECE_BYTES):
        length = min(PIECE_BYTES, write.length - begin)
        yield _Write(write.offset + begin, write.at + begin, length)


def _apply(card: Card, record: int, writes: Sequence[_Write]) -> None:
    with card.image.open("r+b", buffering=0) as image:
        for one in writes:
            os.pwrite(image.fileno(), os.pread(record, one.length, one.at), one.offset)


@contextlib.contextmanager
def recorded(card: Card, name: str) -> Iterator[tuple[Path, Recording]]:
    """Mount a card whose every write is recorded, and have all of them on it in the end.

    Args:
        card: which.
        name: of the record.

    """
    image = card.image
    recording = Recording(card.copied(f"{name}-before"), image.with_name(f"{name}.record"))
    folder = image.with_suffix(".disk")
    folder.mkdir()
    program = Path(__file__).with_name("recorded_disk.py")
    disk = subprocess.Popen([sys.executable, program, image, recording.record, folder])
    try:
        until("the disk is there", lambda: (folder / DISK).exists() or disk.poll() is not None)
        with cards.mounted(folder / DISK, image.with_suffix("")) as root:
            yield root, recording
    finally:
        # The kernel lets the loop device go a little after its mount.
        until("the disk goes", lambda: disk.poll() is not None or _has_gone(folder), 30.0)
        # Mount namespaces of others may have a copy of the mount, which would keep the program.
        disk.terminate()
        disk.wait()
    folder.rmdir()


def _has_gone(folder: Path) -> bool:
    return subprocess.run(["umount", "--quiet", folder], check=False).returncode == 0

"""Reads around what the disk has damaged, and tells of it."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from gateway.base.kept_file import is_at_fault
from gateway.log.errors import LogError
from gateway.log.inner_starts import InnerStarts
from tree_handler import batch
from tree_handler.batch import Epoch, Header
from tree_handler.batch_walk import BLOCK_BYTES, DamagedBytes, walk
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals

MAX_TOLD = 20
"""Ranges of lost numbers that one line names."""

_log = logging.getLogger(__name__)


class Damage:
    """Names each damaged segment once; there are no more of them than segments.

    Args:
        inner: the log's notes.

    Attributes:
        segments: those in which damage was met, and which bytes of them.
        unknown: those of them whose index may still tell of what can't be read any more.
        doubts: how often a segment became one of these.
        bytes: that held no whole batch, and that are not read or are missing; beginnings of
            batches that a kill left, and that were cut off, are not among them.
        messages: of which is known that they can't be read any more.
        numbers: theirs.
        is_closed: whether the log is: a thread that still asks a bad disk for block after block
            stops, for the process waits for it.

    """

    def __init__(self, inner: InnerStarts) -> None:
        self.segments: dict[Path, Intervals] = {}
        self.unknown: set[Path] = set()
        self.doubts = 0
        self._refused: dict[Path, set[int]] = {}
        """Blocks that the disk did not give, by where they begin: a card takes long to say so."""
        self.bytes = 0
        self.messages = 0
        self.numbers: dict[Epoch, Intervals] = {}
        self.is_closed = False
        self._inner = inner

    def note(self, path: Path, at: int, why: str, end: int = 0) -> None:
        """Something can't be read from a position on, up to another if that is known."""
        known = self.segments.get(path)
        if known is None:
            _log.error("%s: damaged at byte %d (%s): what can't be read is skipped", path, at, why)
        last = max(at, end - 1)
        if known is None or not known.covers(at, last):
            grown = Intervals(known or ())  # it is read in threads too
            grown.add(at, last)
            self.segments[path] = grown
            self.doubt(path)

    def doubt(self, path: Path) -> None:
        """A segment is to be looked through: what can't be read of it may be whole."""
        self.unknown.add(path)
        self.doubts += 1

    def look_anew(self, path: Path) -> None:
        """A segment is looked through, or written again: what is known of it is met from now on."""
        if path in self.segments:
            self.segments[path] = Intervals()
        self._refused.pop(path, None)

    def is_refused(self, path: Path) -> bool:
        """Return whether the disk refused blocks of a segment since `look_anew`."""
        return bool(self._refused.get(path))

    def trimmed(self, path: Path) -> None:
        """There is no such segment any more."""
        self.segments.pop(path, None)
        self.unknown.discard(path)
        self._refused.pop(path, None)

    def missed(self, path: Path, at: int, length: int, why: str) -> None:
        """So many bytes were there, and are not any more."""
        self.bytes += length
        self.note(path, at, why, at + length)

    def lost(self, numbers: dict[Epoch, Intervals]) -> None:
        """These messages can't be read any more."""
        count = sum(ranges.count() for ranges in numbers.values())
        if not count:
            return
        self.messages += count
        for key, ranges in numbers.items():
            self.numbers.setdefault(key, Intervals()).update(ranges)
        told = _ranges(numbers)
        named = ", ".join(told[:MAX_TOLD])
        if len(told) > MAX_TOLD:
            named += f" and {len(told) - MAX_TOLD} more ranges"
        _log.error("damage cost the log %d messages: %s; who may have them is asked", count, named)

    def whole(self, path: Path) -> tuple[bytes, bool]:
        """Return a segment, with zeros for what the disk does not give, and whether it gave all.

        Raises:
            OSError: it can't be read now.

        """
        if path not in self._refused:
            try:
                return path.read_bytes(), True
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self.note(path, 0, str(error))
        return self._around(path, 0, path.stat().st_size), False

    def part(self, path: Path, start: int, end: int) -> bytes:
        """Return a part of a segment, likewise.

        Raises:
            LogError: it can't be read now.

        """
        try:
            blocks = range(start - start % BLOCK_BYTES, end, BLOCK_BYTES)
            if self._refused.get(path, set()).isdisjoint(blocks):
                try:
                    with path.open("rb", buffering=0) as file:
                        return os.pread(file.fileno(), end - start, start)
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    self.note(path, start, str(error))
            return self._around(path, start, end)
        except OSError as error:
            raise LogError(f"{path}: {error.strerror}") from error

    def _around(self, path: Path, start: int, end: int) -> bytes:
        """Return a part, block by block; one that the disk refuses is asked for again in a
        survey."""
        refused = self._refused.setdefault(path, set())
        pieces: list[bytes] = []
        skipped = start % BLOCK_BYTES
        with path.open("rb", buffering=0) as file:
            end = min(end, os.fstat(file.fileno()).st_size)
            for at in range(start - skipped, end, BLOCK_BYTES):
                if self.is_closed:
                    raise OSError(errno.ECANCELED, "the log is closed", str(path))
                try:
                    piece = b"" if at in refused else os.pread(file.fileno(), BLOCK_BYTES, at)
                except OSError:
                    refused.add(at)
                    piece = b""
                pieces.append(piece.ljust(BLOCK_BYTES, b"\0"))
        return b"".join(pieces)[skipped : skipped + max(0, end - start)]

    def batches_at(self, path: Path, positions: list[int]) -> Iterator[tuple[bytes, Header]]:
        """Read the batches that start at these positions; what is damaged is passed over.

        Raises:
            LogError: the segment can't be read now, and may be whole.

        """
        if not positions:
            return
        try:
            data, _ = self.whole(path)
        except OSError as error:
            if not is_at_fault(error):
                raise LogError(f"{path}: {error.strerror}") from error
            self.note(path, 0, str(error))
            return
        for at in positions:
            try:
                header = batch.check(data, at)
            except BatchError as damaged:
                self.note(path, at, str(damaged))
            else:
                yield data[at : at + header.end], header

    def walked(
        self, path: Path, data: bytes, start: int = 0
    ) -> Iterator[tuple[int, Header] | DamagedBytes]:
        """Walk a segment, or a part of one that starts with a batch; see `walk`."""
        return walk(data, int(path.stem) + start, self._inner)

    def readable(self, path: Path, data: bytes, start: int = 0) -> Iterator[tuple[int, Header]]:
        """Walk the whole batches of a segment, or of a part that starts with one: (position in
        the part, header). What is damaged is named and passed over."""
        for found in self.walked(path, data, start):
            if isinstance(found, DamagedBytes):
                self.note(path, start + found.at, found.why, start + found.end)
            else:
                yield found


def _ranges(numbers: dict[Epoch, Intervals]) -> list[str]:
    return [
        f"{origin}/{epoch} {first}..{last}"
        for (origin, epoch), ranges in numbers.items()
        for first, last in ranges
    ]

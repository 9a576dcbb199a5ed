"""The spool as its readers see it: segments of batches, up to what is safe on disk.

A spool is a folder that the collector appends to:

- segments ``<position of its first byte, 20 digits>.log``, each the plain concatenation of
  batches (`tree_handler.batch`), where positions count the bytes of all segments;
- ``synced``, one line ``<segment> <bytes>``: how far the spool is on disk for certain.

What this module promises: a reader never passes the mark, all before the mark is whole, and
what is not whole is an error that names segment and position. Nothing is skipped.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tree_handler import batch
from tree_handler.batch import Entry, Header
from tree_handler.errors import BatchError

MARK_NAME = "synced"

_SEGMENT_NAME = re.compile(r"\d{20}\.log")
_MARK = re.compile(r"(\d{20}\.log) (\d{1,19})\n?")
_MARK_BYTES_MAX = 64
_QUOTED = re.compile(r"SpoolError: spool (\S+), byte (\d+): (.+)")

_Read = Callable[[int], bytes]


class SpoolError(ValueError):
    """The spool is damaged: which file, at which byte of it, and how."""

    def __init__(self, file: str, at: int, what: str) -> None:
        super().__init__(f"spool {file}, byte {at}: {what}")
        self.file = file
        self.at = at
        self.what = what

    @classmethod
    def quoted_in(cls, text: str) -> SpoolError | None:
        """The error that a longer text quotes: Spark hands on its workers' errors as text."""
        found = _QUOTED.search(text)
        return cls(found[1], int(found[2]), found[3]) if found else None

    def __reduce__(self) -> tuple[type[SpoolError], tuple[str, int, str]]:
        # Spark's workers pickle what they raise.
        return SpoolError, (self.file, self.at, self.what)


@dataclass(frozen=True, slots=True)
class SpoolMark:
    """How far a spool may be read: ``length`` bytes of ``segment`` and all segments before it."""

    segment: str
    length: int

    @classmethod
    def parse(cls, text: str) -> SpoolMark:
        """Read ``<segment> <bytes>``.

        Raises:
            SpoolError: it is not that.

        """
        found = _MARK.fullmatch(text)
        if found is None:
            raise SpoolError(MARK_NAME, 0, f"is not '<segment> <bytes>': {text[:60]!r}")
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.segment} {self.length}"


@dataclass(frozen=True, slots=True)
class SpoolSegment:
    """The readable part of one segment.

    Attributes:
        path: its file.
        length: how many bytes of it may be read.

    """

    path: Path
    length: int

    @property
    def start(self) -> int:
        """Position of its first byte over all segments."""
        return int(self.path.stem)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch where it stands.

    Attributes:
        segment: name of its segment.
        at: its first byte in the segment.
        header: its header, CRC checked.
        frame: its bytes.

    """

    segment: str
    at: int
    header: Header
    frame: bytes

    def entries(self) -> list[Entry]:
        """Decode its messages.

        Raises:
            SpoolError: the body is not what an origin makes.

        """
        try:
            entries = batch.decode(self.frame, self.header)
        except BatchError as error:
            raise SpoolError(self.segment, self.at, f"{self.header}: {error}") from error
        for entry in entries:
            if type(entry.topic) is not str or type(entry.payload) is not bytes:
                what = f"{self.header}: a message of {self.header.count} is no topic and payload"
                raise SpoolError(self.segment, self.at, what)
        return entries


def read_mark(spool: Path) -> SpoolMark | None:
    """How far the spool may be read now; None while nothing may.

    Raises:
        SpoolError: the mark is not what a collector writes.

    """
    try:
        with (spool / MARK_NAME).open("rb") as file:
            data = file.read(_MARK_BYTES_MAX)
    except FileNotFoundError:
        return None
    return SpoolMark.parse(data.decode("ascii", "replace"))


def segments(spool: Path, mark: SpoolMark | None) -> list[SpoolSegment]:
    """What may be read up to ``mark``, oldest segment first.

    A segment newer than the mark's is not yet safe and left out. Segments that the collector
    trimmed are the oldest ones, so what is left must be without a hole.

    Raises:
        SpoolError: a segment is missing, or shorter than the mark or its successor says.

    """
    if mark is None:
        return []
    found = sorted(
        path
        for path in spool.iterdir()
        if _SEGMENT_NAME.fullmatch(path.name) and path.name <= mark.segment
    )
    if not found or found[-1].name != mark.segment:
        raise SpoolError(mark.segment, 0, f"is missing, though {MARK_NAME} names it")
    readable: list[SpoolSegment] = []
    for path, successor in itertools.pairwise(found):
        length = path.stat().st_size
        expected = int(successor.stem) - int(path.stem)
        if length != expected:
            what = f"ends here, but {successor.name} follows it at byte {expected}"
            raise SpoolError(path.name, length, what)
        readable.append(SpoolSegment(path, length))
    newest = found[-1]
    length = newest.stat().st_size
    if length < mark.length:
        raise SpoolError(newest.name, length, f"ends here, but {mark.length} bytes are synced")
    return [*readable, SpoolSegment(newest, mark.length)]


def batches(segment: SpoolSegment) -> Iterator[Batch]:
    """Walk the batches of a segment's readable part; one batch is in memory at a time.

    Raises:
        SpoolError: torn or corrupt, or the file is gone.

    """
    name, at = segment.path.name, 0
    try:
        with segment.path.open("rb") as file:
            while at < segment.length:
                found = _next_batch(file.read, name, at, segment.length - at)
                yield found
                at += found.header.end
    except OSError as error:
        raise SpoolError(name, at, str(error.strerror)) from error


def _next_batch(read: _Read, name: str, at: int, left: int) -> Batch:
    try:
        frame = read(min(batch.FRAME.size, left))
        length = batch.frame_length(frame)
        if length is not None:
            frame += read(min(length, left) - len(frame))
        return Batch(name, at, batch.check(frame), frame)
    except BatchError as error:
        raise SpoolError(name, at, str(error)) from error

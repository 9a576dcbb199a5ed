"""The spool as its readers see it: segments of batches, up to what is safe on disk.

A spool is a folder that the collector appends to:

- segments ``<position of its first byte, 20 digits>.log``, each the plain concatenation of
  batches (`tree_handler.batch`), where positions count the bytes of all segments;
- ``inner``, which batches hold what looks like the start of another
  (`tree_handler.noted_batches`);
- ``trimmed``, what the collector has deleted to make room, for its own next start;
- ``identity``, the spool's name (`cloud_ingest.spool.identity`);
- ``synced``, one line ``<segment> <bytes>``: how far the spool is on disk for certain.

A reader never passes the mark. What is missing before it is an error that names segment and
position; what is damaged there is found by who walks the batches (`cloud_ingest.spool.walk`).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from tree_handler.noted_batches import FILE_NAME, NotedBatches

MARK_NAME = "synced"

_SEGMENT_NAME = re.compile(r"\d{20}\.log")
_MARK = re.compile(r"(\d{20}\.log) (\d{1,19})\n?")
_MARK_BYTES_MAX = 64
_QUOTED = re.compile(r"SpoolError: spool (\S+), byte (\d+): (.+)")


class SpoolError(ValueError):
    """The spool is damaged: which file, at which byte of it, and how."""

    def __init__(self, file: str, at: int, what: str) -> None:
        super().__init__(f"spool {file}, byte {at}: {what}")
        self.file = file
        self.at = at
        self.what = what

    @classmethod
    def quoted_in(cls, text: str) -> SpoolError | None:
        """Return the error that a longer text quotes: Spark hands on its workers' errors as
        text."""
        found = _QUOTED.search(text)
        return cls(found[1], int(found[2]), found[3]) if found else None

    def __reduce__(self) -> tuple[type[SpoolError], tuple[str, int, str]]:
        # Spark's workers pickle what they raise.
        return SpoolError, (self.file, self.at, self.what)


@dataclass(frozen=True, slots=True)
class SpoolMark:
    """The end of the readable spool: ``length`` bytes of ``segment`` and all segments before it."""

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


def read_mark(spool: Path) -> SpoolMark | None:
    """Return how far the spool may be read now; None while nothing may.

    Raises:
        SpoolError: the mark is not what a collector writes.

    """
    try:
        with (spool / MARK_NAME).open("rb") as file:
            data = file.read(_MARK_BYTES_MAX)
    except FileNotFoundError:
        return None
    return SpoolMark.parse(data.decode("ascii", "replace"))


def read_notes(spool: Path) -> NotedBatches | None:
    """Return which batches hold what looks like one; None if nothing usable tells."""
    notes = NotedBatches()
    try:
        notes.take((spool / FILE_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return notes


def segments(spool: Path, mark: SpoolMark | None) -> list[SpoolSegment]:
    """Return what may be read up to ``mark``, oldest segment first.

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


@dataclass(frozen=True, slots=True)
class SpoolRange:
    """The part of one segment that a trigger reads.

    Attributes:
        spool: the spool's folder.
        segment: name of the segment.
        start: its first byte there, where a batch starts.
        end: behind its last byte, where one ends.

    """

    spool: str
    segment: str
    start: int
    end: int

    @property
    def position(self) -> int:
        """Of its end over all segments."""
        return int(self.segment.partition(".")[0]) + self.end


def ranges(spool: Path, readable: list[SpoolSegment], start: int, end: int) -> list[SpoolRange]:
    """Return what stands between two positions over all segments; what was trimmed is left out.

    Args:
        spool: its folder.
        readable: its segments.
        start: where to begin.
        end: where to end.

    """
    return [
        SpoolRange(
            str(spool),
            segment.path.name,
            max(0, start - segment.start),
            min(segment.length, end - segment.start),
        )
        for segment in readable
        if start < segment.start + segment.length and end > segment.start
    ]


def position_of(mark: SpoolMark | None) -> int:
    """Return how far the spool may be read, over all segments."""
    return 0 if mark is None else int(mark.segment.partition(".")[0]) + mark.length

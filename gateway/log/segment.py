"""One segment of the message log: what it holds and where, and the index that tells so at a start.

A segment of small batches holds tens of thousands of them. Who is asked for a few messages that a
neighbour missed a moment ago must not walk them all: many ask at once when the tree changes. So a
segment that was written or read as a whole knows which numbers stand in which of its pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from gateway.log.index import SegmentIndex
from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

PAGE_BYTES: Final = 64 << 10
"""A page is at least so long, and ends with a batch."""


@dataclass(slots=True)
class SegmentPage:
    """A part of a segment.

    Attributes:
        start: where its first batch starts in the segment.
        spans: the lowest and the highest number of each stream in it.

    """

    start: int
    spans: dict[Epoch, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Segment:
    """A file of the log.

    Attributes:
        path: the file.
        start: the position of its first byte over all segments.
        length: its bytes, up to the end of its last batch or of what is damaged behind that.
        holds: numbers in it, of logged messages and statements, by stream.
        control: where its batches between gateways start.
        pages: those with numbers, in their order; None if they are not known, as after a start.
        is_suspect: whether the disk may lack a part of it though it was told to have it.

    """

    path: Path
    start: int
    length: int = 0
    holds: dict[Epoch, Intervals] = field(default_factory=dict)
    control: list[int] = field(default_factory=list)
    pages: list[SegmentPage] | None = field(default_factory=list)
    is_suspect: bool = False

    def note(self, at: int, header: Header) -> None:
        """Take a batch into account that stands at a position behind all noted before."""
        self.length = at + header.end
        if header.control and not header.passed:
            self.control.append(at)
        if not header.numbered:
            return
        key, first, last = header.stream, header.first, header.last
        held = self.holds.get(key)
        if held is None:
            held = self.holds[key] = Intervals()
        held.add(first, last)
        pages = self.pages
        if pages is not None:
            if not pages or at >= pages[-1].start + PAGE_BYTES:
                pages.append(SegmentPage(at))
            spans = pages[-1].spans
            lowest, highest = spans.get(key, (first, last))
            spans[key] = (min(lowest, first), max(highest, last))

    def stretches(self, key: Epoch, ranges: Intervals) -> list[tuple[int, int]]:
        """Return the stretches that must be read for some numbers of a stream."""
        if self.pages is None:
            return [(0, self.length)]
        found: list[tuple[int, int]] = []
        begin = None
        for page in self.pages:
            span = page.spans.get(key)
            if span is not None and ranges.missing(*span) != [span]:
                begin = page.start if begin is None else begin
            elif begin is not None:
                found.append((begin, page.start))
                begin = None
        if begin is not None:
            found.append((begin, self.length))
        return found

    def index(self, ever: Mapping[Epoch, Intervals]) -> bytes:
        """Return the index for a start, with all numbers that the log had up to its end."""
        return SegmentIndex(self.start, self.length, self.control, self.holds, ever).pack()

    def take(self, index: SegmentIndex) -> None:
        """Take over what an index tells."""
        self.length, self.control, self.holds = index.length, index.control, index.holds
        self.pages = None

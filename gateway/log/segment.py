"""One segment of the message log: what it holds, and the index that tells so at a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from gateway.log.index import SegmentIndex
from gateway.log.pages import Pages
from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals


@dataclass(slots=True)
class Segment:
    """A file of the log.

    Attributes:
        path: the file.
        start: the position of its first byte over all segments.
        length: its bytes, up to the end of its last batch or of what is damaged behind that.
        holds: numbers in it, of logged messages and statements, by stream.
        control: where its batches between gateways start.
        pages: where numbers stand in it; None if that is not known, as after a start.
        is_suspect: whether the disk may lack a part of it though it was told to have it.

    """

    path: Path
    start: int
    length: int = 0
    holds: dict[Epoch, Intervals] = field(default_factory=dict)
    control: list[int] = field(default_factory=list)
    pages: Pages | None = field(default_factory=Pages)
    is_suspect: bool = False

    def note(self, at: int, header: Header) -> None:
        """Take a batch that stands at a position into account."""
        self.length = at + header.end
        if header.control and not header.passed:
            self.control.append(at)
        if header.numbered:
            key = header.stream
            held = self.holds.get(key)
            if held is None:
                held = self.holds[key] = Intervals()
            held.add(header.first, header.last)
            if self.pages is not None:
                self.pages.note(at, header)

    def stretches(self, key: Epoch, ranges: Intervals) -> list[tuple[int, int]]:
        """Return the stretches that must be read for some numbers of a stream."""
        if self.pages is None:
            return [(0, self.length)]
        return list(self.pages.stretches(key, ranges, self.length))

    def index(self, ever: Mapping[Epoch, Intervals]) -> bytes:
        """Return the index for a start, with all numbers that the log had up to its end."""
        return SegmentIndex(self.start, self.length, self.control, self.holds, ever).pack()

    def take(self, index: SegmentIndex) -> None:
        """Take over what an index tells."""
        self.length, self.control, self.holds = index.length, index.control, index.holds
        self.pages = None

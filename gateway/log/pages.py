"""Pages of a segment: where the numbers of a stream stand, so that a repair reads little of it.

A segment of small batches holds tens of thousands of them. Who is asked for a few messages that a
neighbour missed a moment ago must not walk them all: many ask at once when the tree changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

PAGE_BYTES: Final = 64 << 10
"""A page is at least so long, and ends with a batch."""


class Pages:
    """The lowest and the highest number of each stream, page by page."""

    __slots__ = ("_next", "_spans", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: list[dict[Epoch, tuple[int, int]]] = []
        self._next = 0

    def note(self, at: int, header: Header) -> None:
        """Take a logged batch into account, which stands behind all noted before."""
        if at >= self._next:
            self._starts.append(at)
            self._spans.append({})
            self._next = at + PAGE_BYTES
        spans = self._spans[-1]
        key = header.stream
        span = spans.get(key)
        if span is None:
            spans[key] = (header.first, header.last)
        else:
            spans[key] = (min(span[0], header.first), max(span[1], header.last))

    def stretches(self, key: Epoch, ranges: Intervals, end: int) -> Iterator[tuple[int, int]]:
        """Yield the stretches of a segment that must be read for some numbers of a stream.

        Args:
            key: the stream.
            ranges: the numbers.
            end: where the segment's last batch ends.

        """
        begin = None
        for page, start in enumerate(self._starts):
            span = self._spans[page].get(key)
            if span is not None and ranges.missing(*span) != [span]:
                begin = start if begin is None else begin
            elif begin is not None:
                yield begin, start
                begin = None
        if begin is not None:
            yield begin, end

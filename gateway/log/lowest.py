"""The lowest number that a log holds of each stream, however many segments and streams it has.

Segments come and go as in a queue, and each holds some numbers of most streams. So of each stream
the lowest numbers of those segments are kept that no later one has a lower or the same number of
(a monotonic queue): what goes with the oldest segment then leaves what counts without a look into
the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gateway.log.segment import Segment
from tree_handler.batch import Epoch


class LowestNumbers:
    """What is kept of some segments, the oldest first.

    Args:
        segments: what they hold now.

    """

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._by_stream: dict[Epoch, deque[tuple[int, int]]] = {}
        """Where a segment begins, and its lowest number: both grow."""
        for segment in segments:
            for stream, numbers in segment.holds.items():
                for first, _ in numbers:
                    self.note(segment.start, stream, first)
                    break

    def note(self, start: int, stream: Epoch, first: int) -> None:
        """The newest segment, which begins here, holds a number of a stream."""
        kept = self._by_stream.get(stream)
        if kept is None:
            kept = self._by_stream[stream] = deque()
        while kept and kept[-1][1] >= first:
            kept.pop()
        if not kept or kept[-1][0] != start:
            kept.append((start, first))

    def gone(self, segment: Segment) -> None:
        """The oldest segment is no more."""
        for stream in segment.holds:
            kept = self._by_stream.get(stream)
            if kept and kept[0][0] == segment.start:
                kept.popleft()
            if not kept:
                self._by_stream.pop(stream, None)

    def of_all(self) -> dict[Epoch, int]:
        """The lowest number of each stream of which there is one."""
        return {stream: kept[0][1] for stream, kept in self._by_stream.items()}

"""The lowest number of each stream in a queue of parts, however many parts and streams there are.

Parts of a log come and go as in a queue, and each holds some numbers of most streams. So of each
stream the lowest numbers of those parts are kept that no later one has a lower or the same number
of (a monotonic queue): what goes with the oldest part then leaves what counts without a look into
the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals


class LowestNumbers:
    """The lowest number of each stream that a series of parts still holds.

    Args:
        parts: where each begins and what it holds now, the oldest first.

    """

    def __init__(self, parts: Iterable[tuple[int, Mapping[Epoch, Intervals]]]) -> None:
        self._by_stream: dict[Epoch, deque[tuple[int, int]]] = {}
        """The place where each part begins, and its lowest number: both grow."""
        for start, holds in parts:
            for stream, numbers in holds.items():
                for first, _ in numbers:
                    self.note(start, stream, first)
                    break

    def note(self, start: int, stream: Epoch, first: int) -> None:
        """The newest part, which begins here, holds a number of a stream."""
        kept = self._by_stream.get(stream)
        if kept is None:
            kept = self._by_stream[stream] = deque()
        while kept and kept[-1][1] >= first:
            kept.pop()
        if not kept or kept[-1][0] != start:
            kept.append((start, first))

    def gone(self, start: int, holds: Iterable[Epoch]) -> None:
        """The oldest part, which began here and held something of these streams, is no more."""
        for stream in holds:
            kept = self._by_stream.get(stream)
            if kept and kept[0][0] == start:
                kept.popleft()
            if not kept:
                self._by_stream.pop(stream, None)

    def of_all(self) -> dict[Epoch, int]:
        """The lowest number of each stream of which there is one."""
        return {stream: kept[0][1] for stream, kept in self._by_stream.items()}

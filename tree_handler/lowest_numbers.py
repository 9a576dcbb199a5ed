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
        parts: where each begins and what it holds, the oldest first; no more comes to them.

    """

    def __init__(self, parts: Iterable[tuple[int, Mapping[Epoch, Intervals]]]) -> None:
        self._by_stream: dict[Epoch, deque[tuple[int, int]]] = {}
        """The place where each part begins, and its lowest number: both grow."""
        for start, holds in parts:
            self.add(start, holds)

    def add(self, start: int, holds: Mapping[Epoch, Intervals]) -> None:
        """Take one more part into account, the newest, to which no more comes."""
        for stream, numbers in holds.items():
            for first, _ in numbers:
                kept = self._by_stream.setdefault(stream, deque())
                while kept and kept[-1][1] >= first:
                    kept.pop()
                kept.append((start, first))
                break

    def gone(self, start: int, holds: Iterable[Epoch]) -> None:
        """The oldest part, which began here and held something of these streams, is no more."""
        for stream in holds:
            kept = self._by_stream.get(stream)
            if kept and kept[0][0] == start:
                kept.popleft()
            if not kept:
                self._by_stream.pop(stream, None)

    def of_all(self, newest: Mapping[Epoch, Intervals]) -> dict[Epoch, int]:
        """Return the lowest number of each stream of which there is one.

        Args:
            newest: what a further part holds, to which more may come.

        """
        lowest = {stream: kept[0][1] for stream, kept in self._by_stream.items()}
        for stream, numbers in newest.items():
            for first, _ in numbers:
                lowest[stream] = min(first, lowest.get(stream, first))
                break
        return lowest

"""Segments of the log that go next, for whoever wants something of them before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.log import scan
from gateway.log.damage import Damage
from gateway.log.segment import Segment
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals


class SegmentsToTrim:
    """Sealed segments, one behind the other, that may be read in a thread.

    Args:
        segments: which.
        behind: the position behind them.
        damage: told of what can't be read, which is left out.

    Attributes:
        behind: as given.

    """

    def __init__(self, segments: Sequence[Segment], behind: int, damage: Damage) -> None:
        self.behind = behind
        self._segments = segments
        self._damage = damage

    def __len__(self) -> int:
        """Return how many segments go; 0 if nothing does."""
        return len(self._segments)

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        """Return the batches of one stream that hold any number of ``ranges``, as appended.

        Raises:
            LogError: a segment can't be read.

        """
        return scan.batches(self._segments, key, ranges, self._damage)

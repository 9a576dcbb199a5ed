"""De-duplication of QoS 0, which no log has: what is remembered is bounded, and so may be lost."""

from __future__ import annotations

from typing import Final

from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

MAX_RANGES: Final = 64
"""Gaps remembered in the numbers of one stream; beyond it the oldest count as lost."""
MAX_STREAMS: Final = 10_000
"""Streams remembered; beyond it the one that was silent for longest is forgotten."""


class Unlogged:
    """The QoS 0 numbers that a gateway has seen.

    Attributes:
        seen: by stream; of each origin its latest epoch alone. What comes of an earlier one has
            been on its way for longer than its origin took to start again, and is dropped.

    """

    def __init__(self) -> None:
        self.seen: dict[Epoch, Intervals] = {}
        self._latest: dict[str, int] = {}

    def is_known(self, header: Header) -> bool:
        """Return whether all messages of a batch were seen, or are of an earlier epoch."""
        name, epoch = stream = header.stream
        latest = self._latest.get(name, 0)
        seen = self.seen.get(stream)
        return epoch < latest or (seen is not None and seen.covers(header.first, header.last))

    def is_new(self, header: Header) -> bool:
        """Return whether any message of a batch was not seen before; from now on all were."""
        name, epoch = stream = header.stream
        latest = self._latest.get(name, 0)
        if epoch < latest:
            return False
        if epoch > latest:
            self.seen.pop((name, latest), None)
            self._latest[name] = epoch
        seen = self.seen.pop(stream, None) or Intervals()
        self.seen[stream] = seen
        if len(self.seen) > MAX_STREAMS:
            forgotten = next(iter(self.seen))
            del self.seen[forgotten], self._latest[forgotten[0]]
        if not seen.add(header.first, header.last):
            return False
        if len(seen) > MAX_RANGES:
            ranges = list(seen)
            seen.add(ranges[0][0], ranges[len(ranges) // 2][1])
        return True

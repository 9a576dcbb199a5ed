"""Messages that neighbours tell of and can neither send nor prove: they are sought all the same.

Where batches are sealed, what is behind the last number of a stream that came here is there as far
as its origin has signed it. Neighbours whose logs have dropped it say only that they had it. Who
has it still may be farther off. So it is sought as what is missing is, and nothing follows if
nobody has it: it is not lost, for it may never have been.

Whoever says much makes little work by it: of a stream only so many numbers are sought, ever more
seldom, and for no longer than an origin may be away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch

MAX_NUMBERS: Final = 100_000
"""Of one stream in a search, the first ones."""
MAX_STREAMS: Final = 1_000
"""Sought in one search."""


@dataclass(slots=True)
class _Tried:
    """The search for one stream: since when it goes on, and when it is due again."""

    due_at: float
    wait_s: float
    since: float = math.inf


@dataclass(slots=True)
class Hearsay:
    """A schedule of searches for numbers that neighbours name without a proof.

    Args:
        interval_s: a stream is sought again after so long, then after twice as long, and so on.
        gone_s: not after so long.

    """

    interval_s: float
    gone_s: float
    _tried: dict[Epoch, _Tried] = field(default_factory=dict)

    def due(self, streams: Iterable[Epoch], now: float) -> list[Epoch]:
        """Return of which streams it is time to seek what is said, of all of which something is."""
        before, self._tried = self._tried, {}
        found: list[Epoch] = []
        for stream in streams:
            tried = before.get(stream) or _Tried(now, self.interval_s)
            self._tried[stream] = tried
            if tried.due_at <= now and len(found) < MAX_STREAMS:
                found.append(stream)
        return found

    def over(self, now: float) -> list[Epoch]:
        """Return what was sought for as long as it is; nothing is known of it any more."""
        over = [one for one, tried in self._tried.items() if now >= tried.since + self.gone_s]
        for stream in over:
            del self._tried[stream]
        return over

    def sought(self, streams: Iterable[Epoch], now: float) -> None:
        """These are sought now."""
        for stream in streams:
            tried = self._tried[stream]
            tried.since = min(tried.since, now)
            tried.due_at = now + tried.wait_s
            tried.wait_s = min(2 * tried.wait_s, self.gone_s / 8)

"""Decides what is lost: what is certain to be nowhere within reach, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, Epoch, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Action, Append
from tree_handler.replication.own_batches import parts
from tree_handler.replication.repair import Request
from tree_handler.replication.search import Searches

MAX_SOUGHT_NUMBERS = 1_000_000
"""In one search."""


@dataclass(slots=True)
class Losses:
    """What one gateway seeks, and gives up.

    Args:
        searches: asks everybody within reach.
        covered: the numbers of a stream that are here, or need not come.
        interval_s: the least time between two searches.
        origin_gone_s: see `Replication`.

    """

    searches: Searches
    covered: Callable[[Epoch], Intervals]
    interval_s: float
    origin_gone_s: float
    _stuck: dict[Epoch, float] = field(default_factory=dict)
    """Since when something of a stream is missing that no neighbour can send."""
    _next_search: float = 0.0

    def seek(self, missing: Mapping[Epoch, Intervals], now: float) -> list[Action]:
        """Ask everybody within reach for what no neighbour can send."""
        self._stuck = {key: self._stuck.get(key, now) for key in missing}
        if not missing or now < self._next_search or self.searches.is_seeking:
            return []
        self._next_search = now + self.interval_s
        longest = sorted(missing.items(), key=lambda row: self._stuck[row[0]])
        return self.searches.begin(Request.of(longest, MAX_SOUGHT_NUMBERS).wanted, now)

    def give_up(self, now: float) -> list[Action]:
        """Note as lost what nobody within reach has."""
        flags = Flags.PASSED | Flags.LOST | Flags.LOCAL
        return [
            Append(*batch.passed(stream, *part, flags), None)
            for stream, left in self._given_up(now)
            for gap in left.without(self.covered(stream))
            for part in parts(*gap)
        ]

    def _given_up(self, now: float) -> Iterator[tuple[Epoch, Intervals]]:
        """What a search that has ended found nowhere, if its origin was asked or is long gone."""
        result, self.searches.result = self.searches.result, None
        if result is None or not result.complete:
            return
        for key, left in result.left.items():
            stuck_s = now - self._stuck.get(key, now)
            was_asked = key[0].removeprefix(CONTROL_PREFIX) in result.origins
            if was_asked or stuck_s >= self.origin_gone_s:
                yield key, left
            else:  # each search asks everybody; who was away for long may stay away
                wait_s = max(self.interval_s, min(stuck_s, self.origin_gone_s / 8))
                self._next_search = max(self._next_search, now + wait_s)

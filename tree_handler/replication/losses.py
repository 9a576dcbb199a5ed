"""Decides what is lost: what is certain to be nowhere within reach, and nothing else.

It is certain once a search has found it nowhere, and nobody who linked since then has brought it
either (`search`): so an answer is let settle for half as long as searches are apart at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, Epoch, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Append, ReplicationAction
from tree_handler.replication.hearsay import Hearsay
from tree_handler.replication.own_batches import parts
from tree_handler.replication.repair import Request, SearchResult
from tree_handler.replication.search import Searches
from tree_handler.replication.stuck import StuckSince

MAX_SOUGHT_NUMBERS: Final = 1_000_000
"""In one search."""
MAX_FOLLOW_UPS: Final = 100
"""As many as a log with a gap behind each number needs for `MAX_SOUGHT_NUMBERS`."""
MAX_NOTES: Final = 1_000
"""Notes of losses in one round; the others follow in the next. A gap is as wide as its origin
says, and a note holds only so much of it."""
UNDER_WAY_INTERVALS: Final = 4
"""Of repair: what an origin sent before it lost it has come by then."""


@dataclass(slots=True)
class Losses:
    """A record of the numbers that one gateway seeks, and in the end gives up as lost.

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
    _stuck: StuckSince = field(default_factory=StuckSince)
    _lost_by_origins: StuckSince = field(default_factory=StuckSince)
    _hearsay: Hearsay = field(init=False)
    _alone_since: float = math.inf
    _sought: dict[Epoch, Intervals] = field(default_factory=dict)
    """Numbers that the last search was for, whether or not they had room in it."""
    _unsaid: dict[Epoch, Intervals] = field(default_factory=dict)
    """Those of them of which its answer said nothing."""
    _follow_ups: int = 0
    """Searches in a row that asked for what the one before said nothing of."""
    _sought_at: float = -math.inf
    _next_search: float = 0.0
    _ended_at: float = math.inf
    """The time when the search ended whose result is let settle."""

    def __post_init__(self) -> None:
        self._hearsay = Hearsay(self.interval_s, self.origin_gone_s)

    @property
    def due_at(self) -> float:
        """Return when `give_up` may have something to do; infinity for not before it is fed."""
        return self._ended_at + self.interval_s / 2

    def accompanied(self) -> None:
        """A neighbour is there: who was alone begins to count anew when it has gone."""
        self._alone_since = math.inf

    def due_of(self, said: Iterable[Epoch], now: float) -> list[Epoch]:
        """Return of which streams it is time to seek what neighbours say without a proof."""
        return self._hearsay.due(said, now)

    def in_vain(self, now: float) -> list[Epoch]:
        """Return of which of them it was sought for so long that it is not any more."""
        return self._hearsay.over(now)

    def seek(
        self,
        missing: Mapping[Epoch, Intervals],
        now: float,
        said: Mapping[Epoch, Intervals] = MappingProxyType({}),
    ) -> list[ReplicationAction]:
        """Ask everybody within reach for what no neighbour can send.

        Args:
            missing: what is not here and no neighbour can send, by stream.
            now: monotonic time in seconds.
            said: what may never have been: it is sought, and not given up.

        """
        is_new = self._stuck.follow(missing, now, self.origin_gone_s)
        if is_new or said:  # it does not wait for what is long sought in vain
            self._next_search = min(self._next_search, self._sought_at + self.interval_s)
        is_seeking = self.searches.is_seeking or self.searches.result is not None
        if not (missing or said) or now < self._next_search or is_seeking:
            return []
        self._sought_at, self._next_search = now, now + self.interval_s
        unsaid = {
            key: left.common(missing.get(key, _NOTHING)) for key, left in self._unsaid.items()
        }
        wanted = {key: left for key, left in unsaid.items() if len(left)} or dict(missing)
        longest = sorted(wanted.items(), key=self._stuck_since)
        longest += said.items()
        self._hearsay.sought(said, now)
        self._sought, self._unsaid = wanted, {}
        actions = self.searches.begin(Request.of(longest, MAX_SOUGHT_NUMBERS).wanted, now)
        self.heard(now)
        return actions

    def _follow_up(self, result: SearchResult) -> None:
        """Seek next what an answer says nothing of: it names no more ranges than it may.

        As long as each says something, and for so many searches as may be needed: else who never
        says anything of some would keep all else from being sought.
        """
        self._follow_ups += 1
        unsaid = {
            key: asked.without(result.left.get(key, _NOTHING))
            for key, asked in self._sought.items()
        }
        has_said = any(map(len, result.left.values()))
        if has_said and self._follow_ups <= MAX_FOLLOW_UPS and any(map(len, unsaid.values())):
            self._unsaid = unsaid
        else:
            self._follow_ups = 0

    def give_up(self, missing: Mapping[Epoch, Intervals], now: float) -> list[ReplicationAction]:
        """Note as lost what nobody within reach has; the arguments are those of `seek`."""
        return self._noted(
            (stream, left.common(missing.get(stream, _NOTHING)))
            for stream, left in self._given_up(now)
        )

    def alone(self, missing: Mapping[Epoch, Intervals], now: float) -> list[ReplicationAction]:
        """Note as lost what is missing for as long as there was no neighbour, if that is so long
        that it counts as gone; the arguments are those of `seek`."""
        self.start_over()
        self._alone_since = min(self._alone_since, now)
        self._stuck.follow(missing, now, self.origin_gone_s)
        if now - self._alone_since < self.origin_gone_s:
            return []
        return self._noted(
            (stream, self._stuck.for_long(stream, now, self.origin_gone_s)) for stream in missing
        )

    def of_nobody(self, streams: Iterable[Epoch]) -> list[ReplicationAction]:
        """Note as lost what is missing of streams that nobody is asked for."""
        return self._noted((stream, _gaps_of(self.covered(stream))) for stream in streams)

    def of_origins(self, missing: Mapping[Epoch, Intervals], now: float) -> list[ReplicationAction]:
        """Note as lost what its origin has lost and nobody else is asked for.

        It may still be under way for a moment, from before the origin lost it.
        """
        long_s = UNDER_WAY_INTERVALS * self.interval_s
        self._lost_by_origins.follow(missing, now, long_s)
        return self._noted(
            (stream, self._lost_by_origins.for_long(stream, now, long_s)) for stream in missing
        )

    def _noted(self, losses: Iterable[tuple[Epoch, Intervals]]) -> list[ReplicationAction]:
        """Return the notes of this round: no more are made, since a gap may be as wide as life."""
        notes: list[ReplicationAction] = []
        for stream, lost in losses:
            for note in self._notes(stream, lost):
                notes.append(note)
                if len(notes) == MAX_NOTES:
                    return notes
        return notes

    def _notes(self, stream: Epoch, lost: Intervals) -> Iterator[ReplicationAction]:
        flags = Flags.PASSED | Flags.LOST | Flags.LOCAL
        for gap in lost.without(self.covered(stream)):
            for part in parts(*gap):
                yield Append(*batch.passed(stream, *part, flags), None)

    def heard(self, now: float) -> None:
        """A search may have ended with what was heard now; one that proves nothing is dropped."""
        if self.searches.result is not None and not self.searches.result.complete:
            self.searches.result = None
        if self.searches.result is None:
            self._ended_at = math.inf
        else:
            if self._ended_at == math.inf:
                self._follow_up(self.searches.result)
            self._ended_at = min(self._ended_at, now)

    def start_over(self) -> None:
        """Nothing that was heard of the last search counts: there is no neighbour, say."""
        self.searches.result = None
        self._ended_at = math.inf

    def _stuck_since(self, row: tuple[Epoch, Intervals]) -> float:
        return self._stuck.since(row[0])

    def _given_up(self, now: float) -> Iterator[tuple[Epoch, Intervals]]:
        """Yield what a search found nowhere, if its origin was asked or is long gone."""
        self.heard(now)
        result, ended_at = self.searches.result, self._ended_at
        if result is None or now < self.due_at:
            return
        self.start_over()
        for key, left in result.left.items():
            denied = self.searches.denied(result, key)
            certain = left.common(self._stuck.for_long(key, now, self.origin_gone_s))
            if denied is not None:
                certain.update(left.common(denied))
            elif key[0].removeprefix(CONTROL_PREFIX) in result.origins:
                certain = left
            if len(certain):
                yield key, certain
            else:  # each search asks everybody; who was away for long may stay away
                stuck_s = max(0.0, now - self._stuck.since(key))
                wait_s = max(self.interval_s, min(stuck_s, self.origin_gone_s / 8))
                self._next_search = max(self._next_search, ended_at + wait_s)


def _gaps_of(have: Intervals) -> Intervals:
    return Intervals(have.missing(1, have.last))


_NOTHING = Intervals()

"""Substitutes: gateways that are dialled in place of neighbours that are gone for good (row A2).

A gateway that dials configured neighbours alone would stay by itself when they are gone, though it
knows where others are: their records say it. So it dials one of those others that its tree does not
reach, best first, until a configured neighbour is there again, and was for as long.

What is stated here and nowhere else:

- it begins when no configured neighbour is linked for ``after_s``, and there is somebody whom the
  tree does not reach: who came into the tree by another way needs no substitute;
- one is dialled at a time. One that does not answer for ``try_s`` is left, and after a pause, which
  is twice as long each time up to ``longest_pause_s``, the next one is tried;
- it is left when a configured neighbour was linked for ``home_s`` without a break. If it is out of
  reach then, or the neighbours are lost again soon, it was left too early: it is dialled again, and
  ``home_s`` is twice as long, up to ``longest_home_s``;
- ``jitter`` spreads the first attempts of those that have lost the same neighbour.

A tree with one link more has no loop: the spanning tree sees to that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from light_dataclasses import dataclass
from tree_handler.members.hierarchy import Hierarchy
from tree_handler.members.member import MemberRecord

CANDIDATES_MAX = 64
"""So many are remembered of those that were there when the neighbours were lost: the fleet's
records of them may be gone before one answers."""


@dataclass(frozen=True, slots=True)
class SubstituteTimes:
    """The times of substitution, in seconds.

    Attributes:
        after_s: without a configured neighbour, before another gateway is dialled; 0 for never.
        try_s: for one to answer.
        first_pause_s: before the next one is tried.
        longest_pause_s: what that grows to.
        home_s: with a configured neighbour, before the substitute is left.
        longest_home_s: what that grows to.
        settle_s: out of reach, before one that was left is dialled again.

    """

    after_s: float
    try_s: float = 10.0
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    home_s: float = 30.0
    longest_home_s: float = 3600.0
    settle_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Substitute:
    """A gateway that may be dialled as a substitute, and its address for links."""

    id: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class WaysHome:
    """A gateway's view of its links and its tree.

    Attributes:
        is_linked: there is a link to a configured neighbour; None if none is configured.
        links: whom it has a link to.
        reached: whom its tree reaches.

    """

    is_linked: bool | None
    links: Collection[str]
    reached: Collection[str]


@dataclass(frozen=True, slots=True)
class DialSubstitute:
    """Dial it, again and again, until it is to be left."""

    substitute: Substitute


@dataclass(frozen=True, slots=True)
class LeaveSubstitute:
    """Dial it no more, and end the link that came of it."""

    substitute: Substitute


SubstituteAction = DialSubstitute | LeaveSubstitute


class Substitution:
    """Decides it for one gateway. All times are seconds of one steady clock.

    Args:
        times: how long what takes.

    Attributes:
        current: whom it dials, or is linked to; None for nobody.

    """

    def __init__(self, times: SubstituteTimes) -> None:
        self.current: Substitute | None = None
        self._times = times
        self._lost_at: float | None = None
        self._home_at: float | None = None
        self._begins_at = math.inf
        self._pause_s = times.first_pause_s
        self._home_s = times.home_s
        self._dialled_at = 0.0
        self._stands = False
        self._left: Substitute | None = None
        self._left_at = -math.inf
        self._out_of_reach_at: float | None = None
        self._tried: set[str] = set()
        self._known: list[Substitute] = []

    def look(
        self,
        seen: WaysHome,
        candidates: Callable[[], Sequence[Substitute]],
        now: float,
        jitter: float,
    ) -> list[SubstituteAction]:
        """Take what is seen now; return what to do.

        Args:
            seen: links and tree.
            candidates: who may be dialled, best first.
            now: the time.
            jitter: a random number, 0 to 1.

        """
        if self._times.after_s <= 0 or seen.is_linked is None:
            self._lost_at = self._home_at = self._left = None
            return self._leave()
        if seen.is_linked:
            self._lost_at, self._known = None, []
            if self._home_at is None:
                self._home_at = now
        else:
            self._home_at = None
            if self._lost_at is None:
                self._lost_at = now
                self._begins_at = now + self._times.after_s * (0.75 + 0.5 * jitter)
                self._pause_s = self._times.first_pause_s
                self._tried.clear()
        if self.current is not None:
            return self._with_one(self.current, seen, now)
        if seen.is_linked:
            return self._taken_back(seen, now)
        return self._next(seen, candidates, now) if now >= self._begins_at else []

    def next_timer(self) -> float:
        """Return when `look` is due, if nothing else happens before; infinity for never."""
        times = self._times
        if self.current is not None:
            if not self._stands:
                return self._dialled_at + times.try_s
            return math.inf if self._home_at is None else self._home_at + self._home_s
        if self._left is not None and self._home_at is not None:
            since = self._out_of_reach_at
            return self._left_at + self._home_s if since is None else since + times.settle_s
        return math.inf if self._lost_at is None else self._begins_at

    def _with_one(self, one: Substitute, seen: WaysHome, now: float) -> list[SubstituteAction]:
        """Somebody is dialled, or linked."""
        if one.id in seen.links:
            self._stands = True
            self._pause_s = self._times.first_pause_s
            self._tried.clear()
            if self._home_at is None or now < self._home_at + self._home_s:
                return []
            self._left, self._left_at, self._out_of_reach_at = one, now, None
            return self._leave()
        if self._stands:  # its link has broken: it is dialled on, as if for the first time
            self._stands, self._dialled_at = False, now
        if now < self._dialled_at + self._times.try_s:
            return []
        self._begins_at = now + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, self._times.longest_pause_s)
        return self._leave()

    def _taken_back(self, seen: WaysHome, now: float) -> list[SubstituteAction]:
        """Take back the substitute that was left for a configured neighbour, if it was missed."""
        left = self._left
        if left is None:
            return []
        if left.id in seen.reached:
            self._out_of_reach_at = None
            if now >= self._left_at + self._home_s:
                self._left = None
            return []
        if self._out_of_reach_at is None:
            self._out_of_reach_at = now
        if now < self._out_of_reach_at + self._times.settle_s:
            return []
        if now >= self._left_at + self._home_s + self._times.settle_s:  # it has gone by itself
            self._left = None
            return []
        return self._dial(left, now)

    def _next(
        self, seen: WaysHome, candidates: Callable[[], Sequence[Substitute]], now: float
    ) -> list[SubstituteAction]:
        fresh = [one for one in candidates() if one.id not in seen.reached]
        ids = {one.id for one in fresh}
        there = fresh + [
            one for one in self._known if one.id not in ids and one.id not in seen.reached
        ]
        self._known = there = there[:CANDIDATES_MAX]
        untried = [one for one in there if one.id not in self._tried and one.id not in seen.links]
        if untried:
            return self._dial(untried[0], now)
        self._tried.clear()
        self._begins_at = now + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, self._times.longest_pause_s)
        return []

    def _dial(self, one: Substitute, now: float) -> list[SubstituteAction]:
        soon = now < self._left_at + 10.0 * self._home_s
        longer = min(2.0 * self._home_s, self._times.longest_home_s)
        self._home_s = longer if soon else self._times.home_s
        self.current, self._dialled_at, self._stands = one, now, False
        self._left = None
        self._home_at = None if self._home_at is None else now
        self._tried.add(one.id)
        return [DialSubstitute(one)]

    def _leave(self) -> list[SubstituteAction]:
        left, self.current, self._stands = self.current, None, False
        return [] if left is None else [LeaveSubstitute(left)]


def best_first(records: Collection[MemberRecord], own_id: str) -> Iterator[MemberRecord]:
    """Give all others in the order in which a gateway without a parent turns to them.

    First those of its group and its domain that would head it, as `Hierarchy` has it for a fleet
    whose gateways are all there, then all others by its rule: who is lost now may be found there.
    """
    if all(record.id != own_id for record in records):
        return
    hierarchy = Hierarchy.of(records)
    by_id = {record.id: record for record in records}
    for gateway_id in hierarchy.turned_to(own_id):
        yield by_id[gateway_id]

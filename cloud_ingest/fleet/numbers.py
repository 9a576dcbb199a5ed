"""Numbers of a gateway's messages that are missing.

Each life of a gateway numbers what it logs for its clients from 1 without gaps. What has come is
one number, the highest, and the holes below it: its size grows with what is missing, not with what
came. What a gateway lost behind its last number that came is not seen until a later one comes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import msgspec

from cloud_ingest.evidence.facts import Interval

MAX_HOLES: Final = 256
"""Of one life. Of more the oldest are given up: they stay missing for good."""


class Hole(msgspec.Struct, array_like=True):
    """Numbers that are missing.

    Attributes:
        first: the first of them.
        last: the last.
        found_us: when a later one had come, by the collector's clock.
        is_told: a table has a row of it.

    """

    first: int
    last: int
    found_us: int
    is_told: bool = False

    @property
    def count(self) -> int:
        """Return how many numbers it has."""
        return self.last - self.first + 1


class Numbering(msgspec.Struct, array_like=True):
    """The sequence numbers that have come of one life.

    Attributes:
        top: the highest number.
        holes: what is missing below it, in order.
        given_up: how many numbers are missing that are no longer looked for.

    """

    top: int = 0
    holes: list[Hole] = []
    given_up: int = 0

    @property
    def missing(self) -> int:
        """Return how many numbers are missing."""
        return self.given_up + sum(hole.count for hole in self.holes)

    def come(self, intervals: Iterable[Interval], at_us: int) -> list[Hole]:
        """Take numbers that have come, in any order and however often.

        Args:
            intervals: the numbers.
            at_us: when, by the collector's clock.

        Returns:
            What had been missing and has come.

        """
        closed: list[Hole] = []
        for first, last in sorted(intervals):
            if first <= self.top:
                closed += self._fill(first, min(last, self.top))
            if last > self.top:
                if first > self.top + 1:
                    self.holes.append(Hole(self.top + 1, first - 1, at_us))
                self.top = last
        return closed

    def tell(self, before_us: int) -> bool:
        """Mark what was found by a time as told, and return whether anything is newly so."""
        fresh = [hole for hole in self.holes if not hole.is_told and hole.found_us <= before_us]
        for hole in fresh:
            hole.is_told = True
        return bool(fresh)

    def give_up(self) -> list[Hole]:
        """Have no more holes than `MAX_HOLES`; return those that are looked for no longer."""
        excess = len(self.holes) - MAX_HOLES
        if excess <= 0:
            return []
        gone = sorted(self.holes, key=lambda hole: (hole.found_us, hole.first))[:excess]
        self.given_up += sum(hole.count for hole in gone)
        firsts = {hole.first for hole in gone}
        self.holes = [hole for hole in self.holes if hole.first not in firsts]
        return gone

    def forget_between(self, first: int, last: int) -> None:
        """Look no longer for what is missing from one number to another; it counts as missing."""
        self.given_up += sum(hole.count for hole in self._fill(first, last))

    def _fill(self, first: int, last: int) -> list[Hole]:
        begin = bisect_left(self.holes, first, key=lambda hole: hole.last)
        end = begin
        closed: list[Hole] = []
        left: list[Hole] = []
        while end < len(self.holes) and self.holes[end].first <= last:
            hole = self.holes[end]
            end += 1
            told = (hole.found_us, hole.is_told)
            closed.append(Hole(max(hole.first, first), min(hole.last, last), *told))
            if hole.first < first:
                left.append(Hole(hole.first, first - 1, *told))
            if hole.last > last:
                left.append(Hole(last + 1, hole.last, *told))
        self.holes[begin:end] = left
        return closed

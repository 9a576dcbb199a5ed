"""Keeps the ledger within its limits, whatever gateways claim (decision 46).

A stream with too many runs of numbers is closed from below: up to its *floor* nobody knows any
more which numbers the tables have. A gateway with too many lives has the oldest closed as a whole.
What comes of either later is kept as bytes in quarantine, since a table may have it already.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from cloud_ingest.bounded_counts import added
from cloud_ingest.evidence.facts import GivenUp, Interval
from cloud_ingest.ledger.number_ledger import LedgerChange, Numbered, NumberLedger, Stream
from tree_handler.intervals import Intervals

MAX_TOLD_GAPS: Final = 64
"""The number of gaps that are told of what is closed at once in one life: the largest; all are
counted."""


class Closing:
    """Decides what is closed, and notes it in the change that comes next.

    Args:
        ledger: what the tables have.
        change: what they will have beyond it.

    """

    def __init__(self, ledger: NumberLedger, change: LedgerChange) -> None:
        self._ledger = ledger
        self._change = change
        self.given_up: list[GivenUp] = []
        """The numbers of clients' logged messages that are missing and looked for no longer."""
        self.let_go: dict[Stream, list[Interval]] = {}
        """Numbers that the change would have added, and that are below a floor now."""

    def keep_within(self, origin: str, streams: Iterable[Stream]) -> None:
        """Close what one gateway has too much of.

        Args:
            origin: it.
            streams: its streams in the change, in the order in which they came.

        """
        limits = self._ledger.limits
        new = [stream for stream in streams if self._runs_to_come(stream)]
        lives = self._ledger.lives.get(origin, {})
        begun = {stream.epoch for stream in new if stream.epoch not in lives}
        if len(lives) + len(begun) > limits.lives:
            self._close_lives(origin, new)
        size = self._ledger.sizes.get(origin, 0) + sum(map(self._runs_to_come, new))
        if size > limits.gaps:
            self._raise_floors(origin, new, limits.gaps // 2)

    def keep_total(self, by_origin: dict[str, dict[Stream, None]]) -> None:
        """Close what all gateways together have too much of, of the largest first.

        Args:
            by_origin: streams in the change.

        """
        limit = self._ledger.limits.total_gaps
        sizes = dict(self._ledger.sizes)
        for origin, streams in by_origin.items():
            sizes[origin] = sizes.get(origin, 0) + sum(map(self._runs_to_come, streams))
        total = sum(sizes.values())
        if total <= limit:
            return
        for origin in sorted(sizes, key=lambda each: -sizes[each]):
            target = sizes[origin] // 2
            left = self._raise_floors(origin, list(by_origin.get(origin, ())), target)
            total += left - sizes[origin]
            if total <= limit:
                return

    def _close_lives(self, origin: str, new: list[Stream]) -> None:
        """Close lives, that which was heard longest ago first, down to three quarters."""
        order = dict.fromkeys(self._ledger.lives.get(origin, {}))
        for stream in new:
            order.pop(stream.epoch, None)
            order[stream.epoch] = None
        limit = self._ledger.limits.lives
        gone = list(order)[: len(order) - max(1, limit * 3 // 4)]
        closed = Intervals(self._ledger.all.closed.get(origin, ()))
        closed.update(self._change.closed.get(origin, Intervals()))
        for epoch in gone:
            closed.add(epoch, epoch)
        closed = _coarser(closed, limit)
        self._change.closed[origin] = closed
        for epoch in order:
            if epoch in closed:
                for stream in Stream.of_life(origin, epoch):
                    self._give_up(stream, None)

    def _raise_floors(self, origin: str, new: list[Stream], target: int) -> int:
        """Close streams from below, the one with the most runs first; return what is left."""
        lives = self._ledger.lives.get(origin, {})
        streams = dict.fromkeys(
            (*(each for epoch in lives for each in Stream.of_life(origin, epoch)), *new)
        )
        gone = self._change.closed.get(origin, Intervals())
        firsts = {each: self._firsts(each) for each in streams if each.epoch not in gone}
        heap = [(-len(found), each) for each, found in firsts.items()]
        heapq.heapify(heap)
        size = sum(map(len, firsts.values()))
        while size > target and heap:
            _, stream = heapq.heappop(heap)
            found = firsts[stream]
            later = (each for each in found[len(found) // 2 :] if each > found[0])
            first = next(later, None)
            if first is None:
                continue
            self._give_up(stream, first - 1)
            firsts[stream] = self._firsts(stream)
            size += len(firsts[stream]) - len(found)
            heapq.heappush(heap, (-len(firsts[stream]), stream))
        return size

    def _give_up(self, stream: Stream, floor: int | None) -> None:
        """Close a stream up to a number, or as a whole."""
        seen, kept, _ = self._parts(stream)
        if stream.logged and not stream.control:
            had = Intervals(seen)
            had.update(kept)
            before = self._floor(stream)
            last = had.last if floor is None else floor
            gaps = had.missing(before + 1, last) if last > before else []
            if gaps or (floor is None and had.last):
                self.given_up.append(_told(stream, gaps))
                totals = self._change.of(stream.origin)
                totals.given_up = added(totals.given_up, _count(gaps))
        for part in (self._change.seen, self._change.kept_local):
            coming = part.get(stream)
            if coming is None:
                continue
            last = coming.last if floor is None else floor
            high = Intervals([(last + 1, max(last + 1, coming.last))])
            self.let_go.setdefault(stream, []).extend(coming.without(high))
            if floor is None:
                del part[stream]
            else:
                coming.forget_through(last)
        if floor is None:
            self._change.floors.pop(stream, None)
        else:
            self._change.floors[stream] = floor

    def _floor(self, stream: Stream) -> int:
        floors = self._ledger.all.floors.get(stream, 0), self._change.floors.get(stream, 0)
        return max(floors)

    def _runs_to_come(self, stream: Stream) -> int:
        change = self._change
        return sum(len(part.get(stream, ())) for part in (change.seen, change.kept_local))

    def _firsts(self, stream: Stream) -> list[int]:
        """Return where the runs of a stream begin, in order."""
        return sorted(first for part in self._parts(stream) for first, _ in part)

    def _parts(self, stream: Stream) -> tuple[Intervals, Intervals, Intervals]:
        """Return what is seen, kept local and held of a stream, as it will be."""
        mine, change, floor = self._ledger.all, self._change, self._floor(stream)
        none: Numbered = {}
        had = (mine.seen, change.seen), (mine.kept_local, change.kept_local), (mine.held, none)
        parts = []
        for before, coming in had:
            both = Intervals(before.get(stream, ()))
            both.update(coming.get(stream, Intervals()))
            both.forget_through(floor)
            parts.append(both)
        return parts[0], parts[1], parts[2]


def _told(stream: Stream, gaps: list[Interval]) -> GivenUp:
    largest = sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MAX_TOLD_GAPS]
    return GivenUp(stream.origin, stream.epoch, tuple(sorted(largest)), _count(gaps))


def _count(gaps: Iterable[Interval]) -> int:
    return sum(last - first + 1 for first, last in gaps)


def _coarser(numbers: Intervals, most: int) -> Intervals:
    """Join the closest runs, until there are at most so many; numbers between them are added.

    The starts of a gateway have ascending epochs, so what is beside lies among old lives.
    """
    runs = list(numbers)
    if len(runs) <= most:
        return numbers
    spaces = [(runs[i + 1][0] - runs[i][1], i) for i in range(len(runs) - 1)]
    for _, i in sorted(spaces)[: len(runs) - max(1, most // 2)]:
        numbers.add(runs[i][0], runs[i + 1][1])
    return numbers

"""Decides which batches of a trigger are decoded: each number once, by headers alone.

A batch is never rewritten on its way, so a copy of a number is as good as another, and what is new
in a batch stands in its header: nothing is decoded to find out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from cloud_ingest.evidence.facts import GivenUp, Interval, Numbers
from cloud_ingest.ingest.closing import Closing
from cloud_ingest.ingest.forgotten import recall
from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger, Stream, minus
from record_formats.record import LONG_MAX
from tree_handler.batch import Header
from tree_handler.intervals import Intervals

YEAR_9999_US = 253_402_300_799_000_000
"""The last second that Spark, Parquet's readers and Python's datetime all can hold."""
STRETCH_BYTES = 1 << 20
"""A stretch grows up to here: what is shared out among tasks."""


@dataclass(frozen=True, slots=True)
class SpoolStretch:
    """Batches that stand side by side in one segment and are decoded.

    Attributes:
        spool: the spool's folder.
        segment: name of the segment.
        start: its first byte there.
        end: behind its last byte.
        keep: the numbers to keep of its one batch; None: all of all of them.

    """

    spool: str
    segment: str
    start: int
    end: int
    keep: tuple[Interval, ...] | None = None

    @property
    def length(self) -> int:
        """Its bytes in the segment, by which tasks share stretches out."""
        return self.end - self.start


class UnsureStretch(SpoolStretch):
    """One batch of which a table may have messages already: they go to quarantine."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SpoolSpot:
    """The place of a batch: spool, segment, first byte, and that byte over all segments."""

    spool: str
    segment: str
    at: int
    position: int


@dataclass(slots=True)
class TriggerPlan:
    """The plan of one trigger, made header by header.

    Attributes:
        ledger: what the tables have.
        change: what they will have beyond it.
        stretches: what is to be decoded.

    """

    ledger: NumberLedger
    change: LedgerChange = field(default_factory=LedgerChange)
    stretches: list[SpoolStretch] = field(default_factory=list)
    _closing: Closing = field(init=False)
    _streams: dict[str, dict[Stream, None]] = field(default_factory=dict)
    _is_closed_somewhere: bool = field(init=False)
    _most: int = field(init=False)

    def __post_init__(self) -> None:
        mine = self.ledger.all
        self._closing = Closing(self.ledger, self.change)
        self._is_closed_somewhere = bool(mine.floors or mine.closed)
        self._most = self.ledger.limits.gaps

    def take(self, place: SpoolSpot, header: Header) -> tuple[Interval, ...]:
        """Plan one batch; return the new numbers of one between gateways, which no task decodes.

        Args:
            place: where it stands.
            header: its numbers are at most `LONG_MAX`.

        """
        if header.passed:
            self._take_statement(header)
            return ()
        if self.ledger.all.forgotten:
            recall(self.ledger, header.origin)
        control, logged = header.control, header.logged
        stream = Stream(header.origin, header.epoch, control, logged)
        begins, known = header.first, header.count
        if self._is_closed_somewhere:
            begins = self._known_from(stream, begins)
            known = header.last - begins + 1
            if begins > header.first:
                self._take_unsure(place, header, min(begins - 1, header.last))
                if known <= 0:
                    return ()
        unseen = self.ledger.fresh(stream, begins, header.last)
        planned = self.change.seen.get(stream)
        if is_new := planned is None:
            planned = self.change.seen[stream] = Intervals()
        unseen = minus(unseen, planned)
        held = self.ledger.all.held.get(stream)
        fresh = unseen if held is None else minus(unseen, held)
        count = 0
        for first, last in unseen:
            count += planned.add(first, last)
        self._count(place, header, known, count, count - sum(b - a + 1 for a, b in fresh))
        self._bound(stream, planned, is_new=is_new)
        if control or not fresh:
            return tuple(fresh)
        is_whole = fresh == [(header.first, header.last)]
        self._decode(place, header.end, None if is_whole else tuple(fresh))
        return ()

    def numbers(self) -> tuple[Numbers, ...]:
        """Return what is new, for the fleet."""
        seen, kept, let_go = self.change.seen, self.change.kept_local, self._closing.let_go
        told = (
            Numbers(
                *stream,
                (*let_go.get(stream, ()), *seen.get(stream, ())),
                tuple(kept.get(stream, ())),
            )
            for stream in dict.fromkeys((*seen, *kept, *let_go))
        )
        return tuple(numbers for numbers in told if numbers.seen or numbers.kept_local)

    def given_up(self) -> tuple[GivenUp, ...]:
        """Return what is looked for no longer, for the fleet."""
        return tuple(self._closing.given_up)

    def end(self) -> None:
        """Keep the ledger within its limits, once all is taken."""
        for origin, streams in self._streams.items():
            self._closing.keep_within(origin, streams)
        self._closing.keep_total(self._streams)

    def _bound(self, stream: Stream, numbers: Intervals, *, is_new: bool) -> None:
        """Close what a gateway claims too much of, in the midst of a trigger.

        Only once the numbers are noted: those that are closed are told to the fleet all the same.

        Args:
            stream: the one of which a batch came.
            numbers: of it, in the change.
            is_new: whether the change had none of it before.

        """
        streams = self._streams.setdefault(stream.origin, {})
        streams[stream] = None
        is_crowded = is_new and len(streams) > 4 * self.ledger.limits.lives
        if is_crowded or len(numbers) > self._most:
            self._keep_within(stream.origin)

    def _keep_within(self, origin: str) -> None:
        streams, change = self._streams[origin], self.change
        self._closing.keep_within(origin, streams)
        self._is_closed_somewhere |= bool(change.floors or change.closed)
        self._streams[origin] = {
            each: None for each in streams if each in change.seen or each in change.kept_local
        }

    def _known_from(self, stream: Stream, first: int) -> int:
        """Return the number, at or behind this one, from which it is known what tables have."""
        change = self.change
        floor = self.ledger.floor(stream)
        closed = change.closed.get(stream.origin)
        if floor is None or (closed is not None and stream.epoch in closed):
            return LONG_MAX + 1
        return max(first, floor + 1, change.floors.get(stream, 0) + 1)

    def _take_unsure(self, place: SpoolSpot, header: Header, last: int) -> None:
        """Have numbers go to quarantine of which a table may have some already."""
        count = last - header.first + 1
        if header.control:  # no table has them
            self._count(place, header, count, 0, 0)
            return
        self.change.of(header.origin).unsure += count
        end = place.at + header.end
        keep = ((header.first, last),)
        spot = place.spool, place.segment, place.at, end
        self.stretches.append(UnsureStretch(*spot, keep))

    def _count(self, place: SpoolSpot, header: Header, known: int, new: int, held: int) -> None:
        """Add to the counts.

        Args:
            place: of the batch.
            header: its header.
            known: of how many of its numbers it is known whether tables have them.
            new: how many they do not have.
            held: how many of the new ones stand in the quarantine already.

        """
        totals = self.change.of(header.origin)
        if place.position >= self.ledger.all.done.get(place.spool, 0):  # else it is read again
            totals.duplicates += known - new
        if new == 0:
            return
        if header.control:
            totals.control += new
        else:
            totals.messages += new
            totals.undecodable += held
            if header.logged:
                totals.logged += new
        if header.origin_time_us <= YEAR_9999_US:
            totals.seen_at(header.origin_time_us)

    def _take_statement(self, header: Header) -> None:
        if header.local:  # what was given up as lost stays a gap
            return
        stream = Stream(header.origin, header.epoch, header.control, True)
        begins = self._known_from(stream, header.first)
        if begins > header.last:
            return
        known = self.ledger.all.kept_local.get(stream)
        planned = self.change.kept_local.get(stream)
        if is_new := planned is None:
            planned = self.change.kept_local[stream] = Intervals()
        for first, last in minus([(begins, header.last)], known):
            planned.add(first, last)
        self._bound(stream, planned, is_new=is_new)

    def _decode(self, place: SpoolSpot, length: int, keep: tuple[Interval, ...] | None) -> None:
        if keep is None and self.stretches:
            last = self.stretches[-1]
            if (
                last.keep is None
                and last.length < STRETCH_BYTES
                and last.end == place.at
                and (last.segment, last.spool) == (place.segment, place.spool)
            ):
                end = place.at + length
                self.stretches[-1] = SpoolStretch(last.spool, last.segment, last.start, end)
                return
        end = place.at + length
        self.stretches.append(SpoolStretch(place.spool, place.segment, place.at, end, keep))


def shared_out(stretches: Sequence[SpoolStretch], tasks: int) -> list[list[SpoolStretch]]:
    """Give stretches to at most so many tasks, each about as many bytes, and cut none.

    Within a task they stand in the order of the spool.
    """
    shares: list[list[int]] = [[] for _ in range(max(1, min(tasks, len(stretches))))]
    loads = [(0, number) for number in range(len(shares))]
    by_size = sorted(range(len(stretches)), key=lambda i: -stretches[i].length)
    for i in by_size:
        load, number = heapq.heappop(loads)
        shares[number].append(i)
        heapq.heappush(loads, (load + stretches[i].length, number))
    return [[stretches[i] for i in sorted(share)] for share in shares if share]

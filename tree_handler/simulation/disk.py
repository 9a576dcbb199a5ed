"""The disk of a simulated gateway: what survives its lives."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import field

from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Replication


@dataclass(slots=True)
class Disk:
    """The content of a disk over the lives of one gateway, and what its clients were handed.

    Attributes:
        log: batches in the order in which they were appended.
        have: the numbers that the log holds, or held before it was trimmed.
        handed: for each origin and epoch, the numbers that clients got, or can't get any more
            because their gateway died after it had logged them.
        passed: the numbers that statements pass over, those of lost messages too.
        full_until_s: nothing can be appended before this virtual time.
        boot_epoch: of the last start, None if there was none on this disk.
        latest: the epoch of each origin of which clients were handed logged messages last.
        most_batches: a longer log is trimmed.
        places: where in the log each of its batches stands, and at last where the next one will.
        is_damaged: since the last start it lost some of its log, or was put by and put back.
        had: what clients were handed before some of it was lost, of which they may get some again.
        again: what it has lost while its gateway ran may be handed out once more.

    """

    log: list[tuple[bytes, Header]] = field(default_factory=list)
    have: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    handed: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    passed: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    full_until_s: float = 0.0
    boot_epoch: int | None = None
    latest: dict[str, int] = field(default_factory=dict)
    most_batches: float = math.inf
    places: list[int] = field(default_factory=lambda: [0])
    is_damaged: bool = False
    had: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    again: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))

    def start(self) -> dict[Epoch, Intervals]:
        """Return what a new life finds."""
        return {epoch: Intervals(numbers) for epoch, numbers in self.have.items()}

    def told(self) -> list[tuple[bytes, Header]]:
        """Return the control batches that a new life finds."""
        return [(frame, header) for frame, header in self.log if header.control]

    def not_again(self, core: Replication) -> None:
        """Note that nothing comes again that a new life takes for handed out.

        A disk that was damaged knows no more of what it lost: that may be handed out again here,
        and whether a client has had it is the broker's to know.
        """
        self.again.clear()
        if self.is_damaged:
            self.is_damaged = False
            self.latest.clear()
            for stream, numbers in self.handed.items():
                self.had[stream].update(numbers)
            self.handed.clear()
        for epoch in self.have:
            if last := min(core.handed_out(epoch), self.have[epoch].last):
                self.handed[epoch].update(Intervals([(1, last)]).without(self.passed[epoch]))

    def append(self, frame: bytes, header: Header) -> None:
        """Append a batch."""
        self.log.append((frame, header))
        self.places.append(self.places[-1] + 1)
        self.have[header.stream].add(header.first, header.last)
        if header.passed:
            self.passed[header.stream].add(header.first, header.last)

    def lose(self, first: int, count: int) -> dict[Epoch, Intervals]:
        """Some batches can't be read any more, by how many there are before them.

        Returns what the log has not any more. What is written next stands in the place of the last
        ones, if they are among them.
        """
        lost, place = self.log[first : first + count], self.places[first]
        del self.log[first : first + count], self.places[first : first + len(lost)]
        if first == len(self.log):
            self.places[first:] = [place]
        self.is_damaged = True
        found: dict[Epoch, Intervals] = {}
        for stream in dict.fromkeys(header.stream for _, header in lost):
            kept = [header for _, header in self.log if header.stream == stream]
            gone = Intervals(
                (header.first, header.last) for _, header in lost if header.stream == stream
            ).without(Intervals((header.first, header.last) for header in kept))
            self.have[stream] = self.have[stream].without(gone)
            self.passed[stream] = self.passed[stream].without(gone)
            if not len(self.have[stream]):
                del self.have[stream]
            if len(gone):
                found[stream] = gone
        return found

    def trim(self) -> bool:
        """Drop the oldest batches, if there are too many."""
        if len(self.log) <= self.most_batches:
            return False
        dropped = len(self.log) - int(self.most_batches) // 2
        del self.log[:dropped], self.places[:dropped]
        return True

    @property
    def position(self) -> int:
        """Return the position in the log at which the next batch will stand."""
        return self.places[-1]

    def read_from(self, position: int) -> list[tuple[bytes, Header]]:
        """Return the batches that stand at a position or behind it."""
        return self.log[bisect_left(self.places, position) :]

    def is_whole_from(self, position: int) -> bool:
        """Return whether no batch that stood at a position or behind it is missing."""
        found = self.places[bisect_left(self.places, position) :]
        return found == [*range(position, self.position + 1)]

    def kept_from(self) -> dict[Epoch, int]:
        """Return the lowest number that the log still has, by stream."""
        lowest = {stream: numbers.last + 1 for stream, numbers in self.have.items()}
        for _, header in self.log:
            lowest[header.stream] = min(lowest[header.stream], header.first)
        return lowest

    def holds(self) -> dict[Epoch, Intervals]:
        """Return the messages that are in the log."""
        found: dict[Epoch, Intervals] = defaultdict(Intervals)
        for _, header in self.log:
            if not header.passed:
                found[header.stream].add(header.first, header.last)
        return found

    def read(self, epoch: Epoch, ranges: Intervals) -> list[tuple[bytes, Header]]:
        """Return the batches that hold any number of ``ranges``, in sequence."""
        found = [
            (frame, header)
            for frame, header in self.log
            if header.stream == epoch
            and ranges.missing(header.first, header.last) != [(header.first, header.last)]
        ]
        return sorted(found, key=lambda row: row[1].first)

"""Batches of the history as a start reads them: which of their messages are due, and when."""

from __future__ import annotations

import pytest

from gateway.broker.durability.delivery_gaps import DeliveryGaps
from gateway.broker.durability.restored_batches import RestoredBatches
from tests.simulation.memory_log import Disk, MachineClocks, MemoryLog
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Row
from tree_handler.intervals import Intervals

STREAM: Epoch = ("other", 7)


class Reading:
    """A history in memory, and what is read of it."""

    def __init__(self) -> None:
        self.disk, self.lacking = Disk(), DeliveryGaps()
        log = MemoryLog(self.disk, 1, 1 << 30, MachineClocks(), sync=False)
        self.strange: list[str] = []
        self.batches = RestoredBatches(log, self.lacking, self.strange.append)

    def has(self, first: int, last: int, *, comes: bool = True) -> None:
        """The log has a batch, to which the history comes, or which stands before it."""
        rows: list[Row] = [("t", 1, b"%d" % number) for number in range(first, last + 1)]
        frame, header = batch.make(*STREAM, first, rows, flags=Flags.LOGGED, origin_time_us=0)
        self.disk.frames.append(frame)
        self.disk.have.setdefault(STREAM, Intervals()).add(first, last)
        if comes:
            self.batches.came(frame, header)

    def begin(self) -> None:
        """Have all that the log has by now stand before the part that is read."""
        self.batches.begin(sum(map(len, self.disk.frames)), 77)

    def due(self, last: int) -> list[tuple[int, int]]:
        return [(first, end) for _, first, end in self.batches.due(STREAM, last)]

    def returned(self) -> list[tuple[int, int]]:
        return [(first, end) for _, first, end in self.batches.returned(STREAM)]


def test_each_message_is_due_once_though_its_batch_is_due_in_parts() -> None:
    one = Reading()
    one.has(1, 4)
    one.has(5, 6)
    assert [one.due(2), one.due(5), one.due(6)] == [[(1, 2)], [(3, 4), (5, 5)], [(6, 6)]]
    assert (one.batches.delivered(STREAM), one.batches.last(STREAM)) == (6, 6)
    assert one.lacking.streams == set()


def test_what_the_log_has_lost_is_noted_and_what_it_has_around_it_is_due() -> None:
    one = Reading()
    one.has(3, 4)
    one.has(7, 7)
    assert one.due(9) == [(3, 4), (7, 7)]
    assert list(one.lacking.of(STREAM)) == [(1, 2), (5, 6), (8, 9)]
    assert (one.batches.delivered(STREAM), one.batches.last(STREAM)) == (9, 9)


def test_what_stands_before_the_history_is_read_where_it_is_due() -> None:
    one = Reading()
    one.has(1, 3, comes=False)
    one.begin()
    one.has(4, 5)
    found = list(one.batches.due(STREAM, 5))
    assert [(first, end, read.came_us) for read, first, end in found] == [(1, 3, 77), (4, 5, None)]


@pytest.mark.parametrize(
    ("comes", "given", "lacks"),
    [
        ([(3, 9)], [(3, 9)], []),
        ([(3, 4), (5, 9)], [(3, 4), (5, 9)], []),
        ([(3, 4), (6, 9)], [(3, 4)], [(5, 9)]),
        ([(5, 6)], [], [(3, 9)]),
        ([(1, 4)], [(3, 4)], [(5, 9)]),
        ([(8, 12)], [], [(3, 9)]),
    ],
)
def test_what_had_been_lost_and_came_back_is_given_up_to_the_first_gap(
    comes: list[tuple[int, int]], given: list[tuple[int, int]], lacks: list[tuple[int, int]]
) -> None:
    """In its order: what stands behind a gap waits for it."""
    one = Reading()
    one.batches.load(STREAM, 9)
    one.lacking.lost(STREAM, 3, 9)
    for first, last in comes:
        one.has(first, last)
    assert one.returned() == given
    assert list(one.lacking.of(STREAM)) == lacks
    if given and not lacks:
        assert one.returned() == []


def test_a_batch_is_decoded_once_and_one_that_can_not_be_is_told_and_has_no_messages() -> None:
    one = Reading()
    rest = batch.make(*STREAM, 1, [("t", 1, b"x")], flags=Flags.LOGGED, origin_time_us=0)[0][12:-1]
    broken = batch.framed(Flags.LOGGED, rest)  # its sum is right, and its end is missing
    read = one.batches.came(broken, batch.check(broken))
    assert [one.batches.entries(read) for _ in range(2)] == [[], []]
    assert len(one.strange) == 1
    one.has(2, 3)
    [(whole, _, _)] = [found for found in one.batches.due(STREAM, 3) if found[1] == 2]
    assert [entry.payload for entry in one.batches.entries(whole)] == [b"2", b"3"]
    assert one.batches.entries(whole) is one.batches.entries(whole)

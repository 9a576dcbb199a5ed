"""Messages that wait in the log, as queues read them and as they are put by before they go."""

from __future__ import annotations

import logging

import pytest

from gateway.broker.durability.offline_spill import SpillCandidates, label
from gateway.broker.durability.queue_log_reader import AGAIN_S, AWAITED_S, QueueLogReader
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.log.errors import LogError
from tests.simulation.memory_log import Disk, MachineClocks, MemoryLog
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Row
from tree_handler.intervals import Intervals

STREAM: Epoch = ("other", 7)
OTHER: Epoch = ("another", 1)


def frame(first: int, *topics: str, stream: Epoch = STREAM) -> bytes:
    rows: list[Row] = [(topic, 1, b"%d" % at) for at, topic in enumerate(topics, first)]
    return batch.make(*stream, first, rows, flags=Flags.LOGGED, origin_time_us=0)[0]


def cut_off(first: int) -> bytes:
    """A batch whose sum is right, and whose end is missing."""
    return batch.framed(Flags.LOGGED, frame(first, "t")[12:-1])


def passed_over(first: int, last: int) -> bytes:
    return batch.passed(STREAM, first, last, Flags.LOGGED | Flags.PASSED)[0]


def log(*frames: bytes) -> MemoryLog:
    disk = Disk(frames=list(frames))
    for one in frames:
        header = batch.check(one)
        disk.have.setdefault(header.stream, Intervals()).add(header.first, header.last)
    return MemoryLog(disk, 1, 1 << 30, MachineClocks(), sync=False)


def test_a_queue_gets_what_can_be_read_and_what_can_not_be_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frames = (frame(1, "t", "t"), cut_off(3), frame(4, "t", "t", "t"), frame(7, "t"))
    reading = QueueLogReader(log(*frames), lambda: 100.0)
    with caplog.at_level(logging.ERROR):
        found, until = reading.messages(STREAM, 1, 7)
    assert (sorted(found), until) == ([1, 2, 4, 5, 6, 7], 7)
    assert [found[number].payload for number in (1, 2, 4, 7)] == [b"1", b"2", b"4", b"7"]
    assert found[4].ref == (STREAM, 4)
    assert found[4].sharing == ("other", ())
    assert [one.partition(":")[0] for one in caplog.messages] == ["batch other/7 logged 3..3"]
    assert [reading.has((STREAM, number)) for number in (0, 1, 7, 8)] == [False, True, True, False]


def test_of_what_goes_that_is_put_by_which_is_wanted_and_can_be_read() -> None:
    frames = (
        *(frame(1, "a", "b", "c"), passed_over(4, 5), cut_off(6)),
        *(frame(7, "d"), frame(7, "x", stream=OTHER), frame(8, "e")),
    )
    going = log(*frames).goes_next(0, 0)
    candidates = SpillCandidates([], going, 0, 0)
    found = candidates.messages(STREAM, Intervals([(2, 7)]))
    assert [(number, entry.topic) for number, entry in found] == [(2, "b"), (3, "c"), (7, "d")]


def test_what_waits_is_wanted_by_stream_and_user() -> None:
    anna, proved = ("anna", False), ("anna", True)
    places = []
    for first, last in ((1, 3), (3, 5), (9, 9)):
        places.append(Places())
        places[-1].add(WaitingRun((STREAM, 2, ()), first, last))
    places[1].add(WaitingRun((OTHER, 2, ()), 7, 7))
    owners = (anna, anna, proved)
    going = log().goes_next(0, 0)
    wanted = SpillCandidates(list(zip(owners, places, strict=True)), going, 0, 0).wanted()
    assert {key: dict(of) for key, of in wanted.items()} == {
        STREAM: {"user:anna": Intervals([(1, 5)]), "certificate:anna": Intervals([(9, 9)])},
        OTHER: {"user:anna": Intervals([(7, 7)])},
    }
    assert label((None, False)) == ""


def test_what_the_log_has_lost_is_waited_for_a_while_and_long_after_once_more() -> None:
    now_s = 100.0
    reading = QueueLogReader(log(frame(1, "t"), frame(3, "t")), lambda: now_s)

    def found(first: int = 2) -> tuple[list[int], int]:
        """Return the numbers that are there, and the one up to which they are all."""
        numbers, until = reading.messages(STREAM, first, 3)
        return [number for number in sorted(numbers) if number <= until], until

    assert found() == ([], 2), "a start waits for nothing"
    reading.waits = True
    now_s += AGAIN_S
    assert found(1) == ([1], 1)
    since_s = now_s
    for waited_s in (0.0, AWAITED_S - 0.1):
        now_s = since_s + waited_s
        with pytest.raises(LogError, match="other/7 2 can't be read"):
            found()
    for waited_s in (AWAITED_S, AGAIN_S - 0.1):
        now_s = since_s + waited_s
        assert found()[1] >= 2
        assert found(3) == ([3], 3)
    now_s = since_s + AGAIN_S
    with pytest.raises(LogError):
        found()


def test_what_came_back_and_is_lost_again_is_waited_for_anew() -> None:
    now_s = 100.0
    having = log(frame(1, "t"))
    reading = QueueLogReader(having, lambda: now_s)
    reading.waits = True
    with pytest.raises(LogError):
        reading.messages(STREAM, 2, 2)
    now_s += AWAITED_S
    assert reading.messages(STREAM, 2, 2) == ({}, 2)
    having.receive(STREAM, 2, ("t", 1, b"back"))
    found, _ = reading.messages(STREAM, 2, 2)
    assert found[2].payload == b"back"
    having.disk.frames.pop()
    having.disk.have[STREAM] = Intervals([(1, 1)])
    with pytest.raises(LogError):
        reading.messages(STREAM, 2, 2)

"""Neighbours that are sent what the log has: unasked, as they ask, and for searches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_link import MemoryLink
from tree_host import until

from gateway.log.message_log import MessageLog
from gateway.node.links.repairs import DONE, REPAIR, Repairs
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Request

A, B = ("gw-y", 1), ("gw-z", 1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    log = MessageLog(tmp_path)
    log.open()
    yield log
    log.close()


def kept(log: MessageLog, stream: Epoch, *numbers: int) -> list[bytes]:
    """Append a batch of one message for each number."""
    made = []
    for number in numbers:
        entry = Entry("a/b", b"message", qos=1)
        frame = batch.encode(*stream, number, [entry], flags=Flags.LOGGED, origin_time_us=0)
        log.append(frame, batch.check(frame))
        made.append(frame)
    return made


def wanted(*streams: Epoch, last: int = 9) -> Request:
    return Request({stream: Intervals([(1, last)]) for stream in streams})


async def sent(far: MemoryLink) -> list[tuple[bytes, bytes]]:
    """Wait for the word that says that all was sent."""
    found: list[tuple[bytes, bytes]] = []
    await until(lambda: found.extend(far.told()) is None and (DONE, b"") in found)
    return found


async def test_a_new_neighbour_is_sent_unasked_what_it_lacks_at_once(log: MessageLog) -> None:
    frames = kept(log, A, 1, 2) + kept(log, B, 1)
    far = MemoryLink()
    Repairs(log, lambda: 0.0).push(far.link, wanted(A, B))
    await until(lambda: not far.link.queued_bytes)
    assert far.told() == [(REPAIR, frame) for frame in frames]


async def test_what_is_looked_for_is_sent_as_far_as_it_is_there_and_named(log: MessageLog) -> None:
    frames = kept(log, A, 1, 3)
    far, repairs = MemoryLink(), Repairs(log, lambda: 0.0)
    looked: list[tuple[dict[Epoch, Intervals], bool]] = []
    repairs.look(far.link, wanted(A, B).wanted, lambda *found: looked.append(found))
    await until(lambda: bool(looked))
    assert looked == [({A: Intervals([(1, 1), (3, 3)]), B: Intervals()}, True)]
    await until(lambda: not far.link.queued_bytes)
    assert far.told() == [(REPAIR, frame) for frame in frames]


async def test_each_request_gets_its_end_and_the_last_one_counts(log: MessageLog) -> None:
    one, other = kept(log, A, 1), kept(log, B, 1)
    far, repairs = MemoryLink(), Repairs(log, lambda: 0.0)
    repairs.serve(far.link, wanted(A))
    repairs.serve(far.link, wanted(B))
    assert await sent(far) == [(REPAIR, other[0]), (DONE, b"")]
    repairs.serve(far.link, wanted(A, B))
    assert await sent(far) == [(REPAIR, one[0]), (REPAIR, other[0]), (DONE, b"")]


async def test_who_stops_answers_no_more(log: MessageLog) -> None:
    kept(log, A, 1)
    far, repairs = MemoryLink(), Repairs(log, lambda: 0.0)
    repairs.serve(far.link, wanted(A))
    await repairs.stop()
    await repairs.stop()
    assert far.told() == []


async def test_a_link_whose_batches_were_refused_counts_so_until_its_next_end(
    log: MessageLog,
) -> None:
    repairs = Repairs(log, lambda: 0.0)
    repairs.refused.add(1)
    assert [repairs.was_refused(link) for link in (2, 1, 1)] == [False, True, False]

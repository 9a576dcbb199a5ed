"""A collector of a group whose disk takes nothing leaves its share to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cloud_ingest.collector import shared_spool
from cloud_ingest.collector.ownership import owner_of
from cloud_ingest.collector.shared_spool import SharedSpool
from cloud_ingest.collector.sharing import Sharing, SharingCounters, SharingLimits
from cloud_ingest.collector.spooled import MAX_TOLD_ROWS, SpoolStatement, signed
from gateway.log.errors import LogError
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals


class Node:
    """A node as a spool needs it: a disk that may be full, and a way to another collector."""

    def __init__(self) -> None:
        self.is_full = False
        self.told: list[str] = []
        self.settled: list[Any] = []
        self.appended: list[bytes] = []
        self.counted: list[tuple[str, str]] = []
        self.covered: dict[batch.Epoch, Intervals] = {}
        self.taken: list[tuple[batch.Epoch, int, int]] = []
        self.replication = SimpleNamespace(
            have={},
            covered=lambda stream: self.covered.get(stream, Intervals()),
            passed_over=lambda *numbers: numbers,
        )
        self.exchange = SimpleNamespace(take=self.taken.append)
        self.commit = SimpleNamespace(
            append=self.append,
            settle=self.settled.extend,
            refusals=SimpleNamespace(count=lambda *what: self.counted.append(what)),
        )
        self.direct = SimpleNamespace(
            hand_to=self.hand_to, way_to=lambda name: name, send=self.send
        )

    def hand_to(self, receive: Callable[[str, bytes, int], None]) -> None:
        self._receive = receive

    def hear(self, topic: str, payload: bytes) -> None:
        self._receive(topic, payload, 0)

    def append(self, frame: bytes, header: batch.Header) -> LogError | None:
        if self.is_full:
            return LogError("no room")
        self.appended.append(frame)
        return None

    def send(self, name: str, topic: str, payload: bytes) -> None:
        self.told.append(name)


async def test_it_tells_the_others_nothing_from_what_it_can_t_take_until_it_takes_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_spool, "TICK_S", 0.0)
    log = MessageLog(tmp_path)
    log.open()
    node = Node()
    spool = SharedSpool(("c0", 1), ["c0", "c1"], log, SharingLimits(say_s=0.0), None)
    spool.ride_on(cast(Any, node))
    now = asyncio.get_running_loop().time()
    spool.core.handle_timer(now + SharingLimits().dead_after_s)  # it knows now that it is alone
    frame = batch.encode("gw", 1, 1, [Entry("t", b"x")], flags=Flags.LOGGED, origin_time_us=0)
    header = batch.check(frame)
    node.is_full = True
    assert spool.keep(frame, header) is not None
    running = asyncio.create_task(spool.run())
    await some_ticks()
    assert node.told == []
    node.is_full = False
    assert spool.keep(frame, header) is None
    await asyncio.sleep(0)
    (settled,) = node.settled
    settled(OSError("not synced"))
    await some_ticks()
    assert node.told == []
    settled(None)
    await some_ticks()
    assert set(node.told) == {"c1"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    log.close()


async def some_ticks() -> None:
    """Let a loop whose pauses take no time go round."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    found = MessageLog(tmp_path)
    found.open()
    yield found
    found.close()


def of_another(log: MessageLog, number: int) -> tuple[SharedSpool, Node, bytes, batch.Header]:
    """A spool that knows c1, and a batch of an origin of c1's."""
    node = Node()
    spool = SharedSpool(("c0", 1), ["c0", "c1"], log, SharingLimits(say_s=0.0), None)
    spool.ride_on(cast(Any, node))
    node.hear(shared_spool.TOPIC, said(1))
    origin = next(name for name in map(str, count()) if owner_of(name, ["c0", "c1"]) == "c1")
    frame = batch.encode(origin, 1, number, [Entry("t", b"x")], flags=1, origin_time_us=0)
    assert spool.keep(frame, batch.check(frame)) is None
    assert spool.core.held == 1
    return spool, node, frame, batch.check(frame)


def said(number: int, rows: dict[batch.Epoch, Intervals] | None = None, by: str = "c1") -> bytes:
    told = SpoolStatement(by, 1, "c0", number, (1, 0), 0, 1, completes=True, rows=rows or {})
    return signed(told.encode(), b"")


async def test_at_its_end_it_spools_what_it_holds_and_notes_what_is_in_which_spool(
    log: MessageLog,
) -> None:
    spool, node, frame, header = of_another(log, 1)
    node.hear(shared_spool.TOPIC, said(2, {("gw-x", 2): Intervals([(1, 7)])}))
    node.is_full = True
    spool.end()
    assert (node.appended, spool.core.held) == ([], 1)
    node.is_full = False
    spool.end()
    assert (node.appended, spool.core.held, spool.core.counters.aged) == ([frame], 0, 1)
    spool.core.synced(header)
    spool.write()
    again = SharedSpool(("c0", 2), ["c0", "c1"], log, SharingLimits(), None)
    assert again.core.kept.mine == {header.stream: Intervals([(1, 1)])}
    assert again.core.kept.elsewhere == {("gw-x", 2): Intervals([(1, 7)])}
    assert log.have[("gw-x", 2)] == Intervals([(1, 7)])


async def test_a_note_of_shares_that_the_disk_does_not_take_is_counted(log: MessageLog) -> None:
    spool, node, _, _ = of_another(log, 1)
    (log.folder / shared_spool.FILE_NAME).mkdir()
    spool.write()
    assert [what for what, _ in node.counted] == ["note of shares that can't be written"]


async def test_what_is_due_waits_where_the_disk_refuses_and_is_spooled_once_it_takes_it(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_spool, "TICK_S", 0.0)
    spool, node, frame, _ = of_another(log, 1)
    spool.core.handle_timer(asyncio.get_running_loop().time() + 5.0)
    assert spool.core.live == {"c0"}
    monkeypatch.setattr(Sharing, "handle_timer", lambda self, now: None)  # c1 stays silent
    node.is_full = True
    running = asyncio.create_task(spool.run())
    await some_ticks()
    assert (node.appended, spool.core.held, spool.core.speaks(0.0)) == ([], 1, False)
    node.is_full = False
    await some_ticks()
    assert (node.appended, spool.core.held, spool.core.counters.taken_over) == ([frame], 0, 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_another_has_is_not_asked_for_and_words_that_are_no_members_are_counted(
    log: MessageLog,
) -> None:
    spool, node, _, header = of_another(log, 3)
    node.covered[header.stream] = Intervals([(1, 2)])
    node.hear("$other", b"no statement")
    assert spool.status()["refused"] == 0
    node.hear(shared_spool.TOPIC, b"no statement")
    node.hear(shared_spool.TOPIC, said(9, by="c9"))
    assert spool.status()["refused"] == 2
    node.hear(shared_spool.TOPIC, said(2, {header.stream: Intervals([(1, 5)])}))
    assert node.taken == [(header.stream, 3, 5)]
    counters = asdict(SharingCounters(held=1, confirmed=1))
    own = {"live": ["c0", "c1"], "is_settled": True, "held_batches": 0, "held_bytes": 0}
    assert spool.status() == {**own, "refused": 2, **counters}


async def test_who_knows_a_part_of_much_is_told_the_next_at_once(log: MessageLog) -> None:
    spool, node, _, _ = of_another(log, 1)
    for at in range(2 * MAX_TOLD_ROWS):
        spool.core.synced(batch.Header(f"gw-{at}", 1, 1, 1, 1, 0, 0, 0))
    told = spool.core.tell("c1")
    known = SpoolStatement("c1", 1, "c0", 2, (1, told.upto), 0, 1, completes=True)
    node.hear(shared_spool.TOPIC, signed(known.encode(), b""))
    assert node.told == ["c1"]
    node.hear(shared_spool.TOPIC, said(3))
    assert node.told == ["c1"]

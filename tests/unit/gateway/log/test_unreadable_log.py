"""A log that cannot be read for a while: nobody gives up what it holds, and all comes later."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tree_host import Host, Start, started, until

from gateway.base.event_log.counted_lines import CountedLines
from gateway.log.message_log import MessageLog
from gateway.node.links.repairs import UNASKED_S, UNREADABLE_S, Repairs
from gateway.node.links.surveys import NOT_LOOKED_THROUGH, REFUSED_S, Surveys
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import Deliver, DeliverLogged

STREAM: Epoch = ("a", 1)
WANTED = {STREAM: Intervals([(1, 5)])}


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with started(tmp_path) as make:
        yield make


@contextmanager
def unreadable(host: Host) -> Iterator[None]:
    """No segment of a host's log can be opened; appending goes on."""
    aside = host.log.folder / "aside"
    aside.mkdir()
    segments = [*host.log.folder.glob("*.log")]
    for segment in segments:
        segment.rename(aside / segment.name)
    try:
        yield
    finally:
        for segment in segments:
            (aside / segment.name).rename(segment)
        aside.rmdir()


async def publish(host: Host, *payloads: bytes) -> None:
    for payload in payloads:
        logged = host.node.publish(Entry("t", payload, qos=1))
        assert logged is not None
        await logged


def link(a: Host, b: Host) -> None:
    a.neighbours.add_static(b.address)


async def test_what_an_origin_cannot_read_for_a_while_is_not_given_up_and_comes_when_it_can(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await start("a", 3.0), await start("b", 2.0)
    link(b, a)
    await publish(a, b"1", b"2", b"3", b"4", b"5")
    await until(lambda: len(b.got) == 5)
    b.node.replication.trimmed({STREAM: 6})  # so that the origin alone has them
    c = await start("c", 1.0)
    with unreadable(a):
        link(c, b)
        await until(lambda: caplog.text.count("search that the log could not answer") > 1)
        assert c.node.replication.counters.lost == 0
    await until(lambda: len(c.got) == 5)
    assert c.got == ["a:1", "a:2", "a:3", "a:4", "a:5"]
    assert c.node.replication.counters.lost == 0


async def test_what_a_log_fails_to_read_for_a_day_counts_as_gone(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    link(b, a)
    await publish(a, b"1", b"2", b"3", b"4", b"5")
    await until(lambda: len(b.got) == 5 and bool(a.node.links))
    ((_, to_b),) = a.node.links.items()
    now = 0.0
    repairs = Repairs(a.log, lambda: now)

    async def was_read() -> bool:
        looked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        repairs.look(to_b, WANTED, lambda _, was_read: looked.set_result(was_read))
        return await looked

    with unreadable(a):
        assert not await was_read()
        now = UNASKED_S
        assert not await was_read()
    assert await was_read()
    with unreadable(a):
        now = UNREADABLE_S
        assert not await was_read()
        now = 2 * UNREADABLE_S
        assert not await was_read(), "nobody has looked for it in a day, so it may have been there"
        while now < 3 * UNREADABLE_S - UNASKED_S:
            now += UNASKED_S
            assert not await was_read()
        now += UNASKED_S
        assert await was_read()
    assert "counts as gone" in caplog.text
    await repairs.stop()


async def test_what_a_disk_refuses_for_a_moment_is_not_denied_before_the_segment_is_looked_through(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    link(b, a)
    await publish(a, b"1", b"2", b"3", b"4", b"5")
    await until(lambda: len(b.got) == 5 and bool(a.node.links))
    ((_, to_b),) = a.node.links.items()
    repairs = Repairs(a.log, lambda: 0.0)

    async def look() -> tuple[int, bool]:
        looked: asyncio.Future[tuple[dict[Epoch, Intervals], bool]]
        looked = asyncio.get_running_loop().create_future()
        repairs.look(to_b, WANTED, lambda *found: looked.set_result(found))
        found, was_read = await looked
        return found[STREAM].count(), was_read

    async def and_the_segment_is_looked_through(
        read: Callable[..., list[bytes]], *given: object
    ) -> list[bytes]:
        frames = read(*given)
        assert a.log.survey() == {}  # it reads the segment in another way, and finds it whole
        return frames

    with refusing_blocks(monkeypatch):
        assert await look() == (0, False)
    # Blocks that were refused are asked for again by a survey, and the gateway makes some itself.
    assert await look() in {(0, False), (5, True)}
    assert a.log.survey() in ({}, None)
    assert await look() == (5, True)
    with refusing_blocks(monkeypatch), monkeypatch.context() as patched:
        patched.setattr(asyncio, "to_thread", and_the_segment_is_looked_through)
        assert await look() == (0, False)
    assert await look() == (5, True)
    await repairs.stop()


@contextmanager
def refusing_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refused(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", refused)
        yield


async def test_what_is_due_to_clients_and_cannot_be_read_is_handed_out_later_and_in_order(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    a = await start("a", 1.0)
    made = [
        batch.make("o", 1, n, [("t", 1, b"%d" % n)], flags=Flags.LOGGED, origin_time_us=0)
        for n in range(1, 6)
    ]
    for one in made:
        a.log.append(*one)
    exchange = a.node.exchange
    with unreadable(a):
        exchange.carry_out([DeliverLogged(("o", 1), 1, 3), Deliver(*made[3], 4)])
        exchange.carry_out([DeliverLogged(("o", 1), 5, 5)])
        assert a.got == []
        assert "not handed out yet" in caplog.text
    exchange.handle_timer(0.0)
    assert a.got == ["o:1", "o:2", "o:3", "o:4", "o:5"]
    exchange.handle_timer(1.0)
    assert len(a.got) == 5


async def test_a_damaged_segment_is_looked_through_beside_what_goes_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is appended during the look is kept, and the damaged one is reported as lost."""
    a = await start("a", 3.0)
    await publish(a, *(b"%d" % number for number in range(1, 9)))
    (path,) = a.log.folder.glob("*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (stream,) = [one for one in a.log.have if a.node.replication.is_clients(one)]
    whole = a.log.have[stream].count()
    assert len(list(a.log.read(stream, Intervals([(1, 8)])))) == whole - 1  # the damage is met
    began, may_end = threading.Event(), threading.Event()
    real = Path.read_bytes

    def read_bytes(self: Path) -> bytes:
        found = real(self)
        if self == path:
            assert threading.current_thread() is not threading.main_thread()
            began.set()
            may_end.wait(60.0)
        return found

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    a.node.exchange.handle_timer(0.0)
    await until(began.is_set)
    await publish(a, b"meanwhile")
    may_end.set()
    await until(lambda: len(a.node.replication.covered(stream)) == 2)
    assert a.log.have[stream].count() == whole  # one lost, one new
    assert a.log.lost_messages == 1
    read = [header.first for _, header in a.log.read(stream, Intervals([(1, 9)]))]
    assert read[-1] == 9
    assert len(read) == whole


@pytest.mark.parametrize("is_trimmed", [True, False])
async def test_a_segment_that_goes_while_it_is_looked_through_is_an_error_unless_it_was_trimmed(
    tmp_path: Path, is_trimmed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = MessageLog(tmp_path, segment_bytes=400)
    log.open()
    for number in range(1, 41):
        rows = [("t", 1, bytes(100))]
        log.append(*batch.make(*STREAM, number, rows, flags=Flags.LOGGED, origin_time_us=0))
        log.sync()
    path, behind, *_ = sorted(log.folder.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    assert len(list(log.read(STREAM, Intervals([(1, 40)])))) == 39
    lines = CountedLines(logging.getLogger("surveys"), lambda: 0.0)
    surveys = Surveys(log, lambda _: None, lines, lambda: 0.0)
    surveys.begin()
    if is_trimmed:
        log.max_bytes = log.position - int(behind.stem)
        assert log.trim()
    else:
        path.unlink()
    (looking,) = [task for task in asyncio.all_tasks() if task.get_name() == "survey of the log"]
    await asyncio.wait([looking])
    assert (NOT_LOOKED_THROUGH in caplog.text) is not is_trimmed
    log.close()


@pytest.mark.parametrize("comes_again", [True, False])
async def test_what_a_disk_refuses_counts_as_lost_when_it_was_refused_for_a_while(
    tmp_path: Path, comes_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MessageLog(tmp_path)
    log.open()
    for number in range(1, 6):
        rows = [("t", 1, bytes(100))]
        log.append(*batch.make(*STREAM, number, rows, flags=Flags.LOGGED, origin_time_us=0))
    clock, lost = [0.0], list[Mapping[Epoch, Intervals]]()
    lines = CountedLines(logging.getLogger("surveys"), lambda: 0.0)
    surveys = Surveys(log, lost.append, lines, lambda: clock[0])

    async def survey(now: float) -> None:
        clock[0] = now
        surveys.begin()
        looking = [task for task in asyncio.all_tasks() if task.get_name() == "survey of the log"]
        await asyncio.wait(looking)

    def refused(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", refused)
        patched.setattr(Path, "read_bytes", refused)
        assert not list(log.read(STREAM, Intervals([(1, 5)])))
        for now in (1.0, REFUSED_S / 2, REFUSED_S):
            await survey(now)
        assert not lost
        if not comes_again:
            await survey(REFUSED_S + 1.0)
    if comes_again:
        await survey(REFUSED_S + 1.0)
        assert [dict(one) for one in lost] == [{}]
        assert len(list(log.read(STREAM, Intervals([(1, 5)])))) == 5
    else:
        assert [dict(one) for one in lost] == [{STREAM: Intervals([(1, 5)])}]
    log.close()

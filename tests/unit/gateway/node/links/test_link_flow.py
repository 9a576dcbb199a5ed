"""Two gateways over a line that is slower than what they have to say."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tree_host import Host, Start, started, until

from gateway.node.links.send_queue import BATCH_LIMIT_BYTES
from tree_handler.batch import Entry
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Request, Seek

LINE_BYTES_PER_S = 1_000_000
CHUNK_BYTES = 16_384
HELLO_S = 1.0
MESSAGE_BYTES = 10_000


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with started(tmp_path, hello_s=HELLO_S) as make:
        yield make


class SlowLine:
    """A relay that passes on so many bytes a second each way, and holds few itself."""

    def __init__(self, host: str, port: int, bytes_per_s: int = LINE_BYTES_PER_S) -> None:
        self._to = host, port
        self._bytes_per_s = bytes_per_s
        self._chunk_bytes = min(CHUNK_BYTES, bytes_per_s // 20)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK_BYTES)
        self._server = await asyncio.start_server(self._accepted, sock=listening, limit=CHUNK_BYTES)
        return int(listening.getsockname()[1])

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection(*self._to, limit=CHUNK_BYTES)
        for source, target in ((reader, other_writer), (other_reader, writer)):
            target.transport.set_write_buffer_limits(CHUNK_BYTES)
            task = asyncio.create_task(self._copy(source, target))
            self._tasks.add(task)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(self._chunk_bytes):
                target.write(data)
                await target.drain()
                await asyncio.sleep(len(data) / self._bytes_per_s)
        target.close()

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def pair(start: Start) -> AsyncIterator[tuple[Host, Host]]:
    a, b = await start("a", 2.0), await start("b", 1.0)
    line = SlowLine(b.address.host, b.address.port)
    a.neighbours.add_static(type(b.address)("127.0.0.1", await line.start()))
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
    yield a, b
    await line.stop()


def message(number: int, qos: int = 1) -> Entry:
    return Entry("t", b"%d" % number + b"." * MESSAGE_BYTES, qos=qos)


def numbers(host: Host) -> list[int]:
    return [int(name.split(":")[1].rstrip(".")) for name in host.got]


@pytest.mark.slow
async def test_what_a_full_link_is_behind_comes_from_the_log_in_order_and_nobody_asks_for_it(
    pair: tuple[Host, Host],
) -> None:
    a, b = pair
    (link,) = a.node.links
    count = 500
    for number in range(count):
        a.node.publish(message(number))
        if number % 20 == 0:
            await asyncio.sleep(0)
    await until(lambda: a.node.exchange.backlog_bytes(link) > 1_000_000)
    (told,) = a.node.status()["neighbours"]
    assert told["backlog_bytes"] > 1_000_000
    assert told["queued_bytes"] < 3_000_000
    b.node.publish(Entry("t", b"against the stream", qos=1))
    await until(lambda: len(b.got) == count)
    assert numbers(b) == list(range(count))
    assert a.got == ["b:against the stream"]
    await until(lambda: not a.node.exchange.backlog_bytes(link))
    a.node.publish(message(count))
    await until(lambda: numbers(b)[-1] == count)
    assert list(a.node.links) == [link]  # hellos came in time all along
    counters = a.node.status()["counters"]
    assert counters["links_full"] == 1
    assert 0 < counters["sent_from_log"] < count
    assert b.node.replication.counters.repaired == 0
    assert a.node.replication.counters.duplicates == b.node.replication.counters.duplicates == 0


@pytest.mark.slow
async def test_of_qos_0_a_full_link_drops_the_oldest_and_the_link_stays(
    pair: tuple[Host, Host],
) -> None:
    a, b = pair
    (link,) = a.node.links.values()
    count = 500
    for number in range(count):
        a.node.publish(message(number, qos=0))
        if number % 5 == 0:
            await asyncio.sleep(0)
    a.node.publish(message(count))
    await until(lambda: numbers(b)[-1:] == [count])
    arrived = numbers(b)
    assert link.dropped > 0
    assert len(arrived) == count + 1 - link.dropped
    assert arrived == sorted(arrived)
    assert arrived[-2] == count - 1
    assert list(a.node.links.values()) == [link]
    dropped = link.dropped
    link.close()
    await until(lambda: link not in a.node.links.values())
    assert a.node.status()["counters"]["dropped_unlogged"] == dropped


class Standstill:
    """The time for which this process did nothing, which round trips include as well."""

    total_s = 0.0

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + 0.01
            await asyncio.sleep(0.01)
            late_s = loop.time() - due_s
            self.total_s += late_s if late_s > 0.1 else 0.0


@pytest.mark.slow
async def test_a_round_trip_behind_data_does_not_count(
    pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    await until(lambda: a.node.tree.neighbours()[0].rtt_ms is not None)
    for number in range(300):
        a.node.publish(message(number))
        b.node.publish(message(number))
        if number % 20 == 0:
            await asyncio.sleep(0)
    (link,) = a.node.links.values()
    assert link.is_behind_data
    changes = a.node.last_change, b.node.last_change
    measured: list[float] = []
    tell = a.node.tree.measured

    def noting(link: int, rtt_ms: float, now: float) -> None:
        measured.append(rtt_ms)
        tell(link, rtt_ms, now)

    monkeypatch.setattr(a.node.tree, "measured", noting)
    standstill = Standstill()
    watching = asyncio.create_task(standstill.watch())
    await until(lambda: len(a.got) == len(b.got) == 300)
    watching.cancel()
    most_ms = 400 + 1_000 * standstill.total_s
    assert not [rtt_ms for rtt_ms in measured if rtt_ms > most_ms]
    assert (a.node.last_change, b.node.last_change) == changes


async def test_a_link_that_ends_with_a_backlog_is_repaired_over_the_next_one(
    pair: tuple[Host, Host],
) -> None:
    a, b = pair
    (link,) = a.node.links.values()
    for number in range(500):
        a.node.publish(message(number))
        if number % 20 == 0:
            await asyncio.sleep(0)
    await until(lambda: a.node.exchange.backlog_bytes(link.number) > 0 and len(b.got) > 10)
    link.close()
    a.neighbours.add_static(b.address)
    await until(lambda: len(b.got) == 500)
    assert numbers(b) == list(range(500))


async def test_a_message_that_takes_longer_than_the_silence_of_the_dead_passes_over_one_link(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, hello_s=0.4) as start:
        a, b = await start("a", 2.0), await start("b", 1.0)
        line = SlowLine(b.address.host, b.address.port, bytes_per_s=50_000)
        a.neighbours.add_static(type(b.address)("127.0.0.1", await line.start()))
        await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
        links = list(a.node.links)
        for number in range(2):
            a.node.publish(Entry("t", b"%d" % number + b"." * 100_000, qos=1))
        await until(lambda: len(b.got) == 2)
        assert numbers(b) == [0, 1]
        assert list(a.node.links) == links
        assert a.node.tree.counters["silent"] == b.node.tree.counters["silent"] == 0
        await line.stop()


REQUEST, SEEK = b"$hedgerow/request", b"$hedgerow/seek"
ASKED_TIMES = 48


@pytest.mark.slow
@pytest.mark.parametrize("topic", [REQUEST, SEEK])
async def test_who_asks_for_everything_again_and_again_is_sent_it_a_little_at_a_time(
    pair: tuple[Host, Host], topic: bytes
) -> None:
    a, b = pair
    (to_b,), (to_a,) = a.node.links.values(), b.node.links.values()
    count = 300
    for number in range(count):
        a.node.publish(message(number))
    await until(lambda: len(b.got) == count)
    everything = {("a", 1): Intervals([(1, count)])}
    for number in range(ASKED_TIMES):
        asked = (
            Request(everything) if topic == REQUEST else Seek(("b", 1, 900 + number), everything)
        )
        to_a.send_control(topic, asked.encode())
    most = 0
    for _ in range(300):
        most = max(most, to_b.queued_bytes)
        await asyncio.sleep(0.01)
    assert most < 4 << 20
    a.node.publish(message(count))
    await until(lambda: len(b.got) == count + 1)
    assert list(a.node.links.values()) == [to_b]


@pytest.mark.slow
async def test_a_link_over_which_far_too_many_batches_wait_ends(pair: tuple[Host, Host]) -> None:
    a, _ = pair
    (link,) = a.node.links.values()
    frame = bytes(1 << 20)
    most = 0
    for _ in range(1 + 2 * BATCH_LIMIT_BYTES // len(frame)):
        link.send_batch(b"$hedgerow/sought", frame)
        most = max(most, link.queued_bytes)
    assert most < BATCH_LIMIT_BYTES + 4 * len(frame)
    await until(lambda: link not in a.node.links.values())
    assert link.queued_bytes == 0

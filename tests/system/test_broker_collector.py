"""A collector that is a client of a stock Mosquitto: what the broker accepted is in the spool."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from authority import Authority
from brokers import _Process
from disks import Tmpfs, unmounted_at_the_end
from mqtt_peer import Peer
from ports import free_port

from cloud_ingest.spool.segments import read_mark, segments
from cloud_ingest.spool.walk import DamagedBytes, walk
from gateway.mqtt import PubAck, Publish, Version
from tree_handler import batch
from tree_handler.batch import Header, Row

pytestmark = pytest.mark.peer("mosquitto", "mosquitto")
LIMIT_S = 60
WINDOW = 50
"""Messages that Mosquitto may have unacknowledged at the collector."""


class Mosquitto(_Process):
    """Accepts messages for a session whose client is away."""

    def __init__(self, folder: Path, more: str = "") -> None:
        super().__init__(free_port(), folder, "running")
        self._file = folder / "mosquitto.conf"
        self._file.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            f"max_inflight_messages {WINDOW}\n{more}"
        )

    def command(self) -> list[str]:
        return [shutil.which("mosquitto") or "mosquitto", "-c", str(self._file)]


class CollectorProcess(_Process):
    """`hedgerow collector` with a section `[broker]`."""

    def __init__(self, folder: Path, port: int, more: str = "") -> None:
        super().__init__(port, folder / "spool", ": subscribed")
        self._file = folder / "collector.toml"
        self._file.write_text(
            f"""
[collector]
id = "from-site-a"
spool_dir = "spool"
[broker]
host = "127.0.0.1"
port = {port}
topics = ["site/#"]
receive_maximum = {WINDOW}
{more}
"""
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.tools.cli", "collector", "--config", str(self._file)]

    def batches(self) -> list[tuple[Header, list[Row]]]:
        """Return what a reader of the spool finds, as the job does."""
        found = []
        if not self.state.exists():
            return found
        for segment in segments(self.state, read_mark(self.state)):
            data = segment.path.read_bytes()
            for one in walk(data, 0, segment.length):
                assert not isinstance(one, DamagedBytes), one
                at, header = one
                found.append((header, batch.rows(data[at : at + header.end], header)))
        return found

    def payloads(self) -> Counter[bytes]:
        return Counter(row[2] for _, rows in self.batches() for row in rows)

    async def has(self, payloads: Iterable[bytes]) -> None:
        wanted = set(payloads)
        async with asyncio.timeout(LIMIT_S):
            while not wanted <= self.payloads().keys():
                await asyncio.sleep(0.05)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


async def started(stack: AsyncExitStack, process: _Process) -> None:
    stack.push_async_callback(process.stop)
    await process.start()


async def publish(port: int, payloads: Iterable[bytes]) -> None:
    """Publish, each message when the broker has accepted the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    peer = Peer(reader, writer, Version.V5)
    assert await peer.connect("publisher") == 0
    for number, payload in enumerate(payloads):
        packet_id = number % 60_000 + 1
        peer.send(Publish("site/a/meter", payload, 1, False, False, packet_id))
        while not isinstance(await peer.next(), PubAck):
            pass
    writer.close()


@pytest.mark.parametrize(
    "version", ["5.0", pytest.param("3.1.1", marks=pytest.mark.soak("the same in 3.1.1"))]
)
async def test_what_the_broker_accepted_is_in_the_spool_though_the_collector_is_killed_thrice(
    version: str, tmp_path: Path, stack: AsyncExitStack
) -> None:
    broker = Mosquitto(tmp_path)
    await started(stack, broker)
    collector = CollectorProcess(tmp_path, broker.port, f'version = "{version}"')
    await started(stack, collector)
    payloads = [b"%d" % number for number in range(3_000)]
    kills, begin_us = 3, time.time_ns() // 1_000
    for part in range(kills):
        some = payloads[part * 1_000 : (part + 1) * 1_000]
        publishing = asyncio.create_task(publish(broker.port, some))
        await collector.has(some[:1])
        collector.kill()
        await collector.ended()
        await collector.start()
        await publishing
    payloads.append(b"for the last life")
    await publish(broker.port, payloads[-1:])
    await collector.has(payloads)
    times_us = [header.origin_time_us for header, _ in collector.batches()]
    assert begin_us <= min(times_us) <= max(times_us) <= time.time_ns() // 1_000
    await collector.has(payloads)
    assert await collector.stop() == 0
    found = collector.payloads()
    assert found.keys() == set(payloads)
    # How many are stored again is the broker's to bound: Mosquitto 2.0.11 sends hundreds after a
    # reconnect where it may send 50. In one life of the collector each is stored once.
    for epoch in {header.epoch for header, _ in collector.batches()}:
        of_life = Counter(
            row[2] for one, rows in collector.batches() if one.epoch == epoch for row in rows
        )
        assert of_life.total() == len(of_life)
    epochs = {header.epoch for header, _ in collector.batches()}
    assert len(epochs) == kills + 1
    for epoch in epochs:
        ranges = [(one.first, one.last) for one, _ in collector.batches() if one.epoch == epoch]
        assert [first for first, _ in ranges] == [1, *(last + 1 for _, last in ranges[:-1])]
    assert {header.origin for header, _ in collector.batches()} == {"from-site-a"}


async def test_what_came_while_the_collector_was_stopped_comes_when_it_is_back(
    tmp_path: Path, stack: AsyncExitStack
) -> None:
    broker = Mosquitto(tmp_path)
    await started(stack, broker)
    collector = CollectorProcess(tmp_path, broker.port)
    await started(stack, collector)
    assert await collector.stop() == 0
    payloads = [b"%d" % number for number in range(200)]
    await publish(broker.port, payloads)
    await collector.start()
    await collector.has(payloads)
    assert collector.payloads() == Counter(payloads)


async def test_it_shows_a_certificate_and_a_password_and_is_told_when_they_are_wrong(
    tmp_path: Path, stack: AsyncExitStack
) -> None:
    (tmp_path / "authority").mkdir()
    authority = Authority(tmp_path / "authority")
    server, own = authority.issue("broker", is_server=True), authority.issue("from-site-a")
    users = tmp_path / "users"
    command = await asyncio.create_subprocess_exec(
        "mosquitto_passwd", "-c", "-b", str(users), "me", "secret"
    )
    assert await command.wait() == 0
    broker = Mosquitto(
        tmp_path,
        f"cafile {authority.file}\ncertfile {server.certificate}\nkeyfile {server.key}\n"
        f"require_certificate true\npassword_file {users}\nallow_anonymous false\nuser root\n",
    )
    await started(stack, broker)
    password = tmp_path / "password"
    password.write_text("wrong\n")
    password.chmod(0o600)
    collector = CollectorProcess(
        tmp_path,
        broker.port,
        f'user = "me"\npassword_file = "{password}"\nca_file = "{authority.file}"\n'
        f'certificate_file = "{own.certificate}"\nkey_file = "{own.key}"\n',
    )
    stack.push_async_callback(collector.stop)
    await collector.start(wait=False)
    async with asyncio.timeout(LIMIT_S):
        while not any("not authorized" in line.lower() for line in collector.lines):
            assert collector.is_running, "\n".join(collector.lines)
            await asyncio.sleep(0.05)
    password.write_text("secret\n")
    await collector.up()
    status = json.loads((tmp_path / "spool" / "status.json").read_text())
    assert status["id"] == "from-site-a"
    assert not any("secret" in line for line in collector.lines)


async def test_a_full_disk_acknowledges_nothing_says_so_and_all_comes_when_there_is_room(
    tmp_path: Path, stack: AsyncExitStack
) -> None:
    disk = Tmpfs(tmp_path / "spool", 1_024)
    stack.enter_context(unmounted_at_the_end(disk))
    broker = Mosquitto(tmp_path)
    await started(stack, broker)
    collector = CollectorProcess(tmp_path, broker.port)
    await started(stack, collector)
    await publish(broker.port, [b"before"])
    await collector.has([b"before"])
    disk.fill()
    payloads = [b"%d" % number + bytes(5_000) for number in range(100)]
    await publish(broker.port, payloads)
    async with asyncio.timeout(LIMIT_S):
        while not any("batch refused by the log" in line for line in collector.lines):
            await asyncio.sleep(0.05)
    assert collector.payloads().total() < 100
    disk.free()
    await collector.has([b"before", *payloads])
    assert collector.payloads() == Counter([b"before", *payloads])

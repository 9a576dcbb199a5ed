"""A collector whose disk is full, read-only, broken or slow: it goes on, and says and counts it.

What it writes, all of it in its spool's folder: segments and the mark of what is synced, times of
syncs, the log's own notes (``inner``), ``boot_epoch``, ``certificates``, ``own_keys``,
``former_keys`` and ``revocations``, ``shared``, and ``status.json``. From a broker or Kafka it
writes the log's, ``boot_epoch`` or ``topics``, and ``status.json``.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_collector import linked, running, settings
from fleet_gateway import Fleet, FleetGateway, until

from cloud_ingest.collector import status_file
from cloud_ingest.collector.command import Collector, made
from cloud_ingest.collector.settings import CollectorSettings, OriginSection, spool_log
from cloud_ingest.collector.source_spool import SourceSpool
from cloud_ingest.spool.segments import read_mark, segments
from gateway.log.errors import LogError
from gateway.process.configuration.config import ConfigError, load
from tree_handler import batch
from tree_handler.batch import Entry

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(_TESTS / "faults"), str(_TESTS / "system")]

from disks import Tmpfs, unmounted_at_the_end  # noqa: E402  # found by the line above
from failing_calls import FOR_EVER, FailingCalls, Fault  # noqa: E402

LONG = pytest.mark.soak("what was refused is asked for again after five seconds")
FAULTS = (
    Fault("full", errno.ENOSPC, FOR_EVER),
    Fault("read-only", errno.EROFS, FOR_EVER),
    Fault("broken", errno.EIO, FOR_EVER),
    Fault("full-in-mid-write", errno.ENOSPC, 3, is_partial=True),
    Fault("slow", lasts=3, slow_s=0.3),
)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_file, "INTERVAL_S", 0.02)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Tmpfs]:
    made = Tmpfs(tmp_path / "spool", 1024)
    with unmounted_at_the_end(made):
        yield made


def publish(gateway: FleetGateway, *texts: str) -> None:
    """Publish payloads as a client does at QoS 1."""
    for text in texts:
        gateway.process.parts.node.publish(Entry("a", text.encode(), qos=1))


def spooled(spool: Path) -> set[bytes]:
    """Payloads of all messages of clients in a spool, up to its mark."""
    found = set()
    for segment in segments(spool, read_mark(spool)):
        data = segment.path.read_bytes()[: segment.length]
        for at, header in batch.frames(data):
            if header.logged and not (header.control or header.passed or header.origin[0] == "!"):
                entries = batch.decode(data[at : at + header.end], header)
                found |= {entry.payload for entry in entries}
    return found


def told(spool: Path) -> dict[str, Any]:
    """Return the content of `status.json`, or an empty dict if the file is not there."""
    try:
        found: dict[str, Any] = json.loads((spool / "status.json").read_bytes())
    except FileNotFoundError:
        return {}
    return found


def said_of_the_file(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log that name `status.json`."""
    return [one.getMessage() for one in caplog.records if "status.json" in one.getMessage()]


async def test_on_a_full_disk_it_goes_on_and_has_all_once_there_is_room(
    fleet: Fleet, small_disk: Tmpfs, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start(repair_interval_s=0.2)
    collector = Collector(settings(fleet, gateway.port, log="segment_bytes = 65536"))
    spool = small_disk.folder
    async with running(collector) as task:
        await until(lambda: linked(collector) == {"gw-a"})
        publish(gateway, "before")
        await until(lambda: b"before" in spooled(spool))
        small_disk.fill()
        publish(gateway, "meanwhile" * 1_000)  # more than the rest of a page
        failed = "status.json that can't be written"
        await until(lambda: collector.node.commit.refusals.counts[failed] >= 3)
        await until(lambda: collector.node.commit.refusals.counts["batch refused by the log"])
        assert not task.done()
        small_disk.free()
        publish(gateway, "behind")
        await until(lambda: {b"before", b"meanwhile" * 1_000, b"behind"} <= spooled(spool))
        await until(lambda: told(spool)["refusals"].get(failed, 0) >= 3)
        # A thread writes the file, and the collector says so when it hears of it: a moment later.
        await until(lambda: len(said_of_the_file(caplog)) >= 2)
    said = said_of_the_file(caplog)
    assert said[0] == (
        f"{spool / 'status.json'}: {os.strerror(errno.ENOSPC)}: it is not written until it can be"
    )
    assert re.fullmatch(r".*status\.json: it is written again; [0-9]+ times it was not", said[1])
    assert len(said) == 2


@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, id=str(one), marks=() if one.slow_s else LONG) for one in FAULTS],
)
async def test_whatever_call_of_its_disk_fails_it_goes_on_when_that_is_over(
    fleet: Fleet, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start(repair_interval_s=0.2)
    collector = Collector(settings(fleet, gateway.port))
    spool = fleet.folder / "spool"
    messages = {*(b"meanwhile-%d" % number for number in range(5)), b"behind"}
    async with running(collector) as task:
        await until(lambda: linked(collector) == {"gw-a"})
        with monkeypatch.context() as patch:
            calls = FailingCalls(spool, patch)
            calls.wait = time.sleep
            calls.fail(1, fault)
            publish(gateway, *(one.decode() for one in messages - {b"behind"}))
            await until(lambda: len(calls.failed) >= min(fault.lasts, 20))
            assert not task.done()
            calls.mend()
            (spool / "status.json").unlink(missing_ok=True)
            publish(gateway, "behind")
            await until(lambda: told(spool))
            await until(lambda: messages <= spooled(spool))
        assert not task.done()


async def test_links_live_on_while_its_disk_is_slow_to_take_its_status(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start(repair_interval_s=0.2)
    collector = Collector(settings(fleet, gateway.port))
    async with running(collector):
        await until(lambda: linked(collector) == {"gw-a"})
        (link,) = collector.node.links
        with monkeypatch.context() as patch:
            calls = FailingCalls(fleet.folder / "spool" / "status.json", patch)
            calls.wait = lambda _: time.sleep(1.0)  # far beyond the silence that a link bears
            calls.fail(1, Fault("slow", slow_s=1.0))
            await until(lambda: calls.failed)
            await until(lambda: told(fleet.folder / "spool"))
        assert list(collector.node.links) == [link]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
async def test_whatever_call_fails_at_its_start_is_an_error_of_one_line(
    fleet: Fleet, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = settings(fleet, 1, more='share = "origins"\ngroup = ["collector", "other"]')
    spool = fleet.folder / "spool"

    async def start(calls: FailingCalls, fails: int) -> None:
        calls.fail(fails, Fault("start", number))
        collector = made(of)
        assert isinstance(collector, Collector)
        collector.close()

    with monkeypatch.context() as patch:
        calls = FailingCalls(spool, patch)
        await start(calls, FOR_EVER)
        reached = calls.counts["disk"]
        assert reached > 20
        for fails in range(1, reached, 3):
            try:
                await start(calls, fails)
            except (ConfigError, LogError) as error:
                assert "\n" not in str(error)
                assert str(spool) in str(error)


async def test_a_spool_of_a_brokers_messages_counts_what_its_disk_refuses(
    small_disk: Tmpfs,
) -> None:
    spool = SourceSpool(OriginSection("broker-1", small_disk.folder), spool_log())
    reading = asyncio.Event()

    async def read() -> None:
        await reading.wait()

    filling = asyncio.create_task(spool.fill(read(), dict))
    await until(lambda: told(small_disk.folder))
    small_disk.fill()
    failed = "status.json that can't be written"
    await until(lambda: spool.commit.refusals.counts[failed] >= 2)
    small_disk.free()
    await until(lambda: told(small_disk.folder)["refusals"])
    reading.set()
    await filling


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ('id = "c"\nspool_dir = "tree.key"', r"spool_dir: .*/tree\.key: a file, not a folder$"),
        ('id = "c"\nspool_dir = "/dev/null"', "spool_dir: /dev/null: a device, not a folder$"),
        ('id = "A B"\nspool_dir = "spool"', "id: 'A B' is not 1 to 63 lower-case letters"),
    ],
)
async def test_a_section_that_can_not_be_gone_by_is_told_in_words(
    tmp_path: Path, own: str, why: str
) -> None:
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "tree.key").chmod(0o600)
    file = tmp_path / "collector.toml"
    tree = '[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n'
    file.write_text(f"[collector]\n{own}\n{tree}")
    with pytest.raises(ConfigError, match=f"collector.{why}"):
        made(load(file, CollectorSettings))

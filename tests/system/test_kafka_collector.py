"""A collector that reads Kafka's topics: each message is in spool and tables once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from brokers import _Process
from deltalake import DeltaTable
from disks import Tmpfs, unmounted_at_the_end

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from kafka_cluster import KafkaCluster

from cloud_ingest.spool.segments import read_mark, segments
from cloud_ingest.spool.walk import DamagedBytes, walk
from tree_handler import batch

pytestmark = [pytest.mark.timeout(200), pytest.mark.slow]
LIMIT_S = 60


class KafkaCollectorProcess(_Process):
    """`hedgerow collector` with a section `[kafka]`."""

    def __init__(
        self, folder: Path, server: str, more: str = "", spool: Path | None = None
    ) -> None:
        super().__init__(0, folder / "spool", "kafka: reading")
        self._file = folder / "collector.toml"
        self._file.write_text(
            f"""
[collector]
id = "plant"
spool_dir = "{self.state}"
[kafka]
servers = ["{server}"]
topics = ["meters"]
{more}
"""
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.tools.cli", "collector", "--config", str(self._file)]

    def stored(self) -> Counter[tuple[str, int, str, str]]:
        """Origin, number, topic and value of each message of the spool."""
        found: Counter[tuple[str, int, str, str]] = Counter()
        for segment in segments(self.state, read_mark(self.state)) if self.state.exists() else ():
            data = segment.path.read_bytes()
            for one in walk(data, 0, segment.length):
                assert not isinstance(one, DamagedBytes), one
                at, header = one
                if not header.passed:
                    rows = batch.rows(data[at : at + header.end], header)
                    for number, row in enumerate(rows, header.first):
                        found[header.origin, number, row[0], row[2].decode()] += 1
        return found

    async def has(self, values: set[str]) -> Counter[str]:
        """Wait until the spool has these; how often each."""
        found: Counter[str] = Counter()
        async with asyncio.timeout(LIMIT_S):
            while not values <= found.keys():
                await asyncio.sleep(0.05)
                found = Counter(row[3] for row in self.stored().elements())
        return found


@pytest.fixture
async def cluster() -> AsyncIterator[KafkaCluster]:
    made = KafkaCluster()
    await made.start()
    yield made
    await made.stop()


def lines(values: list[str]) -> list[tuple[str, str, str]]:
    return [("meters", f"meter-{int(value) % 7}", value) for value in values]


def ingest(folder: Path, spool: Path) -> tuple[Counter[str], dict[str, Any]]:
    words = ("ingest", "--spool", spool, "--tables", folder / "tables", "--json", folder / "f.json")
    subprocess.run([sys.executable, "-m", "gateway.tools.cli", *words], check=True, timeout=180)
    rows = DeltaTable(folder / "tables" / "telemetry").to_pyarrow_table(columns=["value"])
    values = Counter(str(int(value)) for value in rows.column("value").to_pylist())
    return values, json.loads((folder / "f.json").read_bytes())


async def test_each_message_is_kept_once_though_the_collector_is_killed_while_it_reads(
    tmp_path: Path, cluster: KafkaCluster, pytestconfig: pytest.Config
) -> None:
    values = [str(number) for number in range(2_800)]
    await cluster.publish(lines(values[:200]))
    collector = KafkaCollectorProcess(tmp_path, cluster.server, "key_in_topic = true")
    await collector.start()
    try:
        for part in range(2):
            some = values[200 + part * 1_200 : 200 + (part + 1) * 1_200]
            publishing = asyncio.create_task(cluster.publish(lines(some)))
            await collector.has({some[0]})
            collector.kill()
            await collector.ended()
            await collector.start()
            await publishing
        await cluster.publish(lines(values[2_600:]))
        assert await collector.has(set(values)) == Counter(values)
        rows = collector.stored()
    finally:
        await collector.stop()
    assert {row[2] for row in rows} == {f"meters/meter-{number}" for number in range(7)}
    by_origin: dict[str, list[int]] = {}
    for origin, number, _, _ in sorted(rows):
        by_origin.setdefault(origin, []).append(number)
    assert all(numbers == [*range(1, len(numbers) + 1)] for numbers in by_origin.values())
    assert all(origin.startswith("kafka/plant/meters/") for origin in by_origin)
    if not pytestconfig.getoption("--soak"):
        return  # from a spool on it is as from any other: test_ingest_kill.py
    found, told = ingest(tmp_path, collector.state)
    assert found == Counter(values)
    assert {row["gaps"] for row in told["gateways"]} == {0}


@pytest.mark.soak("the kill above goes on where it was too")
async def test_it_reads_a_topic_from_its_end_and_then_goes_on_there_after_a_kill(
    tmp_path: Path, cluster: KafkaCluster
) -> None:
    await cluster.publish(lines([str(number) for number in range(100)]))
    collector = KafkaCollectorProcess(tmp_path, cluster.server, 'start = "latest"')
    await collector.start()
    collector.kill()
    await collector.ended()
    await cluster.publish(lines(["1000", "1001", "1002"]))
    await collector.start()
    assert await collector.has({"1000", "1001", "1002"}) == Counter(("1000", "1001", "1002"))
    assert await collector.stop() == 0


async def test_on_a_full_disk_it_waits_and_then_goes_on_where_it_was(
    tmp_path: Path, cluster: KafkaCluster
) -> None:
    disk = Tmpfs(tmp_path / "spool", 1_024)
    with unmounted_at_the_end(disk):
        await cluster.publish(lines(["0"]))
        collector = KafkaCollectorProcess(tmp_path, cluster.server)
        await collector.start()
        try:
            await collector.has({"0"})
            disk.fill()
            values = [str(number) for number in range(10_000)]
            await cluster.publish(lines(values[1:]))
            async with asyncio.timeout(LIMIT_S):
                while not any("batch refused by the log" in line for line in collector.lines):
                    await asyncio.sleep(0.05)
            disk.free()
            assert await collector.has(set(values)) == Counter(values)
        finally:
            await collector.stop()


async def test_a_topic_that_was_cut_off_behind_what_was_read_is_named_and_not_read(
    tmp_path: Path, cluster: KafkaCluster
) -> None:
    await cluster.publish(lines(["1", "2", "3"]))
    collector = KafkaCollectorProcess(tmp_path, cluster.server)
    await collector.start()
    await collector.has({"1", "2", "3"})
    assert await collector.stop() == 0
    anew = KafkaCluster()
    await anew.start()
    await anew.publish(lines(["1"]))
    try:
        collector = KafkaCollectorProcess(tmp_path, anew.server)
        await collector.start(wait=False)
        assert await collector.ended() == 2
    finally:
        await anew.stop()
    assert any("kafka.topics" in line and "made anew" in line for line in collector.lines)

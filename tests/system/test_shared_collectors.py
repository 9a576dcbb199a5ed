"""Two collectors of real gateways that share what comes: one is killed, and nothing is missing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from brokers import _Process
from chain import CONVERGE_S, HELLO_S, Chain, TreeGateway
from deltalake import DeltaTable

from cloud_ingest.collector.ownership import owner_of
from tree_handler import batch
from tree_handler.intervals import Intervals

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
GROUP = ["collector-1", "collector-2"]


class SharingCollector(_Process):
    """`hedgerow collector` with ``share = "origins"``."""

    def __init__(self, folder: Path, name: str, neighbour: TreeGateway, mode: str) -> None:
        super().__init__(neighbour.port, folder / name, "link 1 to")
        self.name = name
        self._file = folder / f"{name}.toml"
        self._file.write_text(
            f"""
[collector]
id = "{name}"
spool_dir = "{name}"
share = "origins"
group = {json.dumps(GROUP)}
[tree]
key_file = "{neighbour.config.parent}/tree.key"
tls = "off"
discovery = false
neighbours = ["127.0.0.1:{neighbour.port}"]
hello_s = {HELLO_S}
repair_interval_s = 0.5
mode = "{mode}"
"""
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.tools.cli", "collector", "--config", str(self._file)]

    def sharing(self) -> dict[str, Any]:
        try:
            told = json.loads((self.state / "status.json").read_bytes())
        except FileNotFoundError:
            return {}
        return dict(told["sharing"]) if told["pid"] == self.pid else {}

    def spooled(self) -> Counter[str]:
        """Count how often each message of clients stands in its spool."""
        found: Counter[str] = Counter()
        for path in sorted(self.state.glob("*.log")):
            data = path.read_bytes()
            for at, header in batch.frames(data):
                if header.logged and not header.control:
                    rows = batch.rows(data[at : at + header.end], header)
                    found.update(row[2].decode() for row in rows)
        return found


class Load:
    """Publishes numbers at gateways, and knows what they acknowledged."""

    def __init__(self, gateways: list[TreeGateway]) -> None:
        self._gateways = gateways
        self._last = 0
        self.acknowledged: list[str] = []

    async def run(self, count: int) -> None:
        await asyncio.gather(*(self._publish(one, count) for one in self._gateways))

    async def _publish(self, gateway: TreeGateway, count: int) -> None:
        async with gateway.client("load") as client:
            for _ in range(count):
                self._last += 1
                payload = str(self._last)
                assert await client.publish(f"load/{gateway.gateway_id}", payload.encode()) == 0
                self.acknowledged.append(payload)
                await asyncio.sleep(0.005)


async def all_spooled(load: Load, collectors: list[SharingCollector]) -> Counter[str]:
    """Wait until what was acknowledged is in the spools; how often each."""
    found: Counter[str] = Counter()
    try:
        async with asyncio.timeout(CONVERGE_S):
            while True:
                found = sum((one.spooled() for one in collectors), Counter())
                if set(load.acknowledged) <= set(found):
                    return found
                await asyncio.sleep(0.2)
    except TimeoutError:
        missing = sorted(set(load.acknowledged) - set(found), key=int)
        raise AssertionError(f"{len(missing)} missing: {missing[:20]}") from None


async def settled(*collectors: SharingCollector) -> None:
    try:
        async with asyncio.timeout(CONVERGE_S):
            while not all(is_settled(one.sharing()) for one in collectors):
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError([one.sharing() for one in collectors]) from None


def is_settled(status: dict[str, Any]) -> bool:
    return (
        bool(status)
        and status["live"] == GROUP
        and status["is_settled"]
        and not status["held_batches"]
    )


async def told(one: SharingCollector, what: str, at_least: int) -> None:
    """Wait until its status counts so many."""
    try:
        async with asyncio.timeout(CONVERGE_S):
            while one.sharing().get(what, 0) < at_least:
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{what} is not {at_least}: {one.sharing()}") from None


def ingested(folder: Path, collectors: list[SharingCollector]) -> Counter[str]:
    spools = [word for one in collectors for word in ("--spool", str(one.state))]
    words = ("ingest", *spools, "--tables", str(folder / "tables"))
    subprocess.run([sys.executable, "-m", "gateway.tools.cli", *words], check=True, timeout=200)
    rows = DeltaTable(folder / "tables" / "telemetry").to_pyarrow_table(columns=["value"])
    return Counter(str(int(value)) for value in rows.column("value").to_pylist())


@pytest.mark.parametrize(
    "mode", ["flood", pytest.param("routed", marks=pytest.mark.soak("the same in another mode"))]
)
async def test_a_collector_that_is_killed_under_load_leaves_nothing_out_and_doubles_no_row(
    tmp_path: Path, mode: str, pytestconfig: pytest.Config
) -> None:
    async with Chain(tmp_path, 3, max_bytes=64 << 20, mode=mode) as chain:
        last, before = chain.gateways[2], chain.gateways[1]
        pair = [
            SharingCollector(tmp_path, name, neighbour, mode)
            for name, neighbour in zip(GROUP, (last, before), strict=True)
        ]
        victim = next(one for one in pair if one.name == owner_of("a", GROUP))
        survivor = next(one for one in pair if one is not victim)
        load = Load(chain.gateways)
        try:
            for one in pair:
                await one.start()
            await settled(*pair)
            await load.run(100)
            once = await all_spooled(load, pair)
            assert set(once.values()) == {1}
            assert all(one.spooled() for one in pair)
            loading = asyncio.create_task(load.run(400))
            await asyncio.sleep(1)
            victim.kill()
            await victim.ended()
            await loading
            await all_spooled(load, pair)
            await told(survivor, "taken_over", 1)
            loading = asyncio.create_task(load.run(200))
            await victim.start()
            await settled(*pair)
            await loading
            found = await all_spooled(load, pair)
            await settled(*pair)
            doubled = sum(count - 1 for count in found.values())
            sys.stderr.write(f"{mode}: {len(load.acknowledged)} acknowledged, {doubled} twice\n")
            sys.stderr.write(f"survivor {survivor.sharing()}\nvictim {victim.sharing()}\n")
            await told(survivor, "doubled", doubled)
        finally:
            for one in pair:
                if one.is_running:
                    await one.stop()
    assert Intervals((int(n), int(n)) for n in load.acknowledged) == Intervals([(1, 2_100)])
    # What a job makes of two spools that share batches: test_ingest_kill.py.
    if mode == "flood" and pytestconfig.getoption("--soak"):
        assert ingested(tmp_path, pair) == Counter(load.acknowledged)

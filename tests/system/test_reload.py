"""SIGHUP changes a gateway's neighbours while it runs: real processes under QoS 1 load."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from chain import CONVERGE_S, HELLO_S, TreeGateway
from load import Load


class Changeable(TreeGateway):
    """A gateway whose configuration changes while it runs."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder / name, name, None, 1 << 24)

    def change(self, text: str, new: str) -> None:
        """Write the configuration with another line, and send SIGHUP."""
        before = self.config.read_text()
        self.config.write_text(re.sub(text, new, before, flags=re.MULTILINE))
        self.send_signal(signal.SIGHUP)

    def has_neighbours(self, *others: Changeable) -> None:
        addresses = [f"127.0.0.1:{other.port}" for other in others]
        self.change(r"^neighbours = .*$", f"neighbours = {json.dumps(addresses)}")

    async def said(self, text: str, count: int = 1) -> str:
        """Wait for a line of its log."""
        async with asyncio.timeout(CONVERGE_S):
            while True:
                found = [line for line in self.lines if text in line]
                if len(found) >= count:
                    return found[-1]
                await asyncio.sleep(0.02)

    async def neighbours(self, holds: Callable[[set[str]], bool]) -> None:
        """Wait until its links are as they should be."""
        async with asyncio.timeout(CONVERGE_S):
            while not holds({one["id"] for one in (await self.status())["neighbours"]}):
                await asyncio.sleep(0.1)

    async def status(self) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.tools.cli", "status", "--json"),
            *("--config", str(self.config)),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return dict(json.loads(out))


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[tuple[Changeable, Changeable, Changeable]]:
    a, b, c = (Changeable(tmp_path, name) for name in "abc")
    await asyncio.gather(*(one.start() for one in (a, b, c)))
    yield a, b, c
    await asyncio.gather(*(one.stop() for one in (a, b, c) if one.is_running))


async def test_neighbours_come_and_go_without_a_message_lost_or_a_link_cut_that_stays(
    three: tuple[Changeable, Changeable, Changeable],
) -> None:
    a, b, c = three
    a.has_neighbours(b)
    await a.said("link 1 to b")
    async with a.client("source") as source, b.client("sink") as sink:
        load = Load(source, sink)
        await load.begin()
        await load.passed()
        a.has_neighbours(b, c)
        await a.said("link 2 to c")
        await c.neighbours(lambda links: links == {"a"})
        await load.passed()
        a.has_neighbours(b)
        await a.said("link 2 to c is down")
        await c.neighbours(lambda links: not links)
        await load.passed()
        await load.end()
    assert load.got == Counter({b"%d" % n: 1 for n in range(load.acknowledged)})
    assert [line for line in a.lines if "link 1 to b is down" in line] == []
    assert b.pid and a.is_running


async def test_a_message_accepted_while_no_neighbour_is_configured_reaches_one_that_comes(
    three: tuple[Changeable, Changeable, Changeable],
) -> None:
    a, _, c = three
    await a.publish({"state": b"here"})
    a.has_neighbours(c)
    async with asyncio.timeout(CONVERGE_S):
        while await c.retained() != {"state": b"here"}:
            await asyncio.sleep(0.05)


async def test_a_wrong_file_changes_nothing_and_says_which_field(
    three: tuple[Changeable, Changeable, Changeable],
) -> None:
    a, b, c = three
    a.has_neighbours(b)
    await a.said("link 1 to b")
    good = a.config.read_text()
    wrong = {
        "gateway.toml: tree.neighbours: 'nowhere' is not HOST:PORT": 'neighbours = ["nowhere"]',
        "gateway.toml: tree.neighbors: unknown key": "neighbors = []",
        "discovery group 10.0.0.1:17883": (
            f'neighbours = ["127.0.0.1:{c.port}"]\ndiscovery = true\ndiscovery_group = "10.0.0.1"'
        ),
    }
    for why, text in wrong.items():
        a.config.write_text(good)
        a.change(r"^discovery = false\nneighbours = .*$", text)
        assert "nothing is read again" in await a.said(why)
    await a.neighbours(lambda links: links == {"b"})
    a.config.write_text(good.replace(f"hello_s = {HELLO_S}", "hello_s = 0.2"))
    a.send_signal(signal.SIGHUP)
    await a.said("tree.hello_s has changed: that takes a restart")
    assert [line for line in a.lines if "is down" in line] == []

"""Two gateways that are linked are killed, together and one after the other, under load.

What either acknowledged reaches who subscribed at either, in order, at QoS 2 once. With ``--soak``
there are 40 kills, else one of each kind; ``--seed N`` replays what chance decides.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from brokers import Gateway
from durable_client import DurableClient, settled
from ledger import Ledger
from raw_packets import V5, V311

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
SETTLED_S = 120.0
"""It takes seconds; a machine that is busy with other tests has longer."""
KINDS = ("both", "one, and soon the other", "one", "both, and while they start")
SOAK_KILLS = 40


class LinkedGateway(Gateway):
    """A gateway that can be linked to another one."""

    def __init__(self, name: str, folder: Path, durability: str) -> None:
        folder.mkdir()
        super().__init__(folder, durability, segment_bytes=64 << 10)
        self.name = name

    def dial(self, other: LinkedGateway) -> None:
        """Have it dial another one from its next start on."""
        text = self.config.read_text().replace('id = "gw"', f'id = "{self.name}"')
        near = f'neighbours = ["127.0.0.1:{other.port}"]\nhello_s = 0.3'
        self.config.write_text(text.replace("dial_back = false", near))


class LinkRun:
    """Publishers and subscribers at both gateways, and what they were promised and got."""

    def __init__(self, folder: Path, durability: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.ledger = Ledger()
        self.gateways = [LinkedGateway(name, folder / name, durability) for name in "ab"]
        one, other = self.gateways
        one.dial(other)
        other.dial(one)
        self._publishers = {
            DurableClient(f"{gateway.name}-{qos}", level, self.ledger): (gateway, qos)
            for gateway in self.gateways
            for qos, level in ((1, V311), (2, V5))
        }
        self._subscribers = {
            DurableClient(f"at-{gateway.name}", V5, self.ledger): gateway
            for gateway in self.gateways
        }

    async def begin(self) -> None:
        """Start all, and wait until what is published at one comes at the other."""
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))
        for client, gateway in self._subscribers.items():
            client.keep(gateway.port)
            await client.subscribe("k/#", 2)
        for client, (gateway, _) in self._publishers.items():
            client.keep(gateway.port)
        self._publish()
        assert await self.ledger.until(lambda: not self.ledger.lost(), SETTLED_S)

    async def kill(self, kind: str) -> None:
        """Kill and start again, under load."""
        publishing = asyncio.create_task(self._publish_on())
        await asyncio.sleep(self.chance.uniform(0.1, 1.5))
        first, second = self.chance.sample(self.gateways, 2)
        first.kill()
        if kind == "one, and soon the other":
            await asyncio.sleep(self.chance.uniform(0.0, 0.3))
        if kind != "one":
            second.kill()
        gone = [first] if kind == "one" else [first, second]
        await asyncio.gather(*(gateway.ended() for gateway in gone))
        if kind == "both, and while they start":
            for gateway in gone:
                await gateway.start(wait=False)
            await asyncio.sleep(self.chance.uniform(0.0, 1.0))
            for gateway in gone:
                gateway.kill()
                await gateway.ended()
        await asyncio.gather(*(gateway.start() for gateway in gone))
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)

    async def finish(self) -> None:
        """Wait until all that is owed has come."""
        clients = [*self._publishers, *self._subscribers]
        assert await self.ledger.until(lambda: settled(*clients), SETTLED_S)
        await self.ledger.until(lambda: not self.ledger.lost(), SETTLED_S)
        before = -1
        while (count := sum(map(len, self.ledger.deliveries.values()))) != before:
            before = count  # a double comes behind what is complete
            for _ in range(2):
                await asyncio.gather(*(client.ping() for client in self._subscribers))

    async def stop(self) -> None:
        """End all that runs."""
        for client in (*self._publishers, *self._subscribers):
            client.stop()
        for gateway in self.gateways:
            if gateway.is_running:
                await gateway.stop()

    async def _publish_on(self) -> None:
        while True:
            self._publish()
            await asyncio.sleep(self.chance.uniform(0.0, 0.05))

    def _publish(self) -> None:
        for client, (gateway, qos) in self._publishers.items():
            if client.unsettled < 40:
                for _ in range(self.chance.randint(1, 8)):
                    client.publish(
                        f"k/{gateway.name}/{qos}", bytes(self.chance.randint(0, 200)), qos
                    )


@asynccontextmanager
async def running(folder: Path, durability: str, seed: int) -> AsyncIterator[LinkRun]:
    async with AsyncExitStack() as stack:
        run = LinkRun(folder, durability, seed)
        stack.push_async_callback(run.stop)
        await run.begin()
        yield run


@pytest.mark.parametrize(
    "durability", ["sync", pytest.param("write", marks=pytest.mark.soak("the same by write"))]
)
async def test_what_was_acknowledged_comes_at_both_ends_though_both_are_killed(
    durability: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    kills = SOAK_KILLS if pytestconfig.getoption("--soak") else len(KINDS)
    async with running(tmp_path, durability, pytestconfig.getoption("--seed")) as run:
        for number in range(kills):
            await run.kill(KINDS[number % len(KINDS)])
        await run.finish()
    ledger = run.ledger
    assert len(ledger.taken) > 100
    assert ledger.lost() == []
    assert ledger.doubled() == []
    assert ledger.disordered() == []
    assert ledger.strangers == []

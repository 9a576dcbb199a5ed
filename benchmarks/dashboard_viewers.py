"""Times of the dashboard's answers while many look at it, and what they cost the server.

    python tests/synthetic_tables.py DIR --gateways 1000 --days 365 --sensors 50 --every-s 600
    python -m benchmarks.dashboard_viewers --tables DIR --viewers 50

It is for people: a machine that does something else gives other times, so nothing is held to them.
Processor time is of the dashboard's process alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable
from typing import Any

import aiohttp
import psutil

from gateway.base.percentiles import percentile

PAUSE_S = 0.5


class Viewers:
    """People who open one page after the other.

    Args:
        base: address of the dashboard.

    """

    def __init__(self, base: str) -> None:
        self._base = base
        self.took_ms: dict[str, list[float]] = defaultdict(list)

    async def ask(self, session: aiohttp.ClientSession, name: str, **query: Any) -> Any:
        """Ask, and note how long it took."""
        begun = time.perf_counter()
        async with session.get(f"{self._base}/api/{name}", params=query) as answer:
            answer.raise_for_status()
            found = await answer.json()
        self.took_ms[name].append((time.perf_counter() - begun) * 1000)
        return found

    async def look(self, number: int, rounds: int) -> None:
        """Be one of them."""
        draw = random.Random(number)
        async with aiohttp.ClientSession() as session:
            await asyncio.sleep(draw.random())
            for _ in range(rounds):
                for name in ("tables", "fleet", "alerts", "gaps"):
                    await self.ask(session, name)
                moments = await self.ask(session, "moments")
                span = moments["first_ms"], moments["last_ms"]
                await asyncio.sleep(draw.random() * PAUSE_S)
                await self.ask(session, "tree", time_ms=draw.choice((span[1], draw.randint(*span))))
                sensors = await self.ask(session, "sensors")
                await asyncio.sleep(draw.random() * PAUSE_S)
                await self.year(session, sensors, draw.randrange(len(sensors["sensor"])), 1000)
                for name in ("latency", "slowest"):
                    await self.ask(session, name, hours=24)

    async def year(
        self, session: aiohttp.ClientSession, sensors: dict[str, Any], at: int, points: int
    ) -> None:
        """Ask for all that there is of a sensor."""
        await self.ask(
            session,
            "sensor",
            gateway=sensors["gateway"][at],
            sensor=sensors["sensor"][at],
            start_ms=min(sensors["first_ms"]),
            end_ms=max(sensors["last_ms"]) + 1,
            points=points,
        )

    async def alone(self, count: int, points: int) -> None:
        """Draw so many sensors, an answer each, as a browser does over its six connections."""
        limited = aiohttp.TCPConnector(limit=6)
        async with aiohttp.ClientSession(connector=limited) as session:
            sensors = await self.ask(session, "sensors")
            all_of_them = range(min(count, len(sensors["sensor"])))
            await asyncio.gather(*(self.year(session, sensors, at, points) for at in all_of_them))

    async def together(self, count: int, points: int) -> None:
        """Draw as many in one chart, with what they say now, as the page does."""
        async with aiohttp.ClientSession() as session:
            sensors = await self.ask(session, "sensors")
            keys = list(zip(sensors["gateway"], sensors["sensor"], strict=True))[:count]
            pairs = [each for one, other in keys for each in (("gateway", one), ("sensor", other))]
            span = {"start_ms": min(sensors["first_ms"]), "end_ms": max(sensors["last_ms"]) + 1}
            asked = [*pairs, *span.items(), ("points", points)]
            for name, query in (("together", asked), ("current", pairs)):
                begun = time.perf_counter()
                async with session.get(f"{self._base}/api/{name}", params=query) as answer:
                    answer.raise_for_status()
                    await answer.json()
                self.took_ms[name].append((time.perf_counter() - begun) * 1000)


def told(name: str, took_ms: list[float]) -> str:
    """Say how long something took."""
    p50, p95 = percentile(took_ms, 50), percentile(took_ms, 95)
    return f"{name:8} {len(took_ms):6} answers, p50 {p50:5.0f} ms, p95 {p95:5.0f} ms"


async def complete(base: str) -> None:
    """Wait until all that the tables have is taken up."""
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{base}/api/tables") as answer:
                if (await answer.json())["is_complete"]:
                    return
            await asyncio.sleep(1)


async def measure(base: str, server: psutil.Process, viewers: int, rounds: int) -> None:
    """Measure, and print it."""
    people = Viewers(base)

    async def costs(what: str, work: Awaitable[Any]) -> None:
        before, begun = server.cpu_times(), time.perf_counter()
        await work
        took_ms, after = (time.perf_counter() - begun) * 1000, server.cpu_times()
        used_s = after.user + after.system - before.user - before.system
        print(f"{what}: {took_ms:.0f} ms by the clock, {used_s * 1000:.0f} ms of the server")

    await complete(base)
    # Another number of points is another question, of which no answer is kept.
    for points in (1000, 999, 998):
        await costs("50 sensors of a year in one chart", people.together(50, points))
        await costs("50 sensors of a year, an answer each", people.alone(50, points))
    await costs("the chart once more", people.together(50, 1000))
    people.took_ms.clear()
    await costs(
        f"{viewers} viewers", asyncio.gather(*(people.look(at, rounds) for at in range(viewers)))
    )
    print(told("all", [each for took_ms in people.took_ms.values() for each in took_ms]))
    for name, took_ms in people.took_ms.items():
        print(told(name, took_ms))
    print(f"memory: {server.memory_info().rss >> 20} MiB; load: {os.getloadavg()[0]:.1f}")


def served(tables: str) -> tuple[subprocess.Popen[str], str]:
    """Start a dashboard over tables; returns its process and where it listens."""
    command = [sys.executable, "-m", "gateway.tools.cli", "dashboard", "--tables", tables]
    server = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    return server, server.stdout.readline().rpartition(": ")[2].strip().rstrip("/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", required=True, metavar="DIR")
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    server, base = served(options.tables)
    try:
        found = psutil.Process(server.pid)
        asyncio.run(measure(base, found, options.viewers, options.rounds))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()

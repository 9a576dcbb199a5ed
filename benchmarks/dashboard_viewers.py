"""How long answers of the dashboard take while many look at it.

    python tests/synthetic_tables.py DIR --gateways 1000 --days 365 --sensors 50 --every-s 600
    hedgerow dashboard --tables DIR --listen 127.0.0.1:8080
    python -m benchmarks.dashboard_viewers http://127.0.0.1:8080 --viewers 50

It is for people: a machine that does something else gives other times, so nothing is held to them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import defaultdict
from typing import Any

import aiohttp

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
        """See all that there is of a sensor."""
        await self.ask(
            session,
            "sensor",
            gateway=sensors["gateway"][at],
            sensor=sensors["sensor"][at],
            start_ms=min(sensors["first_ms"]),
            end_ms=max(sensors["last_ms"]) + 1,
            points=points,
        )

    async def chart(self, count: int, points: int) -> float:
        """Draw so many sensors in one chart, as a browser does; returns milliseconds."""
        limited = aiohttp.TCPConnector(limit=6)
        async with aiohttp.ClientSession(connector=limited) as session:
            sensors = await self.ask(session, "sensors")
            begun = time.perf_counter()
            all_of_them = range(min(count, len(sensors["sensor"])))
            await asyncio.gather(*(self.year(session, sensors, at, points) for at in all_of_them))
        return (time.perf_counter() - begun) * 1000


def told(name: str, took_ms: list[float]) -> str:
    """Say how long something took."""
    ordered = sorted(took_ms)
    p50, p95 = (ordered[int(len(ordered) * part)] for part in (0.5, 0.95))
    return f"{name:8} {len(ordered):6} answers, p50 {p50:5.0f} ms, p95 {p95:5.0f} ms"


async def measure(base: str, viewers: int, rounds: int) -> None:
    """Measure, and print it."""
    people = Viewers(base)
    print(f"50 sensors in one chart: {await people.chart(50, 990):.0f} ms")
    print(f"the same again: {await people.chart(50, 990):.0f} ms")
    people.took_ms.clear()
    await asyncio.gather(*(people.look(number, rounds) for number in range(viewers)))
    print(told("all", [each for took_ms in people.took_ms.values() for each in took_ms]))
    for name, took_ms in people.took_ms.items():
        print(told(name, took_ms))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base")
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    asyncio.run(measure(options.base, options.viewers, options.rounds))


if __name__ == "__main__":
    main()

"""A cluster for tests: the one that librdkafka, the client library, has built in, on loopback.

It runs in a process of its own, which takes what is to be published on its standard input.

    python kafka_cluster.py     says where it listens, then publishes a line each: TOPIC KEY VALUE
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from confluent_kafka import Producer


class KafkaCluster:
    """The process."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self.server = ""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self.server = await self._line()

    async def _line(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def publish(self, lines: Iterable[tuple[str, str, str]]) -> None:
        """Publish messages, by topic, key (its partition) and value; returns when it has them."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(
            "".join(f"{' '.join(line)}\n" for line in lines).encode() + b"flush\n"
        )
        await self._process.stdin.drain()
        assert await self._line() == "flushed"

    async def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()


def main() -> None:
    mock = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1}
    cluster = Producer(mock)
    brokers = cluster.list_topics(timeout=10).brokers.values()
    server = next(f"{broker.host}:{broker.port}" for broker in brokers)
    producer = Producer({"bootstrap.servers": server, "linger.ms": 5})
    sys.stdout.write(f"{server}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if line == "flush\n":
            assert producer.flush(30) == 0
            sys.stdout.write("flushed\n")
            sys.stdout.flush()
            continue
        topic, key, value = line.split()
        producer.produce(topic, value.encode(), key.encode())
        producer.poll(0)


if __name__ == "__main__":
    main()

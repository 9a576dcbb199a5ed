"""End-to-end delay and bytes between brokers, by mode, locality, topics and payload (row C8).

20 publishers and 5 subscribers at five gateways in a full mesh. Each subscriber wants a part of the
topics; a publisher is local if it is at the gateway of those who want its messages. ``central``
is what all this is measured against (row E1): one broker, at the first host, to which all clients
of the other hosts connect over the same edges.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.mesh import network
from benchmarks.mesh.client import Publisher, Subscriber, Wanted
from benchmarks.mesh.count import Count
from benchmarks.mesh.gateways import Gateways
from benchmarks.mesh.network import Network
from gateway.base.percentiles import percentile

HOSTS = 5
CENTRAL = "central"
MANY = 10_000
"""Connections that a gateway takes."""
EDGE_SHARE = 0.5
"""The share of one edge that all publishers may fill: beyond it, the queue is measured."""
SETTLE_S = 20.0


@dataclass(frozen=True, slots=True)
class Case:
    """A case that is measured.

    Attributes:
        mode: of the tree, or `CENTRAL`.
        locality: percentage of the publishers that are at the gateway of their subscribers.
        topics: in all.
        payload_bytes: of each message.
        max_rate_hz: of each publisher.
        tls: of links, as in `Gateways`; one for all cases that are measured together.

    """

    mode: str
    locality: int = 50
    topics: int = 30
    payload_bytes: int = 1_000
    publishers: int = 20
    subscribers: int = 5
    hosts: int = HOSTS
    max_rate_hz: float = 10.0
    tls: str = "required"

    @property
    def rate_hz(self) -> float:
        """Of each publisher: the greatest, or less where that would fill the edges."""
        bits = self.publishers * self.payload_bytes * 8
        return min(self.max_rate_hz, EDGE_SHARE * network.RATE_MBIT * 1e6 / bits)

    @property
    def seconds(self) -> float:
        """The time of publishing: until there are 400 messages, and 4 s at least."""
        return max(4.0, 400 / (self.publishers * self.rate_hz))

    @property
    def groups(self) -> int:
        """Topics that differ by a multiple of this have the same subscribers."""
        return min(self.topics, self.subscribers)

    def __str__(self) -> str:
        crowd = (self.publishers, self.subscribers, self.hosts)
        told = "" if crowd == (20, 5, HOSTS) else ", {:,} -> {:,} at {}".format(*crowd)
        what = f"{self.locality} % local, {self.topics} topics, {self.payload_bytes:,} B"
        links = ", links without TLS" if self.tls == "off" else ""
        return f"{self.mode}, {what}{told}{links}"


@dataclass(frozen=True, slots=True)
class Delays:
    """The figures of a case.

    Attributes:
        delays_ms: from before the write at the publisher to after the read at the subscriber.
        delivered_hz: messages that reached subscribers in a second.
        message_bytes: sent between hosts for each message published, headers included.
        idle_bytes_s: sent between hosts in a second in which nothing was published.
        lost: acknowledged messages that did not come.
        cpu: share of one core that all gateways took together.
        rss_mib: memory of all gateways together.

    """

    delays_ms: list[float]
    delivered_hz: float
    message_bytes: float
    idle_bytes_s: float
    lost: int
    doubled: int
    cpu: float
    rss_mib: float

    @property
    def p50_ms(self) -> float:
        """The median delay."""
        return percentile(self.delays_ms, 50)

    @property
    def p95_ms(self) -> float:
        """The delay that one message in twenty exceeds."""
        return percentile(self.delays_ms, 95)


def cases(mode: str) -> list[Case]:
    """Row C8: one thing is varied at a time."""
    return [
        *(Case(mode, locality=locality) for locality in (100, 50, 0)),
        *(Case(mode, topics=topics) for topics in (3, 60)),
        *(Case(mode, payload_bytes=size) for size in (10_000, 100_000)),
    ]


def crowds(hosts: int) -> list[Case]:
    """Row B9: more and more clients, at one gateway or at several distant ones."""
    many = [(10, 200), (100, 200), (1_000, 200), (100, 500), (100, 1_000)]
    return [
        Case("flood", locality, 10, 79, publishers, subscribers, hosts, 100 / publishers)
        for publishers, subscribers in many
        # Ten publishers are one for each group of subscribers: none of these is half local.
        for locality in ((100,) if hosts == 1 else (100, 0) if publishers == 10 else (100, 50, 0))
    ]


async def measure(mode: str, cases: list[Case]) -> list[tuple[Case, Delays]]:
    """Measure cases of one mode, on the same gateways, one after the other."""
    found = []
    with (
        network.mesh(HOSTS) as net,
        tempfile.TemporaryDirectory(prefix="mesh-benchmark-") as folder,
    ):
        tree: dict[str, Any] = {} if mode in (CENTRAL, "flood") else {"mode": mode}
        limits = {"connections": MANY, "connections_per_address": MANY}
        tls = cases[0].tls
        async with Gateways(net, Path(folder), tree=tree, limits=limits, tls=tls) as gateways:
            hosts = [0] if mode == CENTRAL else list(range(cases[0].hosts))
            await asyncio.gather(*(gateways.start(host) for host in hosts))
            await gateways.settled()
            await asyncio.sleep(2.0)  # round-trip times are known
            for number, case in enumerate(cases):
                found.append((case, await _Run(net, gateways, case, number).run()))
    return found


class _Run:
    def __init__(self, net: Network, gateways: Gateways, case: Case, number: int) -> None:
        self._net = net
        self._gateways = gateways
        self._case = case
        self._count = Count()
        self._prefix = f"delay/{number}"
        self._processes = [psutil.Process(gateways.pid(host)) for host in gateways.running]
        self._publishers = [self._publisher(number) for number in range(case.publishers)]
        self._subscribers = [self._subscriber(number) for number in range(case.subscribers)]

    def _where(self, host: int) -> tuple[Any, str]:
        """Return the namespace of a client at a host, and its broker's address."""
        broker = 0 if self._case.mode == CENTRAL else host
        return self._net.hosts[host], self._net.address(broker)

    def _publisher(self, number: int) -> Publisher:
        case = self._case
        topics = [t for t in range(case.topics) if t % case.publishers == number]
        topics = topics or [number % case.topics]
        wanted_at = topics[0] % case.groups % case.hosts
        is_local = number // case.groups % 4 < case.locality // 25
        away = 1 + number % max(1, case.hosts - 1)
        host = wanted_at if is_local else (wanted_at + away) % case.hosts
        name = f"publisher-{self._prefix}-{number}"
        streams = [self._count.stream(name, host, self._topic(topic), 1) for topic in topics]
        return Publisher(*self._where(host), name, streams, size=case.payload_bytes)

    def _subscriber(self, number: int) -> Subscriber:
        case = self._case
        wanted = number % case.groups
        topics = [self._topic(t) for t in range(case.topics) if t % case.groups == wanted]
        name = f"subscriber-{self._prefix}-{number}"
        where = self._where(wanted % case.hosts)
        return Subscriber(*where, name, self._count, Wanted(topics, qos=1), clean=True)

    def _topic(self, topic: int) -> str:
        return f"{self._prefix}/{topic}"

    async def run(self) -> Delays:
        clients = [*self._publishers, *self._subscribers]
        for client in clients:
            client.keep()
        try:
            await asyncio.gather(
                *(s.subscribed.wait() for s in self._subscribers),
                *(p.was_connected.wait() for p in self._publishers),
            )
            await self._warm_up()
            idle_bytes_s = await self._idle()
            return await self._measure(idle_bytes_s)
        finally:
            await asyncio.gather(*(client.stop() for client in clients))

    async def _warm_up(self) -> None:
        """Every topic once: routes and overlays are there before it counts."""
        await asyncio.sleep(1.0)  # subscriptions have reached the other gateways
        topics = self._case.topics
        for _ in range(math.ceil(topics / len(self._publishers))):
            for publisher in self._publishers[:topics]:
                publisher.publish()
            await asyncio.sleep(1.0)
        await self._settled()
        for streams in self._count.received.values():
            for received in streams.values():
                received.arrivals.clear()

    async def _idle(self) -> float:
        began, began_s = self._net.carried_bytes(), time.monotonic()
        await asyncio.sleep(1.0)
        return (self._net.carried_bytes() - began) / (time.monotonic() - began_s)

    async def _measure(self, idle_bytes_s: float) -> Delays:
        case, loop = self._case, asyncio.get_running_loop()
        began, began_s, cpu_s = self._net.carried_bytes(), time.monotonic(), self._cpu_s()
        before = sum(stream.sent for stream in self._count.streams)
        interval_s = 1 / case.rate_hz / case.publishers
        due = loop.time()
        for publisher in itertools.islice(
            itertools.cycle(self._publishers), round(case.seconds / interval_s)
        ):
            publisher.publish()
            due += interval_s
            await asyncio.sleep(max(0.0, due - loop.time()))
        cpu = (self._cpu_s() - cpu_s) / (time.monotonic() - began_s)
        await self._settled()
        took_s = time.monotonic() - began_s
        carried = self._net.carried_bytes() - began - idle_bytes_s * took_s
        sent = sum(stream.sent for stream in self._count.streams) - before
        arrivals = [
            (arrived, sent_s)
            for streams in self._count.received.values()
            for received in streams.values()
            for arrived, _, sent_s in received.arrivals
        ]
        return Delays(
            [(arrived - sent_s) * 1000 for arrived, sent_s in arrivals],
            len(arrivals) / (max(arrived for arrived, _ in arrivals) - began_s),
            max(0.0, carried) / sent,
            idle_bytes_s,
            self._lost(),
            self._count.total("doubled"),
            cpu,
            sum(process.memory_info().rss for process in self._processes) / (1 << 20),
        )

    async def _settled(self) -> None:
        end_s = time.monotonic() + SETTLE_S
        while time.monotonic() < end_s and (
            self._lost() or any(p.unsettled for p in self._publishers)
        ):
            await asyncio.sleep(0.02)

    def _lost(self) -> int:
        groups = self._case.groups
        wanted = {
            (s.client_id, stream.number): stream
            for number, s in enumerate(self._subscribers)
            for stream in self._count.streams
            if int(stream.topic.rpartition("/")[2]) % groups == number % groups
        }
        return sum(
            last - first + 1
            for (name, _), stream in wanted.items()
            for first, last in self._count.missing(name, stream)
        )

    def _cpu_s(self) -> float:
        times = (process.cpu_times() for process in self._processes)
        return sum(one.user + one.system for one in times)

"""Publishers and subscribers at the gateways of a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from benchmarks.mesh.client import Client, Publisher, Subscriber, Wanted
from benchmarks.mesh.count import Count
from benchmarks.mesh.network import Network
from benchmarks.mesh.silences import Listening
from tree_handler.intervals import Intervals

SETTLE_S = 60.0
"""All that was acknowledged has arrived by then, or is lost."""
CHECK_S = 0.05
PROBE_S = 0.2


class Traffic(Listening):
    """One publisher and one subscriber at each of a network's hosts; all get all.

    Args:
        network: of the hosts.
        rate_hz: of each publisher.
        qos: by host, of its publisher; one number for all.
        size: of a payload, in bytes.
        hosts: that have a publisher and a subscriber; by default all.

    """

    def __init__(
        self,
        network: Network,
        *,
        rate_hz: float,
        qos: int | list[int] = 1,
        size: int = 64,
        hosts: Iterable[int] | None = None,
    ) -> None:
        super().__init__(Count())
        self._network = network
        self._interval_s = 1 / rate_hz
        hosts = list(range(len(network.hosts)) if hosts is None else hosts)
        self.publishers: dict[int, Publisher] = {}
        self.subscribers: dict[int, Subscriber] = {}
        for host in hosts:
            name = f"publisher-{host}"
            level = qos if isinstance(qos, int) else qos[host]
            stream = self.streams[host] = self.count.stream(name, host, f"mesh/{host}/value", level)
            self.publishers[host] = Publisher(
                network.hosts[host], network.address(host), name, [stream], size=size
            )
            self.names[host] = f"subscriber-{host}"
            self.subscribers[host] = Subscriber(
                *(network.hosts[host], network.address(host), self.names[host]),
                *(self.count, Wanted(["mesh/#"])),
            )
        self._ticking: asyncio.Task[None] | None = None

    @property
    def clients(self) -> list[Client]:
        """All of them."""
        return [*self.publishers.values(), *self.subscribers.values()]

    async def subscribe(self) -> None:
        """Connect all, and wait until every subscription is granted."""
        for client in self.clients:
            client.keep()
        await asyncio.gather(
            *(s.subscribed.wait() for s in self.subscribers.values()),
            *(p.was_connected.wait() for p in self.publishers.values()),
        )

    async def known(self, others: Callable[[], bool] = lambda: True) -> None:
        """Wait until every gateway knows of every subscription; what that takes does not count.

        Args:
            others: says whether receivers that are not of this traffic have heard everybody too.

        """
        while not (self.heard_all() and others()):
            for publisher in self.publishers.values():
                publisher.publish()
            await asyncio.sleep(PROBE_S)
        while any(publisher.unsettled for publisher in self.publishers.values()):
            await asyncio.sleep(CHECK_S)
        for stream in self.streams.values():
            stream.acknowledged = Intervals()

    def begin(self) -> None:
        """Publish from now on."""
        self._ticking = asyncio.create_task(self._tick(), name="publish")

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        turns = len(self.publishers)
        while True:
            for publisher in self.publishers.values():  # not all in one moment
                publisher.publish()
                due += self._interval_s / turns
                await asyncio.sleep(max(0.0, due - loop.time()))

    def end(self) -> None:
        """Publish no more; raises what ended publishing before, if anything did."""
        ticking, self._ticking = self._ticking, None
        if ticking is not None and not ticking.cancel():
            ticking.result()

    async def settle(self, limit_s: float = SETTLE_S) -> bool:
        """Wait until all that was acknowledged has arrived everywhere; whether it has."""
        self.end()
        end_s = time.monotonic() + limit_s
        while not self.is_settled():
            if time.monotonic() > end_s:
                return False
            await asyncio.sleep(CHECK_S)
        await asyncio.sleep(0.5)  # what comes a second time comes later
        return True

    def is_settled(self) -> bool:
        """Return whether no exchange is open, and everyone has what was acknowledged."""
        return not any(p.unsettled for p in self.publishers.values()) and not self.lost()

    def lost(self) -> int:
        """Acknowledged messages that a subscriber lacks, over all subscribers."""
        return sum(self.count.lost(s.client_id) for s in self.subscribers.values())

    async def stop(self) -> None:
        """Let go of all clients."""
        self.end()
        await asyncio.gather(*(client.stop() for client in self.clients))

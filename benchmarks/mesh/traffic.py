"""Publishers and subscribers at the gateways of a network, and the silences that they notice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.mesh.client import Client, Publisher, Subscriber
from benchmarks.mesh.count import Count
from benchmarks.mesh.network import Network

SETTLE_S = 60.0
"""All that was acknowledged has arrived by then, or is lost."""
CHECK_S = 0.05


@dataclass(frozen=True, slots=True)
class Silence:
    """The longest time without an arrival, at one subscriber of one publisher.

    Attributes:
        began_s: after the event, in seconds; negative if before.

    """

    subscriber: int
    publisher: int
    seconds: float
    began_s: float


class Traffic:
    """One publisher and one subscriber at each of a network's hosts; all get all.

    Args:
        network: where they are.
        rate_hz: of each publisher.
        qos: by host, of its publisher; one number for all.
        size: of a payload, in bytes.
        publishers: hosts that have one; by default all.

    """

    def __init__(
        self,
        network: Network,
        *,
        rate_hz: float,
        qos: int | list[int] = 1,
        size: int = 64,
        publishers: Iterable[int] | None = None,
    ) -> None:
        self.count = Count()
        self._network = network
        self._interval_s = 1 / rate_hz
        hosts = range(len(network.hosts))
        self.publishers: dict[int, Publisher] = {}
        self.subscribers: dict[int, Subscriber] = {}
        for host in hosts if publishers is None else publishers:
            name = f"publisher-{host}"
            level = qos if isinstance(qos, int) else qos[host]
            stream = self.count.stream(name, host, f"mesh/{host}/value", level)
            self.publishers[host] = Publisher(
                network.hosts[host], network.address(host), name, [stream], size=size
            )
        for host in hosts:
            self.subscribers[host] = Subscriber(
                *(network.hosts[host], network.address(host), f"subscriber-{host}"),
                *(self.count, ["mesh/#"]),
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
        """Publish no more."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

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
        """Whether no exchange is open, and everyone has what was acknowledged."""
        return not any(p.unsettled for p in self.publishers.values()) and not self.lost()

    def lost(self) -> int:
        """Acknowledged messages that a subscriber lacks, over all subscribers."""
        return sum(self.count.lost(s.client_id) for s in self.subscribers.values())

    async def stop(self) -> None:
        """Let go of all clients."""
        self.end()
        await asyncio.gather(*(client.stop() for client in self.clients))

    # -- silences --------------------------------------------------------------------------------

    def forget_arrivals(self) -> None:
        """Keep no times of what has come so far, but the last of each stream."""
        for streams in self.count.received.values():
            for received in streams.values():
                del received.arrivals[:-1]

    def heard_all(self) -> bool:
        """Whether every subscriber has got something of every publisher."""
        received = self.count.received
        return all(
            len(received[subscriber.client_id]) == len(self.count.streams)
            for subscriber in self.subscribers.values()
        )

    def silences(
        self, event_s: float, until_s: float, *, without: Iterable[int] = ()
    ) -> list[Silence]:
        """The longest silence of each pair of publisher and subscriber after an event.

        It is measured between two arrivals, or to ``until_s`` where none came after.

        Args:
            event_s: when it happened, on the monotonic clock.
            until_s: how far to look.
            without: hosts that were down, which don't count.

        """
        skipped = set(without)
        return [
            self._longest(subscriber, publisher, event_s, until_s)
            for subscriber in self.subscribers
            for publisher in self.publishers
            if subscriber not in skipped and publisher not in skipped
        ]

    def _longest(self, subscriber: int, publisher: int, event_s: float, until_s: float) -> Silence:
        stream = self.publishers[publisher].streams[0].number
        received = self.count.received[self.subscribers[subscriber].client_id].get(stream)
        times = [a for a, _, _ in received.arrivals if a <= until_s] if received else []
        longest = Silence(subscriber, publisher, 0.0, 0.0)
        for before, after in _gaps(times, event_s, until_s):
            if after - before > longest.seconds:
                longest = Silence(subscriber, publisher, after - before, before - event_s)
        return longest


def _gaps(times: list[float], event_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    """Neighbouring arrivals of which the later is after the event."""
    before = event_s
    for at in times:
        if at > event_s:
            yield before, at
        before = at
    yield before, until_s


def worst(silences: list[Silence]) -> Silence:
    """The longest of all pairs."""
    return max(silences, key=lambda one: one.seconds)

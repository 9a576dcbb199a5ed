"""The base of all scripted lives of gateways: their clients, and what must hold in the end.

Clients do what the standard asks of them over reconnects and note what they were told, so that
`broken` says afterwards which promise does not hold.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import ClassVar

from faulty_clients import AliveClient, LastingClient
from faulty_gateway import FaultyGateway, World

from gateway.mqtt import PingReq

Step = Callable[[], Awaitable[None]]

LONG = "a/" + "x" * 700
"""A topic so long that what waits for an absent client soon stands in the log alone."""
RETAINED_TOPIC = "a/kept"
ROUNDS = 40
"""So often clients read and answer until all is quiet."""
PING_S = 4.0
LOOK_S = 1.0
"""A client that is not accepted yet looks so often for the gateway's answer."""
MENDED_S = 35.0
"""After a fault has passed, every pause before another try is over in this time."""
REPAIRED_S = 12.0
"""Within this time a neighbour has answered, and a first try has come to its end."""


class Life(ABC):
    """A life of gateways, and what their clients make of it.

    Args:
        world: around them.
        gateways: all of them.
        clients: theirs.
        alive: one more, which says that it is alive all the time.

    Attributes:
        dead: the name of a client that does not come back.

    """

    dead: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        world: World,
        gateways: tuple[FaultyGateway, ...],
        clients: tuple[LastingClient, ...],
        alive: AliveClient,
    ) -> None:
        self.world = world
        self.calls = world.calls
        self.gateways = gateways
        self.clients = clients
        self.alive = alive
        self.absent_now: set[str] = set()
        self.qos: dict[bytes, int] = {}
        self.due: dict[bytes, set[str]] = {}
        self.kept: list[bytes] = []
        """The payloads that were retained on one topic, in order."""

    @abstractmethod
    def script(self) -> Iterator[Step]:
        """Yield the steps of a life, in their order."""

    @property
    @abstractmethod
    def subscribers(self) -> tuple[LastingClient, ...]:
        """Those who are to get all that is published."""

    @property
    @abstractmethod
    def publishers(self) -> tuple[LastingClient, ...]:
        """Those who publish."""

    # -- from start to end -----------------------------------------------------------------------

    async def run(self) -> None:
        """Live the whole script, then see on a disk that works again what is left."""
        self._say_alive()
        for step in self.script():
            await step()
        self.calls.mend()
        self.world.loop.hear()
        await self._serve_again()
        for gateway in self.gateways:
            await self.restart(gateway)
        self.absent_now = set(self.dead)
        await self.settle(400)
        await asyncio.sleep(REPAIRED_S)
        await self.settle(400)
        if not self.alive.is_accepted:
            self.alive.faults.append("it is not served")

    async def _serve_again(self) -> None:
        """A disk that works again is used again, without a restart."""
        for gateway in self.gateways:
            if not gateway.is_up:
                await gateway.start_until_up()
        self.absent_now = set(self.dead)
        await asyncio.sleep(MENDED_S)
        await self.settle(400)
        await asyncio.sleep(REPAIRED_S)
        await self.settle(400)
        last = [(one, self.publish(one, "a/1", 1)) for one in self.publishers]
        await self.settle(400)
        for one, payload in last:
            assert payload in one.acknowledged, (payload, one)
        for gateway in self.gateways:
            await gateway.checkpoint()

    async def end(self) -> None:
        """Leave nothing of it behind in this process."""
        for gateway in self.gateways:
            self.kill(gateway)
        await asyncio.sleep(0)

    def kill(self, gateway: FaultyGateway) -> None:
        """End a process, and with it all its connections."""
        gateway.kill()
        for client in (*self.clients, self.alive):
            if client.port == gateway.port:
                client.cut()

    async def restart(self, gateway: FaultyGateway) -> None:
        """Kill a gateway, and start it."""
        self.kill(gateway)
        await gateway.start_until_up()
        await self.settle()

    async def checkpoint(self) -> None:
        """Make checkpoints."""
        for gateway in self.gateways:
            with contextlib.suppress(OSError):
                await gateway.checkpoint()
        await asyncio.sleep(1)

    # -- its clients -----------------------------------------------------------------------------

    async def settle(self, rounds: int = ROUNDS) -> None:
        """Have all clients read, answer and come back until nothing is left to do."""
        quiet = 0
        for _ in range(rounds):
            is_busy = False
            for client in self.clients:
                if client.name in self.absent_now or not self._is_served(client):
                    continue
                if client.connection is None:
                    client.open(self.world.network)
                    is_busy = True
                is_busy |= client.read() or client.connection is None
                for topic_filter, qos in (("a/#", 2), ("a/+", 1)):
                    self._subscribe(client, topic_filter, qos)
            await asyncio.sleep(0.05)
            quiet = 0 if is_busy else quiet + 1
            if quiet == 2:
                return

    def _is_served(self, client: LastingClient) -> bool:
        return any(one.is_up for one in self.gateways if one.port == client.port)

    def _subscribe(self, client: LastingClient, topic_filter: str, qos: int) -> None:
        if client not in self.subscribers or not client.is_accepted or client.asked:
            return
        if topic_filter not in client.subscribed:
            client.subscribe(topic_filter, qos)

    def publish(
        self,
        publisher: LastingClient,
        topic: str,
        qos: int,
        *,
        retain: bool = False,
        begins: bytes = b"",
    ) -> bytes:
        """Publish from one client, and note who is certain to be due it; return what."""
        if not publisher.is_accepted or len(publisher.sent) > 20:
            return b""
        due = {c.name for c in self.subscribers if c.subscribed}
        named = begins + f"{publisher.name}:{publisher.number + 1}".encode()
        payload = publisher.publish(topic, qos, retain=retain, payload=named)
        self.qos[payload], self.due[payload] = qos, due
        if retain:
            self.kept.append(payload)
        return payload

    def _say_alive(self) -> None:
        """Have a client say that it is alive, for as long as this life lasts."""
        is_opening = self.alive.connection is not None and not self.alive.is_accepted
        self.world.loop.call_later(LOOK_S if is_opening else PING_S, self._say_alive)
        if self.alive.connection is None and self._is_served(self.alive):
            self.alive.open(self.world.network)
        elif self.alive.is_accepted:
            self.alive.send(PingReq())
        self.alive.read()

    # -- what must hold --------------------------------------------------------------------------

    def broken(self) -> Iterator[str]:
        """Yield each promise that does not hold."""
        for client in (*self.clients, self.alive):
            yield from (f"{client.name}: {fault}" for fault in client.faults)
            if client.unreleased:
                yield f"{client.name}: exchanges hang"
        for error in self.world.loop.unforeseen:
            yield f"nobody dealt with {error!r}"
        if held_up_s := self.world.threads.held_up_s:
            yield f"the event loop waited {held_up_s} s for a thread"
        for gateway in self.gateways:
            if gateway.told_lost:
                yield f"{gateway.told_lost} messages are said to be trimmed, and none was"
        for publisher in self.publishers:
            if publisher.sent:
                yield f"{publisher.name} waits for {len(publisher.sent)} answers"
        for client in self.subscribers:
            yield from self._lost(client)
        yield from self._retained()

    def _lost(self, client: LastingClient) -> Iterator[str]:
        got = Counter(p.payload for p in client.got if not p.retain)
        for publisher in self.publishers:
            for payload in publisher.acknowledged:
                if client.name in self.due[payload] and payload not in got:
                    yield f"{client.name} never got {payload!r}"

    def twice(self, client: LastingClient, but: Collection[bytes] = ()) -> Iterator[str]:
        """Yield what came to a client twice that was not to, but for some."""
        for payload, count in Counter(p.payload for p in client.got if not p.retain).items():
            if self.qos.get(payload) == 2 and count > 1 and payload not in but:
                yield f"{client.name} got {payload!r} {count} times"

    def _retained(self) -> Iterator[str]:
        acknowledged = [
            payload
            for payload in self.kept
            for one in self.publishers
            if payload in one.acknowledged
        ]
        if not acknowledged:
            return
        for gateway in self.gateways:
            kept = gateway.core.retention.get(RETAINED_TOPIC)
            if kept is None:
                yield f"{gateway.name}: nothing is retained"
            elif self.kept.index(kept.payload) < self.kept.index(acknowledged[-1]):
                yield f"{gateway.name}: {kept.payload!r} is retained, not {acknowledged[-1]!r}"

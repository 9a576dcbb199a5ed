"""The scripted life of two gateways that are linked: what one accepts, the other's clients get."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

from faulty_clients import AliveClient, LastingClient
from faulty_gateway import FaultyGateway, World
from faulty_life import LONG, RETAINED_TOPIC, Life, Step

from gateway.mqtt import Version

PORTS = 1883, 1884
LINKED_S = 4.0
"""Without a fault a link is there within this time, and what it lacked is asked for."""


class LifeOfTwo(Life):
    """A life of two gateways, of which each dies while the other accepts messages.

    Args:
        folder: that of their state folders.
        world: around them.

    """

    def __init__(self, folder: Path, world: World) -> None:
        rng = random.Random(0)
        first, second = PORTS
        self.north = FaultyGateway("gw-north", folder / "north", world, first)
        self.south = FaultyGateway("gw-south", folder / "south", world, second, first)
        self.here = LastingClient("pub-north", Version.V5, rng)
        self.there = LastingClient("pub-south", Version.V311, rng, port=second)
        self.reader = LastingClient("near-south", Version.V311, rng, port=second)
        self.absent = LastingClient("away-south", Version.V5, rng, port=second)
        self.other = LastingClient("near-north", Version.V5, rng)
        clients = (self.here, self.there, self.reader, self.absent, self.other)
        alive = AliveClient("alive", Version.V5, rng, port=second)
        super().__init__(world, (self.north, self.south), clients, alive)

    @property
    def subscribers(self) -> tuple[LastingClient, ...]:
        """Those who are to get all that is published."""
        return self.reader, self.absent, self.other

    @property
    def publishers(self) -> tuple[LastingClient, ...]:
        """Those who publish."""
        return self.here, self.there

    def script(self) -> Iterator[Step]:
        """Yield the steps of a life, in their order."""
        yield self.north.start_until_up
        yield self.south.start_until_up
        yield self._link
        yield self._publish_on_both
        yield self._go_away
        yield self._south_dies
        yield self._publish_many
        yield self._south_comes
        yield self._publish_on_both
        yield self.checkpoint
        yield self._north_dies
        yield self._publish_on_both
        yield self._north_comes
        yield self._publish_many
        yield self._come_back

    async def _link(self) -> None:
        await self.settle()
        await asyncio.sleep(LINKED_S)
        await self.settle()

    async def _publish_on_both(self) -> None:
        for qos in (0, 1, 2):
            for publisher in self.publishers:
                self.publish(publisher, "a/1", qos)
        self.publish(self.here, RETAINED_TOPIC, 1, retain=True)
        await self.settle()

    async def _publish_many(self) -> None:
        for at in range(12):
            self.publish(self.here, LONG, 1 + at % 2)
            if at % 4 == 3:
                await self.settle()

    async def _go_away(self) -> None:
        self.absent_now.add(self.absent.name)
        self.absent.cut()

    async def _come_back(self) -> None:
        self.absent_now.clear()
        await self._link()

    async def _south_dies(self) -> None:
        self.kill(self.south)

    async def _south_comes(self) -> None:
        await self.south.start_until_up()
        await self._link()

    async def _north_dies(self) -> None:
        self.kill(self.north)

    async def _north_comes(self) -> None:
        await self.north.start_until_up()
        await self._link()

    def broken(self) -> Iterator[str]:
        """Yield each promise that does not hold."""
        yield from super().broken()
        may_differ = self.world.cuts_power or self.south.failed_syncs or self.north.failed_syncs
        # What had left before a sync was done, and its publisher sent again (docs/durability.md).
        again = {payload for one in self.publishers for payload in one.sent_again}
        for client in (self.reader, self.other):
            yield from self.twice(client, again if may_differ else ())

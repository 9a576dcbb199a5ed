"""One gateway's scripted life: its log, its checkpoints and its clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from faulty_clients import AliveClient, LastingClient
from faulty_gateway import FaultyGateway, World
from faulty_life import LONG, RETAINED_TOPIC, Life, Step

from gateway.mqtt import Version, Will
from tree_handler.batch_walk import START

PORT = 1883
WILL_TOPIC = "a/will"


class LifeAlone(Life):
    """A life of a gateway without a neighbour.

    Args:
        folder: its state folder.
        world: around it.

    """

    dead: ClassVar[frozenset[str]] = frozenset({"mortal"})

    def __init__(self, folder: Path, world: World) -> None:
        rng = random.Random(0)
        self.gateway = FaultyGateway("gw", folder, world, PORT)
        self.publisher = LastingClient("pub", Version.V5, rng)
        self.reader = LastingClient("near", Version.V311, rng)
        self.absent = LastingClient("away", Version.V5, rng)
        self.mortal = LastingClient("mortal", Version.V311, rng)
        self.mortal.will = Will(WILL_TOPIC, b"gone", 1, False, {})
        self.will_was_due: set[str] = set()
        clients = (self.publisher, self.reader, self.absent, self.mortal)
        super().__init__(world, (self.gateway,), clients, AliveClient("alive", Version.V5, rng))

    @property
    def subscribers(self) -> tuple[LastingClient, ...]:
        """Those who are to get all that is published."""
        return self.reader, self.absent

    @property
    def publishers(self) -> tuple[LastingClient, ...]:
        """Those who publish."""
        return (self.publisher,)

    def script(self) -> Iterator[Step]:
        """Yield the steps of a life, in their order."""
        yield self.gateway.start_until_up
        yield self.settle
        yield self._publish_some
        yield self._go_away
        for _ in range(3):
            yield self._publish_many
        yield self.checkpoint
        yield self._publish_many
        yield self._die
        yield self._come_back
        yield self._restart
        yield self._publish_some
        yield self.checkpoint
        yield self._go_away
        yield self._publish_many
        yield self._restart
        yield self._come_back

    async def _restart(self) -> None:
        await self.restart(self.gateway)

    async def _publish_some(self) -> None:
        for qos in (0, 1, 2):
            # What could be taken for a batch is noted before it is logged.
            self.publish(self.publisher, "a/1", qos, begins=START if qos else b"")
        self.publish(self.publisher, RETAINED_TOPIC, 1, retain=True)
        await self.settle()

    async def _publish_many(self) -> None:
        for at in range(12):
            self.publish(self.publisher, LONG, 1 + at % 2)
            if at % 4 == 3:
                await self.settle()

    async def _go_away(self) -> None:
        self.absent_now.add("away")
        self.absent.cut()

    async def _come_back(self) -> None:
        self.absent_now.clear()
        await self.settle()

    async def _die(self) -> None:
        if self.mortal.is_accepted and self.mortal.name not in self.absent_now:
            self.will_was_due = {c.name for c in self.subscribers if c.subscribed}
        self.absent_now.add("mortal")
        self.mortal.cut()
        await self.settle()

    def broken(self) -> Iterator[str]:
        """Yield each promise that does not hold."""
        yield from super().broken()
        yield from self.twice(self.reader)
        for client in self.subscribers:
            got = {p.payload for p in client.got}
            if client.name in self.will_was_due and b"gone" not in got:
                yield f"{client.name} never got the will"

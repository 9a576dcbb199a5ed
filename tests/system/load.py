"""A load of QoS 1 messages that are counted."""

from __future__ import annotations

import asyncio
from collections import Counter

from chain import CONVERGE_S
from mqtt_peer import Peer

from gateway.mqtt import PubAck, Publish


class Load:
    """One publishes at QoS 1 without a pause, another counts what comes."""

    def __init__(self, source: Peer, sink: Peer) -> None:
        self._source = source
        self._sink = sink
        self._is_over = False
        self.acknowledged = 0
        self.got: Counter[bytes] = Counter()

    async def begin(self) -> None:
        assert await self._sink.subscribe("load") == 1
        self._tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._count())]

    async def _publish(self) -> None:
        while not self._is_over:
            assert await self._source.publish("load", b"%d" % self.acknowledged) == 0
            self.acknowledged += 1

    async def _count(self) -> None:
        while True:
            packet = await self._sink.next()
            assert isinstance(packet, Publish), packet
            self._sink.send(PubAck(packet.packet_id))
            self.got[packet.payload] += 1

    async def passed(self, more: int = 50) -> None:
        """Wait until so many more have come."""
        until = len(self.got) + more
        async with asyncio.timeout(CONVERGE_S):
            while len(self.got) < until:
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        self._is_over = True
        publishing, counting = self._tasks
        async with asyncio.timeout(CONVERGE_S):
            await publishing
            while len(self.got) < self.acknowledged:
                await asyncio.sleep(0.01)
        counting.cancel()

"""A broker's world whose time passes as a test says, over kills, and clients of 5.0 in it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import Wire, World

from gateway.broker.inbound.connection import Connection
from gateway.mqtt import (
    ConnAck,
    Connect,
    PropertyId,
    Publish,
    Version,
    Will,
    decode,
    encode,
    packet_end,
)


class Days(World):
    """A world whose time passes as the test says, by all clocks alike."""

    def pass_s(self, passed_s: float) -> None:
        self.clocks.pass_s(passed_s)
        self.core.sweep()

    async def kill(
        self,
        *,
        down_s: float = 0.0,
        power: Callable[[], None] | None = None,
        sweeps: bool = True,
    ) -> None:
        """The process dies; it starts again so much later, perhaps behind a power cut.

        Args:
            down_s: for how long it was down.
            power: what happened to the machine meanwhile.
            sweeps: whether it has looked at what is due before anybody comes.

        """
        await turn()
        kept = self.core.checkpoints
        assert kept is not None
        await kept.settle()  # SQLite does not like its file to be closed meanwhile
        if self.takes_checkpoints:
            await self.checkpoint()
        self.log.is_dead = True
        self.clocks.pass_s(down_s)
        if power is not None:
            power()
        self.failing_store.close()
        self.disk = self.log.survives()
        self.start()
        self.log.crash_in = 1 << 60
        if sweeps:
            self.core.sweep()
        await turn()

    def left_s(self, client_id: str) -> float:
        """Return how many seconds a session that waits for its client has to live."""
        ends_at_s = self.core.sessions.get(client_id).ends_at_s
        assert ends_at_s is not None
        return round(ends_at_s - self.core.now(), 3)

    def messages_left_s(self, client_id: str) -> list[float]:
        """Return how many seconds each message that waits for a client has to live."""
        outgoing = self.core.sessions.get(client_id).outgoing
        open_ones = (*outgoing.inflight.values(), *outgoing.backlog.in_memory())
        waiting = [one[0] for one in open_ones if one is not None]
        ends_s = [one.expires_at_s for one in waiting if one.expires_at_s is not None]
        return [round(end_s - self.core.now(), 3) for end_s in ends_s]


class Device:
    """A client of 5.0."""

    def __init__(
        self,
        world: World,
        name: str = "dev",
        *,
        expiry_s: int = 3600,
        will: Will | None = None,
        clean_start: bool = False,
        username: str | None = None,
        properties: dict[int, Any] | None = None,
    ) -> None:
        self.wire = Wire()
        self.connection = Connection(world.core.service)
        self.connection.connection_made(self.wire)
        told = {PropertyId.SESSION_EXPIRY_INTERVAL: expiry_s} | (properties or {})
        connect = Connect(Version.V5, name, clean_start=clean_start, will=will, properties=told)
        connect.username = username
        self.send(connect)

    def send(self, packet: Any) -> None:
        self.connection.data_received(encode(packet, Version.V5))

    def goes(self) -> None:
        """Its network fails."""
        self.connection.connection_lost(None)

    def publish(self, topic: str, *, expiry_s: int) -> None:
        expires: dict[int, Any] = {PropertyId.MESSAGE_EXPIRY_INTERVAL: expiry_s}
        self.send(Publish(topic, b"x", 1, False, packet_id=1, properties=expires))

    def is_resumed(self) -> bool:
        """Return whether its CONNACK said that there was a session."""
        data = bytes(self.wire.data)
        span = packet_end(data, 0, 1 << 24)
        assert span is not None
        packet = decode(data[0], data[span[0] : span[1]], Version.V5)
        assert isinstance(packet, ConnAck)
        return packet.session_present

    def got(self) -> list[Publish]:
        found = []
        data = bytes(self.wire.data)
        self.wire.data.clear()
        while (span := packet_end(data, 0, 1 << 24)) is not None:
            packet = decode(data[0], data[span[0] : span[1]], Version.V5)
            data = data[span[1] :]
            if isinstance(packet, Publish):
                found.append(packet)
        return found


async def turn() -> None:
    for _ in range(6):
        await asyncio.sleep(0)

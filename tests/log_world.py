"""A broker whose log a test holds in its hand, and clients whose reads are what the test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from memory_transport import MemoryTransport
from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.persistence import Persistence
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from gateway.log.commit_callback import Committed
from gateway.mqtt import (
    Connect,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    decode,
    encode,
    packet_end,
)
from tree_handler.batch import Row


class Wire(MemoryTransport):
    """Knows whether it is read from."""

    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class LogWorld:
    """A broker, its log, and clients. Time stands still, so that no turn is ever too long.

    Args:
        around: what `hooks` takes besides, as who may do what.
        durability: what is kept; nothing if not given.
        limits: of clients.

    Attributes:
        now_s: the time.
        holds: whether commits wait for `settle`.
        refusal: what commits that do not wait are told.

    """

    def __init__(
        self,
        around: Mapping[str, Any] | None = None,
        durability: Persistence | None = None,
        **limits: Any,
    ) -> None:
        self.now_s = 0.0
        made = hooks(commit=self._commit, **around or {})
        self.core = DataPlane(made, Limits(**limits), durability, now=lambda: self.now_s)
        self.handed_in: deque[tuple[Sequence[Row], Committed | None]] = deque()
        self.logged: list[Row] = []
        self.clients: list[tuple[Connection, Wire]] = []
        self.holds = False
        self.refusal: OSError | None = None

    def _commit(self, logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        self.handed_in.append((logged, done))
        if not self.holds:
            self.settle(self.refusal)

    def settle(self, error: OSError | None = None) -> None:
        """The log has taken, or refuses, the first batch that it was handed."""
        rows, done = self.handed_in.popleft()
        first = len(self.logged) + 1
        if error is None:
            self.logged += rows
        if done is not None:
            done(0 if error else first, error)

    def opened(self) -> int:
        """A connection that has said nothing."""
        connection, wire = Connection(self.core.service), Wire()
        connection.connection_made(wire)
        self.clients.append((connection, wire))
        return len(self.clients) - 1

    async def client(self, version: int, *subscriptions: tuple[str, int]) -> int:
        number = self.opened()
        connection, wire = self.clients[number]
        name = f"client-{number}"
        connect = Connect(Version(version), name, True, 60, None, None, None, {}, False)
        connection.data_received(encode(connect, version))
        for packet_id, (topic, qos) in enumerate(subscriptions, 1):
            subscribe = Subscribe(packet_id, [SubscriptionRequest(topic, qos)], {})
            connection.data_received(encode(subscribe, version))
        await self.turn()
        wire.written.clear()
        return number

    def send(self, number: int, packets: bytes) -> None:
        self.clients[number][0].data_received(packets)

    def is_closing(self, number: int) -> bool:
        return self.clients[number][0].peer.channel.is_closing

    def is_read(self, number: int) -> bool:
        return self.clients[number][1].is_read

    async def turn(self) -> None:
        """Let all that is due be done, but for what waits for the log."""
        for _ in range(4):
            await asyncio.sleep(0)
        while self.core.commit_queue.waiting_bytes and not self.handed_in:
            await asyncio.sleep(0)

    def written(self, number: int) -> list[Any]:
        """The packets that a client got."""
        connection, wire = self.clients[number]
        data, at, found = bytes(wire.written), 0, list[Any]()
        while at < len(data):
            bounds = packet_end(data, at, 1 << 24)
            assert bounds is not None
            body, end = bounds
            found.append(decode(data[at], data[body:end], connection.peer.channel.version))
            at = end
        return found


def publish(
    version: int,
    topic: str,
    qos: int,
    packet_id: int,
    payload: bytes = b"x",
    *,
    retain: bool = False,
) -> bytes:
    return encode(Publish(topic, payload, qos, retain, False, packet_id or None, {}), version)

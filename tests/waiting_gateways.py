"""Gateways on loopback whose clocks a test moves: broker, log and links as in a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from memory_transport import MemoryTransport
from surroundings import Authenticator, Links, no_links
from tree_host import KEY, Listener, until

from gateway.base.lasting_clock import LastingClock
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.opening import open_store
from gateway.broker.hooks import Hooks
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from gateway.log.message_log import MessageLog
from gateway.mqtt import (
    Connect,
    PropertyId,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    decode,
    encode,
    packet_end,
)
from gateway.node.links.clock_part import ClockFile, ClockPart
from gateway.node.links.handshake import Credentials
from gateway.node.links.node import TreeNode
from gateway.node.links.overlay_part import OverlayPart
from gateway.node.links.retained_part import RetainedPart
from gateway.node.links.routed_part import RoutedPart
from gateway.node.links.send_times import SendTimes
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.tcp import TcpAddress
from gateway.node.links.wire import Additions
from gateway.process.state_folder.history import LogHistory
from tree_handler.batch import Entry, Header, Row
from tree_handler.origin_clocks import OriginClocks
from tree_handler.overlays.overlays import Settings
from tree_handler.retained.hybrid_clock import EARLIEST_US
from tree_handler.spanning.spanning_tree import Identity, Parameters

EXPIRY = PropertyId.MESSAGE_EXPIRY_INTERVAL


class SetClocks:
    """The clocks of a machine, a `Clocks`: they stand until time passes."""

    def __init__(self, boot: int, wall_us: int) -> None:
        self.boot = boot
        self.since_boot_us = 0
        self.wall = wall_us

    def boot_us(self) -> int:
        return self.since_boot_us

    def wall_us(self) -> int:
        return self.wall

    def wall_ahead_s(self) -> float:
        return (self.wall - self.since_boot_us) / 1e6

    def is_synchronised(self) -> bool:
        return False

    def pass_s(self, seconds: float) -> None:
        self.since_boot_us += int(seconds * 1e6)
        self.wall += int(seconds * 1e6)

    def power_cut(self) -> None:
        """The machine is off for a while, of which its clocks know nothing."""
        self.boot += 1
        self.since_boot_us = 0


class Client:
    """A client of 5.0 in memory."""

    def __init__(self, core: DataPlane, name: str, *, stays: bool = False) -> None:
        self._wire = MemoryTransport()
        self._connection = Connection(core.service)
        self._connection.connection_made(self._wire)
        self._packet_id = 0
        lasting = {PropertyId.SESSION_EXPIRY_INTERVAL: 86_400} if stays else {}
        self._send(Connect(Version.V5, name, clean_start=not stays, properties=dict(lasting)))

    def _send(self, packet: Any) -> None:
        self._connection.data_received(encode(packet, Version.V5))

    def subscribe(self, topic_filter: str, qos: int = 2) -> None:
        self._packet_id += 1
        self._send(Subscribe(self._packet_id, [SubscriptionRequest(topic_filter, qos)], {}))

    def publish(
        self, topic: str, payload: bytes, qos: int, expiry_s: int, *, retain: bool = False
    ) -> None:
        self._packet_id += 1
        properties: dict[int, Any] = {EXPIRY: expiry_s}
        packet_id = self._packet_id if qos else None
        self._send(Publish(topic, payload, qos, retain, False, packet_id, properties))

    def goes(self) -> None:
        """Its network fails."""
        self._connection.connection_lost(None)

    def got(self) -> dict[bytes, int]:
        """The payloads that have come, with how many seconds each had left."""
        data, at, found = bytes(self._wire.written), 0, dict[bytes, int]()
        while (span := packet_end(data, at, 1 << 24)) is not None:
            packet = decode(data[at], data[span[0] : span[1]], Version.V5)
            at = span[1]
            if isinstance(packet, Publish):
                found[packet.payload] = packet.properties.get(EXPIRY, -1)
        return found


class Gateway:
    """One gateway, from life to life.

    Args:
        name: its id.
        capability: the higher, the nearer to the root.
        folder: where its log and its files are.
        mode: `tree.mode`.
        additions: what its release understands on links.

    """

    def __init__(
        self,
        name: str,
        capability: float,
        folder: Path,
        mode: str = "flood",
        additions: int = Additions.CLOCKS,
    ) -> None:
        self.name = name
        self.clocks = SetClocks(1, EARLIEST_US + 10**12 * len(name))
        self.epoch = 0
        self.limits = Limits()
        """Of the next life."""
        self.heard: list[bytes] = []
        """Payloads that an actuator of its own was given."""
        self._passed_s = 0.0
        self._capability = capability
        self._folder = folder
        self._mode = mode
        self._additions = additions
        self._links: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.epoch += 1
        own = self.name, self.epoch
        self._log = MessageLog(self._folder / self.name / "log")
        self._log.open()
        settings = NodeSettings(
            Credentials(self.name, "test", KEY, mode=self._mode, additions=self._additions),
            Identity(*own, self._capability, "127.0.0.1"),
            Parameters(hello_s=0.5),
            repair_interval_s=0.2,
            floods_clients=self._mode == "flood",
        )
        self.node = TreeNode(settings, self._log, NodeReceiver(self._control, self._deliver))
        self.routed = self._route()
        clock, origins = LastingClock(self.clocks, self.epoch), OriginClocks(own)
        file = ClockFile(self._folder / self.name, self.name)
        origins.load(file.take())
        history = LogHistory(self.node, own)
        durable = DurablePersistence(history, clock, self.now, origins)
        around = Hooks(
            Authenticator(lambda client, password: True),
            self.node.origin,
            Links(no_links),
            interest=self.routed,
        )
        self.core = DataPlane(around, self.limits, durable, now=self.now)
        self._store, saved = open_store(
            self._folder / self.name / "broker.db", retained_bytes=self.limits.retained_bytes
        )
        self.core.recover(durable, history, self._store, saved)
        self.sent_at = SendTimes(self.node.links, origins, clock.now_us)
        retained = RetainedPart(self.node, self.core.shared_retention, 0.2)
        self.node.add_part(retained)
        if self._additions & Additions.CLOCKS:
            if not clock.goes_on:
                origins.forget()
            self.part = ClockPart(self.node, origins, clock.now_us, file)
            self.node.add_part(self.part)
            retained.count_by(self.sent_at)
        if self.routed is not None:
            wanted = [one for each in self.core.sessions.values() for one in each.subscriptions]
            self.routed.begin(wanted)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Listener(self.node), "127.0.0.1", 0)

    def now(self) -> float:
        return 1000.0 + self._passed_s

    def _route(self) -> RoutedPart | None:
        if self._mode == "flood":
            return None
        overlays = None
        if self._mode == "topic":
            overlays = OverlayPart(self.node, Settings(), asyncio.get_running_loop().time())
            self.node.add_part(overlays)
        part = RoutedPart(self.node, self._folder / self.name, overlays=overlays)
        self.node.add_part(part)
        return part

    def _control(self, entry: Entry, header: Header) -> None:
        if self.routed is not None:
            self.routed.control(entry, header)

    def _deliver(self, rows: list[Row], header: Header) -> None:
        last = header.last if header.logged else 0
        self.core.remote_delivery.publish_batch(rows, header.stream, last)
        self.heard += [row[2] for row in self.core.remote_delivery.in_time(rows, header.stream)]

    @property
    def address(self) -> TcpAddress:
        return TcpAddress("127.0.0.1", self._server.sockets[0].getsockname()[1])

    def client(self, name: str, *, stays: bool = False) -> Client:
        return Client(self.core, name, stays=stays)

    def pass_s(self, seconds: float) -> None:
        self.clocks.pass_s(seconds)
        self._passed_s += seconds

    async def link(self, other: Gateway) -> None:
        self._links.append(asyncio.create_task(self.node.dial(other.address, lambda _: None)))
        await until(lambda: all(self._forwards(*two) for two in ((self, other), (other, self))))
        for one in (self, other):
            one.core.sweep()  # which asks at the turn's end what the tree carries
        await asyncio.sleep(0)

    @staticmethod
    def _forwards(one: Gateway, other: Gateway) -> bool:
        return one.node.locator.way_to(other.name) is not None

    async def cut(self, other: Gateway) -> None:
        self.node.drop(other.name, "cut")
        other.node.drop(self.name, "cut")
        await until(lambda: not any(self._forwards(*two) for two in ((self, other), (other, self))))

    async def stop(self) -> None:
        self._server.close()
        self.core.stop()
        await self.core.keep()
        if self.routed is not None:
            await self.routed.stop()
        if self._additions & Additions.CLOCKS:
            self.part.save()
        await self._let_go()

    async def kill(self) -> None:
        """The process dies: no checkpoint is made any more."""
        self._server.close()
        self._store.close()
        await self._let_go()

    async def _let_go(self) -> None:
        await self.node.stop()
        await asyncio.gather(*self._links, return_exceptions=True)
        self._links.clear()
        self._log.close()


Make = Callable[..., Any]


@asynccontextmanager
async def gateways(folder: Path) -> AsyncIterator[Make]:
    """Gives a function that starts a gateway; all stop in the end."""
    made: list[Gateway] = []

    async def make(name: str, capability: float, **rest: Any) -> Gateway:
        one = Gateway(name, capability, folder, **rest)
        await one.start()
        made.append(one)
        return one

    try:
        yield make
    finally:
        for one in made:
            await one.stop()


def pass_s(seconds: float, *which: Gateway) -> None:
    """Time passes on all of these."""
    for one in which:
        one.pass_s(seconds)

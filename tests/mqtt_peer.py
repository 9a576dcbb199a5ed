"""A client that says exactly what a test says, and a broker for it that keeps what it is given."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from surroundings import Links, Tree

from gateway.broker.access.guard import Access
from gateway.broker.broker import BrokerSettings, GatewayBroker, open_broker
from gateway.broker.hooks import Committed, Events
from gateway.broker.listeners.listener import Listener
from gateway.mqtt import (
    ConnAck,
    Connect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
    decode,
    encode,
    packet_end,
)
from tree_handler.batch import Entry, Row
from tree_handler.sharing.rule import EachGateway, SharedGroups

LIMIT_S = 60
PLAIN = Listener("mqtt", ("127.0.0.1",), 0)


class EchoOnce(asyncio.Protocol):
    """Takes a neighbour's connection over, and answers what comes next with it and an end."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_protocol(self)
        transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"link:" + data)
        self._transport.close()


class Peer:
    """One connection over TCP or TLS."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.version = version
        self._data = b""
        self.told: dict[int, Any] = {}
        """Properties of the CONNACK."""

    def send(self, *packets: Packet) -> None:
        self.writer.write(b"".join(encode(packet, self.version) for packet in packets))

    async def next(self) -> Any:
        """The next packet, or None at the end of the stream."""
        packet = await self.next_bytes()
        if packet is None:
            return None
        found = packet_end(packet, 0, 1 << 24)
        assert found is not None
        return decode(packet[0], packet[found[0] :], self.version)

    async def next_bytes(self) -> bytes | None:
        """The next packet as it came, or None at the end of the stream."""
        async with asyncio.timeout(LIMIT_S):
            while (found := packet_end(self._data, 0, 1 << 24)) is None:
                try:
                    more = await self.reader.read(1 << 16)
                except (ConnectionError, ssl.SSLError):
                    more = b""
                if not more:
                    return None
                self._data += more
        packet, self._data = self._data[: found[1]], self._data[found[1] :]
        return packet

    def greet(self, client_id: str, *behind: Packet, **fields: Any) -> None:
        """CONNECT, and more right behind it."""
        given: dict[str, Any] = {
            "clean_start": True,
            "keep_alive_s": 0,
            "username": None,
            "password": None,
            "will": None,
            "properties": {},
            "bridge": False,
        }
        self.send(Connect(Version(self.version), client_id, **given | fields), *behind)

    async def connect(self, client_id: str, *behind: Packet, **fields: Any) -> int:
        """CONNECT, and more right behind it; the CONNACK's reason, or -1 if there was none."""
        self.greet(client_id, *behind, **fields)
        answer = await self.next()
        assert answer is None or isinstance(answer, ConnAck), answer
        if answer is None:
            return -1
        self.told = answer.properties
        return int(answer.reason)

    async def subscribe(self, topic_filter: str, qos: int = 1) -> int:
        self.send(Subscribe(1, [SubscriptionRequest(topic_filter, qos)], {}))
        answer = await self.next()
        assert isinstance(answer, SubAck), answer
        return int(answer.reasons[0])

    async def publish(self, topic: str, payload: bytes = b"x", *, retain: bool = False) -> int:
        """At QoS 1; the PUBACK's reason."""
        self.send(Publish(topic, payload, 1, retain, False, 7, {}))
        answer = await self.next()
        assert isinstance(answer, PubAck), answer
        return int(answer.reason)

    async def nothing_came(self) -> None:
        """Fail if anything was sent before the answer to a ping."""
        self.send(PingReq())
        answer = await self.next()
        assert isinstance(answer, PingResp), answer

    def close(self) -> None:
        self.writer.close()


class Bench:
    """A broker whose messages go into a list, and its clients.

    Args:
        listeners: besides the plain one.
        options: of `BrokerSettings` and `Access`, who is told as ``events``, the clock as ``now``,
            who is asked of shared subscriptions as ``groups``.

    """

    def __init__(self, listeners: Sequence[Listener] = (), **options: Any) -> None:
        self.listeners = (PLAIN, *listeners)
        self.entries: list[Entry] = []
        self.rows: list[Row] = []
        """The same, as the log and the tree have them."""
        self.links: list[bytes] = []
        self.broker: GatewayBroker
        self._peers: list[Peer] = []
        self._events: Events | None = options.pop("events", None)
        self._now: Callable[[], float] | None = options.pop("now", None)
        self._groups: SharedGroups = options.pop("groups", None) or EachGateway()
        self._options = options

    @property
    def counts(self) -> Any:
        """The counts of refusals, by kind."""
        return self.broker.core.refusals.counts

    async def open(
        self,
        scheme: str = "mqtt",
        context: ssl.SSLContext | None = None,
        version: int = Version.V5,
    ) -> Peer:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.broker.ports[scheme], ssl=context
        )
        peer = Peer(reader, writer, version)
        self._peers.append(peer)
        return peer

    async def connect(self, client_id: str, **fields: Any) -> Peer:
        """A client that is let in, over plain TCP or with ``context``."""
        context = fields.pop("context", None)
        peer = await self.open("mqtts" if context else "mqtt", context)
        assert await peer.connect(client_id, **fields) == 0
        return peer

    async def start(self) -> None:
        files = {name: self._options.get(name) for name in ("passwords", "policy", "tls")}
        others = {name: self._options[name] for name in self._options.keys() - files}
        self.broker = await open_broker(
            BrokerSettings(self.listeners, **{"sys_interval_s": 0, **others}),
            Access(**files),
            tree=Tree(self._commit, lambda: True),
            links=Links(self._link),
            events=self._events,
            groups=self._groups,
            now=self._now,
        )

    async def stop(self) -> None:
        for peer in self._peers:
            peer.close()
        await self.broker.shutdown()

    def hand_out(self, entry: Entry) -> None:
        """Deliver what came from another gateway."""
        self.broker.core.remote_delivery.publish((entry,))

    def _commit(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        self.rows += (*logged, *unlogged)
        self.entries += [
            Entry(row[0], row[2], row[1] & 3, bool(row[1] & 4)) for row in (*logged, *unlogged)
        ]
        if done is not None:
            done(1 if logged else 0, None)

    async def _link(self, transport: asyncio.Transport, first: bytes) -> None:
        self.links.append(first)
        EchoOnce(transport)

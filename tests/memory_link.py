"""A node, and a link between gateways of which both ends are in memory: the test is the far one."""

from __future__ import annotations

import asyncio

from memory_transport import MemoryTransport

from gateway.log.message_log import MessageLog
from gateway.node.links import handshake, wire
from gateway.node.links.handshake import Acceptor, Credentials
from gateway.node.links.link import Link
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.node import TreeNode
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.transport import FarEnd
from gateway.node.links.wire import MAX_PACKET_BYTES, LinkReader
from tree_handler.seal import Seals
from tree_handler.spanning.spanning_tree import Identity, Parameters

TREE, KEY = "t", bytes(32)


def lone_node(
    log: MessageLog, *, hello_s: float = 60.0, sync: bool = False, seals: Seals | None = None
) -> TreeNode:
    """Return gw-a, which nobody has dialled."""
    settings = NodeSettings(
        Credentials("gw-a", TREE, KEY),
        Identity("gw-a", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=hello_s),
        sync=sync,
        seals=seals,
    )
    return TreeNode(settings, log, NodeReceiver(lambda entry, header: None))


class MemoryLink:
    """A link to gw-b that is up, and the messages that are sent over it.

    Attributes:
        link: this end of it.

    """

    def __init__(self, number: int = 1, additions: int = 0) -> None:
        self._transport, self._reader = MemoryTransport(), LinkReader(MAX_PACKET_BYTES)
        self.link = link = Link("10.0.0.9:1883")
        link.number, link.peer_id, link.additions = number, "gw-b", additions
        link.connection_made(self._transport)

    @property
    def is_closed(self) -> bool:
        """Return whether this end has closed the connection."""
        return self._transport.is_closed

    def told(self) -> list[tuple[bytes, bytes]]:
        """Return topics and payloads of what was sent since this was asked last."""
        self._reader.feed(bytes(self._transport.written))
        self._transport.written.clear()
        return [(packet.topic, packet.body) for packet in iter(self._reader.next, None)]


class MemoryNeighbour:
    """The address of gw-b, which takes a link of `lone_node`, and says what a test says."""

    def __init__(self) -> None:
        self.transport = MemoryTransport()
        self._link: asyncio.Protocol | None = None

    def __str__(self) -> str:
        return "10.0.0.9:1883"

    async def connect(self, link: asyncio.Protocol, tls: LinkTls | None) -> FarEnd:
        self._link = link
        link.connection_made(self.transport)
        asyncio.get_running_loop().call_soon(self._shake_hands)
        return FarEnd(str(self), "10.0.0.9")

    def _shake_hands(self) -> None:
        reader = LinkReader()
        reader.feed(bytes(self.transport.written))
        connect = reader.next()
        assert connect is not None
        own = Credentials("gw-b", TREE, KEY, epoch=1)
        acceptor = Acceptor(own, bytes(16), wire.LinkConnect.decode(connect.body))
        self.says(wire.connack(0) + wire.publish(handshake.TOPIC, acceptor.answer))
        self.says(wire.publish(handshake.TOPIC, b""))

    def says(self, data: bytes) -> None:
        """Say this over the link."""
        assert self._link is not None
        self._link.data_received(data)

    def hangs_up(self) -> None:
        """End the connection."""
        assert self._link is not None
        self._link.connection_lost(None)

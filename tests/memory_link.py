"""A node, and a link between gateways of which both ends are in memory: the test is the far one."""

from __future__ import annotations

from memory_transport import MemoryTransport

from gateway.log.message_log import MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.link import Link
from gateway.node.links.node import TreeNode
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.wire import MAX_PACKET_BYTES, LinkReader
from tree_handler.seal import Seals
from tree_handler.spanning.spanning_tree import Identity, Parameters


def lone_node(
    log: MessageLog, *, hello_s: float = 60.0, sync: bool = False, seals: Seals | None = None
) -> TreeNode:
    """Return gw-a, which nobody has dialled."""
    settings = NodeSettings(
        Credentials("gw-a", "t", bytes(32)),
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
        """Whether this end has closed the connection."""
        return self._transport.is_closed

    def told(self) -> list[tuple[bytes, bytes]]:
        """Return topics and payloads of what was sent since this was asked last."""
        self._reader.feed(bytes(self._transport.written))
        self._transport.written.clear()
        return [(packet.topic, packet.body) for packet in iter(self._reader.next, None)]

"""A link between gateways of which both ends are in memory: the test is the far one."""

from __future__ import annotations

from memory_transport import MemoryTransport

from gateway.node.links.link import Link
from gateway.node.links.wire import MAX_PACKET_BYTES, LinkReader


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

"""The first packet of a connection: a client's CONNECT, or a neighbour's that is handed over (B1).

A link has the top bit of the protocol version set and says of which tree it is; what sets the bit
alone is a bridge of another broker and a client. Whoever serves links takes over the transport.
"""

from __future__ import annotations

from typing import Final

from gateway.base.tasks import Tasks
from gateway.broker.hooks import Links
from gateway.broker.inbound.admission import Admission
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.peer import Peer
from gateway.broker.statistics.traffic import Traffic
from gateway.mqtt import (
    Connect,
    PacketError,
    PropertyId,
    ReasonCode,
    Scanner,
    Version,
    asked_packet_bytes,
    asked_version,
    body_at,
    decode,
)

_CONNECT: Final = 0x10


class FirstPacketReader:
    """Looks at first packets.

    Args:
        admission: lets clients in.
        links: serves neighbours.
        connections: no longer counts those that become links.
        tasks: serves a neighbour beside all else.
        traffic: counts what has come.
        packet_bytes_max: the largest packet of an accepted client.

    """

    def __init__(
        self,
        admission: Admission,
        links: Links,
        connections: Connections,
        tasks: Tasks,
        traffic: Traffic,
        packet_bytes_max: int,
    ) -> None:
        self._admission = admission
        self._links = links
        self._connections = connections
        self._tasks = tasks
        self._traffic = traffic
        self._packet_bytes_max = packet_bytes_max

    def check_begins(self, scanner: Scanner) -> None:
        """Look at what may be only the beginning of a first packet.

        Raises:
            PacketError: it is no CONNECT [MQTT-3.1.0-1].

        """
        first = scanner.first_byte
        if first not in (-1, _CONNECT):
            what = "packet before CONNECT"
            raise PacketError(ReasonCode.PROTOCOL_ERROR, what, first, "MQTT-3.1.0-1")

    def receive(self, peer: Peer, packet: bytes) -> None:
        """Handle a CONNECT.

        Args:
            peer: who sent it.
            packet: the whole of it.

        Raises:
            PacketError: its length has more bytes than needed, in 5.0.

        """
        body = packet[body_at(packet) :]
        version = asked_version(body)
        peer.channel.version = int(version)
        peer.scanner.agree(int(version), self._packet_bytes_max)
        self._traffic.connects += 1
        self._traffic.others_read += 1
        try:
            connect = decode(packet[0], body, version)
        except PacketError as error:
            if version == Version.V5:
                peer.channel.packet_bytes_max = asked_packet_bytes(body)
            self._admission.refuse(peer, error.reason, str(error))
            return
        assert isinstance(connect, Connect)
        peer.channel.packet_bytes_max = connect.properties.get(PropertyId.MAXIMUM_PACKET_SIZE)
        if not connect.is_link:
            self._admission.admit(peer, connect)
        elif why := self._why_no_link(peer, connect):
            self._admission.refuse(peer, ReasonCode.NOT_AUTHORIZED, why)
        else:
            self._hand_over(peer, packet + peer.scanner.rest())

    def _why_no_link(self, peer: Peer, connect: Connect) -> str:
        """Return why a gateway may not open a link on this connection; empty if it may."""
        if not peer.takes_links:
            return "a link over a websocket"
        return self._links.why_no_link(connect, peer.certificate, peer.channel.address)

    def _hand_over(self, peer: Peer, data: bytes) -> None:
        transport = peer.channel.gone()
        peer.waiting.end()
        self._connections.closed(peer)
        if transport is not None:
            transport.pause_reading()  # what comes before its protocol is another would be lost
            self._tasks.start(self._links.accept(transport, data))

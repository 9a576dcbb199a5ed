"""One connection as the broker sees it: who is at the other end, as far as that is known."""

from __future__ import annotations

from gateway.broker.inbound.publisher import Publisher
from gateway.broker.inbound.read_gate import PacketReader, ReadGate
from gateway.broker.outbound.channel import Channel
from gateway.broker.sessions.session import Session
from gateway.mqtt import Scanner
from gateway.trust.tls.peer_certificate import PeerCertificate


class Peer:
    """One connection.

    Args:
        channel: its socket.
        scanner: cuts what is read into packets.
        reader: handles its packets.
        takes_links: whether a neighbour may come this way.

    Attributes:
        waiting: what its packets wait for.
        certificate: what the client proved in the TLS handshake.
        publisher: the accepted client; None until then.
        keep_alive_s: 0 for none.
        quiet_until_s: before that no sweep has to look at it, unless it is closing.

    """

    __slots__ = (
        "certificate",
        "channel",
        "keep_alive_s",
        "publisher",
        "quiet_until_s",
        "scanner",
        "takes_links",
        "waiting",
    )

    def __init__(
        self,
        channel: Channel,
        scanner: Scanner,
        reader: PacketReader,
        *,
        takes_links: bool = True,
    ) -> None:
        self.channel = channel
        self.scanner = scanner
        self.waiting = ReadGate(channel, reader)
        self.certificate: PeerCertificate | None = None
        self.takes_links = takes_links
        self.publisher: Publisher | None = None
        self.keep_alive_s = 0
        self.quiet_until_s = 0.0

    @property
    def session(self) -> Session | None:
        """The session that it serves; None before and after."""
        publisher = self.publisher
        if publisher is None or publisher.session.channel is not self.channel:
            return None
        return publisher.session

    @property
    def session_expiry_s(self) -> int:
        """Return how long the session that it serves outlives it; 0 if it serves none."""
        session = self.session
        return 0 if session is None else session.expiry_s

    def proved(self, certificate: PeerCertificate | None) -> None:
        """The TLS handshake is over; None if the client has shown no certificate."""
        self.certificate = certificate

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of packets that are not all there, and of those to be written."""
        return self.scanner.buffered_bytes + self.channel.buffered_bytes

    def __str__(self) -> str:
        return str(self.channel)

"""One client's connection: bytes in, packets handed on in turns.

What a read brought is handled at once, but for what has to wait: all packets behind a decision that
takes time, and all that would keep the event loop from its other connections for longer than its
user's part of a turn (`UserTurns`). While anything waits the socket is not read: a flooding client
is slowed by TCP.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from gateway.base.turns import Turns
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.disconnections import Disconnections
from gateway.broker.inbound.first_packet import FirstPacketReader
from gateway.broker.inbound.packet_dispatcher import PacketDispatcher
from gateway.broker.inbound.peer import Peer
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.limits import Limits
from gateway.broker.listeners.half_open import keep_watch
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.sessions.registry import Sessions
from gateway.mqtt import PacketError, Scanner
from gateway.trust.shares.user_rates import UserRates
from gateway.trust.shares.user_turns import UserTurns
from light_dataclasses import dataclass

PORTION: Final = 64
"""PUBLISHes and acknowledgements between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts that serve connections, and that all connections share.

    Attributes:
        first_packets: looks at first packets.
        dispatcher: deals with those of accepted clients.
        disconnections: ends connections.
        sessions: are told of those that are gone.
        connections: all that are open.
        output: what all channels share: a clock, counters, who is told what was refused.
        turns: of the event loop.
        limits: of packets.
        rates: how fast each user may send.
        user_turns: of those whose connections have much to do.

    """

    first_packets: FirstPacketReader
    dispatcher: PacketDispatcher
    disconnections: Disconnections
    sessions: Sessions
    connections: Connections
    output: PendingWrites
    turns: Turns
    limits: Limits
    rates: UserRates
    user_turns: UserTurns


class Connection(asyncio.Protocol):
    """Serves one client.

    Args:
        service: what all connections share.
        takes_links: whether a neighbour may come this way.

    Attributes:
        peer: who is at the other end.

    """

    __slots__ = ("_at", "_is_greeted", "_packets", "_service", "peer")

    def __init__(self, service: Service, *, takes_links: bool = True) -> None:
        self._service = service
        scanner = Scanner(service.limits.connect_bytes)
        channel = Channel(service.output)
        self.peer = Peer(channel, scanner, self, takes_links=takes_links)
        self._packets: list[bytes] = []
        """Whole packets that are not handled yet, from `_at` on."""
        self._at = 0
        self._is_greeted = False

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, and again when TLS has come between."""
        channel = self.peer.channel
        is_new = channel.transport is None
        channel.opened(cast(asyncio.Transport, transport))
        if is_new:
            keep_watch(transport.get_extra_info("socket"))
            self._service.connections.opened(self.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        peer = self.peer
        why = "without DISCONNECT" if exc is None else f"connection lost ({exc})"
        if peer.channel.is_closing:
            why = "connection closed by the broker"
        peer.channel.gone()
        peer.waiting.end()
        self._packets, self._at = [], 0
        session = peer.session
        try:
            if session is not None:
                self._service.sessions.left(session, why)
        finally:  # else it would count for ever
            self._service.connections.closed(peer)

    def pause_writing(self) -> None:
        """Called by the event loop: the client does not read."""
        self.peer.channel.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop: the client reads again."""
        self.peer.channel.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        peer, service = self.peer, self._service
        if peer.channel.is_closing:
            return
        service.output.traffic.bytes_read += len(data)
        peer.channel.bytes_read += len(data)
        now_s = service.output.now()
        peer.scanner.feed(data)
        publisher = peer.publisher
        if publisher is not None:  # before that, what counts is when it was opened
            peer.channel.heard_at_s = now_s
            if service.user_turns.heard(publisher.owner, len(data), now_s):
                self._wait_for_turn(publisher)
        if peer.waiting.verdict is None:
            service.turns.read_begins()
            try:
                self._serve(now_s)
            finally:
                service.turns.read_ends()
        if service.rates.is_limited and peer.publisher is not None:
            self._charge(peer.publisher, len(data), now_s)

    # -- packets -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Serve the packets that waited, now that the verdict is there."""
        if not self.peer.channel.is_closing and self.peer.waiting.verdict is None:
            self._serve(self._service.output.now())

    def _serve(self, now_s: float) -> None:
        """Handle what is there, until it is done or has to wait."""
        peer, service = self.peer, self._service
        channel, waiting, scanner = peer.channel, peer.waiting, peer.scanner
        done_s, until_s = now_s, now_s + service.user_turns.part_s
        try:
            while not channel.is_closing and waiting.verdict is None:
                if self._at == len(self._packets) and not (scanner.buffered_bytes and self._find()):
                    break
                publisher = peer.publisher
                if publisher is None:
                    self._greet()
                else:
                    self._at = service.dispatcher.receive(publisher, self._packets, self._at)
                done_s = service.output.now()
                if done_s > until_s:
                    break
        except PacketError as error:
            self.fail(error)
        if self._at == len(self._packets):  # or they stay until the client sends again
            self._packets.clear()
            self._at = 0
        publisher = peer.publisher
        if publisher is None:  # its first packet is all that is handled before it is accepted
            return
        if publisher.has_made_room:
            publisher.has_made_room = False
            if publisher.session.outgoing.is_busy:
                publisher.session.go_on(now_s)
                done_s = service.output.now()
        service.user_turns.took(publisher.owner, done_s - now_s)
        if done_s > until_s and self._has_more():
            self._wait_for_turn(publisher)

    def _wait_for_turn(self, publisher: Publisher) -> None:
        """The user's other connections go on first, and those of others."""
        waiting = self.peer.waiting
        if waiting.verdict is None and not self.peer.channel.is_closing:
            waiting.for_verdict(self._service.user_turns.turn(publisher.owner), lambda _: None)

    def _charge(self, publisher: Publisher, size_bytes: int, now_s: float) -> None:
        """Let the client's further packets wait if its user sends faster than one may."""
        peer, service = self.peer, self._service
        wait_s = service.rates.wait_s(publisher.owner, size_bytes, now_s)
        if wait_s and peer.waiting.verdict is None and not peer.channel.is_closing:
            service.output.refusals.count("user held back that sends too fast", str(publisher))
            peer.waiting.for_verdict(asyncio.sleep(wait_s), lambda _: None)

    def _find(self) -> bool:
        """Take further packets out of what was read, and return whether there are any.

        Raises:
            PacketError: what comes next is none.

        """
        scanner = self.peer.scanner
        if self.peer.publisher is not None:
            self._packets = scanner.take(PORTION)
        elif self._is_greeted:  # whatever became of the first packet, no second one is a first
            return False
        else:
            self._service.first_packets.check_begins(scanner)
            self._packets = scanner.take(1)
        self._at = 0
        self._service.output.traffic.packets_read += len(self._packets)
        self.peer.channel.packets_read += len(self._packets)
        return bool(self._packets)

    def _has_more(self) -> bool:
        return self._at < len(self._packets) or self.peer.scanner.buffered_bytes > 0

    def _greet(self) -> None:
        """Handle the first packet.

        Raises:
            PacketError: the client broke the protocol; it is not served any more.

        """
        first, self._packets = self._packets[0], []
        self._is_greeted = True
        self._service.first_packets.receive(self.peer, first)

    def fail(self, error: PacketError) -> None:
        """The client broke the protocol: say so in 5.0, and close [MQTT-4.13.1-1]."""
        peer, service = self.peer, self._service
        kind = f"protocol error ({error.reason.name.lower()})"
        service.output.refusals.count(kind, f"{peer}: {error}")
        session = peer.session
        if session is None:
            peer.channel.abort()
        else:
            service.disconnections.disconnect(session, error.reason, str(error), linger=True)

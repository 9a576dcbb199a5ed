"""The writing side of a client's connection, and how it ends.

What is to be sent gathers in `out` and is written once a loop turn. While the client does not
read, QoS 0 messages are dropped beyond a limit, QoS 1 and 2 wait in the session, and beyond the
same limit of answers its requests are not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.broker.inbound.aliases import OutgoingAliases
from gateway.broker.limits import TOO_LARGE, UNREAD
from gateway.broker.sessions.in_flight import PUBREL
from gateway.broker.statistics.traffic import ACKNOWLEDGEMENT_BYTES, Traffic
from gateway.mqtt import (
    ConnAck,
    Disconnect,
    PacketType,
    PropertyId,
    ReasonCode,
    Version,
    Will,
    encode,
)
from gateway.mqtt.reason_codes import REASONS

if TYPE_CHECKING:
    from gateway.broker.server import BrokerCore
    from gateway.broker.sessions.session import Session

REASON_CHARACTERS_MAX = 200


class Outgoing:
    """What a connection sends.

    Attributes:
        core: the broker.
        transport: None when it is gone.
        address: the client's, without port.
        version: of the protocol, from CONNECT on.
        session: the session it serves; None until the client is accepted.
        out: packets to be written at the end of the loop's turn.
        is_particular: whether its packets must be made for it alone (aliases, packet size).
        is_closing: nothing more is read or sent.
        closing_at_s: since when it is closing, on the loop's clock.
        held_ticket: the last journal frame that output of it waits for, see `durable`.
        is_lingering: it has sent its last packet and waits for the client to close too.
        packet_bytes_max: the client's Maximum Packet Size.
        outgoing_aliases: topic aliases towards the client, if it allows them.

    """

    # Slots in all three classes of a connection: a dictionary of so many attributes is slow.
    __slots__ = (
        "_held_bytes",
        "_not_reading",
        "_pauses",
        "_unsafe_bytes",
        "address",
        "closing_at_s",
        "core",
        "heard_at_s",
        "held_ticket",
        "is_closing",
        "is_lingering",
        "is_particular",
        "is_paused",
        "joined",
        "other_bytes",
        "others",
        "out",
        "outgoing_aliases",
        "packet_bytes_max",
        "session",
        "transport",
        "version",
        "will",
    )

    heard_at_s: float
    will: Will | None

    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self.transport: asyncio.Transport | None = None
        self.address = "?"
        self.version: int = Version.V311
        self.session: Session | None = None
        self.out: list[bytes] = []
        self.is_particular = False
        self.is_closing = False
        self.closing_at_s = 0.0
        self.is_lingering = False
        self.packet_bytes_max: int | None = None
        self.outgoing_aliases: OutgoingAliases | None = None
        self.is_paused = False
        """Whether the client does not read what is written."""
        self.held_ticket = 0
        self._pauses = 0
        """For how many reasons nothing more is to be written."""
        self._unsafe_bytes = 0
        """Output that waits for the journal."""
        self._held_bytes = 0
        self.joined = 0
        """Packets in `out` less the pieces that it consists of."""
        self.others = 0
        """Packets in `out` that are no PUBLISH; counted like the next when they are written."""
        self.other_bytes = 0
        """Their bytes beyond those of an acknowledgement each."""
        self._not_reading = 0
        """For how many reasons reading is paused."""

    # -- flow control --------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Called by the event loop: the client does not read."""
        self._pauses += 1
        if self._pauses > 1:
            return
        self.is_paused = True
        self._held_bytes = 0
        if self.session is not None and self.session.connection is self:
            self.session.hold()
        self.core.upkeep.clients_do_not_read()

    def resume_writing(self) -> None:
        """Called by the event loop: the client reads again."""
        self._pauses -= 1
        if self._pauses:
            return
        self.is_paused = False
        if self._held_bytes > self.core.limits.held_bytes:
            self.resume()
        self._held_bytes = 0
        if self.out:
            self.core.dirty.append(self)
        if self.session is not None and self.session.connection is self:
            self.session.release()
            self.send_waiting()
        self.core.turns.kick()

    def stall(self) -> None:
        """Do not read for now."""
        self._not_reading += 1
        if self._not_reading == 1 and self.transport is not None:
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read again, unless there is another reason not to."""
        self._not_reading -= 1
        self.heard_at_s = self.core.now()
        if not self._not_reading and self.transport is not None and not self.is_closing:
            self.transport.resume_reading()

    @property
    def is_stalled(self) -> bool:
        """Whether the broker itself does not read from it."""
        return self._not_reading > 0

    @property
    def is_unread(self) -> bool:
        """Whether the client does not read, so that it is not read from either."""
        return self.is_paused and self._held_bytes > self.core.limits.held_bytes

    @property
    def buffered_bytes(self) -> int:
        """What waits to be written, in the transport and here."""
        transport = self.transport
        return self._held_bytes + (0 if transport is None else transport.get_write_buffer_size())

    # -- writing -------------------------------------------------------------------------------

    def send(self, packet: bytes, count: int = 1) -> None:
        """Send an answer or a QoS 1 or 2 message at the end of the loop's turn.

        Args:
            packet: the packet, or several acknowledgements.
            count: how many.

        """
        if not self.out:
            self.core.dirty.append(self)
        self.out.append(packet)
        if packet[0] & 0xF0 != 0x30:
            self.others += count
            self.joined += count - 1
            self.other_bytes += len(packet) - count * ACKNOWLEDGEMENT_BYTES
        if self.is_paused:
            before, self._held_bytes = self._held_bytes, self._held_bytes + len(packet)
            limit = self.core.limits.held_bytes
            if before <= limit < self._held_bytes:
                self.stall()

    def send_message(self, packet: bytes) -> None:
        """Send a PUBLISH, with a topic alias where the client allows it."""
        if self.outgoing_aliases is not None:
            packet = self.outgoing_aliases.shorten(packet)
        self.send(packet)

    def offer(self, packet: bytes) -> None:
        """Send a QoS 0 message, unless the client does not read."""
        if self.packet_bytes_max is not None and len(packet) > self.packet_bytes_max:
            self.core.refused(TOO_LARGE, str(self))
            return
        if self.is_paused:
            if self._held_bytes + len(packet) > self.core.limits.held_bytes:
                self.core.refused(UNREAD, str(self))
                return
            self._held_bytes += len(packet)
        if self.outgoing_aliases is not None:
            packet = self.outgoing_aliases.shorten(packet)
        out = self.out
        if not out:
            self.core.dirty.append(self)
        out.append(packet)

    def offer_all(self, packets: list[bytes]) -> None:
        """Send QoS 0 messages, in their order."""
        if self.is_paused or self.packet_bytes_max is not None or self.outgoing_aliases is not None:
            for packet in packets:
                self.offer(packet)
            return
        if not self.out:
            self.core.dirty.append(self)
        self.out += packets

    def send_waiting(self) -> None:
        """Send what waits in the session, as far as there is room."""
        session = self.session
        if session is None or session.connection is not self or not session.is_busy:
            return
        if self.is_closing:
            return
        is_resending = session.is_resending
        packets = session.send_waiting(self.core.now())
        if is_resending:
            self.others += sum(packet[0] == PUBREL for packet in packets)
        if self.outgoing_aliases is not None:
            packets = [
                self.outgoing_aliases.shorten(packet) if packet[0] & 0xF0 == 0x30 else packet
                for packet in packets
            ]
        if packets and not self.out:
            self.core.dirty.append(self)
        self.out += packets

    def take(self) -> bytes:
        """What has gathered, which is to be `hold` back; nothing if it can't be written anyway."""
        out = self.out
        if self.is_closing:
            out.clear()
        if not out or self.is_paused:
            return b""
        packets = b"".join(out)
        self.core.traffic.packets_sent += len(out) + self.joined
        self.joined = 0
        out.clear()
        return packets

    def hold(self, size_bytes: int) -> None:
        """So many bytes of output wait for the journal; too many, and it is as if unread."""
        before, self._unsafe_bytes = self._unsafe_bytes, self._unsafe_bytes + size_bytes
        limit = self.core.limits.held_bytes
        if before <= limit < self._unsafe_bytes:
            self.pause_writing()

    def let_go(self, packets: bytes) -> None:
        """Write what the journal has made safe."""
        before, self._unsafe_bytes = self._unsafe_bytes, self._unsafe_bytes - len(packets)
        if not self.is_closing and self.transport is not None:
            self.transport.write(packets)
            self.core.traffic.bytes_sent += len(packets)
        limit = self.core.limits.held_bytes
        if self._unsafe_bytes <= limit < before:
            self.resume_writing()

    # -- the end ------------------------------------------------------------------------------

    def disconnect(self, reason: int, why: str = "", *, linger: bool = False) -> None:
        """Close, in 5.0 after a DISCONNECT [MQTT-4.13.2-1]."""
        if self.is_closing:
            return
        # What it published before is acknowledged first, if that can be now.
        self.core.turns.commit()
        if self.version == Version.V5 and self.session is not None:
            self.close(self.with_reason(Disconnect(reason), why), linger=linger)
        else:
            self.close(linger=linger)

    def with_reason(self, packet: Disconnect | ConnAck, why: str) -> bytes:
        """A 5.0 packet with a reason string, if that fits [MQTT-3.2.2-19] [MQTT-3.14.2-3].

        These two may have one whether or not the client asked for problem information (section
        3.1.2.11.7); no other packet of the broker's has one.
        """
        kind = PacketType.DISCONNECT if isinstance(packet, Disconnect) else PacketType.CONNACK
        if packet.reason not in REASONS[kind]:
            packet.reason = ReasonCode.PROTOCOL_ERROR
        plain = encode(packet, Version.V5)
        if not why:
            return plain
        packet.properties = {PropertyId.REASON_STRING: why[:REASON_CHARACTERS_MAX]}
        full = encode(packet, Version.V5)
        limit = self.packet_bytes_max
        return full if limit is None or len(full) <= limit else plain

    def close(self, farewell: bytes = b"", *, linger: bool = False) -> None:
        """Send what has gathered and close.

        Args:
            farewell: a last packet, which goes out in any case.
            linger: close after the client has, or `Limits.close_s` later: what it still sends to
                a closed socket would be answered by a reset, which can overtake the reason.

        """
        if self.is_closing:
            return
        self.is_closing = True
        self.closing_at_s = self.core.now()
        transport = self.transport
        if transport is None:
            return
        if not self.core.may_leave(self):
            self.out.clear()  # it is sent again when the client comes back
        if farewell:
            self.out.append(farewell)
            self.others += 1
            self.other_bytes += len(farewell) - ACKNOWLEDGEMENT_BYTES
        if self.out:
            _write((self,), self.core.traffic)
        if not linger or not transport.can_write_eof():
            transport.close()
            return
        self.is_lingering = True
        transport.write_eof()
        if self.is_stalled:
            transport.resume_reading()
        self.core.left(self)

    def abort(self) -> None:
        """Close without sending anything."""
        self.is_closing = True
        if self.transport is not None:
            self.transport.abort()

    def __str__(self) -> str:
        return str(self.session.client) if self.session is not None else self.address


def flush(connections: Iterable[Outgoing], traffic: Traffic) -> None:
    """Write what has gathered for each, in one call for each."""
    ready: list[Outgoing] = []
    for connection in connections:
        if connection.is_closing:
            connection.out.clear()
        elif connection.out and not connection.is_paused and connection.transport is not None:
            ready.append(connection)
    _write(ready, traffic)


def _write(connections: Iterable[Outgoing], traffic: Traffic) -> None:
    packets = size_bytes = others = other_bytes = 0
    for connection in connections:
        out, transport = connection.out, connection.transport
        assert transport is not None
        pieces = len(out)
        data = out[0] if pieces == 1 else b"".join(out)
        out.clear()
        transport.write(data)
        size_bytes += len(data)
        packets += pieces + connection.joined
        connection.joined = 0
        if connection.others:
            others += connection.others
            other_bytes += connection.other_bytes
            connection.others = connection.other_bytes = 0
    traffic.packets_sent += packets
    traffic.bytes_sent += size_bytes
    traffic.sent_others += others
    traffic.sent_other_bytes += others * ACKNOWLEDGEMENT_BYTES + other_bytes

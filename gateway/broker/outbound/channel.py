"""The socket of one client: gathers what is to be sent, and says when not to read.

What is to be sent gathers and is written once a loop turn. While the client does not read, QoS 0
messages are dropped beyond a limit, QoS 1 and 2 wait in the session, and beyond the same limit of
answers its own requests are not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.turns import Turns
from gateway.broker.limits import NOT_TOLD, TOO_LARGE, UNREAD, Limits
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.statistics.traffic import Traffic
from gateway.mqtt import Version

_PACKET_TOO_LARGE: Final = b"\xe0\x01\x95"
"""DISCONNECT of 5.0, with its reason code alone."""


class Feeder(Protocol):
    """A session, whose messages a channel carries."""

    @property
    def ticket(self) -> int:
        """The last journal frame that must be safe before what it sent may be written; 0: none."""

    def hold(self) -> None:
        """The client does not read: messages wait."""

    def resume(self, now_s: float) -> None:
        """The client reads again: send what waits; the time is the loop's, in seconds."""


class PendingWrites:
    """State that all channels share: which of them have something to write when the turn ends.

    Args:
        turns: as below.
        limits: of what is kept for a client that does not read.
        refusals: is told what was dropped.
        traffic: counts what is sent.
        now: the loop's clock, in seconds.

    Attributes:
        turns: are told that a turn needs an end.
        dirty: the channels that have something to write at the end of this turn.
        is_unread: whether any client has ceased to read; until whoever looks after them says not.

    """

    def __init__(
        self,
        turns: Turns,
        limits: Limits,
        refusals: CountedLines,
        traffic: Traffic,
        now: Callable[[], float],
    ) -> None:
        self.turns = turns
        self.dirty: list[Channel] = []
        self.is_unread = False
        self.limits = limits
        self.refusals = refusals
        self.traffic = traffic
        self.now = now

    def has_unread(self) -> None:
        """One more client does not read any more."""
        self.is_unread = True
        self.turns.need()


class Channel:
    """One client's socket.

    Args:
        output: what all channels share.

    Attributes:
        address: the client's, without port.
        bytes_read: from the client since it connected.
        bytes_sent: to it.
        version: of the protocol, from CONNECT on.
        is_closing: nothing more is read or sent.
        closing_at_s: since when it is closing, on the loop's clock.
        is_answered: output of it that waited for the journal has left.
        is_lingering: it has sent its last packet and waits for the client to close too.
        is_paused: the client does not read what is written.
        opened_s: since when it is open, on the loop's clock.
        heard_at_s: when the client was last heard, on the same.
        dropped: QoS 0 messages that the client did not get.
        held_ticket: the last journal frame that output of it waits for.
        packets_read: from the client since it connected.
        packets_sent: to it.
        ranked_bytes: of both ways, when the busiest clients were last sought.
        packet_bytes_max: the client's Maximum Packet Size.
        unsafe_bytes: output that waits for the journal.
        aliases: topic aliases towards the client, if it allows them.

    """

    __slots__ = (
        "_held_bytes",
        "_not_reading",
        "_out",
        "_output",
        "_pauses",
        "_source",
        "_transport",
        "address",
        "aliases",
        "bytes_read",
        "bytes_sent",
        "closing_at_s",
        "dropped",
        "heard_at_s",
        "held_ticket",
        "is_answered",
        "is_closing",
        "is_lingering",
        "is_paused",
        "opened_s",
        "packet_bytes_max",
        "packets_read",
        "packets_sent",
        "ranked_bytes",
        "unsafe_bytes",
        "version",
    )

    def __init__(self, output: PendingWrites) -> None:
        self._output = output
        self._transport: asyncio.Transport | None = None
        self._source: Feeder | None = None
        self._out: list[bytes] = []
        self.address = "?"
        self.version: int = int(Version.V311)
        self.opened_s = self.heard_at_s = output.now()
        self.dropped = 0
        self.bytes_read = self.bytes_sent = 0
        self.packets_read = self.packets_sent = 0
        self.ranked_bytes = 0
        self.is_closing = False
        self.closing_at_s = 0.0
        self.is_answered = self.is_lingering = self.is_paused = False
        self.packet_bytes_max: int | None = None
        self.aliases: OutgoingAliases | None = None
        self.held_ticket = 0
        self._pauses = 0
        """The number of reasons for which nothing more is to be written."""
        self.unsafe_bytes = 0
        self._held_bytes = 0
        self._not_reading = 0
        """The number of reasons for which reading is paused."""

    # -- the transport -------------------------------------------------------------------------

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None when it is gone."""
        return self._transport

    @property
    def is_particular(self) -> bool:
        """Return whether its packets must be made for it alone (aliases, packet size)."""
        return self.aliases is not None or self.packet_bytes_max is not None

    def opened(self, transport: asyncio.Transport) -> None:
        """A transport carries it; again when TLS has come between."""
        self._transport = transport
        transport.set_write_buffer_limits(high=self._output.limits.write_buffer_bytes)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and peer:
            self.address = str(peer[0])

    def serve(self, source: Feeder | None) -> None:
        """Carry the messages of a session from now on; None for no session any more."""
        self._source = source

    def gone(self) -> asyncio.Transport | None:
        """Give up the transport, which is closed or another's; return which it was."""
        transport, self._transport = self._transport, None
        self.is_closing = True
        self._out.clear()
        return transport

    # -- flow control --------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Write no more: the client does not read, or what it is to be sent is not safe."""
        self._pauses += 1
        if self._pauses > 1:
            return
        self.is_paused = True
        self._held_bytes = 0
        if self._source is not None:
            self._source.hold()
        self._output.has_unread()

    def resume_writing(self) -> None:
        """Write again, unless there is another reason not to."""
        self._pauses -= 1
        if self._pauses:
            return
        self.is_paused = False
        if self._held_bytes > self._output.limits.held_bytes:
            self.resume()
        self._held_bytes = 0
        if self._out:
            self.due()
        if self._source is not None and not self.is_closing:
            self._source.resume(self._output.now())

    def stall(self) -> None:
        """Do not read for now."""
        self._not_reading += 1
        if self._not_reading == 1 and self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again, unless there is another reason not to."""
        self._not_reading -= 1
        self.heard_at_s = self._output.now()
        if not self._not_reading and self._transport is not None and not self.is_closing:
            self._transport.resume_reading()

    @property
    def is_stalled(self) -> bool:
        """Return whether the broker itself has ceased to read from the client."""
        return self._not_reading > 0

    @property
    def is_unread(self) -> bool:
        """Return whether the client does not read, so that it is not read from either."""
        return self.is_paused and self._held_bytes > self._output.limits.held_bytes

    @property
    def buffered_bytes(self) -> int:
        """Return how many bytes wait to be written, in the transport and here."""
        transport = self._transport
        return self._held_bytes + (0 if transport is None else transport.get_write_buffer_size())

    # -- what is to be sent ----------------------------------------------------------------------

    def takes(self, size_bytes: int) -> bool:
        """Return whether the client's Maximum Packet Size lets it take a packet [MQTT-3.1.2-24]."""
        return self.packet_bytes_max is None or size_bytes <= self.packet_bytes_max

    def send(self, packet: bytes) -> None:
        """Send a packet that is no PUBLISH at the end of the loop's turn.

        One that the client does not take ends the connection: it would wait for it.
        """
        if self.packet_bytes_max is not None and not self.takes(len(packet)):
            self._output.refusals.count(NOT_TOLD, str(self))
            self.close(_PACKET_TOO_LARGE, may_leave=False)
            return
        traffic = self._output.traffic
        traffic.sent_others += 1
        traffic.sent_other_bytes += len(packet)
        if self.is_paused:
            self._gather(packet)
            return
        if not self._out:
            self.due()
        self._out.append(packet)

    def due(self) -> None:
        """Be written at the end of this turn; called with its first packet, or by who held it."""
        self._output.dirty.append(self)
        self._output.turns.need()

    def send_message(self, packet: bytes) -> None:
        """Send a QoS 1 or 2 PUBLISH, with a topic alias where the client allows it."""
        if self.aliases is not None:
            packet = self.aliases.shorten(packet, self.packet_bytes_max)
        self._gather(packet)

    def offer(self, packet: bytes) -> None:
        """Send a QoS 0 message, unless the client does not read or takes no such packet."""
        output = self._output
        if self.packet_bytes_max is not None and len(packet) > self.packet_bytes_max:
            self.dropped += 1
            output.refusals.count(TOO_LARGE, str(self))
            return
        if self.is_paused:
            if self._held_bytes + len(packet) > output.limits.held_bytes:
                self.dropped += 1
                output.refusals.count(UNREAD, str(self))
                return
            self._held_bytes += len(packet)
        if self.aliases is not None:
            packet = self.aliases.shorten(packet, self.packet_bytes_max)
        if not self._out:
            self.due()
        self._out.append(packet)

    def _gather(self, packet: bytes) -> None:
        if not self._out:
            self.due()
        self._out.append(packet)
        if self.is_paused:
            before, self._held_bytes = self._held_bytes, self._held_bytes + len(packet)
            limit = self._output.limits.held_bytes
            if before <= limit < self._held_bytes:
                self.stall()

    # -- what is written -------------------------------------------------------------------------

    def write(self, *, is_last: bool = False) -> None:
        """Write what has gathered, if that can be now.

        Args:
            is_last: nothing comes behind it, so that it does not wait for a client to read.

        """
        if self.is_closing:
            self._out.clear()
        transport = self._transport
        if transport is not None and self._out and (is_last or not self.is_paused):
            data = self._taken()
            transport.write(data)
            self._output.traffic.bytes_sent += len(data)
            self.bytes_sent += len(data)

    def _taken(self) -> bytes:
        out = self._out
        self._output.traffic.packets_sent += len(out)
        self.packets_sent += len(out)
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def stands_on(self) -> int:
        """Return the last journal frame that must be safe before what has gathered may be
        written."""
        source = self._source
        return self.held_ticket if source is None else max(source.ticket, self.held_ticket)

    def take(self, ticket: int) -> bytes:
        """Take what has gathered, until this journal frame is safe and it is `let_go`.

        With too much of it the client is treated as one that does not read. None of it is taken
        where it can't be written anyway.
        """
        if self.is_closing:
            self._out.clear()
        if not self._out or self.is_paused:
            return b""
        packets = self._taken()
        self.held_ticket = ticket
        before, self.unsafe_bytes = self.unsafe_bytes, self.unsafe_bytes + len(packets)
        if before <= self._output.limits.held_bytes < self.unsafe_bytes:
            self.pause_writing()
        return packets

    def let_go(self, packets: bytes) -> None:
        """Write what the journal has made safe."""
        before, self.unsafe_bytes = self.unsafe_bytes, self.unsafe_bytes - len(packets)
        if not self.is_closing and self._transport is not None:
            self._transport.write(packets)
            self._output.traffic.bytes_sent += len(packets)
            self.bytes_sent += len(packets)
        if not self.is_answered:  # it may have waited for its CONNACK before it spoke
            self.is_answered, self.heard_at_s = True, self._output.now()
        if self.unsafe_bytes <= self._output.limits.held_bytes < before:
            self.resume_writing()

    # -- the end ---------------------------------------------------------------------------------

    def close(self, farewell: bytes = b"", *, may_leave: bool = True, linger: bool = False) -> None:
        """Send what has gathered and close.

        Args:
            farewell: a last packet, which goes out if the client takes one so large.
            may_leave: whether what has gathered stands on nothing that a crash takes back; if
                not, it is dropped, and sent again when the client comes back.
            linger: close after the client has, or `Limits.close_s` later: what it still sends to
                a closed socket would be answered by a reset, which can overtake the reason.

        """
        if self.is_closing:
            return
        self.closing_at_s = self._output.now()
        transport = self._transport
        if not may_leave:
            self._out.clear()
        if farewell and self.takes(len(farewell)):
            self.send(farewell)
        self.write(is_last=True)
        self.is_closing = True
        if transport is None:
            return
        if not linger or not transport.can_write_eof():
            transport.close()
            return
        self.is_lingering = True
        transport.write_eof()
        if self.is_stalled:
            transport.resume_reading()

    def abort(self) -> None:
        """Close without sending anything."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def __str__(self) -> str:
        return str(self._source) if self._source is not None else self.address

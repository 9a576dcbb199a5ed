"""One client's connection: bytes in, bytes out.

The hot loop walks over what was read with integer positions. The commonest packets (PUBLISH,
PUBACK, PUBREC, PUBREL, PUBCOMP without anything special) are told by their first byte and handled
without an object for the packet; all others go through the codec. A QoS 0 message goes on as the
very bytes that came; of QoS 1 and 2 messages and of acknowledgements, those of one type in a row
are handled together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from gateway.broker.inbound.acknowledgements import ACKNOWLEDGEMENTS, answered, identifiers, run_end
from gateway.broker.inbound.admission import admit, refuse
from gateway.broker.inbound.aliases import IncomingAliases
from gateway.broker.inbound.alone import ALONE_BYTES, OFTEN_ALONE
from gateway.broker.inbound.incoming import Incoming
from gateway.broker.inbound.publishing import Publishing
from gateway.broker.inbound.requests import check_size, disconnected_by, subscribe, unsubscribe
from gateway.broker.listeners import handover
from gateway.broker.listeners.half_open import keep_watch
from gateway.broker.statistics.traffic import ACKNOWLEDGEMENT_BYTES
from gateway.mqtt import (
    Auth,
    Connect,
    Disconnect,
    PacketError,
    PacketType,
    PingReq,
    PubAck,
    PubComp,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    Unsubscribe,
    Version,
    Will,
    check_sent_by_client,
    decode,
    encode_length,
)

if TYPE_CHECKING:
    from gateway.broker.server import BrokerCore
    from gateway.tls.certificates import PeerCertificate

_V311 = int(Version.V311)  # comparing with an enum's member is slow
_PUBACK, _PUBREC, _PUBREL, _PUBCOMP = 0x40, 0x50, 0x62, 0x70


class Connection(Incoming, asyncio.Protocol):
    """Serves one client.

    Attributes:
        will: to be published unless the client says DISCONNECT.
        keep_alive_s: 0 for none.
        certificate: what the client proved in the TLS handshake.
        takes_links: whether a neighbour may come this way.
        is_bridge: another broker's bridge, which must not get back what it sends.
        publishing: its publishing side.

    """

    __deletable__ = ("_at_hand", "publishing")  # for mypyc
    __slots__ = (
        *("_at_hand", "certificate", "is_bridge", "keep_alive_s", "publishing", "takes_links"),
    )

    def __init__(self, core: BrokerCore) -> None:
        super().__init__(core)
        self.will: Will | None = None
        self.keep_alive_s = 0
        self.certificate: PeerCertificate | None = None
        self.takes_links = True
        self.is_bridge = False
        publishing = Publishing(self, IncomingAliases(core.limits.topic_aliases))
        self.publishing = publishing
        self._at_hand = (
            *(publishing, publishing.permitted, core.routes.get, core.dirty),
            *(core.limits.packet_bytes, core.limits.payload_bytes),
        )
        """What the hot loop needs at each read: looked up here once."""

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, and again when TLS has come between."""
        is_new = self.transport is None
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.core.limits.write_buffer_bytes)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and peer:
            self.address = str(peer[0])
        if is_new:
            keep_watch(transport.get_extra_info("socket"))
            self.core.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self.core.turns.read_gathered()
        self.is_closing = True
        self.transport = None
        self.out.clear()
        self._forget()
        self.core.closed(self)
        del self.publishing, self._at_hand  # which refer to this connection: no cycle is left

    # -- reading -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        turns, size = self.core.turns, len(data)
        if (
            ACKNOWLEDGEMENT_BYTES <= size <= ALONE_BYTES
            and data[0] in OFTEN_ALONE
            and self.session is not None
        ):
            turns.gather(self, data)
            return
        turns.read_gathered()  # which came before
        super().data_received(data)

    def _walk(self, data: bytes, at: int, stop: int) -> int:  # noqa: PLR0912, PLR0915  # a call costs more
        """Handle every whole packet that begins before ``stop``, and the run that goes beyond it.

        Returns:
            Where to go on: at the end of the data if what is left of it has been kept.

        Raises:
            PacketError: the client broke the protocol.

        """
        core = self.core
        session = self.session
        size = len(data)
        if session is None:
            at = self._greet(data)
            session = self.session
            if session is None:
                if not self.is_closing:
                    self._keep(data, max(at, 0))
                return size
        publishing, permitted, find_route, dirty, limit, payload_limit = self._at_hand
        is_311 = self.version == _V311
        last = stop if stop < size else size - 1
        began = at
        wanted_bytes = count = others = other_bytes = ones = twos = 0
        while at < last:
            first = data[at]
            length = data[at + 1]
            body = at + 2
            if length > 127:
                length &= 127
                shift = 7
                while body < size:
                    byte = data[body]
                    body += 1
                    length |= (byte & 127) << shift
                    if byte < 128:
                        break
                    shift += 7
                    if shift > 21:
                        raise PacketError(ReasonCode.MALFORMED_PACKET, "remaining length")
                else:
                    break
                if body + length - at > limit:
                    size_bytes = body + length - at
                    raise PacketError(ReasonCode.PACKET_TOO_LARGE, "packet of bytes", size_bytes)
                if not byte and body + length <= size:  # in more bytes than needed
                    end = body + length
                    self._walk_shortened(first, data[body:end])
                    began += end - at  # it has been counted
                    at = end
                    if self.is_closing or self.verdict is not None:
                        break
                    continue
            end = body + length
            if end > size:
                wanted_bytes = end - at
                break
            if first == 0x30:
                if length < 3:
                    raise PacketError(ReasonCode.MALFORMED_PACKET, "PUBLISH cut short")
                topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                route = find_route(data[body + 2 : topic_end])
                if (
                    route is not None
                    and (permitted is None or permitted.get(route.topic))
                    and route.is_plain
                    and end - topic_end <= payload_limit
                    and (topic_end <= end if is_311 else topic_end < end and not data[topic_end])
                ):
                    same, other = (
                        (route.live_311, route.live_5) if is_311 else (route.live_5, route.live_311)
                    )
                    if same:
                        packet = data[at:end]
                        for receiver in same:
                            out = receiver.out
                            if not out:
                                dirty.append(receiver)
                            elif receiver.is_paused:
                                receiver.offer(packet)
                                continue
                            out.append(packet)
                    if other or core.gathers_unlogged:
                        payload = data[topic_end if is_311 else topic_end + 1 : end]
                        if other:
                            core.forward(route, data[body + 2 : topic_end], payload, other)
                        if core.gathers_unlogged:
                            core.acceptance.unlogged.append((route.topic, 0, payload))
                elif not publishing.receive(data, first, body, end):
                    break
            elif first in {0x32, 0x34}:
                before = len(core.acceptance.rows)
                after = publishing.receive_run(data, at, body, end)
                run = 1
                if after > at:
                    end = after
                    run = len(core.acceptance.rows) - before
                    count += run - 1
                elif not publishing.receive(data, first, body, end):
                    break
                if first == 0x32:
                    ones += run
                else:
                    twos += run
            elif length == 2 and first in ACKNOWLEDGEMENTS:
                if data[end : end + 2] == data[at:body]:
                    end = run_end(data, at)
                    self._acknowledged_all(first, data[at:end])
                    run = end - at >> 2
                    others += run
                    count += run - 1
                else:
                    others += 1
                    self.acknowledged(first, data[body] << 8 | data[body + 1])
            elif first & 0xF0 == 0x30:
                if not publishing.receive(data, first, body, end):
                    break
                ones += first >> 1 & 1
                twos += first >> 2 & 1
            else:
                self._control(first, data[body:end])
                others += 1
                other_bytes += end - at - ACKNOWLEDGEMENT_BYTES
                if self.verdict is not None:
                    at = end
                    count += 1
                    break
            at = end
            count += 1
            if self.is_closing:
                break
        traffic = core.traffic
        traffic.packets_read += count
        published_bytes = at - began
        if others:
            traffic.others_read += others
            published_bytes -= others * ACKNOWLEDGEMENT_BYTES + other_bytes
        if ones or twos:
            traffic.received_qos_1 += ones
            traffic.received_qos_2 += twos
        traffic.published_bytes += published_bytes
        if at < stop and not self.is_closing:
            self._keep(data, at, wanted_bytes)
            return size
        return at

    def _walk_shortened(self, first: int, body: bytes) -> None:
        """Handle a packet whose length has more bytes than needed; nobody is sent it like that.

        Raises:
            PacketError: in 5.0; MQTT 3.1.1 allows it.

        """
        if self.version == Version.V5:
            raise handover.long_length(len(body))
        packet = b"%c%b%b" % (first, encode_length(len(body)), body)
        self._walk(packet, 0, len(packet))

    def _control(self, first: int, body: bytes) -> None:
        if first >> 4 == PacketType.CONNECT:  # whatever it says
            raise PacketError(ReasonCode.PROTOCOL_ERROR, "second CONNECT", None, "MQTT-3.1.0-2")
        check_size(body, first, self.version, self.core.limits)
        packet = decode(first, body, self.version)
        check_sent_by_client(packet)
        session = self.session
        assert session is not None
        match packet:
            case PubAck():
                session.puback(packet.packet_id)
            case PubRec() if packet.reason >= 0x80:
                session.pubrec(packet.packet_id, failed=True)
            case PubRec():
                self.acknowledged(_PUBREC, packet.packet_id)
            case PubRel():
                self.acknowledged(_PUBREL, packet.packet_id)
            case PubComp():
                session.pubcomp(packet.packet_id)
            case PingReq():
                self.send(b"\xd0\0")  # [MQTT-3.12.4-1]
            case Subscribe():
                subscribe(self, packet)
            case Unsubscribe():
                unsubscribe(self, packet)
            case Disconnect():
                disconnected_by(self, packet)
            case Auth():  # no exchange was begun (section 4.12)
                raise PacketError(ReasonCode.PROTOCOL_ERROR, "AUTH without a method")
            case _:
                raise PacketError(ReasonCode.PROTOCOL_ERROR, f"{type(packet).__name__} of a client")

    def acknowledged(self, first: int, packet_id: int) -> None:
        """The client acknowledges, without a reason."""
        session = self.session
        assert session is not None
        if first == _PUBACK:
            session.puback(packet_id)
        elif first == _PUBCOMP:
            session.pubcomp(packet_id)
        elif first == _PUBREL:
            self.publishing.release(packet_id)
        elif session.pubrec(packet_id, failed=False) or self.version == _V311:
            self.send(b"\x62\x02" + packet_id.to_bytes(2, "big"))
        else:
            self.send(b"\x62\x03%b\x92" % packet_id.to_bytes(2, "big"))

    def _acknowledged_all(self, first: int, run: bytes) -> None:
        session = self.session
        assert session is not None
        if first == _PUBACK:
            session.puback(*identifiers(run))
        elif first == _PUBCOMP:
            session.pubcomp(*identifiers(run))
        elif first == _PUBREL:
            self.publishing.release_all(run)
        elif session.pubrec(*identifiers(run), failed=False) or self.version == _V311:
            self.send(answered(run, _PUBREL), len(run) >> 2)
        else:
            for packet_id in identifiers(run):
                self.acknowledged(first, packet_id)

    def _greet(self, data: bytes) -> int:
        """Handle a CONNECT; return where the next packet starts, -1 if it is not all there."""
        start = handover.first_packet(data, self.core.limits.connect_bytes)
        if start is None:
            return -1
        self.version = start.version
        traffic = self.core.traffic
        traffic.connects += 1
        traffic.packets_read += 1
        traffic.others_read += 1
        try:
            packet = decode(data[0], data[start.body : start.end], start.version)
        except PacketError as error:
            refuse(self, error.reason, str(error))
            return 0
        if not isinstance(packet, Connect):  # [MQTT-3.1.0-1]
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "packet before CONNECT", data[0], "MQTT-3.1.0-1"
            )
        if packet.is_link:
            why = self._why_no_link(packet)
            if why:
                refuse(self, ReasonCode.NOT_AUTHORIZED, why)
                return 0
            self.is_closing = True
            handover.hand_over(self, data)
            return 0
        self.is_bridge = packet.bridge
        admit(self, packet)
        return start.end

    def _why_no_link(self, packet: Connect) -> str:
        """Why a gateway may not open a link on this connection; nothing if it may."""
        if not self.takes_links:
            return "a link over a websocket"
        why_no_link = self.core.hooks.why_no_link
        return why_no_link(packet, self.certificate, self.address) if why_no_link else ""

    def forget_decisions(self) -> None:
        """Decide anew what the client may publish."""
        self.publishing.forget_decisions()

    # -- answers to a PUBLISH -----------------------------------------------------------------

    def answer(self, answers: Sequence[bytes]) -> None:
        """Messages are in the log: send these PUBACKs and PUBRECs without reason."""
        if self.is_closing:
            return
        if self.version != _V311:
            self.publishing.unacknowledged -= sum([answer[0] == _PUBACK for answer in answers])
        count = len(answers)
        self.send(answers[0] if count == 1 else b"".join(answers), count)

    def answer_alone(self, answer: bytes) -> None:
        """The same for the PUBACK or PUBREC of a message that came alone."""
        if self.is_closing:
            return
        if self.version != _V311 and answer[0] == _PUBACK:
            self.publishing.unacknowledged -= 1
        self.send(answer)

    def refuse(self, packet_id: int, reason: int) -> None:
        """A message was not accepted."""
        if not self.is_closing:
            self.publishing.refuse(packet_id, reason)

    # -- the end -------------------------------------------------------------------------------

    def fail(self, error: PacketError) -> None:
        """The client broke the protocol: say so in 5.0, and close [MQTT-4.13.1-1]."""
        self.core.refused(f"protocol error ({error.reason.name.lower()})", f"{self}: {error}")
        if self.session is None:
            self.abort()
        else:
            self.disconnect(error.reason, str(error), linger=True)

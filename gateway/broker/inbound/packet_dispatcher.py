"""Dispatch of each packet of an accepted client to the part that deals with it.

The exchange of a QoS 1 or 2 message towards the client stands in `sessions.in_flight`, that of one
from the client in `publisher`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.broker.inbound.disconnections import Disconnections
from gateway.broker.inbound.publish_authorizer import PublishAuthorizer
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.inbound.subscribe_requests import SubscribeRequests, check_size
from gateway.broker.limits import Limits
from gateway.broker.statistics.traffic import Traffic
from gateway.mqtt import (
    V311,
    Auth,
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
    body_at,
    check_sent_by_client,
    decode,
)

_PUBLISH: Final = 0x30
_CONNECT: Final = 0x10
_PUBACK: Final = 0x40
_PUBREC: Final = 0x50
_PUBREL: Final = 0x62
_PUBCOMP: Final = 0x70
_ACKNOWLEDGEMENTS: Final = frozenset((_PUBACK, _PUBREC, _PUBREL, _PUBCOMP))
_ACKNOWLEDGEMENT_BYTES: Final = 4
"""One without a reason."""


class PacketDispatcher:
    """Deals with packets.

    Args:
        publishing: deals with PUBLISH.
        requests: deals with SUBSCRIBE and UNSUBSCRIBE.
        disconnections: deals with DISCONNECT.
        limits: of other packets.
        traffic: counts what has come.

    """

    def __init__(
        self,
        publishing: PublishAuthorizer,
        requests: SubscribeRequests,
        disconnections: Disconnections,
        limits: Limits,
        traffic: Traffic,
    ) -> None:
        self._publishing = publishing
        self._requests = requests
        self._disconnections = disconnections
        self._limits = limits
        self._traffic = traffic

    def receive(self, publisher: Publisher, packets: Sequence[bytes], at: int) -> int:
        """Handle packets until one has to wait, may have taken long, or ends the connection.

        Args:
            publisher: who sent them.
            packets: the whole of each.
            at: where the first of them stands that is not dealt with.

        Returns:
            Where the next one stands; at `at` if the first has to be handed in again when what it
            waits for is there.

        Raises:
            PacketError: the client broke the protocol.

        """
        publishing, channel, waiting = self._publishing, publisher.channel, publisher.waiting
        qos_1 = qos_2 = published_bytes = others = 0
        try:
            while at < len(packets):
                packet = packets[at]
                first = packet[0]
                if first & 0xF0 == _PUBLISH:
                    if not publishing.receive(publisher, packet):
                        break
                    published_bytes += len(packet)
                    qos_1 += first >> 1 & 1
                    qos_2 += first >> 2 & 1
                    at += 1
                    if channel.is_closing or waiting.verdict is not None:
                        break
                    continue
                others += 1
                at += 1
                publisher.has_made_room = True  # as acknowledgements do; else it is found out
                if len(packet) != _ACKNOWLEDGEMENT_BYTES or first not in _ACKNOWLEDGEMENTS:
                    self._other(publisher, packet)
                    break
                packet_id = packet[2] << 8 | packet[3]
                if first == _PUBACK:  # here, for each message
                    publisher.session.outgoing.puback(packet_id)
                else:
                    self._acknowledged(publisher, first, packet_id)
        finally:
            traffic = self._traffic
            traffic.published_bytes += published_bytes
            traffic.received_qos_1 += qos_1
            traffic.received_qos_2 += qos_2
            traffic.others_read += others
        return at

    def _acknowledged(self, publisher: Publisher, first: int, packet_id: int) -> None:
        """The client acknowledges a step of QoS 2, without a reason."""
        outgoing = publisher.session.outgoing
        if first == _PUBCOMP:
            outgoing.pubcomp(packet_id)
        elif first == _PUBREL:
            publisher.release(packet_id)
        elif outgoing.pubrec(packet_id, failed=False) or publisher.version == V311:
            publisher.channel.send(b"\x62\x02" + packet_id.to_bytes(2, "big"))
        else:
            publisher.channel.send(b"\x62\x03%b\x92" % packet_id.to_bytes(2, "big"))

    def _other(self, publisher: Publisher, raw: bytes) -> None:
        first, body = raw[0], body_at(raw)
        if first >> 4 == PacketType.CONNECT:  # whatever it says
            raise PacketError(ReasonCode.PROTOCOL_ERROR, "second CONNECT", None, "MQTT-3.1.0-2")
        check_size(raw, body, publisher.version, self._limits)
        packet = decode(first, raw[body:], publisher.version)
        check_sent_by_client(packet)
        session = publisher.session
        match packet:
            case PubAck():
                session.outgoing.puback(packet.packet_id)
            case PubRec() if packet.reason >= 0x80:
                session.outgoing.pubrec(packet.packet_id, failed=True)
            case PubRec():
                self._acknowledged(publisher, _PUBREC, packet.packet_id)
            case PubRel():
                self._acknowledged(publisher, _PUBREL, packet.packet_id)
            case PubComp():
                session.outgoing.pubcomp(packet.packet_id)
            case PingReq():
                publisher.channel.send(b"\xd0\0")  # [MQTT-3.12.4-1]
            case Subscribe():
                self._requests.subscribe(publisher, packet)
            case Unsubscribe():
                self._requests.unsubscribe(publisher, packet)
            case Disconnect():
                self._disconnections.leave(session, packet)
            case Auth():  # no exchange was begun (section 4.12)
                raise PacketError(ReasonCode.PROTOCOL_ERROR, "AUTH without a method")

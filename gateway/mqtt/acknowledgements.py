"""PUBACK, PUBREC, PUBREL and PUBCOMP, which are all alike (sections 3.4 to 3.7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from gateway.mqtt.errors import malformed, protocol_error
from gateway.mqtt.framing import frame
from gateway.mqtt.kinds import PacketType, Version
from gateway.mqtt.primitives import encode_packet_id, read_packet_id
from gateway.mqtt.properties import (
    Properties,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.reason_codes import REASONS, reason_text


class Step:
    """What the four differ in. No part of the record: compiled, that would take it for fields."""

    __slots__ = ()
    packet_type: ClassVar[PacketType]
    first_byte: ClassVar[int]
    statement: ClassVar[str]
    """Which one its reason codes obey."""


@dataclass(slots=True)
class Acknowledgement(Step):
    """A step of the exchange for a QoS 1 or 2 message; each of the four is a class of its own.

    Attributes:
        packet_id: of the PUBLISH that it belongs to [MQTT-2.2.1-5].
        reason: how it went; 3.1.1 has none, so it is left out when encoded for that.
        properties: of 5.0; left out likewise.

    """

    packet_id: int
    reason: int = 0
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        reason = f" {reason_text(self.reason)}" if self.reason else ""
        return (
            f"{self.packet_type.name} id {self.packet_id}{reason}{properties_text(self.properties)}"
        )


class PubAck(Acknowledgement):
    """A QoS 1 message was accepted or refused."""

    __slots__ = ()
    packet_type = PacketType.PUBACK
    first_byte = 0x40
    statement = "MQTT-3.4.2-1"


class PubRec(Acknowledgement):
    """A QoS 2 message was received or refused."""

    __slots__ = ()
    packet_type = PacketType.PUBREC
    first_byte = 0x50
    statement = "MQTT-3.5.2-1"


class PubRel(Acknowledgement):
    """The sender of a QoS 2 message lets go of it [MQTT-3.6.1-1]."""

    __slots__ = ()
    packet_type = PacketType.PUBREL
    first_byte = 0x62
    statement = "MQTT-3.6.2-1"


class PubComp(Acknowledgement):
    """The exchange of a QoS 2 message is complete."""

    __slots__ = ()
    packet_type = PacketType.PUBCOMP
    first_byte = 0x70
    statement = "MQTT-3.7.2-1"


_A = TypeVar("_A", bound=Acknowledgement)


def decode_acknowledgement(kind: type[_A], body: bytes, version: int) -> _A:
    """Read the body of an acknowledgement of this class.

    Reason and properties may be left out from the end (section 3.4.2.1).

    Raises:
        PacketError: cut short or too long, packet identifier 0, or a reason code of another packet.

    """
    end = len(body)
    if end == 2:
        packet_id = body[0] << 8 | body[1]
        if packet_id:
            return kind(packet_id)
    packet_id, at = read_packet_id(kind.packet_type.name, body, 0, end)
    if version != Version.V5:
        raise malformed(f"{kind.packet_type.name} length", end)
    reason = body[at]
    _check_reason(kind, reason)
    at += 1
    properties: Properties = {}
    if at < end:
        properties, at = decode_properties(body, at, end, kind.packet_type)
    if at != end:
        raise malformed(f"{kind.packet_type.name} length", end)
    return kind(packet_id, reason, properties)


def encode_acknowledgement(packet: Acknowledgement, version: int) -> bytes:
    """An acknowledgement's packet, in as few bytes as it takes.

    For 3.1.1 a refusal becomes a plain acknowledgement, as that version wants it ([MQTT-3.3.5-2]
    of 3.1.1), and properties are left out.

    Raises:
        PacketError: what `decode_acknowledgement` would refuse.

    """
    encoded_id = encode_packet_id(packet.packet_type.name, packet.packet_id)
    _check_reason(type(packet), packet.reason)
    if version != Version.V5 or not (packet.reason or packet.properties):
        return bytes((packet.first_byte, 2)) + encoded_id
    body = encoded_id + bytes((packet.reason,))
    if packet.properties:
        body += encode_properties(packet.properties, packet.packet_type)
    return frame(packet.first_byte, body)


def _check_reason(kind: type[Acknowledgement], reason: int) -> None:
    if reason not in REASONS[kind.packet_type]:
        raise protocol_error(f"{kind.packet_type.name} reason code", reason, kind.statement)

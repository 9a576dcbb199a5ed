"""Packets that say how something went: a reason, and in 5.0 properties.

PUBACK, PUBREC, PUBREL and PUBCOMP (sections 3.4 to 3.7), DISCONNECT and AUTH (3.14 and 3.15).
Reason and properties may be left out from the end; they are, where that says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from gateway.mqtt.errors import malformed, protocol_error
from gateway.mqtt.kinds import V5, PacketType, packet_name
from gateway.mqtt.primitives import Reader, encode_packet_id
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    encode_properties,
    properties_text,
    read_properties,
)
from gateway.mqtt.reason_codes import REASONS, STATEMENTS, ReasonCode, reason_text
from light_dataclasses import dataclass


@dataclass(slots=True)
class Acknowledgement:
    """A step of the exchange for a QoS 1 or 2 message; each of the four is a class of its own.

    Attributes:
        packet_id: of the PUBLISH that it belongs to [MQTT-2.2.1-5].
        reason: how it went; 3.1.1 has none, so it is left out when encoded for that: a refusal
            becomes a plain acknowledgement ([MQTT-3.3.5-2] of 3.1.1).
        properties: of 5.0; left out likewise.

    """

    packet_id: int
    reason: int = 0
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        reason = f" {reason_text(self.reason)}" if self.reason else ""
        name = type(self).__name__.upper()
        return f"{name} id {self.packet_id}{reason}{properties_text(self.properties)}"


class PubAck(Acknowledgement):
    """A QoS 1 message was accepted or refused."""

    __slots__ = ()


class PubRec(Acknowledgement):
    """A QoS 2 message was received or refused."""

    __slots__ = ()


class PubRel(Acknowledgement):
    """The sender of a QoS 2 message lets go of it [MQTT-3.6.1-1]."""

    __slots__ = ()


class PubComp(Acknowledgement):
    """The exchange of a QoS 2 message is complete."""

    __slots__ = ()


@dataclass(slots=True)
class Disconnect:
    """The last packet on a connection; in 3.1.1 only a client sends one, without a reason."""

    reason: int = 0
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        reason = reason_text(self.reason) if self.reason else "normal"
        return f"DISCONNECT {reason}{properties_text(self.properties)}"


@dataclass(slots=True)
class Auth:
    """A step of an extended authentication, of 5.0 alone."""

    reason: int = 0
    properties: Properties = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"AUTH {reason_text(self.reason)}{properties_text(self.properties)}"


_ACKNOWLEDGEMENTS: Final[Mapping[int, type[Acknowledgement]]] = {
    PacketType.PUBACK: PubAck,
    PacketType.PUBREC: PubRec,
    PacketType.PUBREL: PubRel,
    PacketType.PUBCOMP: PubComp,
}


def decode_acknowledgement(reader: Reader, version: int) -> Acknowledgement:
    """Read the body of one of the four."""
    packet_id = reader.packet_id()
    reason, properties = _read_reason(reader, version)
    return _ACKNOWLEDGEMENTS[reader.kind](packet_id, reason, properties)


def encode_acknowledgement(packet: Acknowledgement, version: int, kind: int) -> bytes:
    """Return the body of one of the four."""
    encoded_id = encode_packet_id(packet_name(kind), packet.packet_id)
    return encoded_id + _encode_reason(packet.reason, packet.properties, version, kind)


def decode_disconnect(reader: Reader, version: int) -> Disconnect:
    """Read the body of a DISCONNECT."""
    return Disconnect(*_read_reason(reader, version))


def encode_disconnect(packet: Disconnect, version: int, kind: int) -> bytes:
    """Return the body of a DISCONNECT; 3.1.1 can't say a reason but 0."""
    if packet.reason and version != V5:
        raise protocol_error("DISCONNECT reason code in 3.1.1", packet.reason)
    return _encode_reason(packet.reason, packet.properties, version, kind)


def decode_auth(reader: Reader, version: int) -> Auth:
    """Read the body of an AUTH."""
    packet = Auth(*_read_reason(reader, version))
    _check_auth(packet, version)
    return packet


def encode_auth(packet: Auth, version: int, kind: int) -> bytes:
    """Return the body of an AUTH."""
    _check_auth(packet, version)
    return _encode_reason(packet.reason, packet.properties, version, kind)


def check_reason(kind: int, reason: int) -> None:
    """Raise PacketError for a reason code that no packet of this type may carry."""
    if reason not in REASONS[kind]:
        raise protocol_error(f"{packet_name(kind)} reason code", reason, STATEMENTS[kind])


def _read_reason(reader: Reader, version: int) -> tuple[int, Properties]:
    """Read what may be left out (sections 3.4.2.1, 3.14.2.2.1 and 3.15.2.1)."""
    if reader.at == reader.end or version != V5:
        return 0, {}
    reason = reader.integer("reason code", 1)
    check_reason(reader.kind, reason)
    return reason, read_properties(reader, version) if reader.at < reader.end else {}


def _encode_reason(reason: int, properties: Properties, version: int, kind: int) -> bytes:
    check_reason(kind, reason)
    if version != V5 or not (reason or properties):
        return b""
    return bytes((reason,)) + (encode_properties(properties, kind) if properties else b"")


def _check_auth(packet: Auth, version: int) -> None:
    if version != V5:
        raise malformed("packet type of 3.1.1", PacketType.AUTH)
    # Section 3.15.2.2.2 wants the method always, section 3.15.2.1 allows a bare success.
    if (
        packet.reason != ReasonCode.SUCCESS or packet.properties
    ) and PropertyId.AUTHENTICATION_METHOD not in packet.properties:
        raise protocol_error("AUTH without authentication method")

"""DISCONNECT and AUTH (sections 3.14 and 3.15), each a reason with properties."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.mqtt.errors import malformed, protocol_error
from gateway.mqtt.framing import frame
from gateway.mqtt.kinds import PacketType, Version
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.reason_codes import REASONS, ReasonCode, reason_text


@dataclass(slots=True)
class Disconnect:
    """The last packet on a connection; in 3.1.1 only a client sends one, without a reason."""

    reason: int = 0
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        reason = "normal" if self.reason == 0 else reason_text(self.reason)
        return f"DISCONNECT {reason}{properties_text(self.properties)}"


@dataclass(slots=True)
class Auth:
    """A step of an extended authentication, of 5.0 alone."""

    reason: int = 0
    properties: Properties = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"AUTH {reason_text(self.reason)}{properties_text(self.properties)}"


def decode_disconnect(body: bytes, version: int) -> Disconnect:
    """Read the body of a DISCONNECT.

    Raises:
        PacketError: a reason code of another packet [MQTT-3.14.2-1], cut short or too long.

    """
    if not body:
        return Disconnect()
    if version != Version.V5:
        raise malformed("DISCONNECT length", len(body))
    reason, properties = _read(PacketType.DISCONNECT, body)
    _check_reason(PacketType.DISCONNECT, reason)
    return Disconnect(reason, properties)


def encode_disconnect(packet: Disconnect, version: int) -> bytes:
    """A DISCONNECT packet, in as few bytes as it takes.

    Raises:
        PacketError: a reason code of another packet, or any but 0 in 3.1.1.

    """
    _check_reason(PacketType.DISCONNECT, packet.reason)
    if version == Version.V5:
        return _encode(PacketType.DISCONNECT, packet.reason, packet.properties)
    if packet.reason:
        raise protocol_error("DISCONNECT reason code in 3.1.1", packet.reason)
    return bytes((PacketType.DISCONNECT << 4, 0))


def decode_auth(body: bytes, version: int) -> Auth:
    """Read the body of an AUTH.

    Raises:
        PacketError: in 3.1.1, which has none; a reason code of another packet [MQTT-3.15.2-1];
            without its method; cut short or too long.

    """
    _check_has_auth(version)
    reason, properties = _read(PacketType.AUTH, body) if body else (0, {})
    packet = Auth(reason, properties)
    _check_auth(packet)
    return packet


def encode_auth(packet: Auth, version: int) -> bytes:
    """An AUTH packet, in as few bytes as it takes.

    Raises:
        PacketError: what `decode_auth` would refuse.

    """
    _check_has_auth(version)
    _check_auth(packet)
    return _encode(PacketType.AUTH, packet.reason, packet.properties)


def _read(packet_type: PacketType, body: bytes) -> tuple[int, Properties]:
    """Reason and properties; the latter may be left out (sections 3.14.2.2.1 and 3.15.2.1)."""
    end = len(body)
    properties: Properties = {}
    at = 1
    if end > 1:
        properties, at = decode_properties(body, at, end, packet_type)
    if at != end:
        raise malformed(f"{packet_type.name} length", end)
    return body[0], properties


def _encode(packet_type: PacketType, reason: int, properties: Properties) -> bytes:
    if properties:
        body = bytes((reason,)) + encode_properties(properties, packet_type)
    else:
        body = bytes((reason,)) if reason else b""
    return frame(packet_type << 4, body)


def _check_reason(packet_type: PacketType, reason: int) -> None:
    if reason not in REASONS[packet_type]:
        statement = "MQTT-3.15.2-1" if packet_type is PacketType.AUTH else "MQTT-3.14.2-1"
        raise protocol_error(f"{packet_type.name} reason code", reason, statement)


def _check_auth(packet: Auth) -> None:
    _check_reason(PacketType.AUTH, packet.reason)
    # Section 3.15.2.2.2 wants the method always, section 3.15.2.1 allows a bare success.
    if (
        packet.reason != ReasonCode.SUCCESS or packet.properties
    ) and PropertyId.AUTHENTICATION_METHOD not in packet.properties:
        raise protocol_error("AUTH without authentication method")


def _check_has_auth(version: int) -> None:
    if version != Version.V5:
        raise malformed("packet type of 3.1.1", PacketType.AUTH)

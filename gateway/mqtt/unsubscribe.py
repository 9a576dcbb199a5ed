"""UNSUBSCRIBE and UNSUBACK (sections 3.10 and 3.11)."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.mqtt.errors import malformed, protocol_error, shortened
from gateway.mqtt.framing import frame
from gateway.mqtt.kinds import PacketType, Version
from gateway.mqtt.primitives import (
    encode_packet_id,
    encode_string,
    read_binary,
    read_packet_id,
)
from gateway.mqtt.properties import (
    Properties,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.reason_codes import REASONS, reason_text
from gateway.mqtt.topic_rules import check_topic_filter


@dataclass(slots=True)
class Unsubscribe:
    """A client wants no more of these; there is at least one filter [MQTT-3.10.3-2]."""

    packet_id: int
    filters: list[str]
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        shown = "; ".join(map(shortened, self.filters[:3]))
        more = f" and {len(self.filters) - 3} more" if len(self.filters) > 3 else ""
        return f"UNSUBSCRIBE id {self.packet_id} {shown}{more}{properties_text(self.properties)}"


@dataclass(slots=True)
class UnsubAck:
    """The server's answer, one reason for each filter in their order [MQTT-3.11.3-1].

    3.1.1 has no reasons: there the list is empty, and left out when it is encoded.
    """

    packet_id: int
    reasons: list[int]
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(map(reason_text, self.reasons[:8]))
        more = f" and {len(self.reasons) - 8} more" if len(self.reasons) > 8 else ""
        return f"UNSUBACK id {self.packet_id} {shown}{more}{properties_text(self.properties)}"


def decode_unsubscribe(body: bytes, version: int) -> Unsubscribe:
    """Read the body of an UNSUBSCRIBE.

    Raises:
        PacketError: no filter or one that is none, packet identifier 0, or cut short.

    """
    end = len(body)
    packet_id, at = read_packet_id("UNSUBSCRIBE", body, 0, end)
    properties: Properties = {}
    if version == Version.V5:
        properties, at = decode_properties(body, at, end, PacketType.UNSUBSCRIBE)
    filters: list[str] = []
    while at < end:
        encoded_filter, at = read_binary("UNSUBSCRIBE topic filter", body, at, end)
        filters.append(check_topic_filter(encoded_filter))
    if not filters:
        raise protocol_error("UNSUBSCRIBE without topic filter", statement="MQTT-3.10.3-2")
    return Unsubscribe(packet_id, filters, properties)


def encode_unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    """An UNSUBSCRIBE packet.

    Raises:
        PacketError: what `decode_unsubscribe` would refuse.

    """
    if not packet.filters:
        raise protocol_error("UNSUBSCRIBE without topic filter", statement="MQTT-3.10.3-2")
    parts = [encode_packet_id("UNSUBSCRIBE", packet.packet_id)]
    if version == Version.V5:
        parts.append(encode_properties(packet.properties, PacketType.UNSUBSCRIBE))
    parts += (
        encode_string("UNSUBSCRIBE topic filter", check_topic_filter(one)) for one in packet.filters
    )
    return frame(PacketType.UNSUBSCRIBE << 4 | 2, b"".join(parts))


def decode_unsuback(body: bytes, version: int) -> UnsubAck:
    """Read the body of an UNSUBACK.

    Raises:
        PacketError: without reason code or with one that is none [MQTT-3.11.3-2], or cut short;
            too long for 3.1.1.

    """
    end = len(body)
    packet_id, at = read_packet_id("UNSUBACK", body, 0, end)
    if version != Version.V5:
        if at != end:
            raise malformed("UNSUBACK length", end)
        return UnsubAck(packet_id, [])
    properties, at = decode_properties(body, at, end, PacketType.UNSUBACK)
    packet = UnsubAck(packet_id, list(body[at:]), properties)
    _check_reasons(packet.reasons)
    return packet


def encode_unsuback(packet: UnsubAck, version: int) -> bytes:
    """An UNSUBACK packet.

    Raises:
        PacketError: without reason code or with one that an UNSUBACK may not carry, in 5.0.

    """
    encoded_id = encode_packet_id("UNSUBACK", packet.packet_id)
    if version != Version.V5:
        return frame(PacketType.UNSUBACK << 4, encoded_id)
    _check_reasons(packet.reasons)
    properties = encode_properties(packet.properties, PacketType.UNSUBACK)
    return frame(PacketType.UNSUBACK << 4, encoded_id + properties + bytes(packet.reasons))


def _check_reasons(reasons: list[int]) -> None:
    if not reasons:
        raise malformed("UNSUBACK without reason code")
    for reason in reasons:
        if reason not in REASONS[PacketType.UNSUBACK]:
            raise protocol_error("UNSUBACK reason code", reason, "MQTT-3.11.3-2")

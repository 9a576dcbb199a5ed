"""Reasons that a 5.0 client is given for a refusal or a disconnection."""

from __future__ import annotations

from typing import Final

from gateway.mqtt import ConnAck, Disconnect, PacketType, PropertyId, ReasonCode, Version, encode
from gateway.mqtt.reason_codes import REASONS

REASON_CHARACTERS_MAX: Final = 200


def with_reason(packet: Disconnect | ConnAck, why: str, packet_bytes_max: int | None) -> bytes:
    """Return a packet with a reason string, if that fits [MQTT-3.2.2-19] [MQTT-3.14.2-3].

    These two may have one whether or not the client asked for problem information (section
    3.1.2.11.7); no other packet of the broker's has one.

    Args:
        packet: a reason code that it can't have becomes Protocol error.
        why: for whoever looks after the client.
        packet_bytes_max: the client's Maximum Packet Size; None for any.

    """
    kind = PacketType.DISCONNECT if isinstance(packet, Disconnect) else PacketType.CONNACK
    if packet.reason not in REASONS[kind]:
        packet.reason = ReasonCode.PROTOCOL_ERROR
    plain = encode(packet, Version.V5)
    if not why:
        return plain
    packet.properties = {PropertyId.REASON_STRING: why[:REASON_CHARACTERS_MAX]}
    full = encode(packet, Version.V5)
    return full if packet_bytes_max is None or len(full) <= packet_bytes_max else plain

"""SUBSCRIBE and SUBACK (sections 3.8 and 3.9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.mqtt.errors import malformed, protocol_error, shortened
from gateway.mqtt.framing import frame
from gateway.mqtt.kinds import PacketType, Version
from gateway.mqtt.primitives import (
    encode_packet_id,
    encode_string,
    read_binary,
    read_byte,
    read_packet_id,
)
from gateway.mqtt.properties import (
    Properties,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.reason_codes import REASONS, ReasonCode, reason_text
from gateway.mqtt.topic_rules import check_topic_filter, is_shared

_NO_LOCAL: Final = 0x04
_RETAIN_AS_PUBLISHED: Final = 0x08
_RESERVED: Final = 0xC0
_RESERVED_311: Final = 0xFC


@dataclass(slots=True)
class SubscriptionRequest:
    """One topic filter with its options (section 3.8.3.1); 3.1.1 has the QoS alone."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0

    def __str__(self) -> str:
        return (
            f"{shortened(self.filter)} QoS {self.qos}{' no local' if self.no_local else ''}"
            f"{' retain as published' if self.retain_as_published else ''}"
            f"{f' retain handling {self.retain_handling}' if self.retain_handling else ''}"
        )


@dataclass(slots=True)
class Subscribe:
    """A client asks for messages; there is at least one request [MQTT-3.8.3-2]."""

    packet_id: int
    requests: list[SubscriptionRequest]
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        shown = "; ".join(map(str, self.requests[:3]))
        more = f" and {len(self.requests) - 3} more" if len(self.requests) > 3 else ""
        return f"SUBSCRIBE id {self.packet_id} {shown}{more}{properties_text(self.properties)}"


@dataclass(slots=True)
class SubAck:
    """The server's answer, one reason for each request in their order [MQTT-3.9.3-1].

    A failure of 5.0 becomes 0x80 when it is encoded for 3.1.1, which has no other.
    """

    packet_id: int
    reasons: list[int]
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(
            f"QoS {reason}" if reason < 3 else reason_text(reason) for reason in self.reasons[:8]
        )
        more = f" and {len(self.reasons) - 8} more" if len(self.reasons) > 8 else ""
        return f"SUBACK id {self.packet_id} {shown}{more}{properties_text(self.properties)}"


def decode_subscribe(body: bytes, version: int) -> Subscribe:
    """Read the body of a SUBSCRIBE.

    Raises:
        PacketError: no request, a filter or an option that is none, packet identifier 0, or cut
            short.

    """
    end = len(body)
    packet_id, at = read_packet_id("SUBSCRIBE", body, 0, end)
    properties: Properties = {}
    if version == Version.V5:
        properties, at = decode_properties(body, at, end, PacketType.SUBSCRIBE)
    requests: list[SubscriptionRequest] = []
    while at < end:
        encoded_filter, at = read_binary("SUBSCRIBE topic filter", body, at, end)
        options, at = read_byte("SUBSCRIBE options", body, at, end)
        request = _request(check_topic_filter(encoded_filter), options, version)
        _check_request(request)
        requests.append(request)
    if not requests:
        raise protocol_error("SUBSCRIBE without topic filter", statement="MQTT-3.8.3-2")
    return Subscribe(packet_id, requests, properties)


def encode_subscribe(packet: Subscribe, version: int) -> bytes:
    """A SUBSCRIBE packet.

    Raises:
        PacketError: what `decode_subscribe` would refuse, or an option that 3.1.1 does not have.

    """
    if not packet.requests:
        raise protocol_error("SUBSCRIBE without topic filter", statement="MQTT-3.8.3-2")
    parts = [encode_packet_id("SUBSCRIBE", packet.packet_id)]
    if version == Version.V5:
        parts.append(encode_properties(packet.properties, PacketType.SUBSCRIBE))
    for request in packet.requests:
        _check_request(request)
        options = (
            request.qos
            | (_NO_LOCAL if request.no_local else 0)
            | (_RETAIN_AS_PUBLISHED if request.retain_as_published else 0)
            | request.retain_handling << 4
        )
        if version != Version.V5 and options & _RESERVED_311:
            raise malformed("SUBSCRIBE options for 3.1.1", options, "MQTT-3-8.3-4 (3.1.1)")
        parts.append(encode_string("SUBSCRIBE topic filter", check_topic_filter(request.filter)))
        parts.append(bytes((options,)))
    return frame(PacketType.SUBSCRIBE << 4 | 2, b"".join(parts))


def decode_suback(body: bytes, version: int) -> SubAck:
    """Read the body of a SUBACK.

    Raises:
        PacketError: no reason code, one that is none [MQTT-3.9.3-2], or cut short.

    """
    end = len(body)
    packet_id, at = read_packet_id("SUBACK", body, 0, end)
    properties: Properties = {}
    if version == Version.V5:
        properties, at = decode_properties(body, at, end, PacketType.SUBACK)
    packet = SubAck(packet_id, list(body[at:]), properties)
    _check_reasons(packet.reasons)
    if version != Version.V5 and max(packet.reasons) > ReasonCode.UNSPECIFIED_ERROR:
        raise malformed("SUBACK return code", max(packet.reasons), "MQTT-3.9.3-2 (3.1.1)")
    return packet


def encode_suback(packet: SubAck, version: int) -> bytes:
    """A SUBACK packet.

    Raises:
        PacketError: no reason code or one that a SUBACK may not carry.

    """
    _check_reasons(packet.reasons)
    encoded_id = encode_packet_id("SUBACK", packet.packet_id)
    if version == Version.V5:
        encoded_id += encode_properties(packet.properties, PacketType.SUBACK)
        return frame(PacketType.SUBACK << 4, encoded_id + bytes(packet.reasons))
    codes = bytes(min(reason, ReasonCode.UNSPECIFIED_ERROR) for reason in packet.reasons)
    return frame(PacketType.SUBACK << 4, encoded_id + codes)


def _request(topic_filter: str, options: int, version: int) -> SubscriptionRequest:
    if version != Version.V5:
        if options > 2:
            raise malformed("SUBSCRIBE options", options, "MQTT-3-8.3-4 (3.1.1)")
        return SubscriptionRequest(topic_filter, options)
    if options & _RESERVED:
        raise malformed("SUBSCRIBE options", options, "MQTT-3.8.3-5")
    return SubscriptionRequest(
        topic_filter,
        options & 3,
        bool(options & _NO_LOCAL),
        bool(options & _RETAIN_AS_PUBLISHED),
        options >> 4,
    )


def _check_request(request: SubscriptionRequest) -> None:
    """What section 3.8.3.1 calls protocol errors."""
    if not 0 <= request.qos <= 2:
        raise protocol_error("SUBSCRIBE QoS", request.qos)
    if not 0 <= request.retain_handling <= 2:
        raise protocol_error("SUBSCRIBE retain handling", request.retain_handling)
    if request.no_local and is_shared(request.filter):
        raise protocol_error(
            "SUBSCRIBE no local of a shared subscription", request.filter, "MQTT-3.8.3-4"
        )


def _check_reasons(reasons: list[int]) -> None:
    if not reasons:
        raise malformed("SUBACK without reason code")
    for reason in reasons:
        if reason not in REASONS[PacketType.SUBACK]:
            raise protocol_error("SUBACK reason code", reason, "MQTT-3.9.3-2")

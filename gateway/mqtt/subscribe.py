"""SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (sections 3.8 to 3.11)."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from gateway.mqtt.acknowledgements import check_reason
from gateway.mqtt.errors import first_of, malformed, protocol_error, shortened
from gateway.mqtt.kinds import V5, PacketType, packet_name
from gateway.mqtt.primitives import Reader, encode_packet_id, encode_string
from gateway.mqtt.properties import (
    Properties,
    encode_properties,
    properties_text,
    read_properties,
)
from gateway.mqtt.reason_codes import ReasonCode, reason_text
from gateway.mqtt.topic_rules import check_topic_filter, is_shared
from light_dataclasses import dataclass

_NO_LOCAL: Final = 0x04
_RETAIN_AS_PUBLISHED: Final = 0x08
_RESERVED: Final = 0xC0


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
        shown = first_of(list(map(str, self.requests)), 3, "; ")
        return f"SUBSCRIBE id {self.packet_id} {shown}{properties_text(self.properties)}"


@dataclass(slots=True)
class Unsubscribe:
    """A client wants no more of these; there is at least one filter [MQTT-3.10.3-2]."""

    packet_id: int
    filters: list[str]
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        shown = first_of(list(map(shortened, self.filters)), 3, "; ")
        return f"UNSUBSCRIBE id {self.packet_id} {shown}{properties_text(self.properties)}"


@dataclass(slots=True)
class FilterAnswer:
    """The server's answer to either, one reason for each thing asked for, in their order.

    Attributes:
        packet_id: of the question.
        reasons: those of 5.0 [MQTT-3.9.3-1] [MQTT-3.11.3-1].
        properties: of 5.0; left out when it is encoded for 3.1.1.

    """

    packet_id: int
    reasons: list[int]
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        name = type(self).__name__.upper()
        granted = 3 if name == "SUBACK" else 0
        reasons = [f"QoS {one}" if one < granted else reason_text(one) for one in self.reasons]
        shown = first_of(reasons, 8, ", ")
        return f"{name} id {self.packet_id} {shown}{properties_text(self.properties)}"


class SubAck(FilterAnswer):
    """To a SUBSCRIBE; 3.1.1 knows one failure alone, 0x80, and is told that for each."""

    __slots__ = ()


class UnsubAck(FilterAnswer):
    """To an UNSUBSCRIBE; 3.1.1 has no reasons: there the list is empty, or left out."""

    __slots__ = ()


def decode_subscribe(reader: Reader, version: int) -> Subscribe:
    """Read the body of a SUBSCRIBE."""
    packet = Subscribe(reader.packet_id(), [], read_properties(reader, version))
    while reader.at < reader.end:
        topic_filter = check_topic_filter(reader.binary("topic filter"))
        options = reader.integer("options", 1)
        if version != V5 and options > 2:
            raise malformed("SUBSCRIBE options", options, "MQTT-3-8.3-4 (3.1.1)")
        if options & _RESERVED:
            raise malformed("SUBSCRIBE options", options, "MQTT-3.8.3-5")
        request = SubscriptionRequest(
            topic_filter,
            options & 3,
            options & _NO_LOCAL != 0,
            options & _RETAIN_AS_PUBLISHED != 0,
            options >> 4,
        )
        _check_request(request)
        packet.requests.append(request)
    _check_asks(reader.kind, len(packet.requests))
    return packet


def encode_subscribe(packet: Subscribe, version: int, kind: int) -> bytes:
    """Return the body of a SUBSCRIBE; 3.1.1 can't say an option but the QoS."""
    _check_asks(kind, len(packet.requests))
    parts = [_encode_start(kind, packet.packet_id, packet.properties, version)]
    for request in packet.requests:
        _check_request(request)
        options = (
            request.qos
            | (_NO_LOCAL if request.no_local else 0)
            | (_RETAIN_AS_PUBLISHED if request.retain_as_published else 0)
            | request.retain_handling << 4
        )
        if version != V5 and options > 2:
            raise malformed("SUBSCRIBE options for 3.1.1", options, "MQTT-3-8.3-4 (3.1.1)")
        parts += (_encode_filter(request.filter), bytes((options,)))
    return b"".join(parts)


def decode_unsubscribe(reader: Reader, version: int) -> Unsubscribe:
    """Read the body of an UNSUBSCRIBE."""
    packet = Unsubscribe(reader.packet_id(), [], read_properties(reader, version))
    while reader.at < reader.end:
        packet.filters.append(check_topic_filter(reader.binary("topic filter")))
    _check_asks(reader.kind, len(packet.filters))
    return packet


def encode_unsubscribe(packet: Unsubscribe, version: int, kind: int) -> bytes:
    """Return the body of an UNSUBSCRIBE."""
    _check_asks(kind, len(packet.filters))
    start = _encode_start(kind, packet.packet_id, packet.properties, version)
    return start + b"".join(map(_encode_filter, packet.filters))


def decode_answer(reader: Reader, version: int) -> FilterAnswer:
    """Read the body of a SUBACK or UNSUBACK."""
    kind, packet_id, properties = reader.kind, reader.packet_id(), read_properties(reader, version)
    if version != V5 and kind == PacketType.UNSUBACK:
        return UnsubAck(packet_id, [])
    reasons = list(reader.take("reason codes", reader.end - reader.at))
    _check_reasons(kind, reasons)
    if version != V5 and max(reasons) > ReasonCode.UNSPECIFIED_ERROR:
        raise malformed("SUBACK return code", max(reasons), "MQTT-3.9.3-2 (3.1.1)")
    of = SubAck if kind == PacketType.SUBACK else UnsubAck
    return of(packet_id, reasons, properties)


def encode_answer(packet: FilterAnswer, version: int, kind: int) -> bytes:
    """Return the body of a SUBACK or UNSUBACK."""
    start = _encode_start(kind, packet.packet_id, packet.properties, version)
    if version != V5 and kind == PacketType.UNSUBACK:
        return start
    _check_reasons(kind, packet.reasons)
    most = 0xFF if version == V5 else int(ReasonCode.UNSPECIFIED_ERROR)
    return start + bytes([min(reason, most) for reason in packet.reasons])


def _encode_start(kind: int, packet_id: int, properties: Properties, version: int) -> bytes:
    encoded_id = encode_packet_id(packet_name(kind), packet_id)
    return encoded_id + encode_properties(properties, kind) if version == V5 else encoded_id


def _encode_filter(topic_filter: str) -> bytes:
    return encode_string("topic filter", check_topic_filter(topic_filter))


def _check_asks(kind: int, count: int) -> None:
    if not count:
        statement = "MQTT-3.8.3-2" if kind == PacketType.SUBSCRIBE else "MQTT-3.10.3-2"
        raise protocol_error(f"{packet_name(kind)} without topic filter", statement=statement)


def _check_request(request: SubscriptionRequest) -> None:
    """Refuse what section 3.8.3.1 calls protocol errors."""
    if not 0 <= request.qos <= 2:
        raise protocol_error("SUBSCRIBE QoS", request.qos)
    if not 0 <= request.retain_handling <= 2:
        raise protocol_error("SUBSCRIBE retain handling", request.retain_handling)
    if request.no_local and is_shared(request.filter):
        what = "SUBSCRIBE no local of a shared subscription"
        raise protocol_error(what, request.filter, "MQTT-3.8.3-4")


def _check_reasons(kind: int, reasons: list[int]) -> None:
    if not reasons:
        raise malformed(f"{packet_name(kind)} without reason code")
    for reason in reasons:
        check_reason(kind, reason)

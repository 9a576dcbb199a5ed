"""PUBLISH (MQTT 5.0 and 3.1.1, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.mqtt.errors import malformed, protocol_error, shortened
from gateway.mqtt.framing import frame
from gateway.mqtt.kinds import PacketType, Version
from gateway.mqtt.primitives import encode_packet_id, read_packet_id
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.topic_rules import check_topic_name


@dataclass(slots=True)
class Publish:
    """An application message.

    Attributes:
        topic: its topic name; empty where a topic alias stands for it (5.0).
        payload: at most what a packet holds.
        qos: 0, 1 or 2.
        retain: to be kept for later subscribers, or kept for this one.
        dup: sent before.
        packet_id: None with QoS 0 [MQTT-2.2.1-2].
        properties: of 5.0; left out when it is encoded for 3.1.1.

    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int | None = None
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"PUBLISH {shortened(self.topic)} QoS {self.qos}"
            f"{'' if self.packet_id is None else f' id {self.packet_id}'}"
            f"{' retain' if self.retain else ''}{' dup' if self.dup else ''}"
            f", {len(self.payload)} bytes {shortened(self.payload)}"
            f"{properties_text(self.properties)}"
        )


def decode_publish(flags: int, body: bytes, version: int) -> Publish:
    """Read the body of a PUBLISH.

    Args:
        flags: lower four bits of the first byte.
        body: what follows the remaining length.
        version: of the connection.

    Raises:
        PacketError: QoS 3 [MQTT-3.3.1-4], DUP with QoS 0 [MQTT-3.3.1-2], a topic that is none,
            packet identifier 0, or cut short.

    """
    qos = flags >> 1 & 3
    if qos == 3 or flags > 7:
        _check_flags(qos, dup=flags > 7)
    end = len(body)
    at = 2 + (body[0] << 8 | body[1]) if end > 1 else 2
    if at > end:
        raise malformed("PUBLISH topic name cut short")
    encoded_topic = body[2:at]
    packet_id: int | None = None
    if qos:
        packet_id, at = read_packet_id("PUBLISH", body, at, end)
    properties: Properties = {}
    if version == Version.V5:
        properties, at = decode_properties(body, at, end, PacketType.PUBLISH)
    topic = check_topic_name(encoded_topic) if encoded_topic else _aliased(properties, version)
    return Publish(topic, body[at:], qos, flags & 1 == 1, flags > 7, packet_id, properties)


def encode_publish(publish: Publish, version: int) -> bytes:
    """A PUBLISH packet.

    Raises:
        PacketError: what `decode_publish` would refuse, or a packet identifier with QoS 0.

    """
    qos, v5 = publish.qos, version == Version.V5
    _check_flags(qos, dup=publish.dup)
    topic = (
        check_topic_name(publish.topic)
        if publish.topic
        else _aliased(publish.properties if v5 else {}, version)
    )
    encoded_topic = topic.encode()
    parts = [len(encoded_topic).to_bytes(2, "big"), encoded_topic]
    if qos:
        parts.append(encode_packet_id("PUBLISH", publish.packet_id))
    elif publish.packet_id is not None:
        raise protocol_error(
            "PUBLISH packet identifier with QoS 0", publish.packet_id, "MQTT-2.2.1-2"
        )
    if v5:
        parts.append(encode_properties(publish.properties, PacketType.PUBLISH))
    parts.append(publish.payload)
    flags = publish.dup << 3 | qos << 1 | publish.retain
    return frame(PacketType.PUBLISH << 4 | flags, b"".join(parts))


def _check_flags(qos: int, *, dup: bool) -> None:
    if not 0 <= qos <= 2:
        raise malformed("PUBLISH QoS", qos, "MQTT-3.3.1-4")
    if dup and not qos:
        raise malformed("PUBLISH DUP with QoS 0", statement="MQTT-3.3.1-2")


def _aliased(properties: Properties, version: int) -> str:
    """An empty topic, where a topic alias allows it (MQTT 5.0, section 3.3.2.1)."""
    if version != Version.V5:
        raise malformed("topic name is empty", statement="MQTT-4.7.3-1")
    if PropertyId.TOPIC_ALIAS not in properties:
        raise protocol_error("PUBLISH with neither topic name nor topic alias")
    return ""

"""PUBLISH (MQTT 5.0 and 3.1.1, section 3.3)."""

from __future__ import annotations

from dataclasses import field

from gateway.mqtt.errors import malformed, protocol_error, shortened
from gateway.mqtt.kinds import V5, PacketType
from gateway.mqtt.primitives import encode_length, encode_packet_id
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.topic_rules import check_topic_name
from light_dataclasses import dataclass


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


def read_publish(
    data: bytes, first: int, body: int, end: int, version: int
) -> tuple[bytes, int, int, Properties | None]:
    """Read a PUBLISH where it stands, without an object for it.

    What a topic's characters may be is not asked here but by `check_topic_name`, which a caller
    that has seen the topic before can spare itself; whether a client may send a property, by
    `check_sent_by_client`.

    Args:
        data: the packet, or the buffer that it stands in.
        first: its first byte.
        body: where its variable header starts in ``data``.
        end: where it ends.
        version: of the connection.

    Returns:
        The topic in UTF-8, empty where a topic alias stands for it; the packet identifier, 0 with
        QoS 0; where the payload starts; the properties, None where there are none.

    Raises:
        PacketError: QoS 3 [MQTT-3.3.1-4], DUP with QoS 0 [MQTT-3.3.1-2], packet identifier 0
            [MQTT-2.2.1-3], neither topic nor alias, properties that are none, or cut short.

    """
    qos = first >> 1 & 3
    if qos == 3 or first & 0x0E == 0x08:
        _check_flags(qos, dup=first & 8 == 8)
    at = start = body + 2
    if start <= end:
        at += data[body] << 8 | data[body + 1]
    if at > end:
        raise malformed("PUBLISH topic name cut short")
    topic = data[start:at]
    packet_id = 0
    if qos:
        at += 2
        if at > end:
            raise malformed("PUBLISH packet identifier cut short")
        packet_id = data[at - 2] << 8 | data[at - 1]
        if not packet_id:
            raise protocol_error("PUBLISH packet identifier", 0, "MQTT-2.2.1-3")
    properties: Properties | None = None
    if version == V5:
        if at < end and not data[at]:
            at += 1
        else:
            properties, at = decode_properties(data, at, end, PacketType.PUBLISH)
    if not topic:
        _check_aliased(properties, version)
    return topic, packet_id, at, properties


def decode_publish(flags: int, body: bytes, version: int) -> Publish:
    """Read the body of a PUBLISH with these flags, and check its topic name."""
    topic, packet_id, at, properties = read_publish(body, flags, 0, len(body), version)
    return Publish(
        check_topic_name(topic) if topic else "",
        body[at:],
        flags >> 1 & 3,
        flags & 1 == 1,
        flags > 7,
        packet_id or None,
        properties or {},
    )


def encode_publish(publish: Publish, version: int) -> bytes:
    """Return a PUBLISH packet.

    Raises:
        PacketError: what `decode_publish` would refuse, or a packet identifier with QoS 0.

    """
    qos, v5 = publish.qos, version == V5
    _check_flags(qos, dup=publish.dup)
    if publish.topic:
        check_topic_name(publish.topic)
    else:
        _check_aliased(publish.properties, version)
    behind = b""
    if qos:
        behind = encode_packet_id("PUBLISH", publish.packet_id)
    elif publish.packet_id is not None:
        raise protocol_error(
            "PUBLISH packet identifier with QoS 0", publish.packet_id, "MQTT-2.2.1-2"
        )
    if v5:
        behind += encode_properties(publish.properties, PacketType.PUBLISH)
    behind += publish.payload
    flags = publish.dup << 3 | qos << 1 | publish.retain
    return publish_head(flags, publish.topic.encode(), len(behind)) + behind


def publish_head(flags: int, topic: bytes, behind_bytes: int) -> bytes:
    """Return the fixed header and the topic of a PUBLISH.

    Args:
        flags: DUP, QoS and RETAIN as the first byte has them.
        topic: the topic name in UTF-8.
        behind_bytes: length of what comes behind: packet identifier, properties and payload.

    Raises:
        PacketError: the packet would be longer than a remaining length can say.

    """
    length = encode_length(2 + len(topic) + behind_bytes)
    return b"%c%b%b%b" % (0x30 | flags, length, len(topic).to_bytes(2, "big"), topic)


def _check_flags(qos: int, *, dup: bool) -> None:
    if not 0 <= qos <= 2:
        raise malformed("PUBLISH QoS", qos, "MQTT-3.3.1-4")
    if dup and not qos:
        raise malformed("PUBLISH DUP with QoS 0", statement="MQTT-3.3.1-2")


def _check_aliased(properties: Properties | None, version: int) -> None:
    """A topic may be empty where a topic alias stands for it (MQTT 5.0, section 3.3.2.1)."""
    if version != V5:
        raise malformed("topic name is empty", statement="MQTT-4.7.3-1")
    if not properties or PropertyId.TOPIC_ALIAS not in properties:
        raise protocol_error("PUBLISH with neither topic name nor topic alias")

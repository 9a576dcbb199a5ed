"""Topic aliases of MQTT 5.0 (section 3.3.2.3.4), one table for each direction of a connection."""

from __future__ import annotations

from gateway.mqtt import PacketError, ReasonCode, body_at, encode_length, publish_head
from gateway.mqtt.primitives import read_length

_TOPIC_ALIAS = b"\x23"


class IncomingAliases:
    """What a client's aliases stand for; they live as long as the connection [MQTT-3.3.2-7]."""

    __slots__ = ("_limit", "_topics")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._topics: dict[int, bytes] = {}

    def topic(self, alias: int, topic: bytes) -> bytes:
        """The topic that a PUBLISH with this alias is for; a non-empty one sets the alias.

        Raises:
            PacketError: an alias over the limit or one that was never set.

        """
        if not 0 < alias <= self._limit:
            raise PacketError(ReasonCode.TOPIC_ALIAS_INVALID, "topic alias", alias, "MQTT-3.3.2-9")
        if topic:
            self._topics[alias] = topic
            return topic
        try:
            return self._topics[alias]
        except KeyError:
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "topic alias that was never set", alias
            ) from None


class OutgoingAliases:
    """Shortens the topics sent to a client that allows it: the first ones get an alias each."""

    __slots__ = ("_aliases", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._aliases: dict[bytes, int] = {}

    def shorten(self, packet: bytes) -> bytes:
        """The PUBLISH packet to send instead; it must be sent, or the alias is not known."""
        body = body_at(packet)
        topic_at = body + 2
        topic_end = topic_at + (packet[body] << 8 | packet[body + 1])
        topic = packet[topic_at:topic_end]
        properties_at = topic_end + (2 if packet[0] & 6 else 0)
        alias = self._aliases.get(topic)
        is_known = alias is not None
        if alias is None:
            if len(self._aliases) >= self._limit:
                return packet
            alias = self._aliases[topic] = len(self._aliases) + 1
        length, values_at = read_length("property length", packet, properties_at, len(packet))
        behind = b"%b%b%b%b%b" % (
            packet[topic_end:properties_at],
            encode_length(length + 3),
            _TOPIC_ALIAS,
            alias.to_bytes(2, "big"),
            packet[values_at:],
        )
        return publish_head(packet[0] & 15, b"" if is_known else topic, len(behind)) + behind

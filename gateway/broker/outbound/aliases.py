"""Topic aliases that a client of MQTT 5.0 is sent (section 3.3.2.3.4)."""

from __future__ import annotations

from typing import Final

from gateway.mqtt import body_at, encode_length, publish_head
from gateway.mqtt.primitives import read_length

BYTES_MAX: Final = 16 << 10
"""The longest that the topics with an alias may be in all, towards one client."""
_TOPIC_ALIAS: Final = b"\x23"


class OutgoingAliases:
    """Shortens the topics sent to a client that allows it: the first ones get an alias each."""

    __slots__ = ("_aliases", "_bytes", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._aliases: dict[bytes, int] = {}

    def shorten(self, packet: bytes, bytes_max: int | None = None) -> bytes:
        """Return the PUBLISH packet to send instead; it must be sent, or the alias is not known.

        Args:
            packet: which the client takes as it is.
            bytes_max: the client's Maximum Packet Size; None for any. A packet that would be
                beyond it with its new alias is sent without [MQTT-3.1.2-24].

        """
        body = body_at(packet)
        topic_at = body + 2
        topic_end = topic_at + (packet[body] << 8 | packet[body + 1])
        topic = packet[topic_at:topic_end]
        properties_at = topic_end + (2 if packet[0] & 6 else 0)
        alias = self._aliases.get(topic)
        is_known = alias is not None
        if alias is None:
            if len(self._aliases) >= self._limit or self._bytes + len(topic) > BYTES_MAX:
                return packet
            alias = len(self._aliases) + 1
        length, values_at = read_length("property length", packet, properties_at, len(packet))
        behind = b"%b%b%b%b%b" % (
            packet[topic_end:properties_at],
            encode_length(length + 3),
            _TOPIC_ALIAS,
            alias.to_bytes(2, "big"),
            packet[values_at:],
        )
        short = publish_head(packet[0] & 15, b"" if is_known else topic, len(behind)) + behind
        if not is_known:
            if bytes_max is not None and len(short) > bytes_max:
                return packet
            self._aliases[topic] = alias
            self._bytes += len(topic)
        return short

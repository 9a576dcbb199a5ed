"""An application message inside the broker, and its bytes as a PUBLISH packet.

One object stands for a message in all queues and windows that it waits in. Its packets are made
from a head (fixed header and topic), the packet identifier and a tail (properties and payload);
head and properties are made once for each protocol version and flags, not for each receiver.
Delivery flags are the low bits of the first byte: QoS in bits 1 and 2, RETAIN in bit 0.
"""

from __future__ import annotations

from typing import Any

from gateway.broker.journal import Ref
from gateway.broker.packets import PropertyId, Version, encode_length, encode_properties
from tree_handler.batch import Entry

PUBLISH = 0x30
DUP = 0x08
RETAIN = 0x01

EXPIRY = int(PropertyId.MESSAGE_EXPIRY_INTERVAL)
_IDENTIFIER = int(PropertyId.SUBSCRIPTION_IDENTIFIER)
_USER_PROPERTY = int(PropertyId.USER_PROPERTY)
_V311 = int(Version.V311)
_NO_PROPERTIES: dict[int, Any] = {}

OVERHEAD_BYTES = 200
"""What a queued message costs besides its topic and payload, about."""


class Message:
    """One message.

    Attributes:
        topic: the topic name.
        key: the topic name in UTF-8.
        payload: the payload.
        qos: as published.
        retain: as published.
        properties: those of 5.0 that are passed on, message expiry among them.
        expires_at_s: on the loop's clock, or None.
        size_bytes: what it counts for in a queue.
        ref: where it stands in the log; None for one that is not logged.

    """

    __slots__ = (
        "_flags_5",
        "_flags_311",
        "_head_5",
        "_head_311",
        "_properties_5",
        "expires_at_s",
        "key",
        "payload",
        "properties",
        "qos",
        "ref",
        "retain",
        "size_bytes",
        "topic",
    )

    def __init__(  # noqa: PLR0917  # made for each message: keywords cost more
        self,
        topic: str,
        key: bytes,
        payload: bytes,
        qos: int,
        retain: bool,
        properties: dict[int, Any] | None = None,
        now_s: float = 0.0,
    ) -> None:
        self.topic = topic
        self.key = key
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties or _NO_PROPERTIES
        self.size_bytes = len(key) + len(payload) + OVERHEAD_BYTES
        self.expires_at_s: float | None = None
        self.ref: Ref | None = None
        if properties and EXPIRY in properties:
            self.expires_at_s = now_s + properties[EXPIRY]
        self._flags_311 = self._flags_5 = -1
        self._head_311 = self._head_5 = b""
        self._properties_5 = b"\0"

    def came_as(self, version: int, head: bytes) -> None:
        """Its own packet, without anything special, began so: it serves receivers alike."""
        if version == _V311:
            self._head_311 = head
            self._flags_311 = self.qos << 1
        else:
            self._head_5 = head
            self._flags_5 = self.qos << 1

    @classmethod
    def of(cls, entry: Entry, now_s: float) -> Message:
        """The message of a log entry.

        Raises:
            PacketError: it has properties that no packet can carry.

        """
        properties = {int(identifier): value for identifier, value in entry.properties.items()}
        if _USER_PROPERTY in properties:
            properties[_USER_PROPERTY] = [(k, v) for k, v in properties[_USER_PROPERTY]]
        message = cls(
            *(entry.topic, entry.topic.encode(), entry.payload, entry.qos, entry.retain),
            properties,
            now_s,
        )
        if properties:
            encode_properties(properties)
        return message

    def expired(self, now_s: float) -> bool:
        """Whether it may no longer be sent [MQTT-3.3.2-5]."""
        return self.expires_at_s is not None and now_s >= self.expires_at_s

    def packet(
        self, version: int, flags: int, packet_id: int, identifiers: tuple[int, ...], now_s: float
    ) -> bytes:
        """The PUBLISH packet for one receiver.

        Args:
            version: the receiver's.
            flags: QoS and RETAIN as delivered.
            packet_id: for QoS 1 and 2.
            identifiers: the receiver's subscription identifiers.
            now_s: on the loop's clock.

        """
        if version == _V311:
            if self._flags_311 != flags:
                self._head_311 = self._head(flags, len(self.payload))
                self._flags_311 = flags
            if flags & 6:
                return b"%b%b%b" % (self._head_311, packet_id.to_bytes(2, "big"), self.payload)
            return self._head_311 + self.payload
        if identifiers or self.expires_at_s is not None:
            properties = self._properties_now(identifiers, now_s)
            head = self._head(flags, len(properties) + len(self.payload))
        else:
            if self._flags_5 != flags:
                if self.properties:
                    self._properties_5 = encode_properties(self.properties)
                self._head_5 = self._head(flags, len(self._properties_5) + len(self.payload))
                self._flags_5 = flags
            head, properties = self._head_5, self._properties_5
        number = packet_id.to_bytes(2, "big") if flags & 6 else b""
        return b"%b%b%b%b" % (head, number, properties, self.payload)

    def _head(self, flags: int, tail_bytes: int) -> bytes:
        rest = 2 + len(self.key) + (2 if flags & 6 else 0) + tail_bytes
        return b"%c%b%b%b" % (
            PUBLISH | flags,
            encode_length(rest),
            len(self.key).to_bytes(2, "big"),
            self.key,
        )

    def _properties_now(self, identifiers: tuple[int, ...], now_s: float) -> bytes:
        properties = dict(self.properties)
        if self.expires_at_s is not None:
            # What it has waited here is taken off [MQTT-3.3.2-6].
            waited = properties[EXPIRY] - (self.expires_at_s - now_s)
            properties[EXPIRY] = max(0, properties[EXPIRY] - int(waited))
        if identifiers:
            properties[_IDENTIFIER] = list(identifiers)
        return encode_properties(properties)

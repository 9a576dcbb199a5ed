"""An application message inside the broker, and its bytes as a PUBLISH packet.

One object stands for a message in all queues and windows that it waits in. Its packets are made
from a head (fixed header and topic), the packet identifier and a tail (properties and payload).
Head and tail depend on the kind of packet alone, that is protocol version and flags: they are
made once for many receivers, and not at all where the packet as it came has them already.
Delivery flags are the low bits of the first byte: QoS in bits 1 and 2, RETAIN in bit 0. Above them
stands, for a message that waits or is on its way, which shared subscription it is delivered for
(`share_mark`); no packet shows that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import index
from typing import Any, Final, Self

from gateway.mqtt import (
    V311,
    PacketError,
    PropertyId,
    ReasonCode,
    encode_properties,
    publish_head,
)
from tree_handler.batch import Entry, Ref, Row
from tree_handler.holders import Holders
from tree_handler.retained.message import VERSION, stamped_version

DUP: Final = 0x08
RETAIN: Final = 0x01

IN_PACKET: Final = 0x0F
"""Those of the delivery flags that a packet shows."""
_MARK_BYTES: Final = 5
"""Of a digest: two of a thousand groups have the same mark once in two million times."""

EXPIRY: Final = int(PropertyId.MESSAGE_EXPIRY_INTERVAL)
_IDENTIFIER: Final = int(PropertyId.SUBSCRIPTION_IDENTIFIER)
_USER_PROPERTY: Final = int(PropertyId.USER_PROPERTY)
_NO_PROPERTIES: dict[int, Any] = {}
_UNSAID: Final[tuple[str, Holders]] = ("", ())

OVERHEAD_BYTES: Final = 200
"""The memory of a queued message besides its topic, payload and properties, about."""
PROPERTY_BYTES: Final = 150
"""The memory of a property besides its text."""


class Message:
    """One message.

    Attributes:
        topic: the topic name.
        key: the topic name in UTF-8.
        payload: the payload.
        qos: as published.
        retain: as published.
        properties: those of 5.0 that are passed on, message expiry among them; and the version of
            a retained message, which no packet shows.
        expires_at_s: on the loop's clock, or None.
        size_bytes: what it counts for in a queue.
        ref: where it stands in the log; None for one that is not logged.
        proof: see `Entry`.
        sharing: which gateway accepted it, empty for this one, and whose members of shared
            subscriptions get it (`tree_handler.holders`).
        kind, head, tail: the kind of packet made last, and its pieces: see `pieces`.

    """

    __slots__ = (
        "expires_at_s",
        "head",
        "key",
        "kind",
        "payload",
        "proof",
        "properties",
        "qos",
        "ref",
        "retain",
        "sharing",
        "size_bytes",
        "tail",
        "topic",
    )

    def __init__(  # made for each message: keywords cost more
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
        self.size_bytes = size_of(key, len(payload), properties)
        self.expires_at_s: float | None = None
        self.ref: Ref | None = None
        self.proof = b""
        self.sharing = _UNSAID
        if properties and EXPIRY in properties:
            self.expires_at_s = now_s + properties[EXPIRY]
        self.kind = -1
        self.head = self.tail = b""

    @classmethod
    def of(cls, entry: Entry, now_s: float) -> Self:
        """Return the message of a log entry.

        Raises:
            PacketError: it has properties that no packet can carry.

        """
        properties = _checked(entry.properties) if entry.properties else None
        message = cls(
            entry.topic,
            entry.topic.encode(),
            entry.payload,
            entry.qos,
            entry.retain,
            properties,
            now_s,
        )
        message.proof = entry.proof
        return message

    def row(self) -> Row:
        """Return what the log and the tree get of it."""
        row = (self.topic, self.qos | self.retain << 2, self.payload)
        return (*row, self.properties) if self.properties else row

    def entry(self, now_s: float) -> Entry:
        """It as it is now: what it has waited is taken off, and it is not retained again."""
        properties = {i: value for i, value in self.properties.items() if i != VERSION}
        if self.expires_at_s is not None:
            properties[EXPIRY] = max(0, int(self.expires_at_s - now_s))
        return Entry(self.topic, self.payload, self.qos, properties=properties)

    def expired(self, now_s: float) -> bool:
        """Return whether it may no longer be sent [MQTT-3.3.2-5]."""
        return self.expires_at_s is not None and now_s >= self.expires_at_s

    def packet(
        self, version: int, flags: int, packet_id: int, identifiers: tuple[int, ...], now_s: float
    ) -> bytes:
        """Return the PUBLISH packet for one receiver.

        Args:
            version: the receiver's.
            flags: QoS and RETAIN as delivered; what is above them counts for nothing.
            packet_id: for QoS 1 and 2.
            identifiers: the receiver's subscription identifiers.
            now_s: on the loop's clock.

        """
        flags &= IN_PACKET
        if identifiers and version != V311:
            tail = self._properties_now(identifiers, now_s) + self.payload
            head = publish_head(flags, self.key, len(tail) + (2 if flags & 6 else 0))
        else:
            head, tail = self.pieces(version << 4 | flags, now_s)
        return head + packet_id.to_bytes(2, "big") + tail if flags & 6 else head + tail

    def pieces(self, kind: int, now_s: float) -> tuple[bytes, bytes]:
        """Return what stands before and behind the packet identifier in a packet of a kind.

        Args:
            kind: the protocol version in bits 4 and above, the flags below them.
            now_s: on the loop's clock.

        """
        if self.kind == kind:
            return self.head, self.tail
        tail, is_lasting = self.payload, True
        if kind >> 4 != V311:
            is_lasting = self.expires_at_s is None
            tail = (self._properties_now((), now_s) if self.properties else b"\0") + tail
        head = publish_head(kind & 15, self.key, len(tail) + (2 if kind & 6 else 0))
        if is_lasting:
            self.kind, self.head, self.tail = kind, head, tail
        return head, tail

    def _properties_now(self, identifiers: tuple[int, ...], now_s: float) -> bytes:
        properties = dict(self.properties)
        properties.pop(VERSION, None)
        if self.expires_at_s is not None:
            # What it has waited here is taken off [MQTT-3.3.2-6].
            waited = properties[EXPIRY] - (self.expires_at_s - now_s)
            properties[EXPIRY] = max(0, properties[EXPIRY] - int(waited))
        if identifiers:
            properties[_IDENTIFIER] = list(identifiers)
        return encode_properties(properties)


class LearntMessage(Message):
    """A message that came by another way than the log: a neighbour or a checkpoint told of it.

    Its reference says where it stood in its origin's stream; this gateway's log need not have it.
    """


class HandedOnMessage(Message):
    """A message that another gateway handed on to a member of a shared subscription here.

    Attributes:
        hops: how often it was handed on.

    """

    hops: int = 0


def share_mark(group: tuple[str, str]) -> int:
    """Return the delivery flags that say for which shared subscription a message is delivered.

    The same in each life of a gateway, for a journal and a checkpoint have it.

    Args:
        group: the share name and the filter.

    """
    digest = hashlib.blake2b("/".join(group).encode(), digest_size=_MARK_BYTES).digest()
    return (int.from_bytes(digest, "big") | 1) << IN_PACKET.bit_length()


def size_of(key: bytes, payload_bytes: int, properties: dict[int, Any] | None) -> int:
    """Return what a message costs in memory, about: as much on each gateway that has it.

    So its version is not counted: where it is accepted, it gets that later.
    """
    size = 2 * len(key) + payload_bytes + OVERHEAD_BYTES  # name and key
    if not properties:
        return size
    size += PROPERTY_BYTES * (len(properties) - (VERSION in properties))
    for value in properties.values():
        if isinstance(value, (str, bytes)):
            size += len(value)
    for name, value in properties.get(_USER_PROPERTY, ()):
        size += PROPERTY_BYTES + len(name) + len(value)
    return size


def _checked(given: dict[int, Any]) -> dict[int, Any]:
    """Return properties as another gateway may have written them, if packets can carry them."""
    try:
        properties = {index(identifier): value for identifier, value in given.items()}
        if _USER_PROPERTY in properties:
            properties[_USER_PROPERTY] = [(k, v) for k, v in properties[_USER_PROPERTY]]
        encode_properties({i: value for i, value in properties.items() if i != VERSION})
        if VERSION in properties:
            stamped_version(properties[VERSION], ("-", 0))
    except (TypeError, ValueError) as error:
        raise PacketError(ReasonCode.MALFORMED_PACKET, "property", str(error)) from error
    return properties


def plain_packets(key: bytes, payloads: Sequence[bytes], version: int) -> list[bytes]:
    """PUBLISH packets of QoS 0 without properties, on one topic."""
    properties = b"" if version == V311 else b"\0"
    extra = len(properties)
    heads = {
        size: publish_head(0, key, size + extra) + properties for size in set(map(len, payloads))
    }
    return [heads[len(payload)] + payload for payload in payloads]

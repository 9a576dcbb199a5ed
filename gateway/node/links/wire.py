"""The MQTT packets of a link between gateways (B1, B3): codec, sans-I/O.

A link speaks MQTT 3.1.1 on the ordinary port with the top bit of the protocol version set
(0x84); the user name ``$hedgerow/TREE`` tells it from the bridge of another broker. Only what a
link needs is here: CONNECT, CONNACK, PUBLISH at QoS 0 on control topics (repair makes a lost one
good), PUBACK, which acknowledges bytes and not packets, and PINGREQ and PINGRESP with a body.

A message over `PIECE_BYTES` is sent in pieces, so that a hello never waits behind a whole one: each
piece is a PUBLISH of its own, and what follows the last one belongs to the message's topic. Control
messages and batches are cut apart from each other, for a control message may come between two
pieces of a batch.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from gateway import mqtt
from gateway.mqtt import (
    LINK_USER_PREFIX,
    PacketError,
    PacketType,
    Version,
    encode_length,
    packet_end,
)
from gateway.mqtt.primitives import encode_binary, frame
from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError

MAX_MESSAGE_BYTES: Final = 17 * 1024 * 1024
"""A little more than the largest batch."""
MAX_UNAUTHENTICATED_BYTES: Final = 4096
"""No packet of the hand-shake is larger."""
PIECE_BYTES: Final = 32 * 1024
"""A longer message is sent in pieces of this length: a quarter of a second at 1 Mbit/s."""
MAX_PACKET_BYTES: Final = PIECE_BYTES + 4096
"""A piece or a short message, and its topic."""
PIECE_OF_CONTROL: Final = b"$hedgerow/piece/control"
PIECE_OF_BATCH: Final = b"$hedgerow/piece/batch"
_LAST: Final = b"/last"
"""The topic of the last piece ends so; in front of the piece stands the message's topic."""


class Additions:
    """The additions that a release understands beside the one before: bits of a whole number.

    The dialling end says it in the place of the CONNECT's keep alive, the other one what it
    understands of that in the first byte of its CONNACK. Earlier releases write 0 there and look at
    neither, so each end is sent only what it understands. Nothing proves it: who could change it
    could as well cut the link.
    """

    NONE: Final = 0
    CLOCKS: Final = 1
    """Neighbours' readings of origins' clocks (`gateway.node.links.clock_part`)."""


class Type(enum.IntEnum):
    """First byte of the packets that a link uses (MQTT 3.1.1, table 2.1)."""

    CONNECT = PacketType.CONNECT << 4
    CONNACK = PacketType.CONNACK << 4
    PUBLISH = PacketType.PUBLISH << 4
    PUBACK = PacketType.PUBACK << 4
    PINGREQ = PacketType.PINGREQ << 4
    PINGRESP = PacketType.PINGRESP << 4
    DISCONNECT = PacketType.DISCONNECT << 4


class ReturnCode(enum.IntEnum):
    """CONNACK return codes (MQTT 3.1.1, table 3.1); `Refusal` has those of a link alone."""

    ACCEPTED = 0
    NOT_AUTHORIZED = 5


@dataclass(slots=True)  # not frozen: one is made for each batch
class LinkPacket:
    """One packet: its type and what follows the fixed header.

    The topic of a PUBLISH stands apart, and so its body is the payload.
    """

    type: Type
    body: bytes
    topic: bytes = b""

    def __str__(self) -> str:
        return f"{self.type.name} ({len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class LinkConnect:
    """The CONNECT of a link: who dials, for which tree, its nonce, and its `Additions`."""

    gateway_id: str
    tree: str
    nonce: bytes
    additions: int = Additions.NONE

    def encode(self) -> bytes:
        """Return the packet's bytes (MQTT 3.1.1, 3.1; clean session, user name and password).

        Raises:
            PacketError: a name that no string of MQTT can be.

        """
        connect = mqtt.Connect(
            Version.V311,
            self.gateway_id,
            keep_alive_s=self.additions,
            username=LINK_USER_PREFIX + self.tree,
            password=self.nonce,
            bridge=True,
        )
        return mqtt.encode(connect, Version.V311)

    @classmethod
    def decode(cls, body: bytes) -> LinkConnect:
        """Read the body of a CONNECT.

        Raises:
            ProtocolError: not the CONNECT of a link, or torn.

        """
        try:
            connect = mqtt.decode(Type.CONNECT, body, Version.V311)
        except PacketError as error:
            raise ProtocolError("CONNECT of a link", str(error)) from error
        if (
            not isinstance(connect, mqtt.Connect)
            or not connect.is_link
            or connect.version != Version.V311
            or connect.username is None
            or connect.password is None
            or connect.will is not None
        ):
            raise ProtocolError("CONNECT of a link", str(connect))
        tree = connect.username.removeprefix(LINK_USER_PREFIX)
        return cls(connect.client_id, tree, connect.password, connect.keep_alive_s)


def connack(code: int, additions: int = Additions.NONE) -> bytes:
    """Return a CONNACK with a `ReturnCode` or a `Refusal`, and the `Additions` of who sends it."""
    return frame(Type.CONNACK, bytes((additions, code)))


def publish(topic: bytes, payload: bytes) -> bytes:
    """Return a PUBLISH at QoS 0."""
    return publish_head(topic, len(payload)) + payload


def publish_head(topic: bytes, payload_bytes: int) -> bytes:
    """Return what stands in front of the payload in a PUBLISH at QoS 0."""
    named = encode_binary("topic", topic)
    return _PUBLISH + encode_length(len(named) + payload_bytes) + named


def pieces(piece_topic: bytes, topic: bytes, payload: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Cut a long message: each packet's head and payload; see `Assembly`."""
    view = memoryview(payload)
    last = (len(payload) - 1) // PIECE_BYTES * PIECE_BYTES
    for at in range(0, last, PIECE_BYTES):
        yield publish_head(piece_topic, PIECE_BYTES), view[at : at + PIECE_BYTES]
    named = encode_binary("topic", topic)
    rest = view[last:]
    yield publish_head(piece_topic + _LAST, len(named) + len(rest)) + named, rest


class Assembly:
    """Puts the pieces of long messages together again, however short they are."""

    def __init__(self) -> None:
        self._pieces = {PIECE_OF_CONTROL: bytearray(), PIECE_OF_BATCH: bytearray()}
        self._bytes = 0

    def add(self, packet: LinkPacket) -> LinkPacket | None:
        """Take a PUBLISH; the message that it is, or ends, or None if more pieces are to come.

        Raises:
            ProtocolError: torn, or longer than any message may be.

        """
        topic = packet.topic
        if topic in self._pieces:
            self._pieces[topic] += packet.body
            self._bytes += len(packet.body)
            if self._bytes > MAX_MESSAGE_BYTES:
                raise ProtocolError("message in pieces too large, bytes", self._bytes)
            return None
        whole = topic.removesuffix(_LAST)
        if whole == topic or whole not in self._pieces:
            return packet
        topic, rest = _named("topic of a message in pieces", packet.body, 0, len(packet.body))
        before, self._pieces[whole] = self._pieces[whole], bytearray()
        self._bytes -= len(before)
        before += rest
        return LinkPacket(Type.PUBLISH, bytes(before), topic)


def ping(number: int, bpdu: bytes) -> bytes:
    """Return a PINGREQ with a number to echo and a BPDU (B3)."""
    return frame(Type.PINGREQ, number.to_bytes(4, "big") + bpdu)


def split_ping(body: bytes) -> tuple[int, bytes]:
    """Number and BPDU of a PINGREQ; number of a PINGRESP, and bytes if it went behind data.

    Raises:
        ProtocolError: torn.

    """
    if len(body) < 4:
        raise ProtocolError("PINGREQ body", body)
    return int.from_bytes(body[:4], "big"), body[4:]


def pong(number: int, *, behind_data: bool = False) -> bytes:
    """Return the PINGRESP to a PINGREQ.

    Args:
        number: the PINGREQ's.
        behind_data: the echo has to wait for data that is sent before it.

    """
    return frame(Type.PINGRESP, number.to_bytes(4, "big") + (b"\1" if behind_data else b""))


def puback(total: int) -> bytes:
    """Return a PUBACK: so many bytes of the link are dealt with, since it began."""
    return frame(Type.PUBACK, total.to_bytes(8, "big"))


def taken(body: bytes) -> int:
    """Return how many bytes a PUBACK acknowledges.

    Raises:
        ProtocolError: torn.

    """
    if len(body) != 8:
        raise ProtocolError("PUBACK body", body)
    return int.from_bytes(body, "big")


def disconnect(refusal: int | None = None) -> bytes:
    """Return a DISCONNECT; one that ends a hand-shake may say why: `Refusal`."""
    return frame(Type.DISCONNECT, b"" if refusal is None else bytes((refusal,)))


class LinkReader:
    """Cuts a byte stream into packets.

    Args:
        limit: greatest packet in bytes; raise it once the neighbour is authenticated.

    """

    def __init__(self, limit: int = MAX_UNAUTHENTICATED_BYTES) -> None:
        self.limit = limit
        self._data = b""
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    @property
    def waiting_bytes(self) -> int:
        """Return how much has been fed and not been cut into packets."""
        return len(self._data) - self._at

    def next(self) -> LinkPacket | None:
        """Return the next whole packet, None if more bytes are needed.

        Raises:
            ProtocolError: a type that no link sends, a length over the limit, or a torn topic.

        """
        data, at = self._data, self._at
        try:
            found = packet_end(data, at, self.limit)
        except PacketError as error:
            raise ProtocolError("packet on a link", str(error)) from error
        if found is None:
            return None
        start, end = found
        self._at = end
        kind = _TYPES.get(data[at])
        if kind is None:
            raise ProtocolError("packet type on a link", data[at])
        if kind is not Type.PUBLISH:
            return LinkPacket(kind, data[start:end])
        topic, payload = _named("PUBLISH topic", data, start, end)
        return LinkPacket(kind, payload, topic)


_TYPES: dict[int, Type] = {int(kind): kind for kind in Type}
_PUBLISH = bytes((Type.PUBLISH,))


def _named(what: str, data: bytes, at: int, end: int) -> tuple[bytes, bytes]:
    """Return a topic with its length before it, and what follows it."""
    start = at + 2
    stop = start + int.from_bytes(data[at:start], "big")
    if start > end or stop > end:
        raise ProtocolError(what, data[at : min(end, at + 80)])
    return data[start:stop], data[stop:end]

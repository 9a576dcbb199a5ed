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
from dataclasses import dataclass

from gateway.mqtt import LINK_USER_PREFIX
from tree_handler.errors import ProtocolError

BRIDGE_LEVEL = 0x84
"""Protocol version 4 (MQTT 3.1.1) with the bridge bit."""
MAX_PACKET_BYTES = 17 * 1024 * 1024
"""A little more than the largest batch."""
MAX_UNAUTHENTICATED_BYTES = 4096
"""No packet of the hand-shake is larger."""
PIECE_BYTES = 32 * 1024
"""A longer message is sent in pieces of this length: a quarter of a second at 1 Mbit/s."""
PIECE_OF_CONTROL = b"$hedgerow/piece/control"
PIECE_OF_BATCH = b"$hedgerow/piece/batch"
_LAST = b"/last"
"""The topic of the last piece ends so; in front of the piece stands the message's topic."""


class Type(enum.IntEnum):
    """First byte of the packets that a link uses (MQTT 3.1.1, table 2.1)."""

    CONNECT = 0x10
    CONNACK = 0x20
    PUBLISH = 0x30
    PUBACK = 0x40
    PINGREQ = 0xC0
    PINGRESP = 0xD0
    DISCONNECT = 0xE0


class ReturnCode(enum.IntEnum):
    """CONNACK return codes (MQTT 3.1.1, table 3.1)."""

    ACCEPTED = 0
    NOT_AUTHORIZED = 5


@dataclass(slots=True)  # not frozen: one is made for each batch
class Packet:
    """One packet: its type and what follows the fixed header.

    The topic of a PUBLISH stands apart, and so its body is the payload.
    """

    type: Type
    body: bytes
    topic: bytes = b""

    def __str__(self) -> str:
        return f"{self.type.name} ({len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Connect:
    """The CONNECT of a link: who dials, for which tree, and its nonce."""

    gateway_id: str
    tree: str
    nonce: bytes

    def encode(self) -> bytes:
        """The packet's bytes (MQTT 3.1.1, 3.1; clean session, user name and password)."""
        return _packet(
            Type.CONNECT,
            _field(b"MQTT")
            + bytes((BRIDGE_LEVEL, 0xC2, 0, 0))
            + _field(self.gateway_id.encode())
            + _field(LINK_USER_PREFIX.encode() + self.tree.encode())
            + _field(self.nonce),
        )

    @classmethod
    def decode(cls, body: bytes) -> Connect:
        """Read the body of a CONNECT.

        Raises:
            ProtocolError: not the CONNECT of a link, or torn.

        """
        name, rest = _take("CONNECT protocol name", body)
        if name != b"MQTT" or rest[:2] != bytes((BRIDGE_LEVEL, 0xC2)):
            raise ProtocolError("CONNECT protocol name, level or flags", body[:10])
        gateway_id, rest = _take("CONNECT client identifier", rest[4:])
        user, rest = _take("CONNECT user name", rest)
        nonce, rest = _take("CONNECT password", rest)
        if rest:
            raise ProtocolError("CONNECT length", len(rest))
        prefix, tree = user[: len(LINK_USER_PREFIX)], user[len(LINK_USER_PREFIX) :]
        if prefix != LINK_USER_PREFIX.encode():
            raise ProtocolError("CONNECT user name of a link", user)
        return cls(_text("CONNECT client identifier", gateway_id), _text("tree", tree), nonce)


def connack(code: ReturnCode) -> bytes:
    """A CONNACK."""
    return _packet(Type.CONNACK, bytes((0, code)))


def publish(topic: bytes, payload: bytes) -> bytes:
    """A PUBLISH at QoS 0."""
    return publish_head(topic, len(payload)) + payload


def publish_head(topic: bytes, payload_bytes: int) -> bytes:
    """What stands in front of the payload in a PUBLISH at QoS 0."""
    return _head(Type.PUBLISH, 2 + len(topic) + payload_bytes) + _field(topic)


def pieces(piece_topic: bytes, topic: bytes, payload: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Cut a long message: each packet's head and payload; see `Assembly`."""
    view = memoryview(payload)
    last = (len(payload) - 1) // PIECE_BYTES * PIECE_BYTES
    for at in range(0, last, PIECE_BYTES):
        yield publish_head(piece_topic, PIECE_BYTES), view[at : at + PIECE_BYTES]
    named = _field(topic)
    rest = view[last:]
    yield publish_head(piece_topic + _LAST, len(named) + len(rest)) + named, rest


class Assembly:
    """Puts the pieces of long messages together again."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, list[bytes]] = {PIECE_OF_CONTROL: [], PIECE_OF_BATCH: []}
        self._bytes = 0

    def add(self, packet: Packet) -> Packet | None:
        """Take a PUBLISH; the message that it is, or ends, or None if more pieces are to come.

        Raises:
            ProtocolError: torn, or longer than any message may be.

        """
        topic = packet.topic
        if topic in self._pieces:
            self._pieces[topic].append(packet.body)
            self._bytes += len(packet.body)
            if self._bytes > MAX_PACKET_BYTES:
                raise ProtocolError("message in pieces too large, bytes", self._bytes)
            return None
        whole = topic.removesuffix(_LAST)
        if whole == topic or whole not in self._pieces:
            return packet
        topic, rest = _take("topic of a message in pieces", packet.body)
        before, self._pieces[whole] = self._pieces[whole], []
        self._bytes -= sum(map(len, before))
        return Packet(Type.PUBLISH, b"".join((*before, rest)), topic)


def ping(number: int, bpdu: bytes) -> bytes:
    """A PINGREQ with a number to echo and a BPDU (B3)."""
    return _packet(Type.PINGREQ, number.to_bytes(4, "big") + bpdu)


def split_ping(body: bytes) -> tuple[int, bytes]:
    """Number and BPDU of a PINGREQ; number of a PINGRESP, and bytes if it went behind data.

    Raises:
        ProtocolError: torn.

    """
    if len(body) < 4:
        raise ProtocolError("PINGREQ body", body)
    return int.from_bytes(body[:4], "big"), body[4:]


def pong(number: int, *, behind_data: bool = False) -> bytes:
    """The PINGRESP to a PINGREQ.

    Args:
        number: the PINGREQ's.
        behind_data: the echo has to wait for data that is sent before it.

    """
    return _packet(Type.PINGRESP, number.to_bytes(4, "big") + (b"\1" if behind_data else b""))


def puback(total: int) -> bytes:
    """A PUBACK: so many bytes of the link are dealt with, since it began."""
    return _packet(Type.PUBACK, total.to_bytes(8, "big"))


def taken(body: bytes) -> int:
    """How many bytes a PUBACK acknowledges.

    Raises:
        ProtocolError: torn.

    """
    if len(body) != 8:
        raise ProtocolError("PUBACK body", body)
    return int.from_bytes(body, "big")


def disconnect() -> bytes:
    """A DISCONNECT."""
    return _packet(Type.DISCONNECT, b"")


class Reader:
    """Cuts a byte stream into packets.

    Args:
        limit: greatest packet in bytes; raise it once the neighbour is authenticated.

    """

    def __init__(self, limit: int = MAX_UNAUTHENTICATED_BYTES) -> None:
        self.limit = limit
        self._data = b""
        self._at = 0
        self._more: list[bytes] = []
        self._bytes = 0
        self._needed = 0

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        if self._bytes:
            self._more.append(data)
        else:
            self._data, self._at = data, 0
        self._bytes += len(data)

    def next(self) -> Packet | None:
        """The next whole packet, None if more bytes are needed.

        Raises:
            ProtocolError: a type that no link sends, a length over the limit, or a torn topic.

        """
        if self._bytes < self._needed or not self._bytes:
            return None
        if self._more:
            self._data = b"".join((self._data[self._at :], *self._more))
            self._at = 0
            self._more.clear()
        data, at = self._data, self._at
        length, start = _remaining_length(data, at)
        if length > self.limit:
            raise ProtocolError("packet too large, bytes", length)
        end = start + length
        if not start or end > len(data):
            self._needed = end - at if start else self._bytes + 1
            return None
        self._at = end
        self._bytes -= end - at
        self._needed = 0
        kind = _TYPES.get(data[at])
        if kind is None:
            raise ProtocolError("packet type on a link", data[at])
        if kind is not Type.PUBLISH:
            return Packet(kind, data[start:end])
        payload_at = start + 2 + int.from_bytes(data[start : start + 2], "big")
        if length < 2 or payload_at > end:
            raise ProtocolError("PUBLISH topic", data[start : min(end, start + 80)])
        return Packet(kind, data[payload_at:end], data[start + 2 : payload_at])


_TYPES: dict[int, Type] = {int(kind): kind for kind in Type}


def _remaining_length(data: bytes, at: int) -> tuple[int, int]:
    """The length field and where the body starts; start 0 while it is not all there."""
    length = 0
    for i in range(4):
        if at + 1 + i >= len(data):
            return 0, 0
        byte = data[at + 1 + i]
        length |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return length, at + 2 + i
    raise ProtocolError("remaining length", data[at + 1 : at + 5])


def _head(kind: Type, length: int) -> bytes:
    out = bytearray((kind,))
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out)


def _packet(kind: Type, body: bytes) -> bytes:
    return _head(kind, len(body)) + body


def _field(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _take(what: str, data: bytes) -> tuple[bytes, bytes]:
    end = 2 + int.from_bytes(data[:2], "big")
    if len(data) < end:
        raise ProtocolError(what, data)
    return data[2:end], data[end:]


def _text(what: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(what, data) from error

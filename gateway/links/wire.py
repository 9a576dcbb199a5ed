"""The MQTT packets of a link between gateways (B1, B3): codec, sans-I/O.

A link speaks MQTT 3.1.1 on the ordinary port with the top bit of the protocol version set
(0x84); the user name ``$hedgerow/TREE`` tells it from the bridge of another broker. Only what a
link needs is here: CONNECT, CONNACK, PUBLISH at QoS 0 on control topics (repair makes a lost one
good), and PINGREQ and PINGRESP with a body.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gateway.broker.packets import LINK_USER_PREFIX
from tree_handler.errors import ProtocolError

BRIDGE_LEVEL = 0x84
"""Protocol version 4 (MQTT 3.1.1) with the bridge bit."""
MAX_PACKET_BYTES = 17 * 1024 * 1024
"""A little more than the largest batch."""
MAX_UNAUTHENTICATED_BYTES = 4096
"""No packet of the hand-shake is larger."""


class Type(enum.IntEnum):
    """First byte of the packets that a link uses (MQTT 3.1.1, table 2.1)."""

    CONNECT = 0x10
    CONNACK = 0x20
    PUBLISH = 0x30
    PINGREQ = 0xC0
    PINGRESP = 0xD0
    DISCONNECT = 0xE0


class ReturnCode(enum.IntEnum):
    """CONNACK return codes (MQTT 3.1.1, table 3.1)."""

    ACCEPTED = 0
    NOT_AUTHORIZED = 5


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: its type and what follows the fixed header."""

    type: Type
    body: bytes

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
    return _packet(Type.PUBLISH, _field(topic) + payload)


def split_publish(body: bytes) -> tuple[bytes, bytes]:
    """Topic and payload of a PUBLISH.

    Raises:
        ProtocolError: torn.

    """
    return _take("PUBLISH topic", body)


def ping(number: int, bpdu: bytes) -> bytes:
    """A PINGREQ with a number to echo and a BPDU (B3)."""
    return _packet(Type.PINGREQ, number.to_bytes(4, "big") + bpdu)


def split_ping(body: bytes) -> tuple[int, bytes]:
    """Number and BPDU of a PINGREQ, or the number of a PINGRESP.

    Raises:
        ProtocolError: torn.

    """
    if len(body) < 4:
        raise ProtocolError("PINGREQ body", body)
    return int.from_bytes(body[:4], "big"), body[4:]


def pong(number: int) -> bytes:
    """The PINGRESP to a PINGREQ."""
    return _packet(Type.PINGRESP, number.to_bytes(4, "big"))


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
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._buffer += data

    def next(self) -> Packet | None:
        """The next whole packet, None if more bytes are needed.

        Raises:
            ProtocolError: a type that no link sends, or a length over the limit.

        """
        buffer = self._buffer
        length, start = _remaining_length(buffer)
        if start == 0:
            return None
        if length > self.limit:
            raise ProtocolError("packet too large, bytes", length)
        if len(buffer) < start + length:
            return None
        try:
            kind = Type(buffer[0])
        except ValueError as error:
            raise ProtocolError("packet type on a link", buffer[0]) from error
        body = bytes(buffer[start : start + length])
        del buffer[: start + length]
        return Packet(kind, body)


def _remaining_length(buffer: bytearray) -> tuple[int, int]:
    """The length field and where the body starts; start 0 while it is not all there."""
    length = 0
    for i in range(1, 5):
        if i >= len(buffer):
            return 0, 0
        length |= (buffer[i] & 0x7F) << 7 * (i - 1)
        if buffer[i] < 0x80:
            return length, i + 1
    raise ProtocolError("remaining length", bytes(buffer[1:5]))


def _packet(kind: Type, body: bytes) -> bytes:
    length = len(body)
    out = bytearray((kind,))
    while True:
        length, low = length >> 7, length & 0x7F
        if not length:
            out.append(low)
            return bytes(out) + body
        out.append(low | 0x80)


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

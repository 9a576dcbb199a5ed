"""Data types that packets are made of (MQTT 5.0, section 1.5; MQTT 3.1.1, section 1.5).

`Reader` reads them one after the other; a writer takes the field's name and a value, and raises
PacketError for a value that could not be read again.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.mqtt.errors import malformed, protocol_error
from gateway.mqtt.kinds import packet_name

MAX_LENGTH: Final = 268_435_455
"""Greatest variable byte integer (section 1.5.5)."""
MAX_FIELD_BYTES: Final = 65_535
"""Longest string or binary value (sections 1.5.4 and 1.5.6)."""


def variable_integer(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a variable byte integer (section 1.5.5), in more bytes than needed too.

    Args:
        what: the field's name.
        data: where it stands, a packet or a stream of them.
        at: position of its first byte.
        end: what is behind this position is not part of it.

    Returns:
        Its value and where the next field starts; that is beyond ``end`` if it is cut short.

    Raises:
        PacketError: it has more than four bytes.

    """
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift == 28:
            raise malformed(f"{what} in more than four bytes", data[at - 4 : at])
    return 0, end + 1


def read_length(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a variable byte integer inside a packet; returns it and where the next field starts.

    Raises:
        PacketError: cut short, over four bytes, or not in the fewest bytes [MQTT-1.5.5-1].

    """
    value, behind = variable_integer(what, data, at, end)
    if behind > end:
        raise malformed(f"{what} cut short")
    if behind > at + 1 and not data[behind - 1]:
        raise malformed(f"{what} in more bytes than needed", value, "MQTT-1.5.5-1")
    return value, behind


class Reader:
    """Reads the fields of a packet, or of its properties, in their order.

    Each method takes the field's name and raises PacketError where the field is cut short.

    Args:
        kind: the packet's type, or WILL.
        data: the packet, or the buffer that it stands in.
        at: where the next field starts.
        end: where the last one ends.

    """

    __slots__ = ("at", "data", "end", "kind")

    def __init__(self, kind: int, data: bytes, at: int, end: int) -> None:
        self.kind = kind
        self.data = data
        self.at = at
        self.end = end

    def named(self, what: str) -> str:
        """Return the field's name for an error, with the packet's."""
        return f"{packet_name(self.kind)} {what}"

    def take(self, what: str, size: int) -> bytes:
        """Return the next ``size`` bytes; a packet that ends before is a PacketError, which
        names ``what``."""
        start = self.at
        if start + size > self.end:
            raise malformed(f"{self.named(what)} cut short")
        self.at = start + size
        return self.data[start : self.at]

    def integer(self, what: str, size: int) -> int:
        """Return an integer of one, two or four bytes (sections 1.5.1 to 1.5.3)."""
        return int.from_bytes(self.take(what, size), "big")

    def length(self, what: str) -> int:
        """Return a variable byte integer, in the fewest bytes [MQTT-1.5.5-1]."""
        value, self.at = read_length(self.named(what), self.data, self.at, self.end)
        return value

    def packet_id(self) -> int:
        """Return a packet identifier, which is never 0 [MQTT-2.2.1-3] [MQTT-2.2.1-4]."""
        packet_id = self.integer("packet identifier", 2)
        if not packet_id:
            raise protocol_error(self.named("packet identifier"), 0, "MQTT-2.2.1-3")
        return packet_id

    def binary(self, what: str) -> bytes:
        """Binary data with its length before it (section 1.5.6)."""
        return self.take(what, self.integer(what, 2))

    def string(self, what: str) -> str:
        """Return a string of well-formed UTF-8 [MQTT-1.5.4-1] without U+0000 [MQTT-1.5.4-2].

        A byte order mark is a character as any other [MQTT-1.5.4-3]. Control characters, which a
        receiver may refuse, are taken: in user properties they are nobody's business.
        """
        encoded = self.binary(what)
        try:
            text = encoded.decode()
        except UnicodeDecodeError:
            raise malformed(f"{self.named(what)} is not UTF-8", encoded, "MQTT-1.5.4-1") from None
        if "\0" in text:
            raise malformed(f"{self.named(what)} has a null character", text, "MQTT-1.5.4-2")
        return text

    def pair(self, what: str) -> tuple[str, str]:
        """Return a pair of strings, both as strings must be [MQTT-1.5.7-1]."""
        return self.string(f"{what} name"), self.string(f"{what} value")


def encode_length(n: int) -> bytes:
    """Return a remaining length or other variable byte integer, in the fewest bytes
    [MQTT-1.5.5-1]."""
    if 0 <= n < 128:
        return bytes((n,))
    if n < 0 or n > MAX_LENGTH:
        raise malformed("variable byte integer", n)
    encoded = bytearray()
    while n > 127:
        encoded.append(n & 0x7F | 0x80)
        n >>= 7
    encoded.append(n)
    return bytes(encoded)


def encode_integer(what: str, value: int, size: int) -> bytes:
    """Return an integer in ``size`` bytes, big-endian; one that does not fit is a PacketError."""
    if not 0 <= value < 1 << 8 * size:
        raise malformed(what, value)
    return value.to_bytes(size, "big")


def encode_packet_id(what: str, packet_id: int | None) -> bytes:
    """Return the packet identifier of a packet of this name."""
    if packet_id is None or not 0 < packet_id <= 0xFFFF:
        raise protocol_error(f"{what} packet identifier", packet_id, "MQTT-2.2.1-3")
    return packet_id.to_bytes(2, "big")


def encode_binary(what: str, value: bytes) -> bytes:
    """Binary data with its length before it."""
    if len(value) > MAX_FIELD_BYTES:
        raise malformed(f"{what} too long, bytes", len(value))
    return len(value).to_bytes(2, "big") + value


def encode_string(what: str, text: str) -> bytes:
    """Return a UTF-8 encoded string with its length before it."""
    if "\0" in text:
        raise malformed(f"{what} has a null character", text, "MQTT-1.5.4-2")
    try:
        return encode_binary(what, text.encode())
    except UnicodeEncodeError:
        raise malformed(f"{what} is not UTF-8", text, "MQTT-1.5.4-1") from None


def encode_pair(what: str, pair: tuple[Any, ...]) -> bytes:
    """Return a pair of strings."""
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise malformed(f"{what} is not a pair of strings")
    return encode_string(f"{what} name", pair[0]) + encode_string(f"{what} value", pair[1])


def body_at(packet: bytes) -> int:
    """Return where the body of a whole packet starts, if its length is in the fewest bytes."""
    size = len(packet)
    return 2 if size < 130 else 3 if size < 16_387 else 4 if size < 2_097_156 else 5


def frame(first_byte: int, body: bytes) -> bytes:
    """Return a packet: first byte, remaining length and body."""
    return bytes((first_byte,)) + encode_length(len(body)) + body

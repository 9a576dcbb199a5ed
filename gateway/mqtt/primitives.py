"""Data types that packets are made of (MQTT 5.0, section 1.5; MQTT 3.1.1, section 1.5).

A reader takes the field's name, the bytes, where to read and where its part of the packet ends,
and returns the value and where the next one starts. A writer takes the field's name and a value.
"""

from __future__ import annotations

from typing import Final

from gateway.mqtt.errors import malformed, protocol_error

MAX_LENGTH: Final = 268_435_455
"""Greatest variable byte integer (section 1.5.5)."""
MAX_FIELD_BYTES: Final = 65_535
"""Longest string or binary value (sections 1.5.4 and 1.5.6)."""
MAX_LENGTH_BYTES: Final = 4

_SHORT_LENGTHS: Final = tuple(bytes((n,)) for n in range(128))


# -- integers ------------------------------------------------------------------------------------


def encode_length(n: int) -> bytes:
    """A remaining length or other variable byte integer, in the fewest bytes [MQTT-1.5.5-1].

    Raises:
        PacketError: negative, or more than four bytes can say.

    """
    if 0 <= n < 128:
        return _SHORT_LENGTHS[n]
    if n < 0 or n > MAX_LENGTH:
        raise malformed("variable byte integer", n)
    encoded = bytearray()
    while n > 127:
        encoded.append(n & 0x7F | 0x80)
        n >>= 7
    encoded.append(n)
    return bytes(encoded)


def variable_integer(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """A variable byte integer (section 1.5.5), in more bytes than needed too.

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
    """A variable byte integer inside a packet.

    Raises:
        PacketError: cut short, over four bytes, or not in the fewest bytes [MQTT-1.5.5-1].

    """
    value, behind = variable_integer(what, data, at, end)
    if behind > end:
        raise malformed(f"{what} cut short")
    if behind > at + 1 and not data[behind - 1]:
        raise malformed(f"{what} in more bytes than needed", value, "MQTT-1.5.5-1")
    return value, behind


def read_byte(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """One byte.

    Raises:
        PacketError: cut short.

    """
    if at >= end:
        raise malformed(f"{what} cut short")
    return data[at], at + 1


def read_two_bytes(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """A two byte integer (section 1.5.2).

    Raises:
        PacketError: cut short.

    """
    if at + 2 > end:
        raise malformed(f"{what} cut short")
    return data[at] << 8 | data[at + 1], at + 2


def read_four_bytes(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """A four byte integer (section 1.5.3).

    Raises:
        PacketError: cut short.

    """
    if at + 4 > end:
        raise malformed(f"{what} cut short")
    return int.from_bytes(data[at : at + 4], "big"), at + 4


def encode_two_bytes(what: str, value: int) -> bytes:
    """A two byte integer.

    Raises:
        PacketError: out of range.

    """
    if not 0 <= value <= 0xFFFF:
        raise malformed(what, value)
    return value.to_bytes(2, "big")


def read_packet_id(what: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """A packet identifier, which is never 0 [MQTT-2.2.1-3] [MQTT-2.2.1-4].

    Raises:
        PacketError: cut short or 0.

    """
    if at + 2 > end:
        raise malformed(f"{what} packet identifier cut short")
    packet_id = data[at] << 8 | data[at + 1]
    if not packet_id:
        raise protocol_error(f"{what} packet identifier", 0, "MQTT-2.2.1-3")
    return packet_id, at + 2


def encode_packet_id(what: str, packet_id: int | None) -> bytes:
    """A packet identifier.

    Raises:
        PacketError: missing, 0 or out of range.

    """
    if packet_id is None or not 0 < packet_id <= 0xFFFF:
        raise protocol_error(f"{what} packet identifier", packet_id, "MQTT-2.2.1-3")
    return packet_id.to_bytes(2, "big")


# -- strings and binary data ---------------------------------------------------------------------


def read_binary(what: str, data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Binary data with its length before it (section 1.5.6).

    Raises:
        PacketError: cut short.

    """
    start = at + 2
    if start > end:
        raise malformed(f"{what} cut short")
    stop = start + (data[at] << 8 | data[at + 1])
    if stop > end:
        raise malformed(f"{what} cut short")
    return data[start:stop], stop


def encode_binary(what: str, value: bytes) -> bytes:
    """Binary data with its length before it.

    Raises:
        PacketError: longer than 65,535 bytes.

    """
    if len(value) > MAX_FIELD_BYTES:
        raise malformed(f"{what} too long, bytes", len(value))
    return len(value).to_bytes(2, "big") + value


def decode_text(what: str, encoded: bytes) -> str:
    """Text of well-formed UTF-8 [MQTT-1.5.4-1] without U+0000 [MQTT-1.5.4-2].

    A byte order mark is a character as any other [MQTT-1.5.4-3]. Control characters, which a
    receiver may refuse, are taken: in user properties they are nobody's business.

    Raises:
        PacketError: not UTF-8, a surrogate, or U+0000.

    """
    try:
        text = encoded.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"{what} is not UTF-8", error.object, "MQTT-1.5.4-1") from None
    if "\0" in text:
        raise malformed(f"{what} has a null character", text, "MQTT-1.5.4-2")
    return text


def encode_text(what: str, text: str) -> bytes:
    """The UTF-8 of a text, without its length.

    Raises:
        PacketError: a surrogate, U+0000, or longer than 65,535 bytes.

    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise malformed(f"{what} is not UTF-8", text, "MQTT-1.5.4-1") from None
    if b"\0" in encoded:
        raise malformed(f"{what} has a null character", text, "MQTT-1.5.4-2")
    if len(encoded) > MAX_FIELD_BYTES:
        raise malformed(f"{what} too long, bytes", len(encoded))
    return encoded


def read_string(what: str, data: bytes, at: int, end: int) -> tuple[str, int]:
    """A UTF-8 encoded string (section 1.5.4).

    Raises:
        PacketError: cut short or no such string.

    """
    encoded, at = read_binary(what, data, at, end)
    return decode_text(what, encoded), at


def encode_string(what: str, text: str) -> bytes:
    """A UTF-8 encoded string with its length before it.

    Raises:
        PacketError: no such string.

    """
    encoded = encode_text(what, text)
    return len(encoded).to_bytes(2, "big") + encoded


def read_pair(what: str, data: bytes, at: int, end: int) -> tuple[tuple[str, str], int]:
    """A pair of strings, both as strings must be [MQTT-1.5.7-1].

    Raises:
        PacketError: cut short or no such strings.

    """
    name, at = read_string(f"{what} name", data, at, end)
    value, at = read_string(f"{what} value", data, at, end)
    return (name, value), at

"""Properties of MQTT 5.0 packets: which there are, where they may stand, how they are written.

Section 2.2.2.2 is the table below; everything else in this module walks it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import IntEnum
from typing import Any, Final

from gateway.mqtt.errors import PacketError, malformed, protocol_error, shortened
from gateway.mqtt.kinds import V5, WILL, PacketType, packet_name
from gateway.mqtt.primitives import (
    MAX_LENGTH,
    Reader,
    encode_binary,
    encode_integer,
    encode_length,
    encode_pair,
    encode_string,
    read_length,
)
from gateway.mqtt.reason_codes import REASONS, ReasonCode
from gateway.mqtt.topic_rules import check_topic_name

Properties = dict[int, Any]
"""PropertyId -> value: int, str or bytes as table 2-4 says; USER_PROPERTY has a list of
(name, value), SUBSCRIPTION_IDENTIFIER a list of integers."""


class PropertyId(IntEnum):
    """Property identifiers (MQTT 5.0, table 2-4)."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


BYTES_MAX: Final = 128 * 1024
"""Of all properties of a packet."""
COUNT_MAX: Final = 512
"""Of a packet: each costs a microsecond or more, however few bytes it has."""
COUNT_MAX_OF_STRANGERS: Final = 64
"""Of a CONNECT, and of its will: they are read before anybody knows whose they are."""


_Form = tuple[type, Callable[[Reader, str], Any], Callable[[str, Any], bytes], int]
"""A data type: its values' type, how they are read and written, the greatest integer."""


def _integer(size: int) -> _Form:
    return (
        int,
        lambda reader, name: reader.integer(name, size),
        lambda name, value: encode_integer(name, value, size),
        (1 << 8 * size) - 1,
    )


_BYTE: Final = _integer(1)
_TWO: Final = _integer(2)
_FOUR: Final = _integer(4)
_LENGTH: Final[_Form] = (int, Reader.length, lambda _, value: encode_length(value), MAX_LENGTH)
_STRING: Final[_Form] = (str, Reader.string, encode_string, 0)
_BINARY: Final[_Form] = (bytes, Reader.binary, encode_binary, 0)
_PAIR: Final[_Form] = (tuple, Reader.pair, encode_pair, 0)

_P = PropertyId
_T = PacketType
_OF_STRANGERS: Final = frozenset((int(_T.CONNECT), WILL))


class _Row:
    """One property: where it may stand and what its value may be."""

    __slots__ = ("high", "id", "listed", "low", "name", "packets", "read", "type", "write")

    def __init__(
        self,
        property_id: PropertyId,
        form: _Form,
        packets: Collection[int],
        low: int = 0,
        high: int | None = None,
    ) -> None:
        self.id = int(property_id)
        self.name = property_id.name.lower().replace("_", " ")
        self.type, self.read, self.write, highest = form
        self.packets = frozenset(map(int, packets))
        self.low = low
        self.high = highest if high is None else high
        self.listed = property_id in {_P.USER_PROPERTY, _P.SUBSCRIPTION_IDENTIFIER}
        """Its value is a list, because it may stand more than once."""

    def check(self, value: object) -> None:
        """Raise PacketError if it can't be the property's value."""
        if not isinstance(value, self.type):
            raise malformed(f"{self.name} is of another type", type(value).__name__)
        if isinstance(value, int) and not self.low <= value <= self.high:
            if self.id == _P.TOPIC_ALIAS:
                raise PacketError(ReasonCode.TOPIC_ALIAS_INVALID, self.name, value, "MQTT-3.3.2-8")
            raise protocol_error(self.name, value)
        if self.id == _P.RESPONSE_TOPIC and isinstance(value, str):
            _check_response_topic(value)


_ROWS: Final = {
    row.id: row
    for row in (
        _Row(_P.PAYLOAD_FORMAT_INDICATOR, _BYTE, (_T.PUBLISH, WILL), high=1),
        _Row(_P.MESSAGE_EXPIRY_INTERVAL, _FOUR, (_T.PUBLISH, WILL)),
        _Row(_P.CONTENT_TYPE, _STRING, (_T.PUBLISH, WILL)),
        _Row(_P.RESPONSE_TOPIC, _STRING, (_T.PUBLISH, WILL)),
        _Row(_P.CORRELATION_DATA, _BINARY, (_T.PUBLISH, WILL)),
        _Row(_P.SUBSCRIPTION_IDENTIFIER, _LENGTH, (_T.PUBLISH, _T.SUBSCRIBE), low=1),
        _Row(_P.SESSION_EXPIRY_INTERVAL, _FOUR, (_T.CONNECT, _T.CONNACK, _T.DISCONNECT)),
        _Row(_P.ASSIGNED_CLIENT_IDENTIFIER, _STRING, (_T.CONNACK,)),
        _Row(_P.SERVER_KEEP_ALIVE, _TWO, (_T.CONNACK,)),
        _Row(_P.AUTHENTICATION_METHOD, _STRING, (_T.CONNECT, _T.CONNACK, _T.AUTH)),
        _Row(_P.AUTHENTICATION_DATA, _BINARY, (_T.CONNECT, _T.CONNACK, _T.AUTH)),
        _Row(_P.REQUEST_PROBLEM_INFORMATION, _BYTE, (_T.CONNECT,), high=1),
        _Row(_P.WILL_DELAY_INTERVAL, _FOUR, (WILL,)),
        _Row(_P.REQUEST_RESPONSE_INFORMATION, _BYTE, (_T.CONNECT,), high=1),
        _Row(_P.RESPONSE_INFORMATION, _STRING, (_T.CONNACK,)),
        _Row(_P.SERVER_REFERENCE, _STRING, (_T.CONNACK, _T.DISCONNECT)),
        _Row(_P.REASON_STRING, _STRING, REASONS),
        _Row(_P.RECEIVE_MAXIMUM, _TWO, (_T.CONNECT, _T.CONNACK), low=1),
        _Row(_P.TOPIC_ALIAS_MAXIMUM, _TWO, (_T.CONNECT, _T.CONNACK)),
        _Row(_P.TOPIC_ALIAS, _TWO, (_T.PUBLISH,), low=1),
        _Row(_P.MAXIMUM_QOS, _BYTE, (_T.CONNACK,), high=1),
        _Row(_P.RETAIN_AVAILABLE, _BYTE, (_T.CONNACK,), high=1),
        _Row(_P.USER_PROPERTY, _PAIR, {WILL, *_T} - {_T.PINGREQ, _T.PINGRESP}),
        _Row(_P.MAXIMUM_PACKET_SIZE, _FOUR, (_T.CONNECT, _T.CONNACK), low=1),
        _Row(_P.WILDCARD_SUBSCRIPTION_AVAILABLE, _BYTE, (_T.CONNACK,), high=1),
        _Row(_P.SUBSCRIPTION_IDENTIFIER_AVAILABLE, _BYTE, (_T.CONNACK,), high=1),
        _Row(_P.SHARED_SUBSCRIPTION_AVAILABLE, _BYTE, (_T.CONNACK,), high=1),
    )
}


def decode_properties(data: bytes, at: int, end: int, packet_type: int) -> tuple[Properties, int]:
    """Read a property length and the properties after it.

    Args:
        data: the packet, or the buffer that it stands in.
        at: where the property length is.
        end: where the packet ends.
        packet_type: of PacketType, or WILL.

    Returns:
        The properties and where the next field starts.

    Raises:
        PacketError: cut short; a property that is unknown or may not stand in this packet
            (section 2.2.2.2); one that stands twice; a value that is not allowed; too many
            (QUOTA_EXCEEDED).

    """
    if at < end and not data[at]:
        return {}, at + 1
    length, at = read_length("property length", data, at, end)
    stop = at + length
    if stop > end:
        raise malformed("property length", length)
    if length > BYTES_MAX:
        raise PacketError(ReasonCode.PACKET_TOO_LARGE, "properties of bytes", length)
    properties: Properties = {}
    reader = Reader(packet_type, data, at, stop)
    left = COUNT_MAX_OF_STRANGERS if packet_type in _OF_STRANGERS else COUNT_MAX
    while reader.at < stop:
        if not left:
            raise _too_many(packet_type)
        left -= 1
        row = _row(reader.integer("property", 1), packet_type)
        value = row.read(reader, row.name)
        row.check(value)
        if row.listed:
            properties.setdefault(row.id, []).append(value)
        elif row.id in properties:
            raise protocol_error(f"{row.name} stands twice")
        else:
            properties[row.id] = value
    _check_single_identifier(properties, packet_type)
    return properties, stop


def _too_many(packet_type: int) -> PacketError:
    most = COUNT_MAX_OF_STRANGERS if packet_type in _OF_STRANGERS else COUNT_MAX
    what = f"{packet_name(packet_type)} with more properties than"
    return PacketError(ReasonCode.QUOTA_EXCEEDED, what, most)


def read_properties(reader: Reader, version: int) -> Properties:
    """Return the properties of a packet that is being read; 3.1.1 has none.

    Raises:
        PacketError: as `decode_properties` does.

    """
    if version != V5:
        return {}
    properties, reader.at = decode_properties(reader.data, reader.at, reader.end, reader.kind)
    return properties


def encode_properties(properties: Properties, packet_type: int | None = None) -> bytes:
    """Return the property length and the properties, in the order of the dictionary.

    Args:
        properties: what to write; an empty dictionary gives a length of 0 [MQTT-2.2.2-1].
        packet_type: of PacketType, or WILL, to check that each may stand there.

    Raises:
        PacketError: a property or value that `decode_properties` would refuse.

    """
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for property_id, value in properties.items():
        row = _row(property_id, packet_type)
        if row.listed and not isinstance(value, list):
            raise malformed(f"{row.name} is not a list", type(value).__name__)
        for one in value if row.listed else (value,):
            row.check(one)
            parts += (bytes((row.id,)), row.write(row.name, one))
    _check_single_identifier(properties, packet_type)
    encoded = b"".join(parts)
    return encode_length(len(encoded)) + encoded


def properties_text(properties: Properties) -> str:
    """Return properties for a log line: without authentication data, strings shortened, bytes
    counted."""
    return "".join(f", {_one_text(*item)}" for item in properties.items())


def _one_text(property_id: int, value: object) -> str:
    row = _ROWS.get(property_id)
    name = row.name if row else f"property {property_id}"
    if property_id == PropertyId.USER_PROPERTY and isinstance(value, list):
        return f"{len(value)} user properties"
    if isinstance(value, bytes):
        return f"{name} of {len(value)} bytes"
    return f"{name} {shortened(value) if isinstance(value, str) else value}"


def _check_single_identifier(properties: Properties, packet_type: int | None) -> None:
    """A SUBSCRIBE has one subscription identifier at most (section 3.8.2.1.2)."""
    identifiers = properties.get(PropertyId.SUBSCRIPTION_IDENTIFIER)
    if identifiers and len(identifiers) > 1 and packet_type == PacketType.SUBSCRIBE:
        raise protocol_error("subscription identifier stands twice")


def _row(property_id: int, packet_type: int | None) -> _Row:
    row = _ROWS.get(property_id)
    if row is None or (packet_type is not None and packet_type not in row.packets):
        place = "any packet" if packet_type is None else packet_name(packet_type)
        raise malformed(f"property in {place}", property_id)
    return row


def _check_response_topic(topic: str) -> None:
    try:
        check_topic_name(topic)
    except PacketError as error:
        statement = error.statement.replace("MQTT-4.7.0-1", "MQTT-3.3.2-14")
        raise PacketError(error.reason, f"response {error.what}", topic, statement) from None

"""Properties of MQTT 5.0 packets: which there are, where they may stand, how they are written.

Section 2.2.2.2 is the table below; everything else in this module walks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from gateway.mqtt import primitives
from gateway.mqtt.errors import PacketError, malformed, protocol_error, shortened
from gateway.mqtt.kinds import WILL, PacketType
from gateway.mqtt.primitives import encode_length, read_length
from gateway.mqtt.reason_codes import ReasonCode
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


BYTES_MAX = 128 * 1024
"""Of all properties of a packet: twenty thousand small ones take as long as a packet may."""

_Reader = Callable[[str, bytes, int, int], tuple[Any, int]]
_Writer = Callable[[str, Any], bytes]


@dataclass(frozen=True, slots=True)
class _Form:
    """How values of one data type are read, written and told from others."""

    read: _Reader
    write: _Writer
    type: type
    high: int = 0
    """Greatest value of an integer."""


def _write_length(what: str, value: int) -> bytes:
    return encode_length(value)


def _write_pair(what: str, pair: tuple[str, str]) -> bytes:
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise malformed(f"{what} is not a pair of strings")
    name, value = pair
    return primitives.encode_string(f"{what} name", name) + primitives.encode_string(
        f"{what} value", value
    )


_BYTE: Final = _Form(primitives.read_byte, lambda _, value: bytes((value,)), int, 0xFF)
_TWO: Final = _Form(primitives.read_two_bytes, primitives.encode_two_bytes, int, 0xFFFF)
_FOUR: Final = _Form(
    primitives.read_four_bytes, lambda _, value: value.to_bytes(4, "big"), int, 0xFFFF_FFFF
)
_LENGTH: Final = _Form(read_length, _write_length, int, primitives.MAX_LENGTH)
_STRING: Final = _Form(primitives.read_string, primitives.encode_string, str)
_BINARY: Final = _Form(primitives.read_binary, primitives.encode_binary, bytes)
_PAIR: Final = _Form(primitives.read_pair, _write_pair, tuple)


@dataclass(frozen=True, slots=True)
class _Row:
    """One property: where it may stand and what its value may be."""

    id: PropertyId
    name: str
    form: _Form
    packets: frozenset[int]
    low: int
    high: int
    listed: bool
    """Its value is a list, because it may stand more than once."""
    narrow: bool
    """Not every value of its data type is allowed."""

    def check(self, value: object) -> None:
        """Raise PacketError if it can't be the property's value."""
        if not isinstance(value, self.form.type):
            raise malformed(f"{self.name} is of another type", type(value).__name__)
        if isinstance(value, int) and not self.low <= value <= self.high:
            if self.id is PropertyId.TOPIC_ALIAS:
                raise PacketError(ReasonCode.TOPIC_ALIAS_INVALID, self.name, value, "MQTT-3.3.2-8")
            raise protocol_error(self.name, value)
        if self.id is PropertyId.RESPONSE_TOPIC and isinstance(value, str):
            _check_response_topic(value)


def _check_response_topic(topic: str) -> None:
    try:
        check_topic_name(topic)
    except PacketError as error:
        statement = error.statement.replace("MQTT-4.7.0-1", "MQTT-3.3.2-14")
        raise PacketError(error.reason, f"response {error.what}", topic, statement) from None


def _row(
    property_id: PropertyId, form: _Form, *packets: int, low: int = 0, high: int | None = None
) -> _Row:
    return _Row(
        property_id,
        property_id.name.lower().replace("_", " "),
        form,
        frozenset(packets),
        low,
        form.high if high is None else high,
        property_id in (PropertyId.USER_PROPERTY, PropertyId.SUBSCRIPTION_IDENTIFIER),
        low > 0 or high is not None or property_id is PropertyId.RESPONSE_TOPIC,
    )


_P = PropertyId
_T = PacketType
_ROWS: Final = {
    int(row.id): row
    for row in (
        _row(_P.PAYLOAD_FORMAT_INDICATOR, _BYTE, _T.PUBLISH, WILL, high=1),
        _row(_P.MESSAGE_EXPIRY_INTERVAL, _FOUR, _T.PUBLISH, WILL),
        _row(_P.CONTENT_TYPE, _STRING, _T.PUBLISH, WILL),
        _row(_P.RESPONSE_TOPIC, _STRING, _T.PUBLISH, WILL),
        _row(_P.CORRELATION_DATA, _BINARY, _T.PUBLISH, WILL),
        _row(_P.SUBSCRIPTION_IDENTIFIER, _LENGTH, _T.PUBLISH, _T.SUBSCRIBE, low=1),
        _row(_P.SESSION_EXPIRY_INTERVAL, _FOUR, _T.CONNECT, _T.CONNACK, _T.DISCONNECT),
        _row(_P.ASSIGNED_CLIENT_IDENTIFIER, _STRING, _T.CONNACK),
        _row(_P.SERVER_KEEP_ALIVE, _TWO, _T.CONNACK),
        _row(_P.AUTHENTICATION_METHOD, _STRING, _T.CONNECT, _T.CONNACK, _T.AUTH),
        _row(_P.AUTHENTICATION_DATA, _BINARY, _T.CONNECT, _T.CONNACK, _T.AUTH),
        _row(_P.REQUEST_PROBLEM_INFORMATION, _BYTE, _T.CONNECT, high=1),
        _row(_P.WILL_DELAY_INTERVAL, _FOUR, WILL),
        _row(_P.REQUEST_RESPONSE_INFORMATION, _BYTE, _T.CONNECT, high=1),
        _row(_P.RESPONSE_INFORMATION, _STRING, _T.CONNACK),
        _row(_P.SERVER_REFERENCE, _STRING, _T.CONNACK, _T.DISCONNECT),
        _row(
            _P.REASON_STRING,
            _STRING,
            *(_T.CONNACK, _T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP),
            *(_T.SUBACK, _T.UNSUBACK, _T.DISCONNECT, _T.AUTH),
        ),
        _row(_P.RECEIVE_MAXIMUM, _TWO, _T.CONNECT, _T.CONNACK, low=1),
        _row(_P.TOPIC_ALIAS_MAXIMUM, _TWO, _T.CONNECT, _T.CONNACK),
        _row(_P.TOPIC_ALIAS, _TWO, _T.PUBLISH, low=1),
        _row(_P.MAXIMUM_QOS, _BYTE, _T.CONNACK, high=1),
        _row(_P.RETAIN_AVAILABLE, _BYTE, _T.CONNACK, high=1),
        _row(_P.USER_PROPERTY, _PAIR, WILL, *(set(_T) - {_T.PINGREQ, _T.PINGRESP})),
        _row(_P.MAXIMUM_PACKET_SIZE, _FOUR, _T.CONNECT, _T.CONNACK, low=1),
        _row(_P.WILDCARD_SUBSCRIPTION_AVAILABLE, _BYTE, _T.CONNACK, high=1),
        _row(_P.SUBSCRIPTION_IDENTIFIER_AVAILABLE, _BYTE, _T.CONNACK, high=1),
        _row(_P.SHARED_SUBSCRIPTION_AVAILABLE, _BYTE, _T.CONNACK, high=1),
    )
}


def decode_properties(data: bytes, at: int, end: int, packet_type: int) -> tuple[Properties, int]:
    """Read a property length and the properties after it.

    Args:
        data: the body of a packet.
        at: where the property length is.
        end: where the body ends.
        packet_type: of PacketType, or WILL.

    Returns:
        The properties and where the next field starts.

    Raises:
        PacketError: cut short; a property that is unknown or may not stand in this packet
            (section 2.2.2.2); one that stands twice; a value that is not allowed.

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
    while at < stop:
        row = _ROWS.get(data[at])
        if row is None or packet_type not in row.packets:
            raise malformed(f"property in {_place(packet_type)}", data[at])
        value, at = row.form.read(row.name, data, at + 1, stop)
        if row.narrow:
            row.check(value)
        if row.listed:
            properties.setdefault(row.id, []).append(value)
        elif row.id in properties:
            raise protocol_error(f"{row.name} stands twice")
        else:
            properties[row.id] = value
    _check_single_identifier(properties, packet_type)
    return properties, at


def encode_properties(properties: Properties, packet_type: int | None = None) -> bytes:
    """The property length and the properties, in the order of the dictionary.

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
        row = _ROWS.get(property_id)
        if row is None or (packet_type is not None and packet_type not in row.packets):
            raise malformed(f"property in {_place(packet_type)}", property_id)
        if row.listed and not isinstance(value, list):
            raise malformed(f"{row.name} is not a list", type(value).__name__)
        for one in value if row.listed else (value,):
            row.check(one)
            parts.append(bytes((row.id,)) + row.form.write(row.name, one))
    _check_single_identifier(properties, packet_type)
    encoded = b"".join(parts)
    return encode_length(len(encoded)) + encoded


def properties_text(properties: Properties) -> str:
    """Properties for a log line: without authentication data, strings shortened, bytes counted."""
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


def _place(packet_type: int | None) -> str:
    if packet_type is None:
        return "any packet"
    return "will" if packet_type == WILL else PacketType(packet_type).name

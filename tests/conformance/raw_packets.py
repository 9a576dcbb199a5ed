"""MQTT packets as bytes, built and taken apart by the tests' own code.

Nothing here is shared with the broker's codec, so a mistake there can't hide here. Everything can
be built wrongly on purpose: flags, lengths, strings and properties are taken as they are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

V311 = 4
V5 = 5


class Kind(IntEnum):
    """Control packet types (MQTT 5.0 section 2.1.2)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Property(IntEnum):
    """Property identifiers (MQTT 5.0 section 2.2.2.2)."""

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


_INTEGER_BYTES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), 4),
}
_STRINGS = frozenset({0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F})
_BINARY = frozenset({0x09, 0x16})

Text = str | bytes
"""A string, or the bytes to put in its place when it must be wrong."""
Props = Iterable[tuple[int, Any]]
"""Property identifiers with their values, in order; a user property's value is a pair."""
Filter = str | bytes | tuple[Text, int]
"""A topic filter, alone or with its subscription options (the QoS in 3.1.1)."""


def two(value: int) -> bytes:
    """A two byte integer."""
    return value.to_bytes(2, "big")


def binary(data: Text) -> bytes:
    """Data behind its two byte length; text as UTF-8."""
    raw = data.encode() if isinstance(data, str) else data
    return two(len(raw)) + raw


def variable(value: int) -> bytes:
    """A variable byte integer (MQTT 5.0 section 1.5.5)."""
    encoded = bytearray()
    while True:
        value, digit = divmod(value, 128)
        encoded.append(digit | 0x80 if value else digit)
        if not value:
            return bytes(encoded)


def packet(first_byte: int, *parts: bytes) -> bytes:
    """A whole control packet."""
    body = b"".join(parts)
    return bytes((first_byte,)) + variable(len(body)) + body


def one_property(identifier: int, value: Any) -> bytes:
    """A property; bytes in place of an integer are taken as they are."""
    if identifier == Property.USER_PROPERTY:
        return bytes((identifier,)) + binary(value[0]) + binary(value[1])
    if identifier in _STRINGS or identifier in _BINARY:
        return bytes((identifier,)) + binary(value)
    if isinstance(value, bytes):
        return variable(identifier) + value
    if identifier == Property.SUBSCRIPTION_IDENTIFIER:
        return bytes((identifier,)) + variable(value)
    return bytes((identifier,)) + int(value).to_bytes(_INTEGER_BYTES[identifier], "big")


def properties(props: Props) -> bytes:
    """Properties behind their length."""
    body = b"".join(one_property(identifier, value) for identifier, value in props)
    return variable(len(body)) + body


@dataclass(frozen=True)
class Will:
    """The will of a CONNECT."""

    topic: Text
    payload: bytes = b"gone"
    qos: int = 0
    retain: bool = False
    props: Props = ()


@dataclass(frozen=True)
class Packets:
    """Builds packets of one protocol level."""

    level: int

    def properties(self, props: Props) -> bytes:
        """The property field, which 3.1.1 does not have."""
        return properties(props) if self.level == V5 else b""

    def connect(
        self,
        client_id: Text = "",
        *,
        clean: bool = True,
        keep_alive_s: int = 60,
        will: Will | None = None,
        username: Text | None = None,
        password: bytes | None = None,
        props: Props = (),
        name: Text = "MQTT",
        level: int | None = None,
        flags: int | None = None,
        payload: bytes | None = None,
    ) -> bytes:
        """CONNECT; ``flags`` and ``payload`` stand in for what the arguments would make."""
        made_flags = clean << 1
        fields = [binary(client_id)]
        if will is not None:
            made_flags |= 0x04 | will.qos << 3 | will.retain << 5
            fields += [self.properties(will.props), binary(will.topic), binary(will.payload)]
        if username is not None:
            made_flags |= 0x80
            fields.append(binary(username))
        if password is not None:
            made_flags |= 0x40
            fields.append(binary(password))
        return packet(
            0x10,
            binary(name),
            bytes((self.level if level is None else level,)),
            bytes((made_flags if flags is None else flags,)),
            two(keep_alive_s),
            self.properties(props),
            b"".join(fields) if payload is None else payload,
        )

    def publish(
        self,
        topic: Text,
        payload: bytes = b"",
        *,
        qos: int = 0,
        packet_id: int | None = None,
        retain: bool = False,
        dup: bool = False,
        props: Props = (),
    ) -> bytes:
        """PUBLISH, with a packet identifier exactly if one is given."""
        identifier = b"" if packet_id is None else two(packet_id)
        first_byte = 0x30 | dup << 3 | qos << 1 | retain
        return packet(first_byte, binary(topic), identifier, self.properties(props), payload)

    def acknowledge(
        self, kind: Kind, packet_id: int, reason: int = 0, *, flags: int | None = None
    ) -> bytes:
        """PUBACK, PUBREC, PUBREL or PUBCOMP; a reason of 0 is left out."""
        if flags is None:
            flags = 0x02 if kind is Kind.PUBREL else 0
        return packet(kind << 4 | flags, two(packet_id), bytes((reason,)) if reason else b"")

    def subscribe(self, packet_id: int, *filters: Filter, props: Props = ()) -> bytes:
        """SUBSCRIBE."""
        pairs = ((f, 0) if isinstance(f, str | bytes) else f for f in filters)
        body = b"".join(binary(name) + bytes((options,)) for name, options in pairs)
        return packet(0x82, two(packet_id), self.properties(props), body)

    def unsubscribe(self, packet_id: int, *filters: Text, props: Props = ()) -> bytes:
        """UNSUBSCRIBE."""
        body = b"".join(binary(name) for name in filters)
        return packet(0xA2, two(packet_id), self.properties(props), body)

    def pingreq(self) -> bytes:
        """PINGREQ."""
        return packet(0xC0)

    def disconnect(self, reason: int = 0, props: Props = ()) -> bytes:
        """DISCONNECT, in its short form where that says the same."""
        if self.level == V311 or not (reason or props):
            return packet(0xE0)
        return packet(0xE0, bytes((reason,)), properties(props))

    def auth(self, reason: int, props: Props = ()) -> bytes:
        """AUTH (5.0 only)."""
        return packet(0xF0, bytes((reason,)), properties(props))


@dataclass(frozen=True)
class Received:
    """A packet from the broker; what its type does not have is empty."""

    kind: Kind
    flags: int
    body: bytes
    packet_id: int = 0
    session_present: bool = False
    reasons: tuple[int, ...] = ()
    topic: str = ""
    payload: bytes = b""
    props: tuple[tuple[int, Any], ...] = ()

    @property
    def reason(self) -> int:
        """The only return or reason code."""
        (reason,) = self.reasons
        return reason

    @property
    def qos(self) -> int:
        """A PUBLISH's quality of service."""
        return self.flags >> 1 & 3

    @property
    def dup(self) -> bool:
        """Return whether a PUBLISH says that it was sent before."""
        return bool(self.flags & 8)

    @property
    def retain(self) -> bool:
        """A PUBLISH's RETAIN flag."""
        return bool(self.flags & 1)

    def values(self, identifier: int) -> list[Any]:
        """All values of a property."""
        return [value for known, value in self.props if known == identifier]

    def value(self, identifier: int, otherwise: Any = None) -> Any:
        """The value of a property that may come once."""
        values = self.values(identifier)
        assert len(values) <= 1, f"{Property(identifier).name} comes {len(values)} times"
        return values[0] if values else otherwise


class _Reader:
    """Takes fields off the front of a body."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        assert len(self.data) >= size, f"the broker's packet ends {size - len(self.data)} too early"
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def binary(self) -> bytes:
        return self.take(self.integer(2))

    def variable(self) -> int:
        value = shift = 0
        while True:
            digit = self.integer(1)
            value |= (digit & 0x7F) << shift
            if digit < 0x80:
                return value
            shift += 7

    def properties(self) -> tuple[tuple[int, Any], ...]:
        inner = _Reader(self.take(self.variable()))
        found: list[tuple[int, Any]] = []
        while inner.data:
            identifier = inner.variable()
            found.append((identifier, inner.value(identifier)))
        return tuple(found)

    def value(self, identifier: int) -> Any:
        if identifier == Property.USER_PROPERTY:
            return self.binary().decode(), self.binary().decode()
        if identifier == Property.SUBSCRIPTION_IDENTIFIER:
            return self.variable()
        if identifier in _STRINGS:
            return self.binary().decode()
        if identifier in _BINARY:
            return self.binary()
        assert identifier in _INTEGER_BYTES, f"the broker sent the unknown property {identifier}"
        return self.integer(_INTEGER_BYTES[identifier])


def parse(first_byte: int, body: bytes, level: int) -> Received:
    """Take a packet from the broker apart; asserts that its fields fit its length."""
    kind, flags = Kind(first_byte >> 4), first_byte & 15
    reader, v5 = _Reader(body), level == V5
    fields: dict[str, Any] = {}
    if kind is Kind.CONNACK:
        acknowledge_flags = reader.integer(1)
        assert acknowledge_flags in {0, 1}, "[MQTT-3.2.2-1] bits 7 to 1 are reserved"
        fields["session_present"] = bool(acknowledge_flags)
        fields["reasons"] = (reader.integer(1),)
        # A refusal of the protocol level may come in the form of 3.1.1.
        fields["props"] = reader.properties() if v5 and reader.data else ()
    elif kind is Kind.PUBLISH:
        fields["topic"] = reader.binary().decode()
        if flags & 6:
            fields["packet_id"] = reader.integer(2)
        fields["props"] = reader.properties() if v5 else ()
        fields["payload"] = reader.take(len(reader.data))
    elif kind in {Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP}:
        fields["packet_id"] = reader.integer(2)
        fields["reasons"] = (reader.integer(1) if v5 and reader.data else 0,)
        fields["props"] = reader.properties() if v5 and reader.data else ()
    elif kind in {Kind.SUBACK, Kind.UNSUBACK}:
        fields["packet_id"] = reader.integer(2)
        fields["props"] = reader.properties() if v5 else ()
        fields["reasons"] = tuple(reader.take(len(reader.data)))
    elif kind in {Kind.DISCONNECT, Kind.AUTH}:
        assert v5, f"a broker never sends {kind.name} in MQTT 3.1.1"
        fields["reasons"] = (reader.integer(1) if reader.data else 0,)
        fields["props"] = reader.properties() if reader.data else ()
    assert not reader.data, f"{kind.name} has {len(reader.data)} bytes too many"
    return Received(kind, flags, body, **fields)

"""CONNECT (MQTT 5.0 and 3.1.1, section 3.1), also with the bridge bit of a neighbour."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from gateway.mqtt.errors import PacketError, malformed, protocol_error, shortened
from gateway.mqtt.kinds import V5, WILL, PacketType, Version
from gateway.mqtt.primitives import Reader, encode_binary, encode_integer, encode_string
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    decode_properties,
    encode_properties,
    properties_text,
    read_properties,
)
from gateway.mqtt.reason_codes import ReasonCode
from gateway.mqtt.topic_rules import check_topic_name
from light_dataclasses import dataclass

BRIDGE_BIT: Final = 0x80
"""Set in the protocol version by a broker that connects to another."""
LINK_USER_PREFIX: Final = "$hedgerow/"
"""The beginning of the user name of a gateway that opens a link; its tree's name follows."""

_NAME: Final = b"MQTT"
_LEVEL_AT_MOST: Final = 8  # behind the longest protocol name, that of MQTT 3.1
_BEFORE_PROPERTIES: Final = 4
"""Version, flags and keep alive, between the protocol name and the properties."""
LEAST_CONNACK_BYTES: Final = 5
"""Of 5.0, without properties."""
_RESERVED: Final = 0x01
_CLEAN_START: Final = 0x02
_WILL_FLAG: Final = 0x04
_WILL_QOS_SHIFT: Final = 3
_WILL_RETAIN: Final = 0x20
_PASSWORD: Final = 0x40
_USER_NAME: Final = 0x80


@dataclass(slots=True)
class Will:
    """The will of a client: a message that the server publishes when the client is gone."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"will {shortened(self.topic)} QoS {self.qos}{' retain' if self.retain else ''}"
            f", {len(self.payload)} bytes{properties_text(self.properties)}"
        )


@dataclass(slots=True)
class Connect:
    """A client asks to be served.

    Attributes:
        version: of the protocol.
        client_id: empty where the server is to choose one.
        clean_start: begin a new session (3.1.1: clean session).
        keep_alive_s: longest silence, 0 for any.
        username: None where there is none.
        password: never shown.
        will: None where there is none.
        properties: of 5.0; left out when it is encoded for 3.1.1.
        bridge: the bridge bit was set.

    """

    version: Version
    client_id: str
    clean_start: bool = True
    keep_alive_s: int = 0
    username: str | None = None
    password: bytes | None = field(default=None, repr=False)
    will: Will | None = None
    properties: Properties = field(default_factory=dict, repr=False)
    bridge: bool = False

    @property
    def is_link(self) -> bool:
        """Return whether a gateway opens a link. Mosquitto, for one, sets the bridge bit too."""
        return self.bridge and (self.username or "").startswith(LINK_USER_PREFIX)

    def __str__(self) -> str:
        return (
            f"CONNECT {shortened(self.client_id)} {self.version.name}"
            f"{' bridge' if self.bridge else ''}{' clean start' if self.clean_start else ''}"
            f", keep alive {self.keep_alive_s} s"
            f"{'' if self.username is None else f', user {shortened(self.username)}'}"
            f"{'' if self.will is None else f', {self.will}'}"
            f"{properties_text(self.properties)}"
        )


def asked_version(body: bytes) -> Version:
    """Return the version that a CONNECT asks for, which may be malformed, to answer it in.

    Args:
        body: of the packet, as far as it is there.

    """
    at = 2 + int.from_bytes(body[:2], "big")
    is_v5 = at <= _LEVEL_AT_MOST and body[at : at + 1] in (b"\x05", b"\x85")
    return Version.V5 if is_v5 else Version.V311


def asked_packet_bytes(body: bytes) -> int | None:
    """Return the Maximum Packet Size that a CONNECT of 5.0 tells, which may be malformed, to answer
    it.

    Args:
        body: of the packet.

    Returns:
        None where it tells of none; that of the least CONNACK where its properties are malformed,
        and may have told of one.

    """
    at = 2 + int.from_bytes(body[:2], "big") + _BEFORE_PROPERTIES
    try:
        properties, _ = decode_properties(body, at, len(body), PacketType.CONNECT)
    except PacketError:
        return LEAST_CONNACK_BYTES
    packet_bytes: int | None = properties.get(PropertyId.MAXIMUM_PACKET_SIZE)
    return packet_bytes


def decode_connect(reader: Reader, version: int) -> Connect:
    """Read the body of a CONNECT, in the version that it brings.

    Raises:
        PacketError: UNSUPPORTED_PROTOCOL_VERSION for another protocol name [MQTT-3.1.2-1] or
            version [MQTT-3.1.2-2]; CLIENT_IDENTIFIER_NOT_VALID for an empty one with a session
            to keep, in 3.1.1; a flag or field that breaks section 3.1.

    """
    name = reader.binary("protocol name")
    if name != _NAME:
        raise _unsupported("CONNECT protocol name", name, "MQTT-3.1.2-1")
    level = reader.integer("protocol version", 1)
    version = _version(level & ~BRIDGE_BIT)
    flags = reader.integer("flags", 1)
    _check_flags(flags, version)
    keep_alive_s = reader.integer("keep alive", 2)
    properties = read_properties(reader, version)
    _check_authentication(properties)
    client_id = reader.string("client identifier")
    clean_start = flags & _CLEAN_START != 0
    _check_client_id(client_id, version, clean_start=clean_start)
    will = _read_will(reader, flags, version) if flags & _WILL_FLAG else None
    username = reader.string("user name") if flags & _USER_NAME else None
    password = reader.binary("password") if flags & _PASSWORD else None
    if reader.at != reader.end:
        what = "CONNECT has bytes after its last field"
        raise malformed(what, reader.end - reader.at, "MQTT-3.1.3-1")
    return Connect(
        Version(version),
        client_id,
        clean_start,
        keep_alive_s,
        username,
        password,
        will,
        properties,
        level & BRIDGE_BIT != 0,
    )


def encode_connect(packet: Connect, version: int, kind: int) -> bytes:
    """Return the body of a CONNECT, in its own version."""
    version, will = _version(packet.version), packet.will
    flags = (
        (_CLEAN_START if packet.clean_start else 0)
        | (_PASSWORD if packet.password is not None else 0)
        | (_USER_NAME if packet.username is not None else 0)
    )
    if will is not None:
        if not 0 <= will.qos <= 2:
            raise malformed("CONNECT will QoS", will.qos, "MQTT-3.1.2-12")
        flags |= _WILL_FLAG | will.qos << _WILL_QOS_SHIFT | (_WILL_RETAIN if will.retain else 0)
    _check_flags(flags, version)
    _check_client_id(packet.client_id, version, clean_start=packet.clean_start)
    level = version | (BRIDGE_BIT if packet.bridge else 0)
    parts = [encode_binary("CONNECT protocol name", _NAME), bytes((level, flags))]
    parts.append(encode_integer("CONNECT keep alive", packet.keep_alive_s, 2))
    if version == V5:
        _check_authentication(packet.properties)
        parts.append(encode_properties(packet.properties, kind))
    parts.append(encode_string("CONNECT client identifier", packet.client_id))
    if will is not None:
        if version == V5:
            parts.append(encode_properties(will.properties, WILL))
        parts.append(encode_string("CONNECT will topic", check_topic_name(will.topic)))
        parts.append(encode_binary("CONNECT will payload", will.payload))
    if packet.username is not None:
        parts.append(encode_string("CONNECT user name", packet.username))
    if packet.password is not None:
        parts.append(encode_binary("CONNECT password", packet.password))
    return b"".join(parts)


def _read_will(reader: Reader, flags: int, version: int) -> Will:
    of_will = Reader(WILL, reader.data, reader.at, reader.end)
    properties = read_properties(of_will, version)
    topic, payload = check_topic_name(of_will.binary("topic")), of_will.binary("payload")
    reader.at = of_will.at
    qos = flags >> _WILL_QOS_SHIFT & 3
    return Will(topic, payload, qos, flags & _WILL_RETAIN != 0, properties)


def _version(level: int) -> int:
    if level not in {Version.V311, Version.V5}:
        raise _unsupported("CONNECT protocol version", level, "MQTT-3.1.2-2")
    return level


def _unsupported(what: str, value: bytes | int, statement: str) -> PacketError:
    return PacketError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, what, value, statement)


def _check_flags(flags: int, version: int) -> None:
    if flags & _RESERVED:
        raise malformed("CONNECT reserved flag", flags, "MQTT-3.1.2-3")
    will_qos = flags >> _WILL_QOS_SHIFT & 3
    if not flags & _WILL_FLAG:
        if will_qos:
            raise malformed("CONNECT will QoS without will", will_qos, "MQTT-3.1.2-11")
        if flags & _WILL_RETAIN:
            raise malformed("CONNECT will retain without will", flags, "MQTT-3.1.2-13")
    elif will_qos == 3:
        raise malformed("CONNECT will QoS", will_qos, "MQTT-3.1.2-12")
    if version != V5 and flags & _PASSWORD and not flags & _USER_NAME:
        raise malformed("CONNECT password without user name", statement="MQTT-3.1.2-22 (3.1.1)")


def _check_client_id(client_id: str, version: int, *, clean_start: bool) -> None:
    if not client_id and version != V5 and not clean_start:
        raise PacketError(
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
            "CONNECT client identifier is empty and the session to be kept",
            statement="MQTT-3.1.3-8 (3.1.1)",
        )


def _check_authentication(properties: Properties) -> None:
    """Authentication data without a method is a protocol error (section 3.1.2.11.10)."""
    if (
        PropertyId.AUTHENTICATION_DATA in properties
        and PropertyId.AUTHENTICATION_METHOD not in properties
    ):
        raise protocol_error("CONNECT authentication data without method")

"""CONNECT (MQTT 5.0 and 3.1.1, section 3.1), also with the bridge bit of a neighbour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.mqtt.errors import PacketError, malformed, protocol_error, shortened
from gateway.mqtt.framing import frame
from gateway.mqtt.kinds import WILL, PacketType, Version
from gateway.mqtt.primitives import (
    encode_binary,
    encode_string,
    encode_two_bytes,
    read_binary,
    read_byte,
    read_string,
    read_two_bytes,
)
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    decode_properties,
    encode_properties,
    properties_text,
)
from gateway.mqtt.reason_codes import ReasonCode
from gateway.mqtt.topic_rules import check_topic_name

BRIDGE_BIT: Final = 0x80
"""Set in the protocol version by a broker that connects to another."""
LINK_USER_PREFIX: Final = "$hedgerow/"
"""How the user name of a gateway begins that opens a link; its tree's name follows."""

_NAME: Final = b"\0\4MQTT"
_RESERVED: Final = 0x01
_CLEAN_START: Final = 0x02
_WILL_FLAG: Final = 0x04
_WILL_QOS_SHIFT: Final = 3
_WILL_RETAIN: Final = 0x20
_PASSWORD: Final = 0x40
_USER_NAME: Final = 0x80


@dataclass(slots=True)
class Will:
    """What the server publishes for a client that is gone."""

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
        """Whether a gateway opens a link. Other brokers set the bridge bit too (Mosquitto)."""
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


def protocol_level(body: bytes) -> int | None:
    """The protocol version byte of a CONNECT that may be malformed, its bridge bit included.

    It tells in which version to refuse a CONNECT that `decode_connect` could not read.

    Returns:
        None where it does not begin with the protocol name MQTT and a level.

    """
    return body[6] if body.startswith(_NAME) and len(body) > 6 else None


def decode_connect(body: bytes) -> Connect:
    """Read the body of a CONNECT.

    Raises:
        PacketError: UNSUPPORTED_PROTOCOL_VERSION for another protocol name [MQTT-3.1.2-1] or
            version [MQTT-3.1.2-2]; CLIENT_IDENTIFIER_NOT_VALID for an empty one with a session
            to keep, in 3.1.1; a flag or field that breaks section 3.1.

    """
    end = len(body)
    name, at = read_binary("CONNECT protocol name", body, 0, end)
    if name != _NAME[2:]:
        raise _unsupported("CONNECT protocol name", name, "MQTT-3.1.2-1")
    level, at = read_byte("CONNECT protocol version", body, at, end)
    version = _version(level & ~BRIDGE_BIT)
    flags, at = read_byte("CONNECT flags", body, at, end)
    _check_flags(flags, version)
    keep_alive_s, at = read_two_bytes("CONNECT keep alive", body, at, end)
    properties: Properties = {}
    if version is Version.V5:
        properties, at = decode_properties(body, at, end, PacketType.CONNECT)
        _check_authentication(properties)
    client_id, at = read_string("CONNECT client identifier", body, at, end)
    will: Will | None = None
    if flags & _WILL_FLAG:
        will, at = _read_will(flags, version, body, at, end)
    username: str | None = None
    password: bytes | None = None
    if flags & _USER_NAME:
        username, at = read_string("CONNECT user name", body, at, end)
    if flags & _PASSWORD:
        password, at = read_binary("CONNECT password", body, at, end)
    if at != end:
        raise malformed("CONNECT has bytes after its last field", end - at, "MQTT-3.1.3-1")
    clean_start = bool(flags & _CLEAN_START)
    _check_client_id(client_id, version, clean_start=clean_start)
    return Connect(
        version,
        client_id,
        clean_start,
        keep_alive_s,
        username,
        password,
        will,
        properties,
        bool(level & BRIDGE_BIT),
    )


def encode_connect(packet: Connect) -> bytes:
    """A CONNECT packet, in its own version.

    Raises:
        PacketError: what `decode_connect` would refuse.

    """
    version, will = _version(packet.version), packet.will
    flags = (
        packet.clean_start << 1
        | (packet.password is not None) << 6
        | (packet.username is not None) << 7
    )
    if will is not None:
        if not 0 <= will.qos <= 2:
            raise malformed("CONNECT will QoS", will.qos, "MQTT-3.1.2-12")
        flags |= _WILL_FLAG | will.qos << _WILL_QOS_SHIFT | will.retain << 5
    _check_flags(flags, version)
    _check_client_id(packet.client_id, version, clean_start=packet.clean_start)
    parts = [
        _NAME,
        bytes((version | (BRIDGE_BIT if packet.bridge else 0), flags)),
        encode_two_bytes("CONNECT keep alive", packet.keep_alive_s),
    ]
    if version is Version.V5:
        _check_authentication(packet.properties)
        parts.append(encode_properties(packet.properties, PacketType.CONNECT))
    parts.append(encode_string("CONNECT client identifier", packet.client_id))
    if will is not None:
        if version is Version.V5:
            parts.append(encode_properties(will.properties, WILL))
        parts.append(encode_string("CONNECT will topic", check_topic_name(will.topic)))
        parts.append(encode_binary("CONNECT will payload", will.payload))
    if packet.username is not None:
        parts.append(encode_string("CONNECT user name", packet.username))
    if packet.password is not None:
        parts.append(encode_binary("CONNECT password", packet.password))
    return frame(PacketType.CONNECT << 4, b"".join(parts))


def _read_will(flags: int, version: Version, body: bytes, at: int, end: int) -> tuple[Will, int]:
    properties: Properties = {}
    if version is Version.V5:
        properties, at = decode_properties(body, at, end, WILL)
    topic, at = read_binary("CONNECT will topic", body, at, end)
    payload, at = read_binary("CONNECT will payload", body, at, end)
    qos = flags >> _WILL_QOS_SHIFT & 3
    return Will(check_topic_name(topic), payload, qos, bool(flags & _WILL_RETAIN), properties), at


def _version(level: int) -> Version:
    try:
        return Version(level)
    except ValueError:
        raise _unsupported("CONNECT protocol version", level, "MQTT-3.1.2-2") from None


def _unsupported(what: str, value: bytes | int, statement: str) -> PacketError:
    return PacketError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, what, value, statement)


def _check_flags(flags: int, version: Version) -> None:
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
    if version is Version.V311 and flags & _PASSWORD and not flags & _USER_NAME:
        raise malformed("CONNECT password without user name", statement="MQTT-3.1.2-22 (3.1.1)")


def _check_client_id(client_id: str, version: Version, *, clean_start: bool) -> None:
    if not client_id and version is Version.V311 and not clean_start:
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

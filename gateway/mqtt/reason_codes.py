"""Reason codes, and which packet may carry which (MQTT 5.0, section 2.4 and chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from gateway.mqtt.kinds import PacketType


class ReasonCode(IntEnum):
    """A reason code: the result of an operation; 0x80 and above are failures (table 2-6)."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


_RECEIVED: Final = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
_RELEASED: Final = frozenset((0x00, 0x92))
_DISCONNECT: Final = (0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91))

REASONS: Final[Mapping[int, frozenset[int]]] = {
    PacketType.CONNACK: frozenset(  # table 3-1
        (0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F)
    ),
    PacketType.PUBACK: _RECEIVED,  # section 3.4.2.1
    PacketType.PUBREC: _RECEIVED,  # section 3.5.2.1
    PacketType.PUBREL: _RELEASED,  # section 3.6.2.1
    PacketType.PUBCOMP: _RELEASED,  # section 3.7.2.1
    PacketType.SUBACK: frozenset(  # section 3.9.3
        (0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)
    ),
    PacketType.UNSUBACK: frozenset((0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),  # section 3.11.3
    PacketType.DISCONNECT: frozenset((*_DISCONNECT, *range(0x93, 0xA3))),  # section 3.14.2.1
    PacketType.AUTH: frozenset((0x00, 0x18, 0x19)),  # section 3.15.2.1
}
"""The reason codes that each type of packet may carry."""

STATEMENTS: Final[Mapping[int, str]] = {
    PacketType.CONNACK: "MQTT-3.2.2-8",
    PacketType.PUBACK: "MQTT-3.4.2-1",
    PacketType.PUBREC: "MQTT-3.5.2-1",
    PacketType.PUBREL: "MQTT-3.6.2-1",
    PacketType.PUBCOMP: "MQTT-3.7.2-1",
    PacketType.SUBACK: "MQTT-3.9.3-2",
    PacketType.UNSUBACK: "MQTT-3.11.3-2",
    PacketType.DISCONNECT: "MQTT-3.14.2-1",
    PacketType.AUTH: "MQTT-3.15.2-1",
}
"""The normative statement that a packet with another one breaks."""

DISCONNECT_BY_CLIENT: Final = frozenset((0x00, 0x04, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A)))
"""The reasons of section 3.14.2.1 that a client may disconnect with."""


def reason_text(reason: int) -> str:
    """Return the name of a reason for a log line, or its number where it has none."""
    try:
        return ReasonCode(reason).name.lower().replace("_", " ")
    except ValueError:
        return f"reason 0x{reason:02x}"

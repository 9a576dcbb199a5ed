"""Reason codes, and which packet may carry which (MQTT 5.0, section 2.4 and chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from gateway.mqtt.kinds import PacketType


class ReasonCode(IntEnum):
    """How an operation ended; 0x80 and above are failures (table 2-6)."""

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


_R = ReasonCode

_PUBLISH_RECEIVED: Final = frozenset(
    {
        _R.SUCCESS,
        _R.NO_MATCHING_SUBSCRIBERS,
        _R.UNSPECIFIED_ERROR,
        _R.IMPLEMENTATION_SPECIFIC_ERROR,
        _R.NOT_AUTHORIZED,
        _R.TOPIC_NAME_INVALID,
        _R.PACKET_IDENTIFIER_IN_USE,
        _R.QUOTA_EXCEEDED,
        _R.PAYLOAD_FORMAT_INVALID,
    }
)
_PUBLISH_RELEASED: Final = frozenset({_R.SUCCESS, _R.PACKET_IDENTIFIER_NOT_FOUND})

REASONS: Final[Mapping[int, frozenset[int]]] = {
    PacketType.CONNACK: frozenset(  # table 3-1
        {
            _R.SUCCESS,
            *range(_R.UNSPECIFIED_ERROR, _R.BANNED + 1),
            _R.BAD_AUTHENTICATION_METHOD,
            _R.TOPIC_NAME_INVALID,
            _R.PACKET_TOO_LARGE,
            _R.QUOTA_EXCEEDED,
            _R.PAYLOAD_FORMAT_INVALID,
            _R.RETAIN_NOT_SUPPORTED,
            _R.QOS_NOT_SUPPORTED,
            _R.USE_ANOTHER_SERVER,
            _R.SERVER_MOVED,
            _R.CONNECTION_RATE_EXCEEDED,
        }
    ),
    PacketType.PUBACK: _PUBLISH_RECEIVED,  # section 3.4.2.1
    PacketType.PUBREC: _PUBLISH_RECEIVED,  # section 3.5.2.1
    PacketType.PUBREL: _PUBLISH_RELEASED,  # section 3.6.2.1
    PacketType.PUBCOMP: _PUBLISH_RELEASED,  # section 3.7.2.1
    PacketType.SUBACK: frozenset(  # section 3.9.3
        {
            _R.GRANTED_QOS_0,
            _R.GRANTED_QOS_1,
            _R.GRANTED_QOS_2,
            _R.UNSPECIFIED_ERROR,
            _R.IMPLEMENTATION_SPECIFIC_ERROR,
            _R.NOT_AUTHORIZED,
            _R.TOPIC_FILTER_INVALID,
            _R.PACKET_IDENTIFIER_IN_USE,
            _R.QUOTA_EXCEEDED,
            _R.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
            _R.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
            _R.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
        }
    ),
    PacketType.UNSUBACK: frozenset(  # section 3.11.3
        {
            _R.SUCCESS,
            _R.NO_SUBSCRIPTION_EXISTED,
            _R.UNSPECIFIED_ERROR,
            _R.IMPLEMENTATION_SPECIFIC_ERROR,
            _R.NOT_AUTHORIZED,
            _R.TOPIC_FILTER_INVALID,
            _R.PACKET_IDENTIFIER_IN_USE,
        }
    ),
    PacketType.DISCONNECT: frozenset(  # section 3.14.2.1
        {
            _R.NORMAL_DISCONNECTION,
            _R.DISCONNECT_WITH_WILL_MESSAGE,
            _R.UNSPECIFIED_ERROR,
            _R.MALFORMED_PACKET,
            _R.PROTOCOL_ERROR,
            _R.IMPLEMENTATION_SPECIFIC_ERROR,
            _R.NOT_AUTHORIZED,
            _R.SERVER_BUSY,
            _R.SERVER_SHUTTING_DOWN,
            _R.KEEP_ALIVE_TIMEOUT,
            _R.SESSION_TAKEN_OVER,
            _R.TOPIC_FILTER_INVALID,
            _R.TOPIC_NAME_INVALID,
            *range(_R.RECEIVE_MAXIMUM_EXCEEDED, _R.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED + 1),
        }
    ),
    PacketType.AUTH: frozenset(  # section 3.15.2.1
        {_R.SUCCESS, _R.CONTINUE_AUTHENTICATION, _R.RE_AUTHENTICATE}
    ),
}
"""The reason codes that each type of packet may carry."""

DISCONNECT_BY_CLIENT: Final = frozenset(
    {
        _R.NORMAL_DISCONNECTION,
        _R.DISCONNECT_WITH_WILL_MESSAGE,
        _R.UNSPECIFIED_ERROR,
        _R.MALFORMED_PACKET,
        _R.PROTOCOL_ERROR,
        _R.IMPLEMENTATION_SPECIFIC_ERROR,
        _R.TOPIC_NAME_INVALID,
        *range(_R.RECEIVE_MAXIMUM_EXCEEDED, _R.PAYLOAD_FORMAT_INVALID + 1),
    }
)
"""The reasons of section 3.14.2.1 that a client may disconnect with."""


def reason_text(reason: int) -> str:
    """The name of a reason for a log line, or its number where it has none."""
    try:
        return ReasonCode(reason).name.lower().replace("_", " ")
    except ValueError:
        return f"reason 0x{reason:02x}"

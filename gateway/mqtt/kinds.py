"""Versions of the protocol and types of packets (MQTT 5.0, sections 2.1.2 and 3.1.2.2)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Version(IntEnum):
    """Protocol version as CONNECT carries it, without the bridge bit."""

    V311 = 4
    V5 = 5


V311: Final = 4
V5: Final = 5
"""The same as integers: comparing with an enum's member is slow."""


class PacketType(IntEnum):
    """Upper four bits of the first byte (table 2-1)."""

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


WILL: Final = 0
"""Stands for the properties of a will where a packet type is asked for; no packet has type 0."""


def packet_name(packet_type: int) -> str:
    """Return what errors call a packet of this type, or of WILL."""
    return PacketType(packet_type).name if packet_type else "will"

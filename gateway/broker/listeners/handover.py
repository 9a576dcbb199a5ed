"""The start of a connection: a client's CONNECT, or a neighbour's that is handed over (B1).

A link has the top bit of the protocol version set and says of which tree it is; what sets the bit
alone is a bridge of another broker and a client. Whoever serves links takes over the transport.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.mqtt import BRIDGE_BIT, PacketError, ReasonCode, Version, packet_end

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection

_CONNECT = 0x10
_NAME_BYTES_MAX = 6
"""The longest protocol name is that of MQTT 3.1."""


@dataclass(frozen=True, slots=True)
class Start:
    """The first packet: where its body starts and ends, and the version that it asks for."""

    body: int
    end: int
    version: int


def first_packet(data: bytes, limit_bytes: int) -> Start | None:
    """Look at a connection's first packet; None if it is not all there yet.

    Raises:
        PacketError: it is no CONNECT, or too large; its length has more bytes than needed, in 5.0.

    """
    if data and data[0] != _CONNECT:  # [MQTT-3.1.0-1]
        raise PacketError(
            ReasonCode.PROTOCOL_ERROR, "packet before CONNECT", data[0], "MQTT-3.1.0-1"
        )
    found = packet_end(data, 0, limit_bytes)
    if found is None:
        return None
    body, end = found
    name_bytes = int.from_bytes(data[body : body + 2], "big")
    at = body + 2 + name_bytes
    asked = data[at] & ~BRIDGE_BIT if name_bytes <= _NAME_BYTES_MAX and at < end else 0
    version = Version.V5 if asked == Version.V5 else Version.V311
    if version is Version.V5 and body > 2 and not data[body - 1]:
        raise long_length(end - body)
    return Start(body, end, version)


def long_length(length: int) -> PacketError:
    """The error for a remaining length in more bytes than needed, which 5.0 forbids."""
    what = "remaining length in more bytes than needed"
    return PacketError(ReasonCode.MALFORMED_PACKET, what, length, "MQTT-1.5.5-1")


def hand_over(connection: Connection, data: bytes) -> None:
    """Hand a neighbour's connection over, with all that was read of it."""
    transport = connection.transport
    assert transport is not None
    core = connection.core
    connection.transport = None
    core.closed(connection)
    transport.pause_reading()  # what comes before its protocol is another one would be lost
    core.start_task(core.hooks.links.accept(transport, data))

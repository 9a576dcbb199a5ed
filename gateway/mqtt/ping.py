"""PINGREQ and PINGRESP (sections 3.12 and 3.13), which have no body."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mqtt.errors import malformed
from gateway.mqtt.kinds import PacketType


@dataclass(slots=True)
class PingReq:
    """A client says that it is alive."""

    def __str__(self) -> str:
        return "PINGREQ"


@dataclass(slots=True)
class PingResp:
    """The server says so too."""

    def __str__(self) -> str:
        return "PINGRESP"


def decode_ping(packet_type: PacketType, body: bytes) -> PingReq | PingResp:
    """Read a PINGREQ or PINGRESP.

    Raises:
        PacketError: it has a body.

    """
    if body:
        raise malformed(f"{packet_type.name} length", len(body))
    return PingReq() if packet_type is PacketType.PINGREQ else PingResp()

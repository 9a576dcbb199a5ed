"""CONNACK (section 3.2), whose codes differ between MQTT 3.1.1 and 5.0.

In memory there is one vocabulary, the reason codes of 5.0; a return code of 3.1.1 is turned into
the reason code of the same meaning and back.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from gateway.mqtt.acknowledgements import check_reason
from gateway.mqtt.errors import PacketError, malformed, protocol_error
from gateway.mqtt.kinds import V5, PacketType
from gateway.mqtt.primitives import Reader, frame
from gateway.mqtt.properties import (
    Properties,
    encode_properties,
    properties_text,
    read_properties,
)
from gateway.mqtt.reason_codes import ReasonCode, reason_text
from light_dataclasses import dataclass

_BY_RETURN_CODE: Final = (  # table 3.1 of 3.1.1
    ReasonCode.SUCCESS,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ReasonCode.SERVER_UNAVAILABLE,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED,
)
_RETURN_CODES: Final[dict[int, int]] = {
    **{reason: code for code, reason in enumerate(_BY_RETURN_CODE)},
    ReasonCode.SERVER_BUSY: 3,
    ReasonCode.QUOTA_EXCEEDED: 3,
    ReasonCode.CONNECTION_RATE_EXCEEDED: 3,
    ReasonCode.BANNED: 5,
}
"""Reason codes that 3.1.1 can say, some of them less exactly."""


@dataclass(slots=True)
class ConnAck:
    """The server's answer to a CONNECT.

    Attributes:
        session_present: it goes on with a session that it has.
        reason: of 5.0, also for a 3.1.1 connection; 0x80 and above refuse.
        properties: of 5.0; left out when it is encoded for 3.1.1.

    """

    session_present: bool
    reason: int = 0
    properties: Properties = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return (
            f"CONNACK {reason_text(self.reason)}"
            f"{' session present' if self.session_present else ''}"
            f"{properties_text(self.properties)}"
        )


def decode_connack(reader: Reader, version: int) -> ConnAck:
    """Read the body of a CONNACK."""
    flags, reason = reader.take("flags and code", 2)
    if flags > 1:
        raise malformed("CONNACK flags", flags, "MQTT-3.2.2-1")
    if version != V5:
        if reason >= len(_BY_RETURN_CODE):
            raise malformed("CONNACK return code", reason)
        reason = _BY_RETURN_CODE[reason]
    packet = ConnAck(flags == 1, reason, read_properties(reader, version))
    _check(packet)
    return packet


def encode_connack(packet: ConnAck, version: int, kind: int = PacketType.CONNACK) -> bytes:
    """Return the body of a CONNACK.

    A reason that 3.1.1 has no return code for is refused in that version: such a connection is
    closed in silence ([MQTT-3.2.2-6] of 3.1.1).
    """
    _check(packet)
    if version == V5:
        start = bytes((packet.session_present, packet.reason))
        return start + encode_properties(packet.properties, kind)
    code = _RETURN_CODES.get(packet.reason)
    if code is None:
        raise protocol_error(
            "CONNACK reason code without return code", packet.reason, "MQTT-3.2.2-6 (3.1.1)"
        )
    return bytes((packet.session_present, code))


def refusal(reason: int, version: int) -> bytes:
    """Return the CONNACK that refuses a connection, ready to be written before it is closed.

    Returns:
        Empty where the version has no code for the reason, or a CONNACK may not carry it, and
        the connection is to be closed without.

    """
    try:
        return frame(PacketType.CONNACK << 4, encode_connack(ConnAck(False, reason), version))
    except PacketError:
        return b""


def _check(packet: ConnAck) -> None:
    check_reason(PacketType.CONNACK, packet.reason)
    if packet.session_present and packet.reason:
        raise protocol_error(
            "CONNACK session present with reason code", packet.reason, "MQTT-3.2.2-6"
        )

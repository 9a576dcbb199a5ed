"""Where a packet's body begins and where the packet ends (MQTT 5.0, section 2.1)."""

from __future__ import annotations

from gateway.mqtt.errors import PacketError
from gateway.mqtt.primitives import encode_length, variable_integer
from gateway.mqtt.reason_codes import ReasonCode


def packet_end(data: bytes, at: int, limit: int) -> tuple[int, int] | None:
    """Find the body of the packet at ``at``, whose length may have more bytes than needed.

    Args:
        data: what has come in and is not yet consumed.
        at: position of the packet's first byte.
        limit: greatest packet in bytes, its fixed header included, as Maximum Packet Size
            counts (MQTT 5.0, section 3.1.2.11.4).

    Returns:
        (start of the body, end of the packet), None while the packet is not all there.

    Raises:
        PacketError: the remaining length has more than four bytes, or says that the packet
            will be over the limit (as soon as its length is there, long before the packet is).

    """
    size = len(data)
    start, length = at + 2, data[at + 1] if at + 1 < size else 0
    if length > 127:
        length, start = variable_integer("remaining length", data, at + 1, size)
    end = start + length
    if end - at > limit:
        raise PacketError(ReasonCode.PACKET_TOO_LARGE, "packet of bytes", end - at)
    return (start, end) if end <= size else None


def body_at(packet: bytes) -> int:
    """Where the body of a whole packet starts, if its length is in the fewest bytes."""
    size = len(packet)
    return 2 if size < 130 else 3 if size < 16_387 else 4 if size < 2_097_156 else 5


def frame(first_byte: int, body: bytes) -> bytes:
    """A packet: first byte, remaining length and body.

    Raises:
        PacketError: the body is longer than a remaining length can say.

    """
    return bytes((first_byte,)) + encode_length(len(body)) + body

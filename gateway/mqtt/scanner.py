"""Packets out of a stream of bytes (MQTT 5.0, section 2.1): no sockets, no clock.

Each packet is handed out by itself, with its remaining length in the fewest bytes, so that one of
MQTT 3.1.1 that came otherwise can be passed on as it is. However the stream is cut, each of its
bytes is copied a few times at most.
"""

from __future__ import annotations

from typing import Final

from gateway.mqtt.errors import PacketError, malformed
from gateway.mqtt.kinds import Version
from gateway.mqtt.primitives import frame, variable_integer
from gateway.mqtt.reason_codes import ReasonCode

_LOOSE_MAX: Final = 1_024
"""Pieces that are kept as they came; a piece of one byte takes forty."""


class Scanner:
    """One connection's stream: `feed` it what was read, then `take` packets until there are none.

    Args:
        packet_bytes_max: greatest packet, its fixed header included, as Maximum Packet Size counts
            (MQTT 5.0, section 3.1.2.11.4).

    Attributes:
        buffered_bytes: what was fed and not taken.

    """

    __slots__ = (
        "_at",
        "_data",
        "_loose",
        "_missing_bytes",
        "_packet_bytes_max",
        "_piece_bytes",
        "_pieces",
        "_version",
        "_was_long",
        "buffered_bytes",
    )

    def __init__(self, packet_bytes_max: int) -> None:
        self._packet_bytes_max = packet_bytes_max
        self._version = 0
        self._was_long = False
        self.buffered_bytes = 0
        self._data = b""
        self._at = 0
        self._pieces: list[bytes] = []  # what came behind _data
        self._piece_bytes = 0
        self._loose = 0
        self._missing_bytes = 0  # of the packet that begins at _at; 0 where nobody has looked

    @property
    def first_byte(self) -> int:
        """The type and flags of the next packet, which need not be whole; -1 for none."""
        if self._at < len(self._data):
            return self._data[self._at]
        return self._pieces[0][0] if self._pieces else -1

    def agree(self, version: int, packet_bytes_max: int) -> None:
        """Set what holds behind the first packet, which is taken before anybody knows.

        Args:
            version: of the protocol; 5.0 forbids a remaining length in more bytes than needed.
            packet_bytes_max: greatest packet from here on, as for the constructor.

        Raises:
            PacketError: the first packet has such a length already, in 5.0 [MQTT-1.5.5-1].

        """
        self._version = version
        self._packet_bytes_max = packet_bytes_max
        self._check_was_long()

    def feed(self, data: bytes) -> None:
        """Add what was read to the stream."""
        if not self.buffered_bytes:
            self._data, self._at = data, 0
        elif data:
            self._pieces.append(data)
            self._piece_bytes += len(data)
            self._loose += 1
            if self._loose == _LOOSE_MAX:
                self._loose = 0
                self._pieces[-_LOOSE_MAX:] = [b"".join(self._pieces[-_LOOSE_MAX:])]
        self.buffered_bytes += len(data)

    def take(self, count_max: int) -> list[bytes]:
        """Return the next packets, whole and in their order; none while more has to come first.

        Args:
            count_max: so many at most, 1 or more.

        Raises:
            PacketError: the next packet's remaining length has more than four bytes, or more than
                5.0 allows, or makes a packet over the limit, which is told before the rest of it
                is there. The packets before it are handed out first.

        """
        packets: list[bytes] = []
        data, at, limit = self._data, self._at, self._packet_bytes_max
        size = len(data)
        missing_bytes = 0
        try:
            for _ in range(count_max):
                body = at + 2
                if body > size:
                    missing_bytes = body - size
                    break
                length = data[at + 1]
                if length > 127:
                    length, body = variable_integer("remaining length", data, at + 1, size)
                end = body + length
                if end - at > limit:
                    raise PacketError(ReasonCode.PACKET_TOO_LARGE, "packet of bytes", end - at)
                if end > size:
                    missing_bytes = end - size
                    break
                if data[body - 1] or body - at == 2:
                    packets.append(data[at:end])
                else:
                    packets.append(self._shortened(data[at], data[body:end]))
                at = end
        except PacketError:
            if not packets:
                raise
        self._missing_bytes = missing_bytes
        self.buffered_bytes -= at - self._at
        if at < size:
            self._at = at
        else:
            self._data, self._at = b"", 0
        if not packets and 0 < missing_bytes <= self._piece_bytes:  # what is missing came behind it
            self.feed(self.rest())
            return self.take(count_max)
        return packets

    def rest(self) -> bytes:
        """Return all that was fed and not taken, which is then another's to read."""
        rest = b"".join((self._data[self._at :], *self._pieces))
        self._data, self._at = b"", 0
        self._pieces.clear()
        self._piece_bytes = self._loose = self.buffered_bytes = 0
        return rest

    def _shortened(self, first_byte: int, body: bytes) -> bytes:
        self._was_long = True
        self._check_was_long()
        return frame(first_byte, body)

    def _check_was_long(self) -> None:
        if self._was_long and self._version == Version.V5:
            what = "remaining length in more bytes than needed"
            raise malformed(what, statement="MQTT-1.5.5-1")


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

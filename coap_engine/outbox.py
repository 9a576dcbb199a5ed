"""What is to be sent, and the message ids of what we begin ourselves."""

from __future__ import annotations

from collections.abc import Callable

from coap_engine.message import CoapPeer


class DatagramOutbox:
    """Datagrams in the order in which they are to be sent.

    Args:
        random_bytes: draws the first message id (RFC 7252, section 4.4).

    """

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._message_id = int.from_bytes(random_bytes(2), "big")
        self._datagrams: list[tuple[bytes, CoapPeer]] = []

    def next_message_id(self) -> int:
        """An id that no message of ours had for 65,535 messages."""
        self._message_id = self._message_id + 1 & 0xFFFF
        return self._message_id

    def put(self, datagram: bytes, peer: CoapPeer) -> None:
        """Have a datagram sent."""
        self._datagrams.append((datagram, peer))

    def take(self) -> list[tuple[bytes, CoapPeer]]:
        """What is to be sent now, once."""
        datagrams, self._datagrams = self._datagrams, []
        return datagrams

"""Datagrams to be sent, and the message ids of exchanges that we begin ourselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coap_engine.message import CoapPeer

_COUNTERS: Final = 4_096
_SALT_BYTES: Final = 8
_NOT_DRAWN: Final = -1


class DatagramOutbox:
    """Datagrams in the order in which they are to be sent.

    Message ids are counted for each peer (RFC 7252, section 4.4), from a number that is drawn: what
    one peer gets tells nothing of another's, and a busy one uses up no other's. The counters are so
    many that few peers share one, and which those are is not to be known.

    Args:
        random_bytes: draws the first message ids, and which peer has which counter.

    """

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._salt = random_bytes(_SALT_BYTES)
        self._message_ids = [_NOT_DRAWN] * _COUNTERS
        self._datagrams: list[tuple[bytes, CoapPeer]] = []

    def next_message_id(self, peer: CoapPeer) -> int:
        """Return an id that no message of ours to a peer had for 65,535 messages."""
        counter = hash((self._salt, peer.address)) % _COUNTERS
        last = self._message_ids[counter]
        if last == _NOT_DRAWN:
            last = int.from_bytes(self._random_bytes(2), "big")
        self._message_ids[counter] = last + 1 & 0xFFFF
        return self._message_ids[counter]

    def put(self, datagram: bytes, peer: CoapPeer) -> None:
        """Have a datagram sent."""
        self._datagrams.append((datagram, peer))

    def take(self) -> list[tuple[bytes, CoapPeer]]:
        """Return what is to be sent now, once."""
        datagrams, self._datagrams = self._datagrams, []
        return datagrams

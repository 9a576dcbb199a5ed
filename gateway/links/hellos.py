"""Hellos: the BPDUs of the spanning tree in PINGREQ, and the round trips that their echoes tell."""

from __future__ import annotations

from gateway.links import wire
from gateway.links.link import Link
from tree_handler.bpdu import Bpdu

MAX_PINGS = 64
"""Hellos on one link whose echo is awaited."""


class Hellos:
    """Sends hellos and times their echoes, for each link."""

    def __init__(self) -> None:
        self._number = 0
        self._sent_at: dict[int, dict[int, float]] = {}

    def link_up(self, link: int) -> None:
        """Hellos may be sent over it."""
        self._sent_at[link] = {}

    def link_down(self, link: int) -> None:
        """Its echoes are awaited no more."""
        del self._sent_at[link]

    def send(self, link: Link, bpdu: Bpdu, now: float) -> None:
        """Send a BPDU, with a number that the neighbour echoes."""
        self._number = (self._number + 1) % (1 << 32)
        awaited = self._sent_at[link.number]
        awaited[self._number] = now
        if len(awaited) > MAX_PINGS:
            del awaited[next(iter(awaited))]
        link.send(wire.ping(self._number, bpdu.encode()))

    def answer(self, link: Link, body: bytes) -> Bpdu:
        """Echo a hello's number; return its BPDU.

        Raises:
            ProtocolError: torn, or no BPDU.

        """
        number, bpdu = wire.split_ping(body)
        link.send(wire.pong(number))
        return Bpdu.decode(bpdu)

    def rtt_ms(self, link: int, body: bytes, now: float) -> float | None:
        """The round trip that an echo ends; None if it is of no hello that is awaited.

        Raises:
            ProtocolError: torn.

        """
        number, _ = wire.split_ping(body)
        sent_at = self._sent_at[link].pop(number, None)
        return None if sent_at is None else (now - sent_at) * 1000

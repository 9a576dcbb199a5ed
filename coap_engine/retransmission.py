"""Confirmable messages of ours until they are acknowledged (RFC 7252, section 4.2)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Final

from coap_engine.message import CoapPeer
from light_dataclasses import dataclass

EXCHANGE_LIFETIME_S: Final = 247.0
"""The longest time that a message and its repetitions are under way (RFC 7252, section 4.8.2)."""
NON_LIFETIME_S: Final = 145.0
"""The longest time that one which is not repeated is under way (same place)."""
RESPONSE: Final = 0
NOTIFICATION: Final = 1
REQUEST: Final = 2


@dataclass(frozen=True, slots=True)
class TransmissionRules:
    """RFC 7252, section 4.8.

    Attributes:
        ack_timeout_s: before the first repetition, at least; it doubles with each.
        ack_random_factor: times the time-out, at most.
        max_retransmit: repetitions.

    """

    ack_timeout_s: float = 2.0
    ack_random_factor: float = 1.5
    max_retransmit: int = 4


DEFAULT_RULES = TransmissionRules()


class Confirmable:
    """One message that waits for its acknowledgement.

    Attributes:
        peer: who is to acknowledge it.
        message_id: of the message.
        datagram: all of it.
        purpose: RESPONSE, NOTIFICATION or REQUEST.
        exchange: the exchange that it belongs to.
        timeout_s: between this transmission and the next.
        repetitions: so far.
        due: when it is to be repeated or given up, in seconds.

    """

    __slots__ = (
        "datagram",
        "due",
        "exchange",
        "is_over",
        "message_id",
        "peer",
        "purpose",
        "repetitions",
        "timeout_s",
    )

    def __init__(
        self, peer: CoapPeer, message_id: int, datagram: bytes, purpose: int, exchange: int
    ) -> None:
        self.peer = peer
        self.message_id = message_id
        self.datagram = datagram
        self.purpose = purpose
        self.exchange = exchange
        self.timeout_s = 0.0
        self.repetitions = 0
        self.due = 0.0
        self.is_over = False


class Retransmissions:
    """All confirmable messages under way.

    Args:
        random_bytes: spreads the time-outs.
        rules: see `TransmissionRules`.

    """

    def __init__(
        self, random_bytes: Callable[[int], bytes], rules: TransmissionRules = DEFAULT_RULES
    ) -> None:
        self._random_bytes = random_bytes
        self._rules = rules
        self._by_id: dict[tuple[Hashable, int], Confirmable] = {}
        self._heap: list[tuple[float, int, Confirmable]] = []
        self._order = 0

    @property
    def transmissions(self) -> int:
        """Return how often a message is sent at most."""
        return 1 + self._rules.max_retransmit

    def add(self, message: Confirmable, now: float) -> None:
        """A message has been sent for the first time."""
        rules = self._rules
        spread = self._random_bytes(1)[0] / 255.0
        message.timeout_s = rules.ack_timeout_s * (1.0 + spread * (rules.ack_random_factor - 1.0))
        self._by_id[(message.peer.address, message.message_id)] = message
        self._wait(message, now)

    def end(self, peer: CoapPeer, message_id: int) -> Confirmable | None:
        """Return the message that an ACK or RST names, which is over now; None if there is none."""
        message = self._by_id.pop((peer.address, message_id), None)
        if message is not None:
            message.is_over = True
            message.datagram = b""  # it stays in the heap until it would have been due
        return message

    def forget_peer(self, peer: CoapPeer) -> None:
        """Repeat nothing to a peer any more."""
        for message in [m for m in self._by_id.values() if m.peer.address == peer.address]:
            self.end(peer, message.message_id)

    def next_timer(self) -> float | None:
        """Return when `due` has something; None while nothing is under way."""
        while self._heap and self._heap[0][2].is_over:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Confirmable | None:
        """Return the next message whose time is up; call `repeat` or `end` with it."""
        when = self.next_timer()
        if when is None or when > now:
            return None
        return heapq.heappop(self._heap)[2]

    def is_exhausted(self, message: Confirmable) -> bool:
        """Return whether a message has been repeated often enough."""
        return message.repetitions >= self._rules.max_retransmit

    def repeat(self, message: Confirmable, message_id: int, datagram: bytes, now: float) -> None:
        """A message is sent again, or another in its place, with the same count.

        Args:
            message: from `due`.
            message_id: of what is sent now.
            datagram: what is sent now.
            now: in seconds.

        """
        if message_id != message.message_id:
            self._by_id.pop((message.peer.address, message.message_id), None)
            message.message_id = message_id
            self._by_id[(message.peer.address, message_id)] = message
        message.datagram = datagram
        message.repetitions += 1
        message.timeout_s *= 2
        self._wait(message, now)

    def _wait(self, message: Confirmable, now: float) -> None:
        message.due = now + message.timeout_s
        self._order += 1
        heapq.heappush(self._heap, (message.due, self._order, message))

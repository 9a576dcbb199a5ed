"""Requests of our own (RFC 7252, section 5.3): few, each to its end."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Final

from coap_engine import codes
from coap_engine.body_fetch import BodyFetch, FetchFailedError
from coap_engine.codec import ACK, CON, CoapMessage, empty_message
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    CoapEvent,
    CoapPeer,
    CoapRequest,
    CoapResponse,
    Responded,
    Unanswered,
)
from coap_engine.outbox import DatagramOutbox
from coap_engine.retransmission import REQUEST, Confirmable, Retransmissions
from coap_engine.shares import Shares

_TOKEN_BYTES: Final = 8
"""Too many to be guessed (RFC 7252, section 5.3.1)."""


class _OwnExchange:
    __slots__ = ("fetch", "message_id", "number", "peer", "request", "token")

    def __init__(self, number: int, peer: CoapPeer, request: CoapRequest, fetch: BodyFetch) -> None:
        self.number = number
        self.peer = peer
        self.request = request
        self.fetch = fetch
        self.token = b""
        self.message_id = 0


class OwnRequests:
    """Those under way.

    Args:
        outbox: takes what is to be sent.
        retransmissions: repeats requests.
        shares: of the bytes that bodies take.
        random_bytes: draws tokens.
        limits: how many, how long, and how much.

    """

    def __init__(
        self,
        outbox: DatagramOutbox,
        retransmissions: Retransmissions,
        shares: Shares,
        random_bytes: Callable[[int], bytes],
        limits: EngineLimits,
    ) -> None:
        self._outbox = outbox
        self._retransmissions = retransmissions
        self._shares = shares
        self._random_bytes = random_bytes
        self._limits = limits
        self._by_token: dict[tuple[Hashable, bytes], _OwnExchange] = {}
        self._by_number: dict[int, _OwnExchange] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._events: list[CoapEvent] = []

    def __len__(self) -> int:
        return len(self._by_number)

    def begin(self, number: int, peer: CoapPeer, request: CoapRequest, now: float) -> None:
        """Ask a peer; `take_events` tells what came of it."""
        if len(self._by_number) >= self._limits.own_requests:
            self._events.append(Unanswered(number, "too many requests of our own are under way"))
            return
        fetch = BodyFetch(peer, request.options, self._shares, self._limits.bodies)
        exchange = _OwnExchange(number, peer, request, fetch)
        self._by_number[number] = exchange
        heapq.heappush(self._deadlines, (now + self._limits.response_s, number))
        options = fetch.options if request.code in (codes.GET, codes.FETCH) else request.options
        self._send(exchange, options, now)

    def receive(self, peer: CoapPeer, message: CoapMessage, now: float) -> bool:
        """Take a response: whether it is one to a request of ours.

        A confirmable one is acknowledged (section 5.2.2).
        """
        exchange = self._by_token.get((peer.address, message.token))
        if exchange is None or (message.type == ACK and message.message_id != exchange.message_id):
            return False
        self._retransmissions.end(peer, exchange.message_id)
        if message.type == CON:
            self._outbox.put(empty_message(ACK, message.message_id), peer)
        try:
            taken = exchange.fetch.take(
                CoapResponse(message.code, message.options, message.payload)
            )
        except FetchFailedError as error:
            self._end(exchange, Unanswered(exchange.number, str(error)))
            return True
        if isinstance(taken, CoapResponse):
            self._end(exchange, Responded(exchange.number, taken))
        else:
            self._send(exchange, taken, now)
        return True

    def failed(self, number: int, reason: str) -> None:
        """A request was reset, or never acknowledged."""
        exchange = self._by_number.get(number)
        if exchange is not None:
            self._end(exchange, Unanswered(number, reason))

    def forget_peer(self, peer: CoapPeer) -> None:
        """A peer's session is gone."""
        for exchange in [e for e in self._by_number.values() if e.peer.address == peer.address]:
            self._end(exchange, Unanswered(exchange.number, "the peer is gone"))

    def next_timer(self) -> float | None:
        """When the next request of ours has waited long enough; None if none waits."""
        while self._deadlines and self._deadlines[0][1] not in self._by_number:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def handle_timer(self, now: float) -> None:
        """Give up those that waited long enough."""
        while (due := self.next_timer()) is not None and due <= now:
            self.failed(self._deadlines[0][1], "no response")

    def take_events(self) -> list[CoapEvent]:
        """What came of requests, once."""
        events, self._events = self._events, []
        return events

    def _send(
        self, exchange: _OwnExchange, options: tuple[tuple[int, bytes], ...], now: float
    ) -> None:
        self._by_token.pop((exchange.peer.address, exchange.token), None)
        request = exchange.request
        exchange.token = self._random_bytes(_TOKEN_BYTES)
        exchange.message_id = self._outbox.next_message_id()
        self._by_token[(exchange.peer.address, exchange.token)] = exchange
        datagram = CoapMessage(
            CON, request.code, exchange.message_id, exchange.token, options, request.payload
        ).encode()
        self._outbox.put(datagram, exchange.peer)
        self._retransmissions.add(
            Confirmable(exchange.peer, exchange.message_id, datagram, REQUEST, exchange.number), now
        )

    def _end(self, exchange: _OwnExchange, event: CoapEvent) -> None:
        del self._by_number[exchange.number]
        del self._by_token[(exchange.peer.address, exchange.token)]
        exchange.fetch.close()
        self._retransmissions.end(exchange.peer, exchange.message_id)
        self._events.append(event)

"""Requests of our own (RFC 7252, section 5.3): few, each to its end.

Stated here and nowhere else:

- A peer is asked one thing after another: the next when the one before is acknowledged, answered
  or over (NSTART is 1; section 4.7).
- Of a host, and of all strangers, no more is asked at once than its share: one that never answers
  does not keep others from being asked.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.body_fetch import BodyFetch, FetchFailedError
from coap_engine.codec import ACK, CON, CoapMessage, empty_message
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    CoapEvent,
    CoapPeer,
    CoapRequest,
    CoapResponse,
    Option,
    RequestFailed,
    ResponseReceived,
    value_of,
)
from coap_engine.outbox import DatagramOutbox
from coap_engine.retransmission import REQUEST, Confirmable, Retransmissions
from coap_engine.shares import Shares

_TOKEN_BYTES: Final = 8
"""Too many to be guessed (RFC 7252, section 5.3.1)."""
_NOT_SENT: Final = -1
_UNDERSTOOD: Final = (option_numbers.BLOCK1, option_numbers.BLOCK2)
"""Of the critical options, those that a response may have."""
_UNDERSTOOD_PROTECTED: Final = (option_numbers.OSCORE, *_UNDERSTOOD)
"""Those of a response to a request that who asked has protected, and will open."""


class _OwnExchange:
    """One of them; ``message_id`` is that of its last message, _NOT_SENT while it waits."""

    __slots__ = ("fetch", "message_id", "number", "options", "peer", "request", "token")

    def __init__(
        self,
        number: int,
        peer: CoapPeer,
        request: CoapRequest,
        options: tuple[Option, ...],
        fetch: BodyFetch,
    ) -> None:
        self.number = number
        self.peer = peer
        self.request = request
        self.options = options
        self.fetch = fetch
        self.token = b""
        self.message_id = _NOT_SENT


class OwnRequests:
    """Those under way.

    Args:
        outbox: takes what is to be sent.
        retransmissions: repeats requests.
        shares: of requests of our own, and of the bytes that bodies take.
        random_bytes: draws tokens.
        limits: how long, and how much.

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
        self._outstanding: dict[Hashable, _OwnExchange] = {}
        self._waiting: dict[Hashable, deque[_OwnExchange]] = {}
        self._deadlines: list[tuple[float, int]] = []
        self.told: list[CoapEvent] = []

    def __len__(self) -> int:
        return len(self._by_number)

    def begin(self, number: int, peer: CoapPeer, request: CoapRequest, now: float) -> None:
        """Ask a peer; `take_events` tells what came of it."""
        if self._shares.own_requests.take(peer) is not None:
            self.told.append(RequestFailed(number, "too many requests of our own are under way"))
            return
        fetch = BodyFetch(peer, request.options, self._shares, self._limits.bodies)
        options = fetch.options if request.code in (codes.GET, codes.FETCH) else request.options
        exchange = _OwnExchange(number, peer, request, options, fetch)
        self._by_number[number] = exchange
        heapq.heappush(self._deadlines, (now + self._limits.response_s, number))
        self._begin_turn(exchange, now)

    def receive(self, peer: CoapPeer, message: CoapMessage, now: float) -> bool:
        """Take a response: whether it is one to a request of ours.

        A confirmable one is acknowledged (section 5.2.2).
        """
        exchange = self._by_token.get((peer.address, message.token))
        if exchange is None or (message.type == ACK and message.message_id != exchange.message_id):
            return False
        self._retransmissions.end(peer, exchange.message_id)
        is_protected = value_of(exchange.request.options, option_numbers.OSCORE) is not None
        understood = _UNDERSTOOD_PROTECTED if is_protected else _UNDERSTOOD
        for number, _ in message.options:
            if option_numbers.is_critical(number) and number not in understood:
                why = f"option {number} of the response is not understood"
                self._end(exchange, RequestFailed(exchange.number, why), now)
                return message.type != CON  # a confirmable one is rejected: section 5.4.1
        if message.type == CON:
            self._outbox.put(empty_message(ACK, message.message_id), peer)
        try:
            taken = exchange.fetch.take(
                CoapResponse(message.code, message.options, message.payload)
            )
        except FetchFailedError as error:
            self._end(exchange, RequestFailed(exchange.number, str(error)), now)
            return True
        if isinstance(taken, CoapResponse):
            self._end(exchange, ResponseReceived(exchange.number, taken), now)
        else:
            exchange.options = taken
            self._begin_turn(exchange, now)
        return True

    def acknowledged(self, number: int, now: float) -> None:
        """A request was acknowledged and will be answered later: the peer can be asked on."""
        exchange = self._by_number.get(number)
        if exchange is not None:
            self._end_turn(exchange, now)

    def failed(self, number: int, reason: str, now: float) -> None:
        """A request was reset, or never acknowledged."""
        exchange = self._by_number.get(number)
        if exchange is not None:
            self._end(exchange, RequestFailed(number, reason), now)

    def forget_peer(self, peer: CoapPeer) -> None:
        """A peer's session is gone."""
        self._waiting.pop(peer.address, None)
        self._outstanding.pop(peer.address, None)
        for exchange in [e for e in self._by_number.values() if e.peer.address == peer.address]:
            self._close(exchange, RequestFailed(exchange.number, "the peer is gone"))

    def next_timer(self) -> float | None:
        """Return when the next request of ours has waited long enough; None if none waits."""
        while self._deadlines and self._deadlines[0][1] not in self._by_number:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def handle_timer(self, now: float) -> None:
        """Give up those that waited long enough."""
        while (due := self.next_timer()) is not None and due <= now:
            self.failed(self._deadlines[0][1], "no response", now)

    def take_events(self) -> list[CoapEvent]:
        """Return what came of requests, once."""
        events, self.told = self.told, []
        return events

    def _begin_turn(self, exchange: _OwnExchange, now: float) -> None:
        """Send a request, or its next one, when nothing else is outstanding at the peer."""
        address = exchange.peer.address
        self._by_token.pop((address, exchange.token), None)
        if self._outstanding.setdefault(address, exchange) is exchange:
            self._send(exchange, now)
            return
        exchange.message_id = _NOT_SENT
        self._waiting.setdefault(address, deque()).append(exchange)

    def _end_turn(self, exchange: _OwnExchange, now: float) -> None:
        """Let the next request to the same peer go, if this one was outstanding."""
        address = exchange.peer.address
        if self._outstanding.get(address) is not exchange:
            return
        del self._outstanding[address]
        waiting = self._waiting.pop(address, None)
        if waiting is None:
            return
        self._begin_turn(waiting.popleft(), now)
        if waiting:
            self._waiting[address] = waiting

    def _send(self, exchange: _OwnExchange, now: float) -> None:
        request = exchange.request
        exchange.token = self._random_bytes(_TOKEN_BYTES)
        exchange.message_id = self._outbox.next_message_id(exchange.peer)
        self._by_token[(exchange.peer.address, exchange.token)] = exchange
        datagram = CoapMessage(
            CON,
            request.code,
            exchange.message_id,
            exchange.token,
            exchange.options,
            request.payload,
        ).encode()
        self._outbox.put(datagram, exchange.peer)
        self._retransmissions.add(
            Confirmable(exchange.peer, exchange.message_id, datagram, REQUEST, exchange.number), now
        )

    def _end(self, exchange: _OwnExchange, event: CoapEvent, now: float) -> None:
        address = exchange.peer.address
        waiting = self._waiting.get(address)
        if waiting is not None and exchange in waiting:
            waiting.remove(exchange)
            if not waiting:
                del self._waiting[address]
        self._close(exchange, event)
        self._end_turn(exchange, now)

    def _close(self, exchange: _OwnExchange, event: CoapEvent) -> None:
        del self._by_number[exchange.number]
        self._by_token.pop((exchange.peer.address, exchange.token), None)
        exchange.fetch.close()
        self._shares.own_requests.give_back(exchange.peer)
        self._retransmissions.end(exchange.peer, exchange.message_id)
        self.told.append(event)

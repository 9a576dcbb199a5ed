"""Requests that are being served: from the whole request to its answers.

Stated here and nowhere else:

- An answer is piggybacked until the empty ACK has gone, and separate from then on (RFC 7252,
  section 5.2).
- What nobody above answers is told so in the end (5.03), and gives its share back.
- To an address that is not proven no answer is longer than three times the request; it is asked
  for an Echo instead (RFC 9175, section 2.4).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import with_options
from coap_engine.codec import ACK, CON, NON, CoapMessage, empty_message
from coap_engine.counters import EngineCounters
from coap_engine.errors import UnknownExchangeError
from coap_engine.exchange import ServedExchange
from coap_engine.freshness import Freshness
from coap_engine.message import CoapEvent, CoapPeer, CoapResponse, ExchangeEnded, Option
from coap_engine.observations import Notification, Observations
from coap_engine.outbox import DatagramOutbox
from coap_engine.request_options import is_protected
from coap_engine.response_bodies import ResponseBodies
from coap_engine.retransmission import (
    NOTIFICATION,
    RESPONSE,
    Confirmable,
    Retransmissions,
)
from coap_engine.share import ShareRefusal
from coap_engine.shares import Shares
from coap_engine.uint import encode_uint

_NOT_ANSWERED: Final = CoapResponse(codes.SERVICE_UNAVAILABLE, (), b"no answer in time")
_MAY_BE_DONE: Final = CoapResponse(
    codes.GATEWAY_TIMEOUT, (), b"no answer in time; the request may have been carried out"
)
"""Of a write: 5.03 would say that it was not."""

_NOT_ENCODED: Final = CoapResponse(codes.INTERNAL_SERVER_ERROR)


class ServedExchanges:
    """All exchanges that have no last answer yet.

    Args:
        outbox: takes what is to be sent.
        retransmissions: repeats separate responses and notifications.
        shares: each exchange takes one of ``shares.requests`` until its first answer.
        bodies: cuts long answers.
        observations: who observes what.
        freshness: says who has to show an Echo.
        counters: of the engine.

    Attributes:
        ended: what has ended and was not taken yet.

    """

    def __init__(
        self,
        outbox: DatagramOutbox,
        retransmissions: Retransmissions,
        shares: Shares,
        bodies: ResponseBodies,
        observations: Observations,
        freshness: Freshness,
        counters: EngineCounters,
    ) -> None:
        self._outbox = outbox
        self._retransmissions = retransmissions
        self._shares = shares
        self._bodies = bodies
        self._observations = observations
        self._freshness = freshness
        self._counters = counters
        self._transmissions = retransmissions.transmissions
        self._open: dict[int, ServedExchange] = {}
        self._unanswered: dict[int, ServedExchange] = {}
        self._to_acknowledge: deque[ServedExchange] = deque()
        self.ended: list[CoapEvent] = []

    def __len__(self) -> int:
        return len(self._open)

    def begin(
        self, exchange: ServedExchange, now: float, *, registers: bool
    ) -> ShareRefusal | None:
        """Let a request be served; or say why there is no room for it.

        Args:
            exchange: of the request.
            now: in seconds.
            registers: it asks to observe; ``exchange.observes`` says then whether it may.

        """
        refusal = self._shares.requests.take(exchange.peer)
        if refusal is not None:
            return refusal
        self._open[exchange.number] = self._unanswered[exchange.number] = exchange
        if registers:
            peer = exchange.peer
            outcome = self._observations.register(
                peer,
                exchange.token,
                exchange.number,
                now,
                is_proven=self._freshness.is_proven(peer, now),
            )
            exchange.observes = outcome.refusal is None
            if outcome.replaced is not None:
                self._end(outcome.replaced, "observed anew")
        if exchange.is_confirmable:
            self._to_acknowledge.append(exchange)
        return None

    def deregister(self, peer: CoapPeer, token: bytes) -> None:
        """A peer does not want to be told any longer (RFC 7641, section 3.6)."""
        number = self._observations.deregister(peer, token)
        if number is not None:
            self._end(number, "deregistered")

    def respond(
        self, number: int, response: CoapResponse, now: float, *, is_last: bool = False
    ) -> None:
        """Answer a request, or notify its observer.

        Args:
            number: of the exchange.
            response: whole.
            now: in seconds.
            is_last: no other will follow; the observer is told by the lack of Observe.

        Raises:
            UnknownExchangeError: nobody waits for it.
            Exception: it makes no message; the peer was told that it failed.

        """
        exchange = self._open.get(number)
        if exchange is None:
            raise UnknownExchangeError(number)
        if is_last and exchange.observes:
            self._observations.cancel(number)
        if exchange.is_answered:
            self._tell(exchange, response, now, is_last=is_last)
            return
        observe = None
        if exchange.observes:
            observe = self._observations.first_response(
                number,
                response,
                now,
                is_confirmable=exchange.is_confirmable and exchange.is_acknowledged,
            )
        self._answered(exchange)
        exchange.note_answer(response, now)
        try:
            is_sent = self.answer(exchange, response, now, observe=observe)
        except Exception:  # of a response that makes no message: its peer is told that much
            self._observations.cancel(number)
            del self._open[number]
            self.answer(exchange, _NOT_ENCODED, now)
            raise
        if not is_sent:
            if observe is not None:
                self._observations.cancel(number)
                self._end(number, "an Echo was asked for")
            else:
                del self._open[number]
        elif observe is None:
            del self._open[number]

    def answer(
        self,
        exchange: ServedExchange,
        response: CoapResponse,
        now: float,
        *,
        observe: int | None = None,
        is_cut: bool = False,
    ) -> bool:
        """Send the response to a request.

        Args:
            exchange: of the request; it need not be among those that are served.
            response: whole, or the block that was asked for; one that is empty is not sent.
            now: in seconds.
            observe: the value of the Observe option; None for none.
            is_cut: it is that block.

        Returns:
            Whether it was sent; if not, the peer was asked for an Echo.

        """
        code = response.code
        if code == codes.EMPTY or exchange.suppressed >> (code >> 5) - 1 & 1:  # RFC 7967, 2.1
            if exchange.is_confirmable:
                self._acknowledge(exchange)
            return True
        if not is_cut:
            response = self._part(exchange, response, now)
        options = response.options
        if exchange.block1 is not None:
            options = with_options(options, (option_numbers.BLOCK1, exchange.block1))
        if observe is not None:
            options = _with_observe(options, observe)
        message = CoapMessage(
            ACK, response.code, exchange.message_id, exchange.token, options, response.payload
        )
        if not exchange.is_confirmable or exchange.is_acknowledged:
            message.type = CON if exchange.is_confirmable else NON
            message.message_id = self._outbox.next_message_id(exchange.peer)
        datagram = message.encode()
        if (
            not exchange.peer.is_address_proven
            and self._freshness.is_needed_to_answer(
                exchange.peer,
                exchange.request_bytes,
                len(datagram) * (self._transmissions if message.type == CON else 1),
                now,
            )
            and not is_protected(response.options)
        ):
            message.code, message.payload = codes.UNAUTHORIZED, b""
            message.options = self._freshness.challenge(exchange.peer, now).options
            if message.type == CON:  # it would be repeated: RFC 9175, section 2.4
                message.type = NON
            self._send(exchange, message, message.encode(), now)
            return False
        self._send(exchange, message, datagram, now)
        return True

    def acknowledged(self, message: Confirmable, now: float) -> None:
        """A notification was acknowledged: what waited behind it goes."""
        notification = self._observations.acknowledged(message.exchange, now)
        exchange = self._open.get(message.exchange)
        if notification is not None and exchange is not None:
            self._notify(exchange, notification, now)

    def reset(self, peer: CoapPeer, message_id: int) -> bool:
        """Return whether a Reset was to a notification, whose observer is dropped."""
        number = self._observations.reset(peer, message_id)
        if number is None:
            return False
        self._retransmissions.end(peer, message_id)
        self._end(number, "reset by the observer")
        return True

    def gave_up(self, message: Confirmable) -> None:
        """Nobody acknowledged a message of ours."""
        for number in self._observations.gave_up(message.exchange):
            self._end(number, "a notification was not acknowledged")

    def again(self, message: Confirmable, now: float) -> None:
        """Send a separate response or a notification again, or what is newer in its place."""
        message_id, datagram = message.message_id, message.datagram
        exchange = self._open.get(message.exchange)
        if message.purpose == NOTIFICATION and exchange is not None:
            newest = self._observations.newest(message.exchange, now)
            if newest is not None:
                message_id = self._outbox.next_message_id(exchange.peer)
                datagram = self._notification(exchange, newest, message_id, now)
                self._observations.sent(message.exchange, message_id)
                if newest.is_last:
                    self._end(message.exchange, "the resource is not observable any more")
        self._outbox.put(datagram, message.peer)
        self._retransmissions.repeat(message, message_id, datagram, now)

    def forget_peer(self, peer: CoapPeer) -> None:
        """A peer's session is gone, and with it all that it waits for."""
        self._observations.forget_peer(peer)
        for exchange in [e for e in self._open.values() if e.peer.address == peer.address]:
            self._end(exchange.number, "the peer is gone")

    def next_timer(self) -> float | None:
        """Return when the next empty ACK is due, or a request to be given up; None if none is."""
        # What is to be acknowledged is due so soon that what is to be given up can wait for it.
        to_acknowledge = self._next_to_acknowledge()
        if to_acknowledge is not None:
            return to_acknowledge.acknowledge_at
        unanswered = self._next_unanswered()
        return None if unanswered is None else unanswered.answer_by

    def handle_timer(self, now: float) -> None:
        """Acknowledge requests whose answers take longer (RFC 7252, section 5.2.2)."""
        while (slow := self._next_to_acknowledge()) is not None and slow.acknowledge_at <= now:
            self._acknowledge(self._to_acknowledge.popleft())
        while (slow := self._next_unanswered()) is not None and slow.answer_by <= now:
            is_read = slow.code in (codes.GET, codes.FETCH)
            self.respond(slow.number, _NOT_ANSWERED if is_read else _MAY_BE_DONE, now, is_last=True)
            self.ended.append(ExchangeEnded(slow.number, "not answered in time"))

    def take_events(self) -> list[CoapEvent]:
        """Return what has ended, once."""
        ended, self.ended = self.ended, []
        return ended

    def _next_to_acknowledge(self) -> ServedExchange | None:
        waiting = self._to_acknowledge
        while waiting and (waiting[0].is_answered or waiting[0].number not in self._open):
            waiting.popleft()
        return waiting[0] if waiting else None

    def _next_unanswered(self) -> ServedExchange | None:
        for exchange in self._unanswered.values():
            return exchange
        return None

    def _answered(self, exchange: ServedExchange) -> None:
        """It holds no share of requests any more."""
        del self._unanswered[exchange.number]
        self._shares.requests.give_back(exchange.peer)
        exchange.is_answered = True

    def _acknowledge(self, exchange: ServedExchange) -> None:
        if exchange.is_acknowledged:
            return
        exchange.is_acknowledged = True
        datagram = empty_message(ACK, exchange.message_id)
        exchange.recent.answered(datagram)
        self._outbox.put(datagram, exchange.peer)

    def _send(
        self, exchange: ServedExchange, message: CoapMessage, datagram: bytes, now: float
    ) -> None:
        self._outbox.put(datagram, exchange.peer)
        if message.type == ACK:
            exchange.recent.answered(datagram)
        elif message.type == CON:
            self._retransmissions.add(
                Confirmable(exchange.peer, message.message_id, datagram, RESPONSE, exchange.number),
                now,
            )

    def _tell(
        self, exchange: ServedExchange, response: CoapResponse, now: float, *, is_last: bool
    ) -> None:
        number = exchange.number
        notification = self._observations.notify(number, response, now)
        if is_last:
            notification = Notification(
                number,
                exchange.peer,
                exchange.token,
                response,
                None,
                is_confirmable=True,
                is_last=True,
            )
        if notification is not None:
            self._notify(exchange, notification, now)

    def _notify(self, exchange: ServedExchange, notification: Notification, now: float) -> None:
        message_id = self._outbox.next_message_id(exchange.peer)
        datagram = self._notification(exchange, notification, message_id, now)
        self._outbox.put(datagram, exchange.peer)
        self._counters.notifications += 1
        if notification.is_confirmable:
            self._retransmissions.add(
                Confirmable(exchange.peer, message_id, datagram, NOTIFICATION, exchange.number), now
            )
        if notification.is_last:
            self._end(exchange.number, "the resource is not observable any more")
        else:
            self._observations.sent(exchange.number, message_id)

    def _notification(
        self, exchange: ServedExchange, notification: Notification, message_id: int, now: float
    ) -> bytes:
        part = self._part(exchange, notification.response, now)
        options = _with_observe(part.options, notification.observe)
        type_ = CON if notification.is_confirmable else NON
        return CoapMessage(
            type_, part.code, message_id, exchange.token, options, part.payload
        ).encode()

    def _part(self, exchange: ServedExchange, response: CoapResponse, now: float) -> CoapResponse:
        """Return what of a response goes now: most are all of it, and take no kept one's place."""
        bodies = self._bodies
        is_short = len(response.payload) <= bodies.block_bytes
        if exchange.is_plain and is_short and not bodies.bodies.by_key:
            return response
        peer, code, options = exchange.peer, exchange.code, exchange.options
        return bodies.cut(peer, code, options, exchange.body, response, now)

    def _end(self, number: int, reason: str) -> None:
        exchange = self._open.pop(number, None)
        if exchange is None:
            return
        if not exchange.is_answered:
            self._answered(exchange)
        self.ended.append(ExchangeEnded(number, reason))


def _with_observe(options: tuple[Option, ...], observe: int | None) -> tuple[Option, ...]:
    """Return options of a response with its Observe value; None for none (RFC 7641, section
    4.2)."""
    if observe is None:
        return options
    return with_options(options, (option_numbers.OBSERVE, encode_uint(observe)))

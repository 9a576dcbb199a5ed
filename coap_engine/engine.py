"""All of CoAP between a socket and those who serve resources (sans-I/O).

What comes is handed in with `Engine.receive_datagram`; then `events` says what is to be done, and
`datagrams_to_send` what is to be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coap_engine import codes
from coap_engine.codec import ACK, CON, EMPTY, NON, RST, CoapMessage, decode, empty_message
from coap_engine.counters import EngineCounters
from coap_engine.errors import MessageFormatError
from coap_engine.exchange import ServedExchange
from coap_engine.finished_bodies import FinishedBodies
from coap_engine.freshness import Freshness
from coap_engine.limits import DEFAULT_LIMITS, EngineLimits
from coap_engine.message import (
    CoapEvent,
    CoapPeer,
    CoapRequest,
    CoapResponse,
    Option,
    RequestReceived,
)
from coap_engine.observations import Observations
from coap_engine.outbox import DatagramOutbox
from coap_engine.own_requests import OwnRequests
from coap_engine.rates import ADMITTED, DROPPED
from coap_engine.recent_requests import RecentRequests
from coap_engine.request_bodies import RequestBodies, WholeBody
from coap_engine.request_options import (
    RefusedOptionError,
    RequestOptions,
    is_protected,
    read_options,
)
from coap_engine.response_bodies import ResponseBodies
from coap_engine.retransmission import REQUEST, Retransmissions
from coap_engine.served import ServedExchanges
from coap_engine.shares import Shares

_OBSERVABLE: Final = (codes.GET, codes.FETCH)


class Engine:
    """One server, on as many ports as its shell likes; it asks peers too.

    Args:
        random_bytes: source of tokens, message ids and secrets, `secrets.token_bytes` or its like.
        limits: see `EngineLimits`.

    Attributes:
        counters: see `EngineCounters`.
        shares: who has taken how much; ``shares.refusals()`` counts what was refused.
        freshness: counts Echo.

    """

    def __init__(
        self, random_bytes: Callable[[int], bytes], limits: EngineLimits = DEFAULT_LIMITS
    ) -> None:
        self.counters = EngineCounters()
        self.shares = Shares(limits.shares)
        self.freshness = Freshness(random_bytes, limits.freshness)
        self._limits = limits
        self._outbox = DatagramOutbox(random_bytes)
        self._recent = RecentRequests(limits.recent)
        self._retransmissions = Retransmissions(random_bytes, limits.transmission)
        self._request_bodies = RequestBodies(self.shares, limits.bodies)
        self._response_bodies = ResponseBodies(self.shares, limits.bodies)
        self._finished_bodies = FinishedBodies(self.shares, limits.bodies)
        self._served = ServedExchanges(
            self._outbox,
            self._retransmissions,
            self.shares,
            self._response_bodies,
            Observations(self.shares, limits.confirm),
            self.freshness,
            self.counters,
        )
        self._own = OwnRequests(
            self._outbox, self._retransmissions, self.shares, random_bytes, limits
        )
        self._events: list[CoapEvent] = []
        self._exchanges = 0

    @property
    def open_exchanges(self) -> int:
        """Requests without an answer, observations, and requests of our own."""
        return len(self._served) + len(self._own)

    @property
    def remembered_requests(self) -> int:
        """Requests that would be answered again and not be carried out again."""
        return len(self._recent)

    def receive_datagram(self, datagram: bytes, peer: CoapPeer, now: float) -> None:
        """Take a datagram, or the plaintext of one.

        Args:
            datagram: any bytes.
            peer: who sent it.
            now: in seconds.

        """
        self.counters.received += 1
        admitted = self.shares.datagrams.admit(peer, now)
        if admitted == DROPPED:
            self.counters.dropped += 1
            return
        try:
            message = decode(datagram, self._limits.codec)
        except MessageFormatError as error:
            self.counters.malformed += 1
            if error.message_id is not None and admitted == ADMITTED:
                self._outbox.put(empty_message(RST, error.message_id), peer)
            return
        code = message.code
        if codes.is_request(code) and message.type in (CON, NON):
            if admitted == ADMITTED:
                self._receive_request(message, len(datagram), peer, now)
            else:
                self.counters.dropped += 1
                self._refuse(message, peer, self.shares.datagrams.refusal().response())
        elif code == EMPTY and message.type != NON:
            self._receive_empty(message, peer, now)
        elif codes.is_response(code) and message.type != RST:
            self._receive_response(message, peer, now)
        else:
            self._unfitting(message, peer)

    def respond(
        self, exchange: int, response: CoapResponse, now: float, *, is_last: bool = False
    ) -> None:
        """Answer a request, or notify its observer of a change.

        Args:
            exchange: from `RequestReceived`.
            response: whole.
            now: in seconds.
            is_last: no notification will follow, whatever the client asked for.

        Raises:
            UnknownExchangeError: nobody waits for it: it was answered, or has ended.

        """
        self._served.respond(exchange, response, now, is_last=is_last)

    def request(self, peer: CoapPeer, request: CoapRequest, now: float) -> int:
        """Ask a peer; `ResponseReceived` or `RequestFailed` tells what came of it.

        Args:
            peer: who is asked.
            request: what; its body fits into one datagram.
            now: in seconds.

        Returns:
            The number of the exchange.

        """
        self._exchanges += 1
        self._own.begin(self._exchanges, peer, request, now)
        return self._exchanges

    def forget_peer(self, peer: CoapPeer) -> None:
        """A peer's session is gone: end all that belongs to it."""
        self._served.forget_peer(peer)
        self._own.forget_peer(peer)
        self._retransmissions.forget_peer(peer)
        self._recent.forget_peer(peer)
        self._request_bodies.forget_peer(peer)
        self._response_bodies.forget_peer(peer)
        self._finished_bodies.forget_peer(peer)

    def events(self) -> list[CoapEvent]:
        """Return what is to be done above, once, in the order in which it came."""
        events, self._events = self._events, []
        if self._served.ended:
            events += self._served.take_events()
        if self._own.told:
            events += self._own.take_events()
        return events

    def datagrams_to_send(self) -> list[tuple[bytes, CoapPeer]]:
        """Return what is to be sent now, once."""
        return self._outbox.take()

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due, in seconds; None if nothing waits."""
        due = _earlier(self._served.next_timer(), self._retransmissions.next_timer())
        due = _earlier(due, self._own.next_timer())
        due = _earlier(due, self._request_bodies.next_timer())
        due = _earlier(due, self._response_bodies.next_timer())
        due = _earlier(due, self._finished_bodies.next_timer())
        return _earlier(due, self._recent.next_timer())

    def handle_timer(self, now: float) -> None:
        """Do what is due."""
        self._served.handle_timer(now)
        self._own.handle_timer(now)
        while (message := self._retransmissions.due(now)) is not None:
            if not self._retransmissions.is_exhausted(message):
                self.counters.retransmitted += 1
                self._served.again(message, now)
                continue
            self.counters.unacknowledged += 1
            self._retransmissions.end(message.peer, message.message_id)
            if message.purpose == REQUEST:
                self._own.failed(message.exchange, "not acknowledged", now)
            else:
                self._served.gave_up(message)
        self._request_bodies.handle_timer(now)
        self._response_bodies.handle_timer(now)
        self._finished_bodies.handle_timer(now)
        self._recent.handle_timer(now)

    def _receive_request(
        self, message: CoapMessage, size_bytes: int, peer: CoapPeer, now: float
    ) -> None:
        code, is_confirmable = message.code, message.type == CON
        queue = self._recent.queues[peer.principal is None, code in _OBSERVABLE]
        recent = queue.find(peer, message.message_id, now)
        if recent is not None:
            self.counters.repeated += 1
            if is_confirmable and recent.answer is not None:
                self._outbox.put(recent.answer, peer)
            return
        self.counters.requests += 1
        recent = queue.add(peer, message.message_id, now, is_confirmable=is_confirmable)
        self._exchanges += 1
        exchange = ServedExchange(self._exchanges, peer, message, size_bytes, recent)
        exchange.acknowledge_at = now + self._limits.acknowledge_s
        exchange.answer_by = now + self._limits.answer_s
        if exchange.is_plain:
            if self._may_act(exchange, now):
                self._hand_out(exchange, message.options, now)
            return
        try:
            options = read_options(message.options)
        except RefusedOptionError as error:
            # A non-confirmable message that is not understood is rejected (section 5.4.1).
            if is_confirmable:
                refused = CoapResponse(error.code, (), str(error).encode())
                self._served.answer(exchange, refused, now)
            return
        exchange.suppressed = options.suppressed
        self._serve(exchange, options, now)

    def _serve(self, exchange: ServedExchange, options: RequestOptions, now: float) -> None:
        peer, code = exchange.peer, exchange.code
        if options.echo is not None:
            self.freshness.check(peer, options.echo, now)
        if not self._may_act(exchange, now):
            return
        again = self._finished_bodies.again(peer, code, exchange.options, exchange.body)
        if again is not None:
            exchange.block1 = again.block1
            self._served.answer(exchange, again.response, now)
            return
        answer = self._blocks(exchange, now)
        if answer is not None:
            self._served.answer(exchange, answer, now, is_cut=True)
            return
        is_observable = code in _OBSERVABLE
        if options.deregisters and is_observable:
            self._served.deregister(peer, exchange.token)
        registers = options.registers and is_observable
        self._hand_out(exchange, options.passed, now, options.route, registers=registers)

    def _may_act(self, exchange: ServedExchange, now: float) -> bool:
        """Return whether a request may change something now; if not, it is asked for an Echo."""
        peer, code = exchange.peer, exchange.code
        if (
            code in _OBSERVABLE
            or not self.freshness.is_needed_to_act(peer, code, now)
            or is_protected(exchange.options)
        ):
            return True
        self._served.answer(exchange, self.freshness.challenge(peer, now), now)
        return False

    def _hand_out(
        self,
        exchange: ServedExchange,
        passed: tuple[Option, ...],
        now: float,
        route: tuple[Option, ...] = (),
        *,
        registers: bool = False,
    ) -> None:
        """Have a request answered above, if there is room for one more."""
        refusal = self._served.begin(exchange, now, registers=registers)
        if refusal is not None:
            exchange.note_answer(refusal.response(), now)
            self._served.answer(exchange, refusal.response(), now)
            return
        peer = exchange.peer
        is_fresh = peer.is_address_proven or self.freshness.is_proven(peer, now)
        request = CoapRequest(
            exchange.code, passed, exchange.body, exchange.observes, is_fresh, route
        )
        self._events.append(RequestReceived(exchange.number, peer, request))

    def _blocks(self, exchange: ServedExchange, now: float) -> CoapResponse | None:
        """Put the request's body together; return what to answer if it is not for the resource."""
        peer, code, options = exchange.peer, exchange.code, exchange.options
        taken = self._request_bodies.take(peer, code, options, exchange.body, now)
        if not isinstance(taken, WholeBody):
            return taken
        block1 = taken.block1
        if block1 is not None:
            finished = self._finished_bodies.add(peer, code, options, exchange.body, block1, now)
            exchange.finished = finished
        exchange.body, exchange.block1 = taken.payload, block1
        return self._response_bodies.following(peer, code, options, exchange.body, now)

    def _receive_empty(self, message: CoapMessage, peer: CoapPeer, now: float) -> None:
        message_id = message.message_id
        if message.type == CON:  # a ping (RFC 7252, section 4.3)
            self._outbox.put(empty_message(RST, message_id), peer)
            return
        if message.type == RST:
            self.counters.resets += 1
            if self._served.reset(peer, message_id):
                return
        ours = self._retransmissions.end(peer, message_id)
        if ours is None:
            self.counters.ignored += 1
        elif message.type == RST and ours.purpose == REQUEST:
            self._own.failed(ours.exchange, "reset by the peer", now)
        elif message.type == ACK and ours.purpose == REQUEST:
            self._own.acknowledged(ours.exchange, now)
        elif message.type == ACK:
            self._served.acknowledged(ours, now)

    def _receive_response(self, message: CoapMessage, peer: CoapPeer, now: float) -> None:
        if not self._own.receive(peer, message, now):
            self._unfitting(message, peer)

    def _unfitting(self, message: CoapMessage, peer: CoapPeer) -> None:
        """Reject what fits nothing: silently, or a confirmable one with a Reset (section 4.2)."""
        self.counters.ignored += 1
        if message.type == CON:
            self._outbox.put(empty_message(RST, message.message_id), peer)

    def _refuse(self, message: CoapMessage, peer: CoapPeer, response: CoapResponse) -> None:
        if message.type == CON:
            answer = CoapMessage(
                ACK, response.code, message.message_id, message.token, response.options
            )
            self._outbox.put(answer.encode(), peer)


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)

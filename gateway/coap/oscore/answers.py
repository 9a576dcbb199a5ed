"""Requests that a device protects itself, through whatever proxies (OSCORE, RFC 8613).

The engine sees messages whose payload is the protected request, and serves them as any. Here they
are opened; inside is a request of a device with a name, for which the same rules hold as over DTLS.
What is inside may itself be a block of a body (section 4.1.3.4.1).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aiocoap import oscore
from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code

from coap_engine import codes, option_numbers
from coap_engine.blocks import DEFAULT_LIMITS, BodyLimits, with_options
from coap_engine.finished_bodies import FinishedBodies
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, RequestReceived
from coap_engine.request_bodies import RequestBodies, WholeBody
from coap_engine.request_options import RefusedOptionError, read_options
from coap_engine.response_bodies import ResponseBodies
from coap_engine.shares import Shares
from coap_engine.uint import encode_uint
from dtls.identity import PeerIdentity, Proof
from gateway.base.due_timer import DueTimer
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.timers import Timers
from gateway.coap.answers import NO_PROXY, RequestAnswers, is_for_a_proxy
from gateway.coap.messages import add_option, options_of
from gateway.coap.oscore.asking import ask_device
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.peers import OscoreAddress
from gateway.coap.responders import AskPeer, RespondTo

_SIZE_EXPONENT: Final = 5
"""Blocks of 512 bytes, so that a protected one fits into one of the engine's."""
_NOT_PROTECTED: Final = CoapResponse(
    codes.SERVICE_UNAVAILABLE,
    ((option_numbers.MAX_AGE, encode_uint(60)),),
    b"no answer can be protected now",
)
_FAILED: Final = CoapResponse(codes.INTERNAL_SERVER_ERROR)
_NUMBER_BYTES: Final = range(1, 6)
"""Lengths of a Partial IV (RFC 8613 section 6.1)."""
_NOT_DECODED: Final = "Failed to decode COSE"
_UNKNOWN: Final = "Security context not found"
_OUTER: Final = (codes.POST, codes.FETCH)
_NOT_SENT: Final = CoapResponse(codes.EMPTY)

_log = logging.getLogger(__name__)


class OscoreAnswers:
    """Opens what is protected, has it answered, and protects the answers.

    Args:
        contexts: by kid and kid context.
        answers: who answers what is inside, and what is not protected.
        timers: the event loop: its clock, and what is forgotten in time.
        shares: of all peers; what is inside is held by the device's own part.
        limits: how long bodies may be.

    """

    def __init__(
        self,
        contexts: Mapping[tuple[bytes, bytes | None], OscoreContext],
        answers: RequestAnswers,
        timers: Timers,
        shares: Shares,
        limits: BodyLimits = DEFAULT_LIMITS,
    ) -> None:
        self._contexts = contexts
        self._exchanges: dict[int, tuple[OscoreContext, RespondTo]] = {}
        self._clock = timers.time
        self._answers = answers
        self._failures = Failures(CountedLines(_log, timers.time))
        self._shares = shares
        self._bodies = replace(limits, size_exponent=_SIZE_EXPONENT)
        self._request_bodies = RequestBodies(shares, self._bodies)
        self._response_bodies = ResponseBodies(shares, self._bodies)
        self._finished_bodies = FinishedBodies(shares, self._bodies)
        self._timer = DueTimer(timers, timers.time, self._next_timer, self._forget_what_is_old)

    def follow(self, contexts: Mapping[tuple[bytes, bytes | None], OscoreContext]) -> None:
        """Go by other contexts from now on: what is open of those that are gone ends."""
        self._contexts = contexts
        stay = set(map(id, contexts.values()))
        for exchange, (context, respond) in list(self._exchanges.items()):
            if id(context) not in stay:
                step = partial(self._take_out, exchange, respond)
                self._failures.tried("end what is open of a device", step, context.keys.name)

    def _take_out(self, exchange: int, respond: RespondTo) -> None:
        try:
            self.ended(exchange)
        finally:
            respond(exchange, _refusal(codes.UNAUTHORIZED, _UNKNOWN).response, True)

    def ended(self, exchange: int) -> None:
        """Forget an exchange that nobody waits for any more."""
        self._exchanges.pop(exchange, None)
        self._answers.ended(exchange)

    def refusals(self) -> dict[str, int]:
        """Return how often what was refused since the start, for metrics."""
        return self._answers.refusals()

    def asked(
        self, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        """Answer a request; one that is protected is opened first."""
        value = asked.request.value(option_numbers.OSCORE)
        if value is None:
            return self._answers.asked(asked, now, respond, ask)
        if is_for_a_proxy(asked.request):
            return NO_PROXY, True
        if asked.request.code not in _OUTER:
            return CoapResponse(codes.METHOD_NOT_ALLOWED), True
        try:
            opened = self._open(asked, value)
        except _NotOpenedError as refused:
            return refused.response, True
        inside = ask_device(opened.context, asked.peer, ask, self._shares, self._bodies)
        try:
            return self._serve(opened, asked, now, respond, inside)
        finally:
            self._timer.set()

    def _open(self, asked: RequestReceived, value: bytes) -> _Opened:
        """Open a protected request (section 8.2).

        Raises:
            _NotOpenedError: it is none, or not one of a device that is known.

        """
        request = asked.request
        context = self._context_of(value)
        message = Message(code=Code(request.code), payload=request.payload)
        message.opt.oscore = value
        message.opt.observe = 0 if request.observe else None
        message.direction = Direction.INCOMING
        name = context.keys.name
        try:
            inner, request_id = context.unprotect(message)
        except oscore.ReplayErrorWithEcho as unsure:
            raise _NotOpenedError(self._challenge(unsure, name)) from unsure
        except oscore.ReplayError as error:
            _log.info("a repeated request of %s is refused", name)
            raise _refusal(codes.UNAUTHORIZED, "Replay detected") from error
        except Exception as error:  # inside are anybody's bytes if the key is another
            _log.info("a request in the name of %s is refused: %s", name, error)
            raise _refusal(codes.BAD_REQUEST, "Decryption failed") from error
        return _Opened(context, request_id, inner)

    def _challenge(self, unsure: Any, name: str) -> CoapResponse:
        """Ask for an Echo, in an answer that takes a number of ours."""
        try:
            return _raw(unsure.to_message())
        except Exception as error:
            self._failures.failed("protect an answer", error, name)
            return _NOT_PROTECTED

    def _context_of(self, value: bytes) -> OscoreContext:
        try:
            named = oscore.CanUnprotect._uncompress(value, b"")[2]
        except (oscore.ProtectionInvalid, IndexError) as error:
            raise _refusal(codes.BAD_OPTION, _NOT_DECODED) from error
        number = named.get(oscore.COSE_PIV, b"")  # each request has one
        is_of_group = oscore.COSE_COUNTERSIGNATURE0 in named  # reserved by section 6.1
        if is_of_group or len(number) not in _NUMBER_BYTES:
            raise _refusal(codes.BAD_OPTION, _NOT_DECODED)
        kid = named.get(oscore.COSE_KID)
        context = self._contexts.get((kid, named.get(oscore.COSE_KID_CONTEXT)))
        if context is None:
            raise _refusal(codes.UNAUTHORIZED, _UNKNOWN)
        return context

    def _serve(
        self, opened: _Opened, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        identity = PeerIdentity(Proof.OSCORE, opened.name)
        principal = str(identity)
        address = OscoreAddress(asked.peer.address, identity)
        peer = CoapPeer(address, principal, principal, is_address_proven=True)
        raw = opened.options
        try:
            options = read_options(raw)
            _check_route(options.route)
        except RefusedOptionError as refused:
            why = str(refused).encode()
            return self._protected(opened, CoapResponse(refused.code, (), why))
        self._forget_what_is_old(now)
        code = opened.code
        again = self._finished_bodies.again(peer, code, raw, opened.payload)
        if again is not None:
            part = self._response_bodies.cut(peer, code, raw, opened.payload, again.response, now)
            return self._protected(opened, _marked(part, again.block1))
        taken = self._request_bodies.take(peer, code, raw, opened.payload, now)
        if not isinstance(taken, WholeBody):
            return self._protected(opened, taken)
        body, block1 = taken.payload, taken.block1
        finished = None
        if block1 is not None:
            finished = self._finished_bodies.add(peer, code, raw, opened.payload, block1, now)
        following = self._response_bodies.following(peer, code, raw, body, now)
        if following is not None:
            return self._protected(opened, following)
        is_observable = code in (codes.GET, codes.FETCH)
        observe = asked.request.observe and options.registers and is_observable

        def closed(response: CoapResponse, is_last: bool, at: float) -> tuple[CoapResponse, bool]:
            if finished is not None:
                finished.answered(response, at)
            if not observe and options.suppressed >> (response.code >> 5) - 1 & 1:
                return _NOT_SENT, True  # as the device wishes (RFC 7967, section 2.1)
            response = self._cut(peer, code, raw, body, response, at)
            if block1 is not None:
                response = _marked(response, block1)
            return self._protected(opened, response, is_last=is_last or not observe)

        def tell(exchange: int, response: CoapResponse, is_last: bool) -> None:
            if is_last:
                self._exchanges.pop(exchange, None)
            respond(exchange, *closed(response, is_last, self._clock()))

        request = CoapRequest(code, options.passed, body, observe, is_fresh=True)
        exchange = asked.exchange
        self._exchanges[exchange] = opened.context, respond
        answer = self._asked(RequestReceived(exchange, peer, request), now, tell, ask)
        if answer is None:
            return None
        response, is_last = closed(*answer, now)
        if is_last:
            self._exchanges.pop(exchange, None)
            if not answer[1]:
                self._answers.ended(exchange)
        return response, is_last

    def _asked(
        self, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        """Have what is inside answered; what nobody foresaw is an answer too."""
        try:
            return self._answers.asked(asked, now, respond, ask)
        except Exception as error:
            self._failures.failed("answer a request", error, str(asked.peer.principal))
            return _FAILED, True

    def _cut(
        self,
        peer: CoapPeer,
        code: int,
        options: tuple[Option, ...],
        body: bytes,
        response: CoapResponse,
        now: float,
    ) -> CoapResponse:
        """Cut what is answered, perhaps later than it was asked, and forget the rest in time."""
        part = self._response_bodies.cut(peer, code, options, body, response, now)
        self._timer.set()
        return part

    def _next_timer(self) -> float:
        bodies = (self._request_bodies, self._response_bodies, self._finished_bodies)
        due = (held.next_timer() for held in bodies)
        return min((at for at in due if at is not None), default=math.inf)

    def _forget_what_is_old(self, now: float) -> None:
        self._request_bodies.handle_timer(now)
        self._response_bodies.handle_timer(now)
        self._finished_bodies.handle_timer(now)

    def _protected(
        self, opened: _Opened, response: CoapResponse, *, is_last: bool = True
    ) -> tuple[CoapResponse, bool]:
        """Protect an answer; return whether it is the last one, as one is that can't be protected.

        It can't be where no number is left that is surely new, for example while the disk is full:
        the device is told so without protection, and asks again later.
        """
        try:
            return opened.protect(response, is_notification=not is_last), is_last
        except Exception as error:
            self._failures.failed("protect an answer", error, opened.name)
            return _NOT_PROTECTED, True


class _NotOpenedError(Exception):
    """A request can't be opened.

    Attributes:
        response: what its sender is told.

    """

    def __init__(self, response: CoapResponse) -> None:
        super().__init__(response)
        self.response = response


class _Opened:
    """A request that was protected, and how to protect its answers."""

    def __init__(self, context: OscoreContext, request_id: Any, inner: Any) -> None:
        self.context = context
        self._request_id = request_id
        self.name = context.keys.name
        self.code = int(inner.code)
        self.payload: bytes = inner.payload
        self.options = options_of(inner)

    def protect(self, response: CoapResponse, *, is_notification: bool = False) -> CoapResponse:
        """Protect an answer."""
        message = Message(code=Code(response.code), payload=response.payload)
        for number, value in response.options:
            add_option(message, number, value)
        if is_notification and codes.is_success(response.code):
            message.opt.observe = 0
        outer, _ = self.context.protect(message, self._request_id)
        return _raw(outer)


def _marked(response: CoapResponse, block1: bytes) -> CoapResponse:
    """Return a response that says to which block it is the answer."""
    options = with_options(response.options, (option_numbers.BLOCK1, block1))
    return CoapResponse(response.code, options, response.payload)


def _check_route(route: tuple[Option, ...]) -> None:
    """Check that a protected request does not say itself who is to answer it.

    Options that say so are for those on the way, who can't read what is protected (RFC 8613,
    section 4.1.3.2); what is inside is for who has opened it.

    Raises:
        RefusedOptionError: it does, by an option that is critical.

    """
    for number, _ in route:
        if option_numbers.is_critical(number):
            raise RefusedOptionError(codes.BAD_OPTION, f"option {number} can't be protected")


def _raw(message: Any) -> CoapResponse:
    return CoapResponse(
        int(message.code), ((option_numbers.OSCORE, message.opt.oscore),), message.payload
    )


def _refusal(code: int, why: str) -> _NotOpenedError:
    max_age: Option = (option_numbers.MAX_AGE, encode_uint(0))
    return _NotOpenedError(CoapResponse(code, (max_age,), why.encode()))

"""Answers to requests: by what is at hand, or by a resource of aiocoap's in a task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from coap_engine import codes, option_numbers
from coap_engine.message import (
    CoapPeer,
    CoapRequest,
    CoapResponse,
    Option,
    RequestReceived,
    value_of,
)
from coap_engine.observation import OBSERVED_BODY_BYTES
from coap_engine.rates import ADMITTED, Rates, RateShares
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.write_turns import WriteTurns
from gateway.coap.access import CoapAccess, is_short
from gateway.coap.conditional import Conditional, look_at
from gateway.coap.forwarded_requests import is_passed_on
from gateway.coap.messages import OptionRefusedError, incoming, outgoing, refusing
from gateway.coap.path_router import PathRouter
from gateway.coap.peers import known_as
from gateway.coap.preconditions import Preconditions, may_have_conditions
from gateway.coap.refused_requests import RefusedRequests
from gateway.coap.rendering import Renderings
from gateway.coap.representations import represented
from gateway.coap.responders import (
    AskForBody,
    AskPeer,
    ImmediateResponder,
    KeptResponse,
    OwnTurn,
    PendingResponse,
    RespondTo,
    WithoutTurn,
)
from gateway.coap.writes_in_turn import TurnOfWrite, WriteInTurn, rendered_in_turn

RENDERING_RATES: Final = Rates(host=20.0, strangers=50.0)
"""Requests for which a resource is asked in a task, which takes a fraction of a millisecond."""
_NOT_OPENED: Final = CoapResponse(codes.BAD_OPTION, (), b"option 9 is not understood")
_FAILED: Final = CoapResponse(codes.INTERNAL_SERVER_ERROR)
_OTHER_FORMAT: Final = CoapResponse(
    codes.NOT_ACCEPTABLE, (), b"the resource has another format now: observe again"
)
_GONE: Final = CoapResponse(
    codes.FORBIDDEN, (), b"who asked for this is logged out, or has other roles"
)
_READS: Final = (codes.GET, codes.FETCH)
READS_MAX: Final = 4_096
"""Answered reads that are remembered, by who asked and how."""
NO_PROXY: Final = CoapResponse(codes.PROXYING_NOT_SUPPORTED, (), b"not a proxy")

_log = logging.getLogger(__name__)


RouteRequest = Callable[[CoapRequest], CoapRequest | CoapResponse]
"""Takes a request with a ``route``: what it is here, or why it is refused."""


def serve_here(request: CoapRequest) -> CoapRequest | CoapResponse:
    """Serve what is asked of this server, by any name; nothing that is asked of a proxy."""
    return NO_PROXY if is_for_a_proxy(request) else request


def is_for_a_proxy(request: CoapRequest) -> bool:
    """Return whether a request is to be passed on (RFC 7252, section 5.7)."""
    return any(
        number in (option_numbers.PROXY_URI, option_numbers.PROXY_SCHEME)
        for number, _ in request.route
    )


class RequestAnswers(Protocol):
    """The layer that answers the requests of CoAP peers, as `Answers` does."""

    def asked(
        self, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        """Answer a request, and say whether that is the last response; None if ``respond`` takes
        all of them later."""

    def refusals(self) -> dict[str, int]:
        """Return how often what was refused since the start, for metrics."""

    def ended(self, exchange: int) -> None:
        """Nobody waits for answers to an exchange any more."""


class Answers:
    """Answers what the engine hands out.

    Args:
        site: an aiocoap site.
        access: decides before anybody is asked.
        at_hand: are asked first, in this order, each for the paths that it serves.
        remote_of: a peer as resources see it.
        rates: how often peers may have a resource asked.
        router: says what a request is that names who is to answer it.
        turns: of all who write to the site's resources; None where nobody else does.

    Attributes:
        refused: what peers asked for that they may not.

    """

    def __init__(
        self,
        site: Any,
        access: CoapAccess,
        at_hand: Sequence[ImmediateResponder],
        remote_of: Callable[[CoapPeer], Any],
        rates: Rates = RENDERING_RATES,
        router: RouteRequest = serve_here,
        turns: WriteTurns | None = None,
    ) -> None:
        self._turns = WriteTurns() if turns is None else turns
        self._access = access
        self._sources = PathRouter(at_hand)
        self._remote_of = remote_of
        self._router = router
        self._renderings = Renderings(site)
        self._rendering_shares = RateShares(rates)
        self.refused = RefusedRequests()
        self._failures = Failures(CountedLines(_log, time.monotonic))
        self._reads: dict[tuple[Hashable, tuple[Option, ...]], KeptResponse] = {}
        """Responses that are right for a time, by who may read them and how they were asked for."""
        access.tell_of_changes(self._reads.clear)
        self._ends: dict[int, Callable[[], None]] = {}
        self._open: dict[int, tuple[RequestReceived, RespondTo, object]] = {}
        """Open requests and what answers them: of a write it says whether something may be done
        already."""

    @property
    def peers(self) -> int:
        """Return how many peers have a request or an observation open."""
        return len({asked.peer for asked, _, _ in self._open.values()})

    @property
    def open_requests(self) -> int:
        """Requests and observations that are being answered."""
        return len(self._open)

    def refusals(self) -> dict[str, int]:
        """Return how often what was refused since the start, for metrics."""
        shares = self._rendering_shares
        return {"renderings_host": shares.refused_host, "renderings_full": shares.refused_full}

    def asked(
        self, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        """Answer a request.

        Args:
            asked: the request.
            now: the event loop's time.
            respond: takes what is answered later.
            ask: asks a peer.

        Returns:
            The response, and whether it is the last one; None if all will come later.

        """
        request = asked.request
        if request.code == codes.GET and not (request.observe or request.route):
            kept = self._reads.get((known_as(asked.peer), request.options))
            if kept is not None and now < kept.until:
                return kept, True
        if value_of(request.options, option_numbers.OSCORE) is not None:
            return _NOT_OPENED, True
        if request.route:
            routed = self._router(request)
            if isinstance(routed, CoapResponse):
                return routed, True
            request = routed
        if request.observe and not _may_be_observed(request):
            request = _unobserved(request)
        if request is not asked.request:
            asked = RequestReceived(asked.exchange, asked.peer, request)
        refused = self._access.refusal(asked.request, asked.peer)
        if refused is not None:
            self.refused.note(asked.request, asked.peer, refused, now)
            return refused, True
        if may_have_conditions(request) and not is_passed_on(request):
            conditions = Preconditions.of(request)
            if conditions is not None:
                return self._judge(conditions, asked, now, respond, ask)
        return self._serve(asked, now, respond, ask)

    def revise(self) -> None:
        """The policy is another one: end what is open and may be no more, and say so.

        A write that was begun is not taken back, and its sender is told what comes of it: to say
        that it was refused would say that nothing was done. One that waits for its turn is refused.
        """
        for exchange in list(self._open):
            step = partial(self._revise_one, exchange)
            self._failures.tried("end what is allowed no more", step, exchange)

    def _revise_one(self, exchange: int) -> None:
        found = self._open.get(exchange)
        if found is None:  # another one's end has ended it
            return
        asked, respond, by = found
        waits = (
            isinstance(by, Conditional | WriteInTurn | TurnOfWrite | OwnTurn) and not by.has_begun
        )
        if asked.request.code not in _READS and not waits:
            return
        refused = self._access.refusal(asked.request, asked.peer)
        if refused is None:
            return
        try:
            self.ended(exchange)
        finally:
            respond(exchange, refused, True)

    def _refusal_by_now(self, request: CoapRequest, peer: CoapPeer) -> CoapResponse | None:
        """Return what is told to who may not make a write any more; None for who may.

        It is asked when the write begins: who asked may have lost its right, or have logged out,
        while it waited for its turn.
        """
        if request.is_still_in is not None and not request.is_still_in():
            return _GONE
        refused = self._access.refusal(request, peer)
        if refused is not None:
            self.refused.note(request, peer, refused, asyncio.get_running_loop().time())
        return refused

    def _refuse_by_now(self, request: CoapRequest, peer: CoapPeer) -> Any:
        """Return the same as a message; None for a read, too, whose answer nobody waits to give."""
        refused = None if request.code in _READS else self._refusal_by_now(request, peer)
        return None if refused is None else refusing(refused)

    def ended(self, exchange: int) -> None:
        """Nobody waits for answers to an exchange any more."""
        self._open.pop(exchange, None)
        end = self._ends.pop(exchange, None)
        if end is not None:
            end()

    async def stop(self) -> None:
        """End all that is open; no task is left."""
        for exchange in list(self._open):
            self.ended(exchange)
        await self._renderings.stop()

    def _serve(
        self, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        request = asked.request
        sources = self._sources.of(request)
        for source in sources:
            response = source.answer(request, asked.peer, now)
            if isinstance(response, CoapResponse):
                is_last = not (
                    request.observe and self._is_observed(source, asked, response, respond)
                )
                told = represented(request, response)
                if isinstance(told, KeptResponse) and source is sources[0]:
                    self._remember(asked, told)
                return told, is_last
            if response is not None:
                if _takes_turn(request, response):
                    by_now = partial(self._refusal_by_now, request, asked.peer)
                    response = WriteInTurn(response, request, self._turns, by_now)
                self._begin(response, (source,), asked, respond, partial(ask, asked.peer))
                return None
        if self._rendering_shares.admit(asked.peer, now) != ADMITTED:
            return self._rendering_shares.refusal().response(), True
        return self._render(asked, respond)

    def _remember(self, asked: RequestReceived, response: KeptResponse) -> None:
        """Give a response to all who are known as this peer and ask the same, while it is right."""
        options = asked.request.options
        if asked.request.code == codes.GET and is_short(options):
            if len(self._reads) >= READS_MAX:
                self._reads.clear()
            self._reads[known_as(asked.peer), options] = response

    def _judge(
        self,
        conditions: Preconditions,
        asked: RequestReceived,
        now: float,
        respond: RespondTo,
        ask: AskPeer,
    ) -> tuple[CoapResponse, bool] | None:
        """Have a request answered if its preconditions hold. Nothing is observed that way."""
        # Whoever is told whether a resource has an ETag is told what it is.
        look = look_at(asked.request)
        refused = self._access.refusal(look, asked.peer)
        if refused is not None:
            self.refused.note(look, asked.peer, refused, now)
            return refused, True
        # It may ask a resource several times, and takes one share for all of them.
        if self._rendering_shares.admit(asked.peer, now) != ADMITTED:
            return self._rendering_shares.refusal().response(), True
        ask_peer = partial(ask, asked.peer)
        serve = partial(self._serve_once, asked.peer, ask_peer)
        later = Conditional(conditions, asked.request, serve, self._turns)
        self._begin(later, (), asked, respond, ask_peer)
        return None

    def _serve_once(
        self,
        peer: CoapPeer,
        ask: AskForBody,
        request: CoapRequest,
        told: Callable[[CoapResponse], None],
    ) -> Callable[[], None]:
        """Answer a request of a peer who may make it; returns what ends that."""
        now = asyncio.get_running_loop().time()
        for source in self._sources.of(request):
            response = source.answer(request, peer, now)
            if isinstance(response, CoapResponse):
                told(response)
                return _nothing
            if response is not None:
                return response.begin(told, ask)
        try:
            message = incoming(request, self._remote_of(peer))
        except OptionRefusedError as refused:
            told(refused.response)
            return _nothing
        return self._renderings.begin(
            message,
            lambda answer, _is_last: told(_sendable(answer) or _FAILED),
            lambda: told(_FAILED),  # what was answered before stands
            refused_by_now=partial(self._refuse_by_now, request, peer),
        )

    def _begin(
        self,
        later: PendingResponse,
        sources: Sequence[ImmediateResponder],
        asked: RequestReceived,
        respond: RespondTo,
        ask: AskForBody,
    ) -> None:
        exchange, is_done = asked.exchange, False

        def done(response: CoapResponse) -> None:
            nonlocal is_done
            is_done = True
            if self._open.pop(exchange, None) is None:
                return
            self._ends.pop(exchange, None)
            is_last = not any(
                self._is_observed(source, asked, response, respond) for source in sources
            )
            respond(exchange, represented(asked.request, response), is_last)

        self._open[exchange] = asked, respond, later
        try:
            end = later.begin(done, ask)
        except Exception:
            self._open.pop(exchange, None)
            raise
        if not is_done:
            self._ends[exchange] = end

    def _is_observed(
        self,
        source: ImmediateResponder,
        asked: RequestReceived,
        response: CoapResponse,
        respond: RespondTo,
    ) -> bool:
        exchange = asked.exchange
        if not asked.request.observe or not codes.is_success(response.code):
            return False

        def tell(exchange: int, response: CoapResponse, is_last: bool) -> None:
            if is_last:
                self.ended(exchange)
            respond(exchange, represented(asked.request, response), is_last)

        if not source.observe(exchange, asked.request, tell):
            return False
        self._open[exchange] = asked, respond, source
        self._ends[exchange] = lambda: source.ended(exchange)
        return True

    def _render(
        self, asked: RequestReceived, respond: RespondTo
    ) -> tuple[CoapResponse, bool] | None:
        exchange = asked.exchange
        try:
            message = incoming(asked.request, self._remote_of(asked.peer))
        except OptionRefusedError as refused:
            return refused.response, True

        formats = _Formats()

        def tell(answer: Any, is_last: bool) -> None:
            response = _sendable(answer) or _FAILED
            if response is _FAILED:
                is_last = True
            elif not is_last and formats.are_left_by(response):
                self.ended(exchange)
                respond(exchange, _OTHER_FORMAT, True)
                return
            if is_last:
                self._open.pop(exchange, None)
                self._ends.pop(exchange, None)
                # Who did not have it at hand may tell of its changes all the same.
                is_last = not any(
                    self._is_observed(source, asked, response, respond)
                    for source in self._sources.of(asked.request)
                )
            respond(exchange, represented(asked.request, response), is_last)

        is_stranger = asked.peer.principal is None and not asked.peer.is_address_proven
        by_now = partial(self._refuse_by_now, asked.request, asked.peer)
        begin = partial(
            self._renderings.begin, message, refused_by_now=by_now, is_stranger=is_stranger
        )
        turn = None
        if asked.request.code in _READS:
            self._ends[exchange] = begin(tell)
        else:
            turn = rendered_in_turn(begin, tell, asked.request, self._turns)
            self._ends[exchange] = turn.end
        self._open[exchange] = asked, respond, turn
        return None


def _takes_turn(request: CoapRequest, later: PendingResponse) -> bool:
    """Return whether a request takes a turn among those who write to its resource.

    What is passed on takes its turn where it comes to its resource, and waits for it there: a turn
    that it had here too would be one that it waits for itself.
    """
    is_read = request.code in _READS
    return not (is_read or isinstance(later, WithoutTurn) or is_passed_on(request))


class _Formats:
    """The formats of what an observer is told: only one (RFC 7641, section 4.2)."""

    def __init__(self) -> None:
        self._first: tuple[bytes | None] | None = None

    def are_left_by(self, response: CoapResponse) -> bool:
        """Return whether a response has another format than the first one."""
        if response.code != codes.CONTENT:
            return False
        form = (value_of(response.options, option_numbers.CONTENT_FORMAT),)
        if self._first is None:
            self._first = form
        return form != self._first


def _may_be_observed(request: CoapRequest) -> bool:
    """Return whether a request is a read that may be held as long as somebody observes with it.

    Of a write (RFC 7641, section 2, and RFC 8132, section 2.4) the resource would be asked to carry
    it out again at each change.
    """
    return request.code in _READS and len(request.payload) <= OBSERVED_BODY_BYTES


def _unobserved(request: CoapRequest) -> CoapRequest:
    """Return a request without the wish to observe."""
    return CoapRequest(
        request.code,
        request.options,
        request.payload,
        is_fresh=request.is_fresh,
        route=request.route,
        is_still_in=request.is_still_in,
    )


def _sendable(answer: Any) -> CoapResponse | None:
    """Return what a resource answered; None, and a line in the log, if that can't be sent."""
    try:
        return outgoing(answer)
    except Exception:
        _log.exception("what a resource answered can't be sent")
        return None


def _nothing() -> None:
    """There is nothing to end."""

"""Who answers a request: what is at hand, or a resource of aiocoap's in a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from coap_engine import codes, option_numbers
from coap_engine.message import Asked, CoapPeer, CoapRequest, CoapResponse
from coap_engine.rates import ADMITTED, Rates, RateShares
from gateway.coap.access import CoapAccess
from gateway.coap.at_hand import Ask, AskPeer, AtHand, Later, Respond
from gateway.coap.messages import OptionRefusedError, incoming, outgoing
from gateway.coap.refused_requests import RefusedRequests
from gateway.coap.rendering import Renderings

RENDERING_RATES: Final = Rates(host=20.0, strangers=50.0)
"""Requests for which a resource is asked in a task, which takes a fraction of a millisecond."""
_NOT_OPENED: Final = CoapResponse(codes.BAD_OPTION, (), b"option 9 is not understood")
_FAILED: Final = CoapResponse(codes.INTERNAL_SERVER_ERROR)
NO_PROXY: Final = CoapResponse(codes.PROXYING_NOT_SUPPORTED, (), b"not a proxy")

_log = logging.getLogger(__name__)


Router = Callable[[CoapRequest], CoapRequest | CoapResponse]
"""Takes a request with a ``route``: what it is here, or why it is refused."""


def serve_here(request: CoapRequest) -> CoapRequest | CoapResponse:
    """Serve what is asked of this server, by any name; nothing that is asked of a proxy."""
    return NO_PROXY if is_for_a_proxy(request) else request


def is_for_a_proxy(request: CoapRequest) -> bool:
    """Whether a request is to be passed on (RFC 7252, section 5.7)."""
    return any(
        number in (option_numbers.PROXY_URI, option_numbers.PROXY_SCHEME)
        for number, _ in request.route
    )


class RequestAnswers(Protocol):
    """Who answers requests; see `Answers`."""

    def asked(
        self, asked: Asked, now: float, respond: Respond, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        """Answer a request."""

    def refusals(self) -> dict[str, int]:
        """How often what was refused since the start, for metrics."""

    def ended(self, exchange: int) -> None:
        """Nobody waits for answers to an exchange any more."""


class Answers:
    """Answers what the engine hands out.

    Args:
        site: an aiocoap site.
        access: decides before anybody is asked.
        at_hand: are asked first, in this order.
        remote_of: a peer as resources see it.
        rates: how often peers may have a resource asked.
        router: says what a request is that names who is to answer it.

    Attributes:
        refused: what peers asked for that they may not.

    """

    def __init__(
        self,
        site: Any,
        access: CoapAccess,
        at_hand: Sequence[AtHand],
        remote_of: Callable[[CoapPeer], Any],
        rates: Rates = RENDERING_RATES,
        router: Router = serve_here,
    ) -> None:
        self._access = access
        self._at_hand = at_hand
        self._remote_of = remote_of
        self._router = router
        self._renderings = Renderings(site)
        self._rendering_shares = RateShares(rates)
        self.refused = RefusedRequests()
        self._ends: dict[int, Callable[[], None]] = {}
        self._open: dict[int, tuple[Asked, Respond]] = {}

    @property
    def peers(self) -> int:
        """Who has a request or an observation open."""
        return len({asked.peer for asked, _ in self._open.values()})

    @property
    def open_requests(self) -> int:
        """Requests and observations that are being answered."""
        return len(self._open)

    def refusals(self) -> dict[str, int]:
        """How often what was refused since the start, for metrics."""
        shares = self._rendering_shares
        return {"renderings_host": shares.refused_host, "renderings_full": shares.refused_full}

    def asked(
        self, asked: Asked, now: float, respond: Respond, ask: AskPeer
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
        request = self._routed(asked.request)
        if isinstance(request, CoapResponse):
            return request, True
        if request is not asked.request:
            asked = Asked(asked.exchange, asked.peer, request)
        refused = self._access.refusal(asked.request, asked.peer)
        if refused is not None:
            self.refused.note(asked.request, asked.peer, refused, now)
            return refused, True
        for source in self._at_hand:
            response = source.answer(asked.request, asked.peer, now)
            if isinstance(response, CoapResponse):
                return response, not self._is_observed(source, asked, response, respond)
            if response is not None:
                self._begin(response, source, asked, respond, partial(ask, asked.peer))
                return None
        if self._rendering_shares.admit(asked.peer, now) != ADMITTED:
            return self._rendering_shares.refusal().response(), True
        return self._render(asked, respond)

    def revise(self) -> None:
        """The policy is another one: end what is open and may be no more, and say so.

        A write that was begun is not taken back, and its sender is told what comes of it: to say
        that it was refused would say that nothing was done.
        """
        for exchange, (asked, respond) in list(self._open.items()):
            if asked.request.code not in (codes.GET, codes.FETCH):
                continue
            refused = self._access.refusal(asked.request, asked.peer)
            if refused is not None:
                self.ended(exchange)
                respond(exchange, refused, True)

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
        await self._renderings.idle()

    def _routed(self, request: CoapRequest) -> CoapRequest | CoapResponse:
        if request.value(option_numbers.OSCORE) is not None:
            return _NOT_OPENED
        return self._router(request) if request.route else request

    def _begin(
        self, later: Later, source: AtHand, asked: Asked, respond: Respond, ask: Ask
    ) -> None:
        exchange = asked.exchange

        def done(response: CoapResponse) -> None:
            if self._open.pop(exchange, None) is None:
                return
            del self._ends[exchange]
            is_last = not self._is_observed(source, asked, response, respond)
            respond(exchange, response, is_last)

        self._open[exchange] = asked, respond
        self._ends[exchange] = later.begin(done, ask)

    def _is_observed(
        self, source: AtHand, asked: Asked, response: CoapResponse, respond: Respond
    ) -> bool:
        exchange = asked.exchange
        if not asked.request.observe or not codes.is_success(response.code):
            return False

        def tell(exchange: int, response: CoapResponse, is_last: bool) -> None:
            if is_last:
                self.ended(exchange)
            respond(exchange, response, is_last)

        if not source.observe(exchange, asked.request, tell):
            return False
        self._open[exchange] = asked, respond
        self._ends[exchange] = lambda: source.ended(exchange)
        return True

    def _render(self, asked: Asked, respond: Respond) -> tuple[CoapResponse, bool] | None:
        exchange = asked.exchange
        try:
            message = incoming(asked.request, self._remote_of(asked.peer))
        except OptionRefusedError as refused:
            return refused.response, True

        def tell(answer: Any, is_last: bool) -> None:
            try:
                response = outgoing(answer)
            except Exception:
                _log.exception("what a resource answered can't be sent")
                response, is_last = _FAILED, True
            if is_last:
                self._open.pop(exchange, None)
                self._ends.pop(exchange, None)
                # Who did not have it at hand may tell of its changes all the same.
                is_last = not any(
                    self._is_observed(source, asked, response, respond) for source in self._at_hand
                )
            respond(exchange, response, is_last)

        self._open[exchange] = asked, respond
        is_stranger = asked.peer.principal is None and not asked.peer.is_address_proven
        self._ends[exchange] = self._renderings.begin(message, tell, is_stranger=is_stranger)
        return None

"""Carries a request out if its preconditions hold: the look at the resource and the write are one.

The resource is asked with a GET, as its client would; so whatever serves it, its ETag is the one
that its readers were given. Between that and the write nobody else writes (`WriteTurns`), and a
write that has begun goes on though who asked has gone. A read keeps nobody from writing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import with_options
from coap_engine.message import CoapRequest, CoapResponse
from coap_engine.uint import decode_uint, encode_uint
from gateway.base.write_turns import WriteTurn, WriteTurns
from gateway.coap.preconditions import Preconditions, failure, without_conditions
from gateway.coap.representations import tagged
from gateway.coap.responders import AskForBody

FORMATS: Final = (0, 40, 50, 60, 110, 112)
"""The formats that resources of a gateway have (RFC 7252, section 12.3, and RFC 8428)."""
_FAILED: Final = CoapResponse(codes.INTERNAL_SERVER_ERROR)

DeferredReply = Callable[[CoapResponse], None]
ServeRequest = Callable[[CoapRequest, DeferredReply], Callable[[], None]]
"""Answers a request once, perhaps before it returns; what it returns ends it."""

_log = logging.getLogger(__name__)


class Conditional:
    """A write on a condition: a `gateway.coap.responders.PendingResponse`.

    Args:
        conditions: of the request.
        request: whole; its preconditions are among its options.
        serve: answers what is asked of the resource.
        turns: of all who write.

    Attributes:
        has_begun: something may be done already.

    """

    def __init__(
        self,
        conditions: Preconditions,
        request: CoapRequest,
        serve: ServeRequest,
        turns: WriteTurns,
    ) -> None:
        self._conditions = conditions
        self._request = request
        self._serve = serve
        self._turns = turns
        self._turn = WriteTurn(resource_of(request), self._look, is_alone=True)
        self._is_read = request.code in (codes.GET, codes.FETCH)
        self.has_begun = False
        self._is_over = False
        self._formats = _formats(request)
        self._done: DeferredReply | None = None
        self._end_serving: Callable[[], None] = _nothing

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Ask for the resource's state: at once for a read, and for a write when its turn has come.

        Args:
            done: takes the response: of the resource, or that a precondition fails.
            ask: is not needed here.

        Returns:
            What ends it; a write that has begun is carried out all the same.
        """
        self._done = done
        if self._is_read:
            self._look()
        else:
            self._turns.enter(self._turn)
        return self.end

    def end(self) -> None:
        """Look at nothing and begin nothing any more; a write under way has its turn to its end."""
        self._done = None
        if not self.has_begun:
            self._is_over = True
            self._end_serving()
            self._turns.leave(self._turn)

    def _look(self) -> None:
        """Ask the resource for its representation, in one format after the other."""
        self._ask(look_at(self._request, self._formats.pop(0)), self._judge)

    def _judge(self, found: CoapResponse) -> None:
        found = tagged(found)
        are_met = self._conditions.are_met(found)
        if are_met is None and self._formats:
            self._look()
        elif not are_met:
            self._tell(failure(found))
        else:
            request = self._request
            options = without_conditions(request.options)
            self.has_begun = not self._is_read
            plain = CoapRequest(
                request.code,
                options,
                request.payload,
                is_fresh=request.is_fresh,
                is_still_in=request.is_still_in,
            )
            self._ask(plain, self._tell)

    def _ask(self, request: CoapRequest, told: DeferredReply) -> None:
        answered: list[CoapResponse] = []

        def tell(response: CoapResponse) -> None:
            if not self._is_over and not answered:
                answered.append(response)
                self._end_serving = _nothing
                told(response)

        try:
            end = self._serve(request, tell)
        except Exception:  # others wait for this write to be over
            _log.exception("a request with a precondition failed")
            end = _nothing
            self._tell(_FAILED)
        if not answered:
            self._end_serving = end

    def _tell(self, response: CoapResponse) -> None:
        done, self._done = self._done, None
        self._is_over = True
        self._turns.leave(self._turn)
        if done is not None:
            asyncio.get_running_loop().call_soon(partial(done, response))


def look_at(request: CoapRequest, form: int | None = None) -> CoapRequest:
    """Return the GET that tells what the resource of a request is, in a format or in its usual
    one."""
    options = tuple(
        one
        for one in request.options
        if one[0] in (option_numbers.URI_PATH, option_numbers.URI_QUERY)
    )
    if form is not None:
        options = with_options(options, (option_numbers.ACCEPT, encode_uint(form)))
    return CoapRequest(codes.GET, options, is_fresh=request.is_fresh)


def resource_of(request: CoapRequest) -> tuple[bytes, ...]:
    """Return what a request is for, among `WriteTurns`."""
    return tuple(request.values(option_numbers.URI_PATH))


def _formats(request: CoapRequest) -> list[int | None]:
    """Return the formats that a resource is asked for: the likely ones first, each once."""
    named = [
        decode_uint(value)
        for number, value in request.options
        if number in (option_numbers.ACCEPT, option_numbers.CONTENT_FORMAT)
    ]
    return [None, *dict.fromkeys((*named, *FORMATS))]


def _nothing() -> None:
    """There is nothing to end."""

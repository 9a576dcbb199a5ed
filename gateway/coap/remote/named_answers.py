"""Writes to this gateway's own resources by their short paths that their clients give a name.

They are carried out as the same request by the long path would be (``/q/<domain>/<group>/<this
gateway>/...``): so one name is one write, whichever of both ways, and whichever gateway, it is
asked by (`docs/queries.md`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from gateway.coap.forwarded_requests import leads_elsewhere
from gateway.coap.remote.exchange import Executor
from gateway.coap.remote.forms import NotForOthersError, coap_response, remote_request, text
from gateway.coap.remote.parts import RemoteAccess
from gateway.coap.responders import AskForBody, PendingResponse, RespondTo
from tree_handler.errors import ProtocolError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse


class NamedAnswers:
    """Answers requests that have a Request-Id; see `gateway.coap.responders.ImmediateResponder`.

    Args:
        executor: remembers names, and carries out what is new.
        access: says who asks.

    """

    def __init__(self, executor: Executor, access: RemoteAccess) -> None:
        self.segments: frozenset[bytes] | None = None
        self._executor = executor
        self._access = access

    def answer(
        self, request: CoapRequest, peer: CoapPeer, _now: float
    ) -> CoapResponse | PendingResponse | None:
        """Return the answer to a request with a Request-Id; None if it names another gateway."""
        if leads_elsewhere(request):
            return None
        try:
            path = tuple(text(one, 11) for one in request.values(option_numbers.URI_PATH))
            asked = remote_request(request, path, self._access.introduction(peer))
        except NotForOthersError as refused:
            return refused.response
        except ProtocolError as wrong:
            return CoapResponse(codes.BAD_REQUEST, (), str(wrong).encode())
        return _Named(self._executor, asked)

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Return False: such a request has one response."""
        return False

    def ended(self, exchange: int) -> None:
        """Do nothing: there are no observers."""


class _Named:
    """A request with a name, which is executed once, however often it comes."""

    def __init__(self, executor: Executor, asked: ResourceRequest) -> None:
        self._executor = executor
        self._asked = asked

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Execute the request, unless its name is known; `done` takes the response later."""
        loop = asyncio.get_running_loop()

        def tell(response: ResourceResponse, _goes_on: bool) -> None:
            loop.call_soon(done, coap_response(response))

        return self._executor.begin(self._asked, "", tell)

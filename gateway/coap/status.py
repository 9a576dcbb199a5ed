"""``/status``: what this gateway is and does, as JSON.

A stranger that may read it is told `PUBLIC` of it alone: members, addresses and topics are for
peers with a key, and for those on a gateway's own machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiocoap import error, resource
from aiocoap.message import Message

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from coap_engine.uint import encode_uint
from dtls.identity import ANONYMOUS
from gateway.coap.access import identity_of
from gateway.coap.at_hand import Respond
from gateway.coap.peers import is_here

JSON: Final = 50
"""Content-format application/json (RFC 7252, table 9)."""
PATH: Final = ("status",)
"""Where to add `StatusResource` to a site."""
PUBLIC: Final = ("id", "version", "up_s")
"""What strangers are told."""
KEPT_S: Final = 1.0
"""So long that is told without being looked at again."""

Report = Callable[[], Mapping[str, Any]]
_OPTIONS: Final = tuple(
    [(option_numbers.URI_PATH, segment.encode()) for segment in PATH],
)


class StatusResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Serves what a callable returns.

    Args:
        status: the state at the time of the call; keys are text, values what JSON can say.
        anonymous: strangers are told all of it.

    """

    ct = JSON
    rt = "hedgerow.status"

    def __init__(self, status: Report, *, anonymous: bool = False) -> None:
        super().__init__()
        self._status = status
        self._anonymous = anonymous

    async def render_get(self, request: Any) -> Any:
        """The status now; 4.06 if another format than JSON is asked for.

        Raises:
            aiocoap.error.NotAcceptable: rendered by aiocoap.

        """
        if request.opt.accept not in (None, JSON):
            raise error.NotAcceptable("only application/json (50)")
        is_whole = self._anonymous or identity_of(request) != ANONYMOUS
        told = self._status()
        return Message(payload=_json(told if is_whole else _summary(told)), content_format=JSON)


class StatusSummary:
    """What strangers are told, at hand: rendered once a second, however many of them ask.

    Args:
        status: as of `StatusResource`.
        anonymous: strangers are told all of it, which is left to the resource.

    """

    def __init__(self, status: Report, *, anonymous: bool) -> None:
        self._status = status
        self._anonymous = anonymous
        self._kept: CoapResponse | None = None
        self._kept_until = 0.0

    def answer(self, request: CoapRequest, peer: CoapPeer, now: float) -> CoapResponse | None:
        """See `gateway.coap.at_hand.AtHand`."""
        if self._anonymous or peer.principal is not None or is_here(peer):
            return None
        if request.code != codes.GET or request.options != _OPTIONS:
            return None
        if self._kept is None or now >= self._kept_until:
            options = ((option_numbers.CONTENT_FORMAT, encode_uint(JSON)),)
            self._kept = CoapResponse(codes.CONTENT, options, _json(_summary(self._status())))
            self._kept_until = now + KEPT_S
        return self._kept

    def observe(self, _exchange: int, _request: CoapRequest, _respond: Respond) -> bool:
        """It can't be observed."""
        return False

    def ended(self, _exchange: int) -> None:
        """See `gateway.coap.at_hand.AtHand`."""


def _summary(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in PUBLIC if key in told}


def _json(told: Mapping[str, Any]) -> bytes:
    # Infinity and NaN are no JSON: better an error than a document that readers refuse.
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode()

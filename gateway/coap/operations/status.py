"""``/status``: what this gateway is and does, as JSON.

Who may read it only because it is public is told `PUBLIC` of it alone: members, addresses and
topics are for those to whom a role or a rule gives it.
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
from gateway.coap.access import CoapAccess
from gateway.coap.responders import RespondTo

JSON: Final = 50
"""Content-format application/json (RFC 7252, table 9)."""
PATH: Final = ("status",)
"""The path of `StatusResource` on a site."""
PUBLIC: Final = ("id", "version", "up_s")
"""The fields that strangers are told."""
KEPT_S: Final = 1.0
"""So long that is told without being looked at again."""

ReportOfStatus = Callable[[], Mapping[str, Any]]
_OPTIONS: Final = tuple(
    [(option_numbers.URI_PATH, segment.encode()) for segment in PATH],
)


class StatusResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Serves what a callable returns.

    Args:
        status: the state at the time of the call; keys are text, values what JSON can say.
        tells_all: whether who stands behind ``request.remote`` is told all of it.

    """

    ct = JSON
    rt = "hedgerow.status"

    def __init__(self, status: ReportOfStatus, tells_all: Callable[[Any], bool]) -> None:
        super().__init__()
        self._status = status
        self._tells_all = tells_all

    async def render_get(self, request: Any) -> Any:
        """Return the status now; 4.06 if another format than JSON is asked for.

        Raises:
            aiocoap.error.NotAcceptable: rendered by aiocoap.

        """
        if request.opt.accept not in (None, JSON):
            raise error.NotAcceptable("only application/json (50)")
        told = self._status()
        if not self._tells_all(request.remote):
            told = _summary(told)
        return Message(payload=_json(told), content_format=JSON)


class StatusSummary:
    """The summary for strangers, at hand: rendered once a second, however many of them ask.

    Args:
        status: as of `StatusResource`.
        access: says who is told all of it, which is left to the resource.

    """

    def __init__(self, status: ReportOfStatus, access: CoapAccess) -> None:
        self.segments = frozenset((PATH[0].encode(),))
        self._status = status
        self._access = access
        self._kept: CoapResponse | None = None
        self._kept_until = 0.0

    def answer(self, request: CoapRequest, peer: CoapPeer, now: float) -> CoapResponse | None:
        """Return the summary, at most `KEPT_S` old; None if the peer may see the whole status."""
        if request.code != codes.GET or request.options != _OPTIONS:
            return None
        if self._access.tells_all(request, peer):
            return None
        if self._kept is None or now >= self._kept_until:
            options = ((option_numbers.CONTENT_FORMAT, encode_uint(JSON)),)
            self._kept = CoapResponse(codes.CONTENT, options, _json(_summary(self._status())))
            self._kept_until = now + KEPT_S
        return self._kept

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        """Return False: it can't be observed."""
        return False

    def ended(self, _exchange: int) -> None:
        """Do nothing: the status has no observers here."""


def _summary(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in PUBLIC if key in told}


def _json(told: Mapping[str, Any]) -> bytes:
    # Infinity and NaN are no JSON: better an error than a document that readers refuse.
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode()

"""``/hierarchy``: who heads what in the fleet, as this gateway sees it; JSON or CBOR, observable.

It names all gateways, so who may read it only because it is public is told nothing, as with what
``/status`` says of members.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aiocoap import error, resource
from aiocoap.message import Message

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from coap_engine.uint import decode_uint, encode_uint
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.access import CoapAccess
from gateway.coap.operations.status import JSON
from gateway.coap.responders import RespondTo
from tree_handler.members.hierarchy import Membership

CBOR: Final = 60
"""Content-format application/cbor (RFC 8949, section 9.5)."""
PATH: Final = ("hierarchy",)
"""The path of `HierarchyResource` on a site."""
SUBSTITUTES: Final = 3
"""So many are named of each gateway."""
PAUSE_S: Final = 0.2
"""Changes within this time are told together."""
_log = logging.getLogger(__name__)

_PATH_VALUES = tuple(segment.encode() for segment in PATH)
_NOT_TOLD: Final = CoapResponse(
    codes.UNAUTHORIZED, (), b"the fleet is told to those to whom the policy gives it"
)


class HierarchyView:
    """The hierarchy as a document, made anew only when it has changed.

    Args:
        gateway_id: whose view it is.
        members: it follows from.

    """

    def __init__(self, gateway_id: str, members: Membership) -> None:
        self._gateway_id = gateway_id
        self._members = members
        self._kept: dict[int, bytes] = {}
        members.listen(self._kept.clear)

    def as_document(self) -> dict[str, Any]:
        """Return all gateways: where each stands, what it heads, whose child it is, who stands
        by."""
        hierarchy, suspects = self._members.hierarchy(), self._members.suspects
        heads: dict[str, list[str]] = {}
        if hierarchy.root is not None:
            heads.setdefault(hierarchy.root, []).append("-/-")
        for domain, head in sorted(hierarchy.domain_heads.items()):
            heads.setdefault(head, []).append(f"{domain}/-")
        for (domain, group), head in sorted(hierarchy.group_heads.items()):
            heads.setdefault(head, []).append(f"{domain}/{group}")
        return {
            "id": self._gateway_id,
            "root": hierarchy.root,
            "gateways": [
                {
                    "id": record.id,
                    "place": str(record.place),
                    "parent": hierarchy.parents[record.id],
                    "heads": heads.get(record.id, []),
                    "substitutes": list(hierarchy.substitutes(record.id, SUBSTITUTES)),
                    "capability": record.capability,
                    "draining": record.draining,
                    "suspect": record.id in suspects,
                }
                for record in self._members
            ],
        }

    def rendered(self, accept: int | None) -> tuple[int, bytes] | None:
        """Return the document after the number of its format; None if it has no such format."""
        form = JSON if accept is None else accept
        if form not in (JSON, CBOR):
            return None
        kept = self._kept.get(form)
        if kept is None:
            kept = self._kept[form] = _encode(form, self.as_document())
        return form, kept


def _encode(form: int, document: dict[str, Any]) -> bytes:
    if form == JSON:
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    import cbor2  # noqa: PLC0415  # few ask for it

    packed: bytes = cbor2.dumps(document)
    return packed


class HierarchyResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """For requests that come through another gateway, and for what `HierarchyAnswers` leaves.

    Args:
        view: what is told.
        tells_all: whether who stands behind ``request.remote`` is told of the fleet.

    """

    ct = f"{JSON} {CBOR}"
    rt = "hedgerow.hierarchy"

    def __init__(self, view: HierarchyView, tells_all: Callable[[Any], bool]) -> None:
        super().__init__()
        self._view = view
        self._tells_all = tells_all

    def get_link_description(self) -> dict[str, str | None]:
        """Return the attributes of its link."""
        return {"rt": self.rt, "ct": self.ct, "obs": None}

    async def render_get(self, request: Any) -> Any:
        """Return the document.

        Raises:
            aiocoap.error.RenderableError: another format is asked for (4.06), or it is not told
                (4.01).

        """
        if not self._tells_all(request.remote):
            raise error.Unauthorized(_NOT_TOLD.payload.decode())
        accept = request.opt.accept
        found = self._view.rendered(None if accept is None else int(accept))
        if found is None:
            raise error.NotAcceptable("application/json (50) or application/cbor (60)")
        return Message(payload=found[1], content_format=found[0])


class HierarchyAnswers:
    """It is at hand, and who observes it is told of changes.

    Args:
        view: what is told.
        members: tells when it changes.
        access: says who is told of the fleet.
        call_later: has a function called by the event loop, after so many seconds.

    """

    def __init__(
        self,
        view: HierarchyView,
        members: Membership,
        access: CoapAccess,
        call_later: Callable[[float, Callable[[], None]], Any],
    ) -> None:
        self.segments = frozenset(_PATH_VALUES)
        self._view = view
        self._access = access
        self._call_later = call_later
        self._observers: dict[int, tuple[CoapRequest, RespondTo]] = {}
        self._told: tuple[int, bytes] | None = None
        self._is_due = False
        self._failures = Failures(CountedLines(_log, time.monotonic))
        members.listen(self._changed)

    def answer(self, request: CoapRequest, peer: CoapPeer, _now: float) -> CoapResponse | None:
        """Return the hierarchy, or a refusal; None if the resource has to answer."""
        if request.code != codes.GET or not _is_meant(request):
            return None
        return self._response(request) if self._access.tells_all(request, peer) else _NOT_TOLD

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Note an observer of the hierarchy; return False for a request of another resource."""
        if not _is_meant(request):
            return False
        if not self._observers:
            self._told = self._view.rendered(None)
        self._observers[exchange] = request, respond
        return True

    def ended(self, exchange: int) -> None:
        """Forget the observer, if the exchange has one."""
        self._observers.pop(exchange, None)

    def _changed(self) -> None:
        if self._observers and not self._is_due:
            self._is_due = True
            self._call_later(PAUSE_S, self._tell)

    def _tell(self) -> None:
        self._is_due = False
        told = self._view.rendered(None)
        if told == self._told:  # what changed of a record does not stand there
            return
        self._told = told
        for exchange in list(self._observers):
            step = partial(self._tell_one, exchange)
            self._failures.tried("tell of the hierarchy", step, exchange)

    def _tell_one(self, exchange: int) -> None:
        if exchange in self._observers:
            request, respond = self._observers[exchange]
            response = self._response(request)
            if response is not None:
                respond(exchange, response, False)

    def _response(self, request: CoapRequest) -> CoapResponse | None:
        accept = request.value(option_numbers.ACCEPT)
        found = self._view.rendered(None if accept is None else decode_uint(accept))
        if found is None:
            return None
        options = ((option_numbers.CONTENT_FORMAT, encode_uint(found[0])),)
        return CoapResponse(codes.CONTENT, options, found[1])


def _is_meant(request: CoapRequest) -> bool:
    if tuple(request.values(option_numbers.URI_PATH)) != _PATH_VALUES:
        return False
    known = (option_numbers.URI_PATH, option_numbers.ACCEPT)
    # What is critical and not known here, the resource refuses (RFC 7252, section 5.4.1).
    return all(number in known or not number & 1 for number, _ in request.options)

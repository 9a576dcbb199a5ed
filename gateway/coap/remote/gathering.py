"""One request to many gateways: the shell around `tree_handler.remote.gather`.

Who asks with Observe (RFC 7641) is told what there is as the answers come, and once more when the
last one is there; that notification has no Observe, since nothing follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from coap_engine.uint import encode_uint
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from gateway.coap.remote.forms import NotForOthersError, diagnostic_of
from gateway.coap.remote.multi_status import FORMATS, TargetResponse, encode
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.remote.paths import RemoteRequest
from gateway.coap.remote.remote_observations import RemoteObservations
from gateway.coap.remote.reply import OnReply, RemoteReply
from gateway.coap.responders import AskForBody, RespondTo
from light_dataclasses import dataclass
from tree_handler.members.hierarchy import MemberRecord
from tree_handler.members.place import NONE
from tree_handler.remote.gather import AnswerGathering
from tree_handler.remote.options import HOP_LIMIT, IF_MATCH, IF_NONE_MATCH
from tree_handler.remote.resource import ResourceRequest

GATHER_S: Final = 10.0
"""So long all together are waited for."""
GROWTH_S: Final = 0.5
"""So often at most an answer that grows is told."""
GROWN_BYTES: Final = 1_024
"""A longer answer is told when it is whole: a client would ask anew for each of its blocks."""

AskOne = Callable[
    [MemberRecord, ResourceRequest, CoapPeer, OnReply],
    Callable[[], None],
]
"""Asks one gateway for a peer, and hands on its answer in a later turn; what it returns ends it."""


@dataclass(frozen=True, slots=True)
class GrowingAnswer:
    """A request whose answer is told while it grows.

    Attributes:
        watching: where its exchange is found again after the first answer.
        request: as it came.

    """

    watching: RemoteObservations
    request: CoapRequest


def gather(
    parts: RemoteParts,
    asked: RemoteRequest,
    peer: CoapPeer,
    ask_one: AskOne,
    growing: GrowingAnswer | None = None,
) -> GatheredAnswer:
    """Ask many gateways.

    Args:
        parts: what requests are served with.
        asked: what, and whom.
        peer: who asks.
        ask_one: asks each of them.
        growing: the request, if it is told what there is as it comes; None for one answer.

    Raises:
        NotForOthersError: it is refused, and with what.

    """
    request = asked.request
    if request.writes:
        raise NotForOthersError(codes.METHOD_NOT_ALLOWED, "many gateways can only be read")
    if request.accept is not None and request.accept not in FORMATS:
        raise NotForOthersError(codes.NOT_ACCEPTABLE, f"one of the formats {FORMATS}")
    if any(number in (IF_MATCH, IF_NONE_MATCH) for number, _ in request.options):
        why = "If-Match and If-None-Match are for one resource, not for many gateways"
        raise NotForOthersError(codes.BAD_OPTION, why)
    records = [one for one in asked.records if one.mqtt_port or one.coap_port or one.coaps_port]
    most = parts.limits.targets
    if len(records) > most:
        raise NotForOthersError(
            codes.BAD_REQUEST, f"{len(records)} gateways: at most {most} are asked at once"
        )
    counted = tuple(one for one in request.options if one[0] == HOP_LIMIT)
    wanted = replace(request, accept=None, options=counted)
    return GatheredAnswer(parts, records, (wanted, request.accept), peer, ask_one, growing)


class GatheredAnswer:
    """An answer that is gathered from many gateways: a `PendingResponse` and a `ContinuingAnswer`.

    Args:
        parts: what requests are served with.
        records: of the gateways.
        wanted: what each is asked, and the format of the whole; None for the usual one.
        peer: who asks.
        ask_one: asks each of them.
        growing: see `gather`.

    Attributes:
        goes_on: more will follow the first answer.

    """

    def __init__(
        self,
        parts: RemoteParts,
        records: list[MemberRecord],
        wanted: tuple[ResourceRequest, int | None],
        peer: CoapPeer,
        ask_one: AskOne,
        growing: GrowingAnswer | None,
    ) -> None:
        self.goes_on = False
        self._parts = parts
        self._records = {record.id: record for record in records}
        self._request, accept = wanted
        self._form = FORMATS[0] if accept is None else accept
        self._peer = peer
        self._ask_one = ask_one
        self._core = AnswerGathering(list(self._records), parts.limits)
        self._ends: dict[str, Callable[[], None]] = {}
        self._growing = growing
        self._told = 0
        self._is_open = False
        self._timer: asyncio.TimerHandle | None = None
        self._growth: asyncio.TimerHandle | None = None
        self._tell: Callable[[CoapResponse, bool], None] | None = None

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Ask all gateways; `done` takes what they answered within `GATHER_S` seconds."""
        loop = asyncio.get_running_loop()
        self._is_open = True
        self._tell = lambda response, _is_last: done(response)
        self._timer = loop.call_later(GATHER_S, self._give_up)
        if self._growing is not None:
            self._growth = loop.call_later(GROWTH_S, self._grow, self._growing)
        loop.call_soon(self._go_on)
        return self.end

    def bind(self, exchange: int, respond: RespondTo) -> None:
        """From now on tell an exchange."""
        self._tell = lambda response, is_last: respond(exchange, response, is_last)

    def end(self) -> None:
        """Ask and tell nothing any more."""
        self._is_open = False
        self._tell = None
        for timer in (self._timer, self._growth):
            if timer is not None:
                timer.cancel()
        self._timer = self._growth = None
        ends, self._ends = self._ends, {}
        for end in ends.values():
            end()

    def _grow(self, growing: GrowingAnswer) -> None:
        """Tell what there is, if it is more than was told."""
        self._growth = asyncio.get_running_loop().call_later(GROWTH_S, self._grow, growing)
        so_far = self._core.so_far()
        if self._tell is None or len(so_far) == self._told:
            return
        response = self._response(so_far)
        if len(response.payload) > GROWN_BYTES:
            return
        self._told = len(so_far)
        if self.goes_on:
            self._tell(response, False)
            return
        self.goes_on = True
        tell, self._tell = self._tell, None
        growing.watching.expect(growing.request, self)
        tell(response, False)
        growing.watching.expect_no_more(growing.request)
        if self._tell is None:  # it is not told any more: the registration was refused
            self.end()

    def _go_on(self) -> None:
        while self._is_open and (target := self._core.next()) is not None:
            record = self._records[target]
            if not self._may(record):
                refused = diagnostic_of(codes.FORBIDDEN, "the policy here does not allow it")
                self._core.answered(target, refused)
                continue
            self._ends[target] = self._ask_one(
                record, self._request, self._peer, self._taker(target)
            )
        if self._core.is_over:
            self._finish()

    def _taker(self, target: str) -> OnReply:
        def told(reply: RemoteReply) -> None:
            self._ends.pop(target, None)
            self._core.answered(target, reply.response)
            self._go_on()

        return told

    def _may(self, record: MemberRecord) -> bool:
        """Return whether the policy here lets the peer ask this one: the path names all of them."""
        way = (QUERY_SEGMENT, record.domain or NONE, record.group or NONE, record.id)
        path = (*way, *self._request.path)
        return self._parts.access.lets(self._peer, self._request.method, path)

    def _give_up(self) -> None:
        self._core.give_up()
        self._finish()

    def _finish(self) -> None:
        tell = self._tell
        self.goes_on = False
        self.end()
        if tell is not None:
            tell(self._response(self._core.results()), True)

    def _response(self, results: Sequence[TargetResponse]) -> CoapResponse:
        body = encode(results, self._request.path, self._form)
        form = (option_numbers.CONTENT_FORMAT, encode_uint(self._form))
        return CoapResponse(codes.CONTENT, (form, (option_numbers.MAX_AGE, b"")), body)

"""``/q/<domain>/<group>/<node>/<path...>``: a resource of any gateway, from any gateway (A6).

What belongs to this gateway is executed at once and never waits on others (A5); what belongs to
another one travels over the tree, and its answer is kept here as long as it says it is fresh
(`docs/queries.md`). The policy of this gateway has decided before (`access`), and that of the other
one decides again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.uint import encode_uint
from gateway.coap.access import Introduction
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from gateway.coap.remote.exchange import Executor
from gateway.coap.remote.forms import (
    NotForOthersError,
    coap_response,
    diagnostic_of,
    no_answer,
)
from gateway.coap.remote.gathering import GrowingAnswer, gather
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.remote.paths import RemoteRequest, read
from gateway.coap.remote.remote_observations import RemoteObservations
from gateway.coap.remote.reply import OnReply, RemoteReply
from gateway.coap.remote.validation import ValidatedAsking
from gateway.coap.responders import AskForBody, PendingResponse, RespondTo
from light_dataclasses import dataclass
from tree_handler.members.hierarchy import MemberRecord
from tree_handler.remote.cache import AnswerCache, CacheKey, key_of
from tree_handler.remote.options import LOCATION_PATH, hops_left, value_of
from tree_handler.remote.query import TooManyError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.watches import WatchKey

HITS_MAX: Final = 1_024
"""Responses from the cache that are kept as they are sent, for the next who asks the same."""

_HitKey = tuple[int, Introduction, tuple[Option, ...]]


@dataclass(frozen=True, slots=True)
class _Hit:
    """A response, and until when it is right, by the event loop's clock."""

    response: CoapResponse
    until: float


class RemoteAnswers:
    """Answers requests to resources of other gateways; an `ImmediateResponder`.

    Args:
        parts: see `RemoteParts`.

    """

    def __init__(self, parts: RemoteParts) -> None:
        self.segments = frozenset((QUERY_SEGMENT.encode(),))
        self._parts = parts
        self.cache = AnswerCache(parts.limits)
        self.asking = ValidatedAsking(parts, self.cache)
        self.watching = RemoteObservations(parts, self._observed)
        self._hits: dict[_HitKey, _Hit] = {}
        parts.access.tell_of_changes(self.forget)

    def answer(
        self, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | PendingResponse | None:
        """Answer from what is kept, or return the question to the gateways that are named."""
        introduction = self._parts.access.introduction(peer)
        if not request.observe and not request.payload:
            hit = self._hits.get((request.code, introduction, request.options))
            if hit is not None and now < hit.until:
                self.cache.counters.hits += 1
                return hit.response
        try:
            asked = read(request, introduction, self._parts.members)
            return self._answered(asked, request, peer, now)
        except NotForOthersError as refused:
            return refused.response

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Return whether more answers follow the first one, which the exchange is told."""
        return self.watching.observe(exchange, request, respond)

    def ended(self, exchange: int) -> None:
        """End the observation of an exchange, if it has one."""
        self.watching.ended(exchange)

    def stop(self) -> None:
        """Ask nothing any more."""
        self.watching.stop()

    def forget(self) -> None:
        """Keep no answers: the policy may let others read now."""
        self._hits.clear()
        self.cache.clear()

    def changed(self, target: str, path: tuple[str, ...]) -> None:
        """Somebody wrote to a resource."""
        self._hits.clear()
        self.cache.changed(target, path, asyncio.get_running_loop().time())

    def _answered(
        self, asked: RemoteRequest, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | PendingResponse:
        if asked.is_many:
            growing = GrowingAnswer(self.watching, request) if request.observe else None
            return gather(self._parts, asked, peer, self._ask_one, growing)
        record = asked.records[0]
        if record.id == self._parts.gateway_id:
            if request.observe:
                return self.watching.watcher(asked, request, None)
            return _Own(self._parts.executor, asked)
        key = key_of(record.id, record.epoch, asked.request)
        if request.observe and key is not None:
            watched = WatchKey(record.id, key.request)
            can_go_on = hops_left(asked.request.options) != 0  # to be renewed is to be passed on
            if can_go_on and self.watching.core.has_room(watched):
                return self.watching.watcher(asked, request, watched)
        found = None if key is None else self.cache.find(key, now)
        if found is None:
            return _Single(self, self._parts, asked, key, peer)
        told, until = found.told(now)
        response = coap_response(told)
        if not request.payload:
            if len(self._hits) >= HITS_MAX:
                self._hits.clear()
            introduction = self._parts.access.introduction(peer)
            self._hits[request.code, introduction, request.options] = _Hit(response, until)
        return response

    def _ask_one(
        self,
        record: MemberRecord,
        request: ResourceRequest,
        peer: CoapPeer,
        told: OnReply,
    ) -> Callable[[], None]:
        """Ask one of many; see `gateway.coap.remote.gathering.AskOne`."""
        loop = asyncio.get_running_loop()
        if record.id == self._parts.gateway_id:
            return self._parts.executor.begin(
                request, "", lambda response, _goes_on: _soon(loop, told, response)
            )
        key, now = key_of(record.id, record.epoch, request), loop.time()
        found = None if key is None else self.cache.find(key, now)
        if found is not None:
            handle = loop.call_soon(told, RemoteReply(found.told(now)[0]))
            return handle.cancel

        try:
            return self.asking.begin(record, request, key, peer.host, told)
        except TooManyError as full:
            refused = diagnostic_of(codes.SERVICE_UNAVAILABLE, str(full))
            return loop.call_soon(told, RemoteReply(refused)).cancel

    def _observed(self, watched: WatchKey, response: ResourceResponse) -> None:
        """A resource is another one now: what is kept of it, too."""
        record = self._parts.members.get(watched.target)
        if record is not None and response.code != codes.HOP_LIMIT_REACHED:
            key = CacheKey(watched.target, record.epoch, watched.request)
            if key in self.cache:
                self._hits.clear()
                self.cache.take(key, response, asyncio.get_running_loop().time())


class _Own:
    """A request to this gateway's own resource, by its long name."""

    def __init__(self, executor: Executor, asked: RemoteRequest) -> None:
        self._executor = executor
        self._asked = asked

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Execute the request here; `done` takes the response in a later turn."""
        loop = asyncio.get_running_loop()

        def tell(response: ResourceResponse, _goes_on: bool) -> None:
            loop.call_soon(done, coap_response(located(response, self._asked)))

        return self._executor.begin(self._asked.request, "", tell)


class _Single:
    """A request to one other gateway."""

    def __init__(
        self,
        answers: RemoteAnswers,
        parts: RemoteParts,
        asked: RemoteRequest,
        key: CacheKey | None,
        peer: CoapPeer,
    ) -> None:
        self._answers = answers
        self._parts = parts
        self._asked = asked
        self._key = key
        self._peer = peer

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Ask the gateway; `done` takes its response, or a refusal if too many requests wait."""
        asked = self._asked

        def told(reply: RemoteReply) -> None:
            done(self._told(reply.response))

        try:
            return self._answers.asking.begin(
                asked.records[0], asked.request, self._key, self._peer.host, told
            )
        except TooManyError as full:
            asyncio.get_running_loop().call_soon(done, too_many(full))
            return _nothing

    def _told(self, response: ResourceResponse | None) -> CoapResponse:
        record, request = self._asked.records[0], self._asked.request
        if response is None:
            return no_answer(record.id, self._parts.deadline_s, writes=request.writes)
        if self._key is None and response.is_success:
            self._answers.changed(record.id, request.path)
        return coap_response(located(response, self._asked))


def located(response: ResourceResponse, asked: RemoteRequest) -> ResourceResponse:
    """Return a response whose location leads to the gateway that has it, from here too."""
    if value_of(response.options, LOCATION_PATH) is None:
        return response
    way = tuple((LOCATION_PATH, one.encode()) for one in (QUERY_SEGMENT, *asked.place))
    before = [one for one in response.options if one[0] < LOCATION_PATH]
    after = [one for one in response.options if one[0] >= LOCATION_PATH]
    return replace(response, options=(*before, *way, *after))


def too_many(full: TooManyError) -> CoapResponse:
    """Return what an asker is told for whom no more can be asked now.

    When to try again is Max-Age.
    """
    max_age = (option_numbers.MAX_AGE, encode_uint(max(1, math.ceil(full.retry_after_s))))
    return CoapResponse(codes.SERVICE_UNAVAILABLE, (max_age,), str(full).encode())


def _soon(
    loop: asyncio.AbstractEventLoop,
    told: OnReply,
    response: ResourceResponse,
) -> None:
    loop.call_soon(told, RemoteReply(response))


def _nothing() -> None:
    """There is nothing to end."""

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
from dataclasses import dataclass, replace
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.uint import encode_uint
from gateway.coap.access import CoapAccess, Introduction
from gateway.coap.at_hand import Ask, Later, Respond
from gateway.coap.execution import QUERY_SEGMENT
from gateway.coap.remote_exchange import Executor, RemoteExchange
from gateway.coap.remote_forms import NotForOthersError, coap_response
from gateway.coap.remote_paths import RemoteAsked, leads_elsewhere, read
from tree_handler.hierarchy import Membership
from tree_handler.remote_cache import AnswerCache, CacheKey, key_of
from tree_handler.remote_options import ETAG, LOCATION_PATH, value_of
from tree_handler.remote_query import TooManyError
from tree_handler.remote_resource import ResourceRequest, ResourceResponse

DEADLINE_S: Final = 5.0
HITS_MAX: Final = 1_024
"""Responses from the cache that are kept as they are sent, for the next who asks the same."""

_HitKey = tuple[int, Introduction, tuple[Option, ...]]


@dataclass(frozen=True, slots=True)
class _Hit:
    """A response, and until when it is right, by the event loop's clock."""

    response: CoapResponse
    until: float


@dataclass(frozen=True, slots=True)
class RemoteParts:
    """What remote requests are served with.

    Attributes:
        gateway_id: this gateway; its own record must be in ``members``.
        members: who there is.
        executor: executes a request on this gateway's own resources.
        exchange: asks other gateways.
        access: says who asks.
        deadline_s: how long to wait for another gateway.

    """

    gateway_id: str
    members: Membership
    executor: Executor
    exchange: RemoteExchange
    access: CoapAccess
    deadline_s: float = DEADLINE_S


class RemoteAnswers:
    """Answers requests to resources of other gateways; see `gateway.coap.at_hand.AtHand`.

    Args:
        parts: see `RemoteParts`.
        cache: keeps answers.

    """

    def __init__(self, parts: RemoteParts, cache: AnswerCache | None = None) -> None:
        self._parts = parts
        self.cache = AnswerCache() if cache is None else cache
        self._hits: dict[_HitKey, _Hit] = {}
        parts.access.tell_of_changes(self.forget)

    def answer(
        self, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | Later | None:
        """See `gateway.coap.at_hand.AtHand`."""
        if not leads_elsewhere(request):
            return None
        introduction = self._parts.access.introduction(peer)
        hit_key = (request.code, introduction, request.options)
        if not request.observe:
            hit = self._hits.get(hit_key)
            if hit is not None and now < hit.until:
                self.cache.counters.hits += 1
                return hit.response
        try:
            asked = read(request, introduction, self._parts.members)
        except NotForOthersError as refused:
            return refused.response
        if asked.is_many:
            return CoapResponse(codes.BAD_REQUEST, (), b"several gateways")
        if asked.records[0].id == self._parts.gateway_id:
            return _Own(self._parts.executor, asked)
        return self._of_another(asked, peer, now, hit_key)

    def observe(self, exchange: int, request: CoapRequest, respond: Respond) -> bool:
        """See `gateway.coap.at_hand.AtHand`."""
        return False

    def ended(self, exchange: int) -> None:
        """See `gateway.coap.at_hand.AtHand`."""

    def forget(self) -> None:
        """Who may read what may be another matter now: keep nothing."""
        self._hits.clear()
        self.cache.clear()

    def changed(self, target: str, path: tuple[str, ...]) -> None:
        """Somebody wrote to a resource."""
        self._hits.clear()
        self.cache.changed(target, path)

    def _of_another(
        self, asked: RemoteAsked, peer: CoapPeer, now: float, hit_key: _HitKey
    ) -> CoapResponse | Later:
        record = asked.records[0]
        key = key_of(record.id, record.epoch, asked.request)
        if key is not None:
            found = self.cache.find(key, now)
            if found is not None:
                told, until = found.told(now)
                response = coap_response(_known(told, asked.request))
                if len(self._hits) >= HITS_MAX:
                    self._hits.clear()
                self._hits[hit_key] = _Hit(response, until)
                return response
        return _Single(self, self._parts, asked, key, peer)


class _Own:
    """A request to this gateway's own resource, by its long name."""

    def __init__(self, executor: Executor, asked: RemoteAsked) -> None:
        self._executor = executor
        self._asked = asked

    def begin(self, done: Callable[[CoapResponse], None], ask: Ask) -> Callable[[], None]:
        """See `gateway.coap.at_hand.Later`."""
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
        asked: RemoteAsked,
        key: CacheKey | None,
        peer: CoapPeer,
    ) -> None:
        self._answers = answers
        self._parts = parts
        self._asked = asked
        self._key = key
        self._peer = peer

    def begin(self, done: Callable[[CoapResponse], None], ask: Ask) -> Callable[[], None]:
        """See `gateway.coap.at_hand.Later`."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        record = self._asked.records[0]

        def told(response: ResourceResponse | None, _goes_on: bool) -> None:
            done(self._told(response, asked_s))

        try:
            return self._parts.exchange.begin(
                (record.id, record.epoch),
                self._validating(),
                self._parts.deadline_s,
                told,
                peer=self._peer.host,
            )
        except TooManyError as full:
            loop.call_soon(done, too_many(full))
            return _nothing

    def _validating(self) -> ResourceRequest:
        """The request; with the ETag of what is kept, unless the client knows others."""
        request = self._asked.request
        if self._key is None or value_of(request.options, ETAG) is not None:
            return request
        validator = self._answers.cache.validator(self._key)
        return replace(request, options=(*validator, *request.options)) if validator else request

    def _told(self, response: ResourceResponse | None, asked_s: float) -> CoapResponse:
        record, request = self._asked.records[0], self._asked.request
        if response is None:
            return no_answer(record.id, self._parts.deadline_s)
        if self._key is not None:
            response = _known(self._answers.cache.take(self._key, response, asked_s), request)
        elif response.is_success:
            self._answers.changed(record.id, request.path)
        return coap_response(located(response, self._asked))


def _known(response: ResourceResponse, request: ResourceRequest) -> ResourceResponse:
    """A response without its body, if the client has that (RFC 7252, section 5.10.6.2)."""
    etag = value_of(response.options, ETAG)
    if response.code != codes.CONTENT or etag is None or (ETAG, etag) not in request.options:
        return response
    return ResourceResponse(codes.VALID, b"", None, response.options)


def located(response: ResourceResponse, asked: RemoteAsked) -> ResourceResponse:
    """A response whose location leads to the gateway that has it, from here too."""
    if value_of(response.options, LOCATION_PATH) is None:
        return response
    way = tuple((LOCATION_PATH, one.encode()) for one in (QUERY_SEGMENT, *asked.place))
    before = [one for one in response.options if one[0] < LOCATION_PATH]
    after = [one for one in response.options if one[0] >= LOCATION_PATH]
    return replace(response, options=(*before, *way, *after))


def no_answer(gateway_id: str, deadline_s: float) -> CoapResponse:
    """What an asker is told whom another gateway did not answer."""
    why = f"{gateway_id} did not answer within {deadline_s:g} s"
    return CoapResponse(codes.GATEWAY_TIMEOUT, (), why.encode())


def too_many(full: TooManyError) -> CoapResponse:
    """What an asker is told for whom no more can be asked now; when to try again is Max-Age."""
    max_age = (option_numbers.MAX_AGE, encode_uint(max(1, math.ceil(full.retry_after_s))))
    return CoapResponse(codes.SERVICE_UNAVAILABLE, (max_age,), str(full).encode())


def _nothing() -> None:
    """There is nothing to end."""

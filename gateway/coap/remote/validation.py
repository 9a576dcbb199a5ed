"""Asks one gateway by the ETag of the answer that is kept, and whole if that is gone meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import replace

from coap_engine import codes
from gateway.coap.remote.forms import diagnostic_of, hops_spent, relayed
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.remote.reply import OnReply, RemoteReply
from tree_handler.members.hierarchy import MemberRecord
from tree_handler.remote.cache import AnswerCache, CacheKey
from tree_handler.remote.options import ETAG, NO_OPTIONS, RemoteOption, hops_left, value_of
from tree_handler.remote.query import TooManyError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse


class ValidatedAsking:
    """Asks gateways, and has the cache take what they answer.

    Args:
        parts: what requests are served with.
        cache: keeps answers.

    """

    def __init__(self, parts: RemoteParts, cache: AnswerCache) -> None:
        self._parts = parts
        self._cache = cache

    def begin(
        self,
        record: MemberRecord,
        request: ResourceRequest,
        key: CacheKey | None,
        peer: Hashable,
        told: OnReply,
    ) -> Callable[[], None]:
        """Ask one gateway.

        Args:
            record: of it.
            request: the client's; with ETags of its own nothing that is kept is validated.
            key: of what is kept of the answer; None if nothing is.
            peer: whose share it takes.
            told: takes the answer.

        Returns:
            What ends it: nothing is told after that.

        Raises:
            TooManyError: too many wait already.

        """
        if hops_left(request.options) == 0:
            spent = hops_spent(self._parts.gateway_id)
            return asyncio.get_running_loop().call_soon(told, RemoteReply(spent)).cancel
        validator = NO_OPTIONS
        if key is not None and value_of(request.options, ETAG) is None:
            validator = self._cache.validator(key)
        asking = _Asking(self._parts, self._cache, (record, request, key, peer), told)
        asking.ask(validator)
        return asking.end


class _Asking:
    """One request, which is asked again whole where it has to be."""

    def __init__(
        self,
        parts: RemoteParts,
        cache: AnswerCache,
        asked: tuple[MemberRecord, ResourceRequest, CacheKey | None, Hashable],
        told: OnReply,
    ) -> None:
        self._parts = parts
        self._cache = cache
        self._record, self._request, self._key, self._peer = asked
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + parts.deadline_s
        self._end: Callable[[], None] | None = None

    def ask(self, validator: tuple[RemoteOption, ...]) -> None:
        """Ask for what is not of that ETag."""
        request, asked_s = self._request, self._loop.time()
        if validator:
            request = replace(request, options=(*validator, *request.options))

        def took(reply: RemoteReply) -> None:
            self._took(reply.response, asked_s, is_validated=bool(validator))

        self._end = self._parts.exchange.begin(
            self._parts.life_of(self._record.id),
            request,
            self._until - asked_s,
            took,
            peer=self._peer,
        )

    def end(self) -> None:
        """Nobody waits for it any more."""
        if self._end is not None:
            self._end()

    def _took(
        self, response: ResourceResponse | None, asked_s: float, *, is_validated: bool
    ) -> None:
        if response is not None and self._key is not None:
            response = self._cache.take(self._key, response, asked_s)
            if response.code == codes.VALID and is_validated:
                response = self._again()
                if response is None:
                    return
        if response is not None:
            response = relayed(response, self._parts.gateway_id)
        self._told(RemoteReply(response))

    def _again(self) -> ResourceResponse | None:
        """Ask for the whole, which the cache has no more: what is told if that can't be."""
        if self._loop.time() >= self._until:
            return diagnostic_of(codes.GATEWAY_TIMEOUT, "no time was left to ask for the whole")
        try:
            self.ask(NO_OPTIONS)
        except TooManyError as full:
            return diagnostic_of(codes.SERVICE_UNAVAILABLE, str(full))
        return None

"""Answers of other gateways, kept as long as they say that they are fresh (RFC 7252, section 5.6).

Sans-I/O. A key is all that an answer may depend on: the gateway and its life, the request with its
method, path, query, formats and body, and on whose behalf it was asked, roles included. So nobody
is told what another one may read. What says no Max-Age is not kept: it was not made to be. What is
no longer fresh and has an ETag is validated with its owner.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from light_dataclasses import dataclass
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.options import (
    ETAG,
    HOP_LIMIT,
    NO_OPTIONS,
    RemoteOption,
    max_age_s,
    value_of,
    with_max_age,
)
from tree_handler.remote.resource import SAFE_METHODS, ResourceRequest, ResourceResponse

OVERHEAD_BYTES: Final = 512
"""The size of an entry beside its body, about."""
CONTENT: Final = 0x45
VALID: Final = 0x43


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The key of a cached answer.

    Attributes:
        target: id of the gateway.
        epoch: its life.
        request: without ETags and Hop-Limit.

    """

    target: str
    epoch: int
    request: ResourceRequest


@dataclass(slots=True)
class CacheCounters:
    """Counts of look-ups in the cache."""

    hits: int = 0
    misses: int = 0
    validated: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """One answer.

    Attributes:
        response: as it came.
        since_s: when it was asked for: it can't be older.
        fresh_until_s: until when it is to be told.

    """

    response: ResourceResponse
    since_s: float
    fresh_until_s: float

    @property
    def etag(self) -> bytes | None:
        """Return the ETag that the answer is validated by; None if it can't be."""
        return value_of(self.response.options, ETAG)

    def told(self, now: float) -> tuple[ResourceResponse, float]:
        """Return the response with what is left of its Max-Age now, and until when it holds.

        Args:
            now: in seconds, before it is no longer fresh.

        """
        age_s = math.floor(max(0.0, now - self.since_s))
        left_s = max(0, math.ceil(self.fresh_until_s - self.since_s) - age_s)
        options = with_max_age(self.response.options, left_s)
        until = min(self.since_s + age_s + 1, self.fresh_until_s)
        return replace(self.response, options=options), until


def key_of(target: str, epoch: int, request: ResourceRequest) -> CacheKey | None:
    """Return what an answer to a request is kept under; None if none is."""
    if request.method not in SAFE_METHODS:
        return None
    further = tuple(one for one in request.options if one[0] not in (ETAG, HOP_LIMIT))
    if further:  # If-Match and its like are for those that write
        return None
    return CacheKey(target, epoch, replace(request, options=NO_OPTIONS))


class AnswerCache:
    """All answers that are kept; who was not asked for longest goes first.

    Args:
        limits: see there.

    """

    def __init__(self, limits: QueryLimits = DEFAULT_LIMITS) -> None:
        self.counters = CacheCounters()
        self._max_entries = limits.cached
        self._max_bytes = limits.cached_bytes
        self._bytes = 0
        self._kept: dict[CacheKey, CachedAnswer] = {}
        self._changed_s: dict[str, float] = {}
        self._of_path: dict[tuple[str, tuple[str, ...]], set[CacheKey]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._kept)

    def __contains__(self, key: CacheKey) -> bool:
        """Return whether an answer is kept, fresh or not."""
        return key in self._kept

    @property
    def held_bytes(self) -> int:
        """Return how much they take, about."""
        return self._bytes

    def find(self, key: CacheKey, now: float) -> CachedAnswer | None:
        """Return a fresh answer; None if there is none."""
        kept = self._kept.get(key)
        if kept is None or now >= kept.fresh_until_s:
            self.counters.misses += 1
            return None
        self.counters.hits += 1
        self._kept[key] = self._kept.pop(key)
        return kept

    def validator(self, key: CacheKey) -> tuple[RemoteOption, ...]:
        """Return the ETag by which an answer that is no longer fresh is validated; none if it can't
        be."""
        kept = self._kept.get(key)
        if kept is None or (etag := kept.etag) is None:
            return NO_OPTIONS
        return ((ETAG, etag),)

    def take(self, key: CacheKey, response: ResourceResponse, asked_s: float) -> ResourceResponse:
        """Take an answer that came: what is to be told of it.

        Args:
            key: of what was asked.
            response: what came; a 2.03 makes the answer that is kept fresh again, if it is of it.
            asked_s: when it was asked for.

        """
        if response.code == VALID:
            kept = self._kept.get(key)
            if kept is None or kept.etag != value_of(response.options, ETAG):
                return response
            self.counters.validated += 1
            response = replace(kept.response, options=response.options)
        self._drop(key)
        age_s = max_age_s(response.options)
        if response.code != CONTENT or age_s is None:
            return response
        if asked_s <= self._changed_s.get(key.target, -math.inf):
            return response
        taken = len(response.payload) + len(key.request.payload) + OVERHEAD_BYTES
        if taken > self._max_bytes // 4:
            return response
        while len(self._kept) >= self._max_entries or self._bytes + taken > self._max_bytes:
            self._drop(next(iter(self._kept)))
            self.counters.evicted += 1
        self._kept[key] = CachedAnswer(response, asked_s, asked_s + age_s)
        self._bytes += taken
        self._of_path.setdefault((key.target, key.request.path), set()).add(key)
        return response

    def changed(self, target: str, path: tuple[str, ...], now: float) -> None:
        """A resource may be another one now: somebody wrote to it (RFC 7252, section 5.6).

        What was asked of that gateway before is not kept either, though it comes later.
        """
        self._changed_s[target] = now
        for key in list(self._of_path.get((target, path), ())):
            self._drop(key)

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()
        self._of_path.clear()
        self._bytes = 0

    def _drop(self, key: CacheKey) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self._bytes -= len(kept.response.payload) + len(key.request.payload) + OVERHEAD_BYTES
        place = (key.target, key.request.path)
        of_path = self._of_path[place]
        of_path.discard(key)
        if not of_path:
            del self._of_path[place]

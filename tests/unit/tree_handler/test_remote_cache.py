"""Answers of other gateways that are kept: as long as they say, and for nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.remote.cache import AnswerCache, CacheKey, key_of
from tree_handler.remote.limits import QueryLimits
from tree_handler.remote.options import ETAG, HOP_LIMIT, IF_MATCH, MAX_AGE, max_age_s
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

LOAD = ResourceRequest("GET", ("sensors", "load"), identity="psk:a", roles=("reader",))
KEY = CacheKey("gw-b", 1, LOAD)


def answer(body: bytes, max_age: int | None = 10, etag: bytes = b"") -> ResourceResponse:
    options = [] if not etag else [(ETAG, etag)]
    if max_age is not None:
        options.append((MAX_AGE, bytes([max_age]) if max_age else b""))
    return ResourceResponse(0x45, body, 0, tuple(options))


def told(cache: AnswerCache, now: float, key: CacheKey = KEY) -> tuple[bytes, int | None] | None:
    found = cache.find(key, now)
    if found is None:
        return None
    response, until = found.told(now)
    assert now < until <= found.fresh_until_s
    return response.payload, max_age_s(response.options)


def test_an_answer_is_told_with_what_is_left_of_its_age_and_then_no_more() -> None:
    cache = AnswerCache()
    cache.take(KEY, answer(b"1"), 100.0)
    assert [told(cache, 100.0 + age_s) for age_s in (0.0, 0.9, 1.0, 9.9, 10.0)] == [
        (b"1", 10),
        (b"1", 10),
        (b"1", 9),
        (b"1", 1),
        None,
    ]


def test_it_is_as_old_as_its_request() -> None:
    cache = AnswerCache()
    cache.take(KEY, answer(b"1", 3), 100.0)  # it came at 102
    assert told(cache, 102.0) == (b"1", 1)
    assert told(cache, 103.0) is None


@pytest.mark.parametrize(
    "other",
    [
        CacheKey("gw-c", 1, LOAD),
        CacheKey("gw-b", 2, LOAD),
        *(
            CacheKey("gw-b", 1, replace(LOAD, **changed))
            for changed in (
                {"method": "FETCH"},
                {"path": ("sensors", "load", "1")},
                {"query": ("a",)},
                {"accept": 110},
                {"content_format": 110},
                {"payload": b"x"},
                {"identity": "psk:b"},
                {"identity": None},
                {"roles": ()},
                {"roles": ("admin", "reader")},
            )
        ),
    ],
)
def test_nobody_is_told_what_another_one_asked_for(other: CacheKey) -> None:
    cache = AnswerCache()
    cache.take(KEY, answer(b"1"), 0.0)
    assert told(cache, 1.0, other) is None


@pytest.mark.parametrize(
    "response",
    [answer(b"1", None), ResourceResponse(0x84, b"", None, ((MAX_AGE, b"\x0a"),))],
)
def test_what_says_no_age_and_what_is_an_error_is_not_kept(response: ResourceResponse) -> None:
    cache = AnswerCache()
    assert cache.take(KEY, response, 0.0) is response
    assert len(cache) == 0


def test_what_is_no_longer_fresh_is_validated_by_its_etag() -> None:
    cache = AnswerCache()
    cache.take(KEY, answer(b"long", 2, b"e"), 0.0)
    assert told(cache, 5.0) is None
    assert cache.validator(KEY) == ((ETAG, b"e"),)
    valid = ResourceResponse(0x43, b"", None, ((ETAG, b"e"), (MAX_AGE, b"\x07")))
    assert cache.take(KEY, valid, 5.0).payload == b"long"
    assert told(cache, 6.0) == (b"long", 6)
    other = ResourceResponse(0x43, b"", None, ((ETAG, b"f"),))
    assert cache.take(KEY, other, 6.0) is other


def test_who_writes_to_a_resource_makes_room_for_what_it_is_then() -> None:
    cache = AnswerCache()
    for key in (KEY, replace(KEY, request=replace(LOAD, accept=0))):
        cache.take(key, answer(b"1"), 0.0)
    kept = replace(KEY, target="gw-c")
    cache.take(kept, answer(b"1"), 0.0)
    cache.changed("gw-b", LOAD.path, 1.0)
    assert (told(cache, 1.0), told(cache, 1.0, kept), len(cache)) == (None, (b"1", 9), 1)
    cache.take(KEY, answer(b"1"), 0.9)  # asked before it was written, and came after
    assert told(cache, 1.1) is None
    cache.take(KEY, answer(b"2"), 1.1)
    assert told(cache, 1.2) == (b"2", 10)


def test_only_what_is_read_and_has_no_condition_is_kept() -> None:
    assert key_of("gw-b", 1, replace(LOAD, method="PUT")) is None
    assert key_of("gw-b", 1, replace(LOAD, options=((IF_MATCH, b""),))) is None
    assert key_of("gw-b", 1, replace(LOAD, options=((ETAG, b"x"), (HOP_LIMIT, b"\x05")))) == KEY


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 600), st.booleans()), max_size=60))
def test_entries_and_bytes_are_bounded_and_accounted_for(
    steps: list[tuple[int, int, bool]],
) -> None:
    cache = AnswerCache(QueryLimits(cached=8, cached_bytes=8_000))
    sizes: dict[CacheKey, int] = {}
    for which, size, is_written in steps:
        path = (f"p{which}",)
        if is_written:
            cache.changed("gw-b", path, -1.0)
        else:
            key = replace(KEY, request=replace(LOAD, path=path))
            cache.take(key, answer(bytes(size)), 0.0)
            sizes[key] = size
            assert key in cache
        there = [taken for key, taken in sizes.items() if key in cache]
        assert len(cache) == len(there) <= 8
        assert cache.held_bytes == sum(512 + taken for taken in there) <= 8_000
    for which in range(31):
        cache.changed("gw-b", (f"p{which}",), -1.0)
    assert (len(cache), cache.held_bytes) == (0, 0)


def at(path: str, body: bytes = b"") -> CacheKey:
    return replace(KEY, request=replace(LOAD, path=(path,), payload=body))


def test_what_was_not_asked_for_longest_goes_first_where_there_are_too_many() -> None:
    cache = AnswerCache(QueryLimits(cached=2, cached_bytes=1 << 20))
    for path in ("a", "b"):
        cache.take(at(path), answer(b"1"), 0.0)
    assert told(cache, 1.0, at("a")) == (b"1", 9)
    cache.take(at("c"), answer(b"1"), 1.0)
    assert [at(path) in cache for path in "abc"] == [True, False, True]
    assert (len(cache), cache.counters.evicted, cache.held_bytes) == (2, 1, 2 * (512 + 1))
    cache.take(at("a"), answer(b"22"), 2.0)  # takes its own place
    assert (len(cache), cache.counters.evicted, cache.held_bytes) == (2, 1, 2 * 512 + 3)
    cache.clear()
    assert (len(cache), cache.held_bytes, told(cache, 2.0, at("a"))) == (0, 0, None)


def test_one_answer_takes_a_quarter_of_the_bytes_at_most_and_all_together_take_no_more() -> None:
    cache = AnswerCache(QueryLimits(cached=99, cached_bytes=8_000))
    cache.take(at("a", b"x"), answer(bytes(2_000 - 512 - 1)), 0.0)
    assert at("a", b"x") in cache
    cache.take(at("b", b"x"), answer(bytes(2_000 - 512)), 0.0)
    assert at("b", b"x") not in cache
    for path in "cde":
        cache.take(at(path), answer(bytes(2_000 - 512)), 0.0)
    assert (len(cache), cache.held_bytes, cache.counters.evicted) == (4, 8_000, 0)
    cache.take(at("f"), answer(b""), 0.0)
    assert (len(cache), cache.held_bytes, cache.counters.evicted) == (4, 6_512, 1)
    assert at("a", b"x") not in cache


def test_looks_into_the_cache_are_counted() -> None:
    cache = AnswerCache()
    assert told(cache, 0.0) is None
    cache.take(KEY, answer(b"1", 2, b"e"), 0.0)
    told(cache, 1.0)
    told(cache, 1.5)
    told(cache, 2.0)
    cache.take(KEY, ResourceResponse(0x43, b"", None, ((ETAG, b"e"), (MAX_AGE, b"\x07"))), 2.0)
    counts = cache.counters
    assert (counts.hits, counts.misses, counts.validated, counts.evicted) == (2, 2, 1, 0)

"""Each bound of a request to another gateway at its exact value: that much, and not one more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from tree_handler.errors import ProtocolError
from tree_handler.remote import options
from tree_handler.remote.asking import Lease, Outstanding, QueryAnswer, TooManyError
from tree_handler.remote.limits import QueryLimits
from tree_handler.remote.message import Answer, Cancel, Query, opened, sealed
from tree_handler.remote.request_memory import (
    QueryMark,
    RepeatedError,
    RequestMemory,
    StaleError,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

TWO_BYTES = "ä"
REQUEST = ResourceRequest("GET", ("a",))
QUERY = Query("gw-a", "1-1", 1_000, REQUEST)
CHANGED = 0x44


@pytest.mark.parametrize(
    ("field", "last", "over"),
    [
        ("path", ("a",) * 32, ("a",) * 33),
        ("path", (TWO_BYTES * 127 + "x",), (TWO_BYTES * 128,)),
        ("query", ("",) * 32, ("",) * 33),
        ("query", ("x" * 255,), (TWO_BYTES * 128,)),
        ("content_format", 65_535, 65_536),
        ("content_format", 0, -1),
        ("accept", 65_535, 65_536),
        ("payload", bytes(65_536), bytes(65_537)),
        ("identity", TWO_BYTES * 127 + "x", TWO_BYTES * 128),
        ("roles", ("r",) * 32, ("r",) * 33),
        ("roles", ("r" * 63,), ("r" * 64,)),
        ("options", ((options.IF_MATCH, b"x" * 8),), ((options.IF_MATCH, b"x" * 9),)),
        ("options", ((options.IF_MATCH, b""),) * 32, ((options.IF_MATCH, b""),) * 33),
        ("options", ((options.ETAG, b"x"),), ((options.ETAG, b""),)),
        ("options", ((options.HOP_LIMIT, b"x"),), ((options.HOP_LIMIT, b""),)),
        ("options", ((options.HOP_LIMIT, b"x"),), ((options.HOP_LIMIT, b"x"),) * 2),
        ("options", ((options.REQUEST_ID, b"xx"),), ((options.REQUEST_ID, b"x"),)),
        ("options", ((options.REQUEST_ID, b"x" * 9),), ((options.REQUEST_ID, b"x" * 10),)),
    ],
)
def test_a_field_of_a_request_is_taken_up_to_its_bound(field: str, last: Any, over: Any) -> None:
    taken = replace(REQUEST, **{field: last})
    assert Query.decode(replace(QUERY, request=taken).encode()).request == taken
    with pytest.raises(ProtocolError):
        replace(REQUEST, **{field: over})


@pytest.mark.parametrize(
    ("field", "last", "over"),
    [
        ("payload", bytes(65_536), bytes(65_537)),
        ("content_format", 65_535, 65_536),
        ("code", 0xBF, 0xC0),
        ("code", 0x40, 0x3F),
        ("code", 0x80, 0x7F),
        ("options", ((options.MAX_AGE, b"x" * 4),), ((options.MAX_AGE, b"x" * 5),)),
        ("options", ((options.LOCATION_PATH, b"x" * 255),), ((options.LOCATION_PATH, bytes(256)),)),
        ("options", ((options.LOCATION_QUERY, b""),) * 32, ((options.LOCATION_QUERY, b""),) * 33),
        ("options", ((options.ETAG, b"x" * 8),), ((options.ETAG, b"x"),) * 2),
    ],
)
def test_a_field_of_a_response_is_taken_up_to_its_bound(field: str, last: Any, over: Any) -> None:
    taken = replace(ResourceResponse(CHANGED), **{field: last})
    assert Answer.decode(Answer("gw-b", "1-1", taken).encode()).response == taken
    with pytest.raises(ProtocolError):
        replace(ResourceResponse(CHANGED), **{field: over})


@pytest.mark.parametrize(
    ("last", "over"),
    [
        ({"deadline_ms": 600_000}, {"deadline_ms": 600_001}),
        ({"deadline_ms": 1}, {"deadline_ms": 0}),
        ({"lease_ms": 600_000, "subscription": 1}, {"lease_ms": 600_001, "subscription": 1}),
        ({"lease_ms": 1, "subscription": 1}, {"lease_ms": 0, "subscription": 1}),
        ({"lease_ms": 0, "subscription": 0}, {"lease_ms": 1, "subscription": 0}),
        ({"correlation": "x" * 48}, {"correlation": "x" * 49}),
        ({"again": 2**63 - 1}, {"again": 2**63}),
        ({"challenge": 2**63 - 1}, {"challenge": 2**63}),
        ({"target_epoch": 0}, {"target_epoch": -1}),
    ],
)
def test_a_field_of_a_query_is_read_up_to_its_bound(
    last: dict[str, Any], over: dict[str, Any]
) -> None:
    query = replace(QUERY, **last)
    assert Query.decode(query.encode()) == query
    with pytest.raises(ProtocolError):
        Query.decode(replace(QUERY, **over).encode())


def test_a_correlation_is_as_long_in_an_answer_and_in_a_cancel_as_in_a_query() -> None:
    response = ResourceResponse(CHANGED)
    for kind, made in (
        (Answer, Answer("gw-b", "x" * 48, response)),
        (Cancel, Cancel("a", "x" * 48)),
    ):
        assert kind.decode(made.encode()) == made
        with pytest.raises(ProtocolError, match="correlation"):
            kind.decode(replace(made, correlation="x" * 49).encode())


@pytest.mark.parametrize(
    ("correlation", "is_one"),
    [
        (f"{'9' * 10}-{'9' * 18}", True),
        (f"{'9' * 11}-1", False),
        (f"1-{'9' * 19}", False),
        ("1-", False),
        ("-1", False),
    ],
)
def test_a_correlation_is_two_numbers_of_so_many_digits(correlation: str, is_one: bool) -> None:
    query = replace(QUERY, correlation=correlation)
    if is_one:
        assert query.numbers == (9_999_999_999, 10**18 - 1)
        return
    with pytest.raises(ProtocolError, match="query correlation"):
        assert query.numbers


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"goes_on": 1}, "answer that goes on"),
        ({"number": -1}, "answer number"),
        ({"number": 2**63}, "answer number"),
        ({"challenge": True}, "answer challenge"),
        ({"responder": ""}, "answer responder"),
        ({"correlation": ""}, "answer correlation"),
    ],
)
def test_a_field_of_an_answer_that_there_cannot_be_is_named(
    answer: dict[str, Any], named: str
) -> None:
    fields = {"r": "gw-b", "c": "1-1", "k": CHANGED, "g": 0, "w": False, "h": 0}
    keys = {"goes_on": "w", "number": "g", "challenge": "h", "responder": "r", "correlation": "c"}
    assert Answer.decode(msgpack.packb(fields)) == Answer("gw-b", "1-1", ResourceResponse(CHANGED))
    for name, value in answer.items():
        fields[keys[name]] = value
    with pytest.raises(ProtocolError, match=rf"^{named}: "):
        Answer.decode(msgpack.packb(fields))


def test_all_that_a_query_and_an_answer_say_travels() -> None:
    request = ResourceRequest(
        "PUT",
        ("a", "b"),
        ("c=d",),
        1,
        2,
        b"body",
        "ann",
        ("reader",),
        ((options.IF_MATCH, b"x"),),
    )
    query = Query("gw-a", "3-4", 5, request, "gw-b", 6, 7, 8, 9, 10, 11)
    assert Query.decode(query.encode()) == query
    response = ResourceResponse(CHANGED, b"body", 1, ((options.ETAG, b"x"),))
    answer = Answer("gw-b", "3-4", response, 2, True, 3)
    assert Answer.decode(answer.encode()) == answer


def test_what_earlier_releases_do_not_say_has_its_default() -> None:
    asked = msgpack.packb({"a": "gw-a", "c": "1-1", "d": 1_000, "m": "GET", "p": ["a"], "new": 1})
    assert Query.decode(asked) == QUERY
    said = msgpack.packb({"r": "gw-b", "c": "1-1", "k": CHANGED, "new": 1})
    assert Answer.decode(said) == Answer("gw-b", "1-1", ResourceResponse(CHANGED))


def test_a_message_beside_its_signature_is_two_byte_strings() -> None:
    assert opened("query", sealed(b"body", b"seal")) == (b"body", b"seal")
    bare = QUERY.encode()
    assert opened("query", bare) == (bare, b"")
    for wrong in ({"z": "body", "y": b""}, {"z": b"body"}, {"z": b"body", "y": "seal"}):
        with pytest.raises(ProtocolError, match=r"^sealed query: "):
            opened("query", msgpack.packb(wrong))
    with pytest.raises(ProtocolError, match=r"^query: "):
        opened("query", msgpack.packb([b"body"]))


def test_a_request_and_a_response_are_told_to_people_without_their_bodies() -> None:
    assert str(ResourceRequest("PUT", ("a", "b"), payload=b"12")) == "PUT /a/b (2 bytes)"
    assert str(ResourceRequest("GET", ())) == "GET / (0 bytes)"
    assert str(ResourceResponse(0x84, b"gone")) == "4.04 (4 bytes)"
    assert str(ResourceResponse(0x5F)) == "2.31 (0 bytes)"


@pytest.mark.parametrize(("code", "is_success"), [(0x40, True), (0x5F, True), (0x80, False)])
def test_only_codes_of_class_2_are_success(code: int, is_success: bool) -> None:
    assert ResourceResponse(code).is_success is is_success


def test_the_limits_of_askers_are_exact_and_say_when_to_ask_again() -> None:
    limits = QueryLimits(asked=4, asked_of_peer=2, subscriptions=1)
    waiting = Outstanding(limits)
    for number, peer in enumerate(("ann", "ann", "bob")):
        waiting.check(0.0, 5.0, peer)
        waiting.add(f"1-{number}", "gw-b", 0.0, 5.0 + number, peer)
    with pytest.raises(TooManyError, match="2 remote") as of_one:
        waiting.check(1.0, 5.0, "ann")
    assert of_one.value.retry_after_s == 4.0
    waiting.check(1.0, 5.0, "bob")
    waiting.subscribe("1-9", "gw-b", 1.0, 5.0, Lease(7, 60.0))
    with pytest.raises(TooManyError, match="4 remote"):
        waiting.check(1.0, 5.0)
    first = Answer("gw-b", "1-9", ResourceResponse(CHANGED), 0, True)
    assert waiting.take(first) == QueryAnswer("1-9", first.response, goes_on=True)
    waiting.check(1.0, 5.0)
    waiting.check(1.0, 5.0, lease=Lease(7, 60.0))  # it is renewed
    with pytest.raises(TooManyError, match="1 remote"):
        waiting.check(1.0, 5.0, lease=Lease(8, 60.0))
    assert waiting.forget("1-0") == "gw-b"
    assert waiting.forget("1-0") is None
    waiting.check(1.0, 5.0, "ann")
    assert waiting.forget("1-9") == "gw-b"
    waiting.check(1.0, 5.0, lease=Lease(8, 60.0))


def test_a_deadline_and_a_lease_are_at_most_ten_minutes_and_more_than_nothing() -> None:
    waiting = Outstanding()
    for seconds in (0.001, 600.0):
        waiting.check(0.0, seconds, lease=Lease(1, seconds))
    for wrong in (0.0, -1.0, 600.001, float("nan")):
        with pytest.raises(ProtocolError, match="query deadline, seconds"):
            waiting.check(0.0, wrong)
        with pytest.raises(ProtocolError, match="query lease, seconds"):
            waiting.check(0.0, 5.0, lease=Lease(1, wrong))


MARK = QueryMark("gw-a", 2, 1, 10.0, 9, 5.0)


def test_what_is_meant_for_another_life_or_comes_of_an_earlier_one_is_not_remembered() -> None:
    memory = RequestMemory(9)
    for epoch in (8, 10):
        with pytest.raises(RepeatedError, match=f"another life of this gateway: {epoch}"):
            memory.take(replace(MARK, target_epoch=epoch), 10.0)
    assert len(memory) == 0
    memory.take(MARK, 10.0)
    with pytest.raises(RepeatedError, match="earlier life: 1"):
        memory.take(replace(MARK, epoch=1), 10.0)
    memory.take(replace(MARK, epoch=3), 10.0)  # its numbers begin again
    assert len(memory) == 1


def test_a_number_is_taken_once_and_may_be_overtaken_by_1_023_others() -> None:
    memory = RequestMemory(9)
    memory.take(replace(MARK, number=2_000), 10.0)
    for number in (2_000 - 1_023, 1_999, 2_001, 5_000):
        memory.take(replace(MARK, number=number), 10.0)
        with pytest.raises(RepeatedError, match=f"came before, number: {number}"):
            memory.take(replace(MARK, number=number), 10.0)
    with pytest.raises(RepeatedError, match="came before, number: 3976"):
        memory.take(replace(MARK, number=5_000 - 1_024), 10.0)
    memory.take(replace(MARK, number=5_000 - 1_023), 10.0)


def test_what_was_longer_on_its_way_than_its_deadline_and_two_seconds_is_stale() -> None:
    memory = RequestMemory(9)
    memory.take(MARK, 10.0)  # at once
    memory.take(replace(MARK, number=2), 17.0)
    with pytest.raises(StaleError, match=r"kept back, seconds: 0\.5"):
        memory.take(replace(MARK, number=3), 17.5)
    shown = replace(MARK, number=3, shown_s=10.5)
    assert [shown.is_shown(now) for now in (10.4, 10.5, 17.5, 17.6)] == [False, True, True, False]
    memory.take(shown, 17.5)
    with pytest.raises(StaleError):  # what was asked before that could be kept back
        memory.take(replace(MARK, number=4), 17.5)
    memory.take(replace(MARK, number=4, asked_s=10.1), 24.5)


def test_the_asker_that_was_silent_for_longest_is_forgotten_first_and_has_to_show_itself() -> None:
    memory = RequestMemory(9, 2)
    for name in ("gw-a", "gw-b"):
        memory.take(replace(MARK, asker=name), 10.0)
    memory.take(replace(MARK, number=2), 10.0)
    memory.take(replace(MARK, asker="gw-c"), 10.0)
    assert len(memory) == 2
    with pytest.raises(RepeatedError, match="came before"):
        memory.take(replace(MARK, number=2), 10.0)
    with pytest.raises(StaleError, match="not remembered: 'gw-b'"):
        memory.take(replace(MARK, asker="gw-b", number=2), 10.0)
    memory.take(replace(MARK, asker="gw-b", number=2, shown_s=9.0), 10.0)
    assert len(memory) == 2

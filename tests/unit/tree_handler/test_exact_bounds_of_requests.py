"""Each bound of a request to another gateway at its exact value: that much, and not one more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tree_handler.errors import ProtocolError
from tree_handler.remote import options
from tree_handler.remote.message import Answer, Cancel, Query
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

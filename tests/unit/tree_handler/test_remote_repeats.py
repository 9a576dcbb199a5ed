"""A request that is lost on its way is asked again, executed once and answered alike (row A6)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.held_objects import held_objects
from tree_handler.remote.answered import KEPT_S
from tree_handler.remote.kept import MAX_GIVEN, KeptAnswers
from tree_handler.remote.limits import QueryLimits
from tree_handler.remote.message import Publication, Query
from tree_handler.remote.query import Execute, Lease, QueryAnswer, RemoteQueries, TimedOut
from tree_handler.remote.repeats import Repeats
from tree_handler.remote.request_memory import RepeatedError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.routing.locator import GatewayLocation

GET = ResourceRequest("GET", ("sensors", "valve"))
PUT = ResourceRequest("PUT", ("sensors", "valve"), payload=b"1")
CHANGED = ResourceResponse(0x44)
CONTENT = ResourceResponse(0x45, b"0")
DEADLINE_S = 5.0


class Ways:
    """A locator of gw-a with one way, which leads to gw-b."""

    def __init__(self) -> None:
        self.way: GatewayLocation | None = GatewayLocation(1, 1)

    def __call__(self, gateway_id: str) -> GatewayLocation | None:
        return self.way


def asker(ways: Ways) -> RemoteQueries:
    return RemoteQueries("gw-a", 1, way_to=ways)


def due(a: RemoteQueries, now: float) -> list[Publication]:
    return [one for one in a.handle_timer(now) if isinstance(one, Publication)]


def take(b: RemoteQueries, query: Publication, now: float = 0.0) -> Any:
    [action] = b.receive(query.topic, query.payload, now)
    return action


def test_what_is_not_answered_is_asked_again_in_growing_intervals_until_the_deadline() -> None:
    a, times = asker(Ways()), list[float]()
    correlation, first = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    asked = [Query.decode(first.payload)]
    while (now := a.next_timer()) < math.inf:
        for one in a.handle_timer(now):
            if isinstance(one, Publication):
                times.append(now)
                asked.append(Query.decode(one.payload))
            else:
                assert (one, now) == (TimedOut(correlation), DEADLINE_S)
    assert times == [0.5, 1.5, 3.5]
    assert {one.correlation for one in asked} == {correlation}
    assert [one.again for one in asked] == [0, 1, 2, 3]
    assert [one.asked_ms + one.deadline_ms for one in asked] == [5_000] * 4
    assert (a.counters.asked, a.counters.asked_again) == (1, 3)


def test_what_is_answered_or_forgotten_is_not_asked_again() -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    _, query = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    reply = b.answer(take(b, query), CHANGED, 0.0)
    assert reply is not None
    a.receive(reply.topic, reply.payload, 0.1)
    correlation, _ = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    a.forget(correlation)
    assert a.next_timer() == math.inf
    assert a.moved(0.2) == []


def test_when_the_way_is_another_one_it_is_asked_again_at_once() -> None:
    ways = Ways()
    a = asker(ways)
    a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    assert a.moved(0.1) == []
    ways.way = None
    assert a.moved(0.2) == []
    assert due(a, 1.0) == []  # it would go to all
    ways.way = GatewayLocation(1, 1)  # the same link, behind which it was lost and is again
    [again] = a.moved(1.1)
    assert Query.decode(again.payload).deadline_ms == 3_900
    ways.way = GatewayLocation(2, 1)
    assert len(a.moved(1.2)) == 1


@pytest.mark.parametrize(("request_", "answer"), [(PUT, CHANGED), (GET, CONTENT)])
def test_a_lost_answer_is_given_again_and_the_request_executed_once(
    request_: ResourceRequest, answer: ResourceResponse
) -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    correlation, query = a.ask("gw-b", request_, 0.0, DEADLINE_S, 1)
    execute = take(b, query)
    [again] = due(a, 0.5)
    assert b.receive(again.topic, again.payload, 0.5) == []  # it is under way
    lost = b.answer(execute, answer, 0.6)
    [again] = due(a, 1.5)
    reply = take(b, again, 1.5)
    assert reply == lost
    assert a.receive(reply.topic, reply.payload, 1.6) == [QueryAnswer(correlation, answer)]
    assert (b.counters.executed, b.counters.repeated, b.counters.answered_again) == (1, 1, 1)


def test_the_answer_to_a_write_is_kept_a_minute_and_the_write_is_never_executed_again() -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    _, query = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    reply = b.answer(take(b, query), CHANGED, 0.0)
    b.handle_timer(KEPT_S - 0.1)
    assert take(b, query, KEPT_S - 0.1) == reply
    b.handle_timer(KEPT_S)
    with pytest.raises(RepeatedError):
        b.receive(query.topic, query.payload, KEPT_S)
    assert b.next_timer() == math.inf


def test_the_answer_to_a_read_is_kept_until_its_deadline() -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    _, query = a.ask("gw-b", GET, 0.0, DEADLINE_S, 1)
    b.answer(take(b, query), CONTENT, 1.0)
    b.handle_timer(DEADLINE_S)
    assert b.next_timer() == math.inf


def test_a_write_is_not_asked_again_of_another_life_and_a_read_is() -> None:
    ways = Ways()
    a, b = asker(ways), RemoteQueries("gw-b", 2)
    a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    read, _ = a.ask("gw-b", GET, 0.0, DEADLINE_S, 1)
    ways.way = GatewayLocation(1, 2)
    [again] = a.moved(0.2)
    execute = take(b, again, 0.2)
    assert isinstance(execute, Execute)
    assert (execute.correlation, execute.request) == (read, GET)
    assert len(due(a, 0.7)) == 1


@pytest.mark.parametrize(
    ("request_", "code"), [(PUT, 0xA4), (GET, 0xA3)], ids=["a write", "a read"]
)
def test_another_life_that_is_asked_again_does_not_execute_it_and_says_what_it_knows(
    request_: ResourceRequest, code: int
) -> None:
    a, restarted = asker(Ways()), RemoteQueries("gw-b", 2)
    a.ask("gw-b", request_, 0.0, DEADLINE_S, 1)
    [again] = due(a, 0.5)  # gw-a has not heard yet
    reply = take(restarted, again, 0.5)
    [answered] = a.receive(reply.topic, reply.payload, 0.6)
    assert isinstance(answered, QueryAnswer)
    assert answered.response.code == code
    assert restarted.counters.executed == 0


def test_what_was_refused_is_refused_when_it_comes_again_though_there_is_room_now() -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1, QueryLimits(executed=1))
    _, first = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    execute = take(b, first)
    _, second = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    refusal = take(b, second)
    b.answer(execute, CHANGED, 0.1)
    assert take(b, second, 0.2) == refusal


def test_who_observes_and_missed_the_first_answer_is_given_the_latest() -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    correlation, query = a.ask("gw-b", GET, 0.0, DEADLINE_S, 1, lease=Lease(1, 60.0))
    execute = take(b, query)
    b.answer(execute, CONTENT, 0.1, goes_on=True)
    latest = ResourceResponse(0x45, b"1")
    b.answer(execute, latest, 0.2, goes_on=True)
    [again] = due(a, 0.5)
    reply = take(b, again, 0.5)
    assert a.receive(reply.topic, reply.payload, 0.6) == [
        QueryAnswer(correlation, latest, goes_on=True)
    ]
    assert due(a, 1.5) == []


# -- bounds ----------------------------------------------------------------------------------------


def test_one_answer_is_given_again_a_few_times_only() -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    _, query = a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)
    b.answer(take(b, query), CHANGED, 0.0)
    for _ in range(MAX_GIVEN):
        assert isinstance(take(b, query), Publication)
    with pytest.raises(RepeatedError):
        b.receive(query.topic, query.payload, 0.0)


def test_one_gateway_does_not_crowd_out_what_is_kept_for_others() -> None:
    kept = KeptAnswers(most=10, most_bytes=1_000, most_of_asker=4, most_bytes_of_asker=400)
    other = Publication("to", b"other")
    kept.keep(("gw-b", "1-1"), other, 60.0)
    for number in range(100):
        kept.keep(("gw-a", f"1-{number}"), Publication("to", bytes(150)), 60.0)
    assert kept.give(("gw-b", "1-1")) == other
    assert kept.give(("gw-a", "1-99")) is not None
    assert (len(kept), kept.held_bytes) == (3, 305)
    kept.keep(("gw-a", "1-100"), Publication("to", bytes(401)), 60.0)
    assert ("gw-a", "1-100") not in kept


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gw-a", "gw-b", "gw-c"]),
            st.integers(0, 9),
            st.integers(0, 300),
            st.floats(0.0, 10.0),
        ),
        max_size=60,
    )
)
def test_what_is_kept_stays_within_its_bounds_and_ends(
    steps: list[tuple[str, int, int, float]],
) -> None:
    kept, now = KeptAnswers(6, 800, 3, 500), 0.0
    held = held_objects(kept)
    sizes: dict[tuple[str, str], int] = {}
    for asker_, number, size, after_s in steps:
        now += after_s
        kept.handle_timer(now)
        key = (asker_, f"1-{number}")
        kept.keep(key, Publication("to", bytes(size)), now + 20.0)
        sizes[key] = size
        there = {one: taken for one, taken in sizes.items() if one in kept}
        assert len(kept) == len(there) <= 6
        assert kept.held_bytes == sum(there.values()) <= 800
        for asker_id in {name for name, _ in there}:
            of_one = [taken for (name, _), taken in there.items() if name == asker_id]
            assert len(of_one) <= 3
            assert sum(of_one) <= 500
    kept.handle_timer(now + 21.0)
    assert (len(kept), kept.held_bytes) == (0, 0)
    assert held_objects(kept) <= held + 1  # the time of the last end
    assert kept.next_timer() == math.inf


def test_a_query_that_says_how_often_it_was_sent_survives_its_wire_form() -> None:
    query = Query("gw-a", "1-1", 5_000, PUT, "gw-b", 1, 7)
    for one in (query, dataclasses.replace(query, again=3)):
        assert Query.decode(one.encode()) == one


# -- Hop-Limit -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "on_the_way"), [(1, 1), (2, 5)])
def test_what_came_over_more_gateways_than_its_hop_limit_allows_is_never_executed(
    limit: int, on_the_way: int
) -> None:
    a, b = asker(Ways()), RemoteQueries("gw-b", 1)
    limited = dataclasses.replace(PUT, options=((16, bytes([limit])),))
    correlation, query = a.ask("gw-b", limited, 0.0, DEADLINE_S, 1)
    for over in (on_the_way, 0):  # a copy may come by a shorter way
        [refusal] = b.receive(query.topic, query.payload, 0.0, over)
        assert isinstance(refusal, Publication)
    refused = QueryAnswer(correlation, ResourceResponse(0xA8, b"gw-b"))  # RFC 8768, section 4
    assert a.receive(refusal.topic, refusal.payload, 0.1) == [refused]
    other, within = a.ask("gw-b", limited, 0.2, DEADLINE_S, 1)
    [execute] = b.receive(within.topic, within.payload, 0.2, limit - 1)
    assert isinstance(execute, Execute)
    assert execute.correlation == other


def test_what_has_a_hop_limit_does_not_go_to_all_but_waits_until_the_place_is_known() -> None:
    ways = Ways()
    ways.way = None
    a, b = asker(ways), RemoteQueries("gw-b", 1)
    limited = dataclasses.replace(PUT, options=((16, b"\x02"),))
    assert not a.ask("gw-b", PUT, 0.0, DEADLINE_S, 1)[1].waits  # that goes to all
    correlation, query = a.ask("gw-b", limited, 0.0, DEADLINE_S, 1)
    assert query.waits
    assert due(a, 0.5) == []
    ways.way = GatewayLocation(1, 1)
    sent = [one for one in a.moved(0.6) if Query.decode(one.payload).correlation == correlation]
    execute = take(b, sent[0], 0.6)
    assert (execute.correlation, execute.request) == (correlation, limited)
    ways.way = GatewayLocation(2, 1)
    assert not a.ask("gw-b", limited, 0.7, DEADLINE_S, 1)[1].waits


def query(correlation: str = "1-1", request: ResourceRequest = PUT) -> Query:
    return Query("gw-a", correlation, 5_000, request, "gw-b", 1)


def test_a_request_is_shown_to_be_new_four_times_at_most_and_not_past_its_deadline() -> None:
    repeats = Repeats(Ways())
    repeats.add(query(), 0.0)
    repeats.add(query("1-2"), 0.0)
    for number in range(1, 5):
        [again] = repeats.challenged("1-1", number, 1.0)
        assert (again.challenge, again.deadline_ms, again.asked_ms) == (number, 4_000, 1_000)
    assert repeats.challenged("1-1", 5, 1.0) == []
    assert repeats.challenged("1-2", 5, 4.9995) == []  # not a whole millisecond is left
    assert [one.deadline_ms for one in repeats.challenged("1-2", 5, 4.75)] == [250]
    assert repeats.challenged("1-3", 5, 1.0) == []
    repeats.end("1-1")
    repeats.end("1-1")
    assert repeats.challenged("1-1", 5, 1.0) == []


def test_what_was_shown_to_one_life_is_not_shown_to_the_next() -> None:
    ways = Ways()
    repeats = Repeats(ways)
    repeats.add(query(request=GET), 0.0)
    repeats.challenged("1-1", 7, 0.1)
    [again] = repeats.handle_timer(0.5)
    assert (again.challenge, again.target_epoch, again.again) == (7, 1, 1)
    ways.way = GatewayLocation(1, 3)
    [again] = repeats.moved(0.6)
    assert (again.challenge, again.target_epoch, again.again) == (0, 3, 2)
    assert repeats.next_timer() == 1.1  # as after the first time
    ways.way = GatewayLocation(1, 2)  # not known better there
    [again] = repeats.moved(0.7)
    assert (again.target_epoch, again.again) == (3, 3)

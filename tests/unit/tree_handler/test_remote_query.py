"""Remote query: messages, correlation, deadlines and limits (row A6)."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.remote.executing import Executions
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.message import Answer, Query
from tree_handler.remote.options import REQUEST_OPTIONS, RESPONSE_OPTIONS, Lengths
from tree_handler.remote.query import (
    Execute,
    Lease,
    Publication,
    QueryAnswer,
    RemoteQueries,
    Stop,
    TimedOut,
    TooManyError,
)
from tree_handler.remote.resource import (
    MAX_PAYLOAD_BYTES,
    METHODS,
    ResourceRequest,
    ResourceResponse,
)

GET = ResourceRequest("GET", ("sensors", "host", "load1"))
CONTENT = ResourceResponse(0x45, b"21.5", 0)
FORMATS = st.none() | st.integers(0, 65_535)
SEGMENTS = st.lists(st.text(max_size=20), max_size=5).map(tuple)
PATHS = st.lists(
    st.text(min_size=1, max_size=20).filter(
        lambda one: one.isprintable() and "/" not in one and one not in (".", "..")
    ),
    max_size=5,
).map(tuple)


def options(lengths: Lengths) -> st.SearchStrategy[tuple[tuple[int, bytes], ...]]:
    """Options of a table, each at most once."""
    rows = [
        st.tuples(st.just(number), st.binary(min_size=low, max_size=min(high, 20)))
        for number, (low, high, _) in sorted(lengths.items())
    ]
    chosen = st.tuples(*(st.none() | row for row in rows))
    return chosen.map(lambda row: tuple(one for one in row if one is not None))


REQUESTS = st.builds(
    ResourceRequest,
    method=st.sampled_from(METHODS),
    path=PATHS,
    query=SEGMENTS,
    content_format=FORMATS,
    accept=FORMATS,
    payload=st.binary(max_size=50),
    identity=st.none() | st.text(min_size=1, max_size=20),
    options=options(REQUEST_OPTIONS),
)
RESPONSES = st.builds(
    ResourceResponse,
    code=st.integers(0x40, 0x5F) | st.integers(0x80, 0xBF),
    payload=st.binary(max_size=50),
    content_format=FORMATS,
    options=options(RESPONSE_OPTIONS),
)


def ask_and_deliver(asker: RemoteQueries, target: RemoteQueries, now: float = 0.0) -> Execute:
    _, publication = asker.ask(target.gateway_id, GET, now, 5.0)
    [execute] = target.receive(publication.topic, publication.payload, now)
    assert isinstance(execute, Execute)
    return execute


# -- messages ------------------------------------------------------------------------------------


@given(REQUESTS, st.integers(1, 600_000))
def test_a_query_survives_its_wire_form(request: ResourceRequest, deadline_ms: int) -> None:
    query = Query("gw-a", "1-1", deadline_ms, request)
    assert Query.decode(query.encode()) == query


@given(RESPONSES)
def test_an_answer_survives_its_wire_form(response: ResourceResponse) -> None:
    answer = Answer("gw-b", "1-1", response)
    assert Answer.decode(answer.encode()) == answer


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    for form in (Query, Answer):
        with contextlib.suppress(ProtocolError):
            form.decode(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**40) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from("acdmpqfxbiotesnul"), VALUES)
def test_any_value_in_a_query_is_taken_or_refused_with_a_protocol_error(
    key: str, value: object
) -> None:
    fields = msgpack.unpackb(Query("gw-a", "1-1", 5_000, GET).encode())
    try:
        query = Query.decode(msgpack.packb(fields | {key: value}))
    except ProtocolError:
        return
    assert Query.decode(query.encode()) == query


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"method": "HEAD"}, "request method"),
        ({"path": ("a" * 256,)}, "request path"),
        ({"path": ("a",) * 33}, "request path"),
        ({"path": ["a"]}, "request path"),
        ({"path": ("a", "..", "b")}, "request path"),
        ({"path": (".",)}, "request path"),
        ({"path": ("a", "")}, "request path"),
        ({"path": ("a/../b",)}, "request path"),
        ({"path": ("a\0",)}, "request path"),
        ({"options": [(1, b"")]}, "request options"),
        ({"options": ((6, b""),)}, "request option"),
        ({"options": ((4, bytes(9)),)}, "request option"),
        ({"options": ((5, b""), (5, b""))}, "request option"),
        ({"options": ((5, b""), (1, b"a"))}, "request option"),
        ({"options": ((True, b""),)}, "request option"),
        ({"path": ("\ud800",)}, "request path"),
        ({"query": (1,)}, "request query"),
        ({"content_format": 65_536}, "request content format"),
        ({"accept": True}, "request accept"),
        ({"payload": "text"}, "request payload"),
        ({"payload": bytes(MAX_PAYLOAD_BYTES + 1)}, "request payload too large"),
        ({"identity": ""}, "request identity"),
        ({"identity": "a" * 256}, "request identity"),
        ({"roles": ("a",) * 33}, "request roles"),
        ({"roles": ["a"]}, "request roles"),
        ({"roles": ("a" * 64,)}, "request role"),
    ],
)
def test_a_wrong_field_of_a_request_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{named}"):
        ResourceRequest(**({"method": "GET", "path": ("a",)} | fields))


@pytest.mark.parametrize("code", [0x00, 0x01, 0x60, 0xC0, 256, -1, None])
def test_a_code_that_is_no_response_is_refused(code: Any) -> None:
    with pytest.raises(ProtocolError, match="response code"):
        ResourceResponse(code)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"payload": "text"}, "response payload"),
        ({"payload": bytes(MAX_PAYLOAD_BYTES + 1)}, "response payload too large"),
        ({"content_format": 65_536}, "response content format"),
        ({"content_format": False}, "response content format"),
        ({"options": ((4, bytes(9)),)}, "response option"),
        ({"options": ((1, b"a"),)}, "response option"),
    ],
)
def test_a_wrong_field_of_a_response_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{named}"):
        ResourceResponse(**({"code": 0x45} | fields))


def test_the_largest_response_that_is_allowed_travels() -> None:
    response = ResourceResponse(0x45, bytes(MAX_PAYLOAD_BYTES), 65_535, ((8, b"l" * 255),) * 32)
    answer = Answer("g" * 63, "1-1", response)
    assert Answer.decode(answer.encode()) == answer


def test_the_largest_request_that_is_allowed_travels() -> None:
    request = ResourceRequest(
        "PUT",
        ("a" * 255,) * 32,
        ("b" * 255,) * 32,
        payload=bytes(MAX_PAYLOAD_BYTES),
        identity="i" * 255,
        roles=("r" * 63,) * 32,
    )
    query = Query("g" * 63, "1-1", 1, request)
    assert Query.decode(query.encode()) == query


def test_all_but_get_and_fetch_are_writes() -> None:
    reads = {method for method in METHODS if not ResourceRequest(method, ()).writes}
    assert reads == {"GET", "FETCH"}


# -- both ends -----------------------------------------------------------------------------------


def test_an_answer_reaches_the_one_who_asked() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    correlation, query = a.ask("gw-b", GET, 10.0, 5.0)
    assert query.topic == "$hedgerow/query/gw-b"
    assert query.topic in b.topics
    [execute] = b.receive(query.topic, query.payload, 100.0)
    assert isinstance(execute, Execute)
    assert (execute.request, execute.reply_topic) == (GET, "$hedgerow/reply/gw-a")
    assert execute.deadline_s == 105.0
    reply = b.answer(execute, CONTENT, 100.0)
    assert a.receive(reply.topic, reply.payload, 10.1) == [QueryAnswer(correlation, CONTENT)]
    b.handle_timer(105.0)
    assert a.next_timer() == b.next_timer() == math.inf
    assert (a.counters.answered, b.counters.executed) == (1, 1)


def test_messages_for_other_gateways_are_passed_over() -> None:
    a, c = RemoteQueries("gw-a", 1), RemoteQueries("gw-c", 1)
    _, query = a.ask("gw-b", GET, 0.0, 5.0)
    assert c.receive(query.topic, query.payload, 0.0) == []
    assert c.receive("$hedgerow/query/gw-c/x", query.payload, 0.0) == []


def test_a_query_without_answer_times_out_and_a_late_answer_is_counted() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    execute = ask_and_deliver(a, b)
    assert a.handle_timer(4.9) == []
    [timed_out] = a.handle_timer(5.0)
    assert timed_out == TimedOut(execute.correlation)
    reply = b.answer(execute, CONTENT, 0.0)
    assert a.receive(reply.topic, reply.payload, 5.1) == []
    assert (a.counters.timed_out, a.counters.late, a.counters.unknown) == (1, 1, 0)


def test_what_is_not_executed_by_the_deadline_is_no_longer_remembered() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    ask_and_deliver(a, b)
    assert b.handle_timer(5.0) == [Stop(("gw-a", "1-1"), is_late=True)]
    assert b.counters.abandoned == 1
    assert b.next_timer() == math.inf


def test_a_correlation_never_comes_again_after_a_restart() -> None:
    first, second = RemoteQueries("gw-a", 1), RemoteQueries("gw-a", 2)
    before = {first.ask("gw-b", GET, 0.0, 5.0)[0] for _ in range(50)}
    after = {second.ask("gw-b", GET, 0.0, 5.0)[0] for _ in range(50)}
    assert len(before) == len(after) == 50
    assert not before & after


@pytest.mark.parametrize("correlation", ["1-2", "2-1", "1-0", "1-", "x", "1-²", "1-999999999999"])
def test_an_answer_that_nobody_asked_for_is_counted(correlation: str) -> None:
    a = RemoteQueries("gw-a", 1)
    a.ask("gw-b", GET, 0.0, 5.0)
    answer = Answer("gw-b", correlation, CONTENT).encode()
    assert a.receive("$hedgerow/reply/gw-a", answer, 0.0) == []
    assert a.counters.unknown == 1


def test_an_answer_from_another_gateway_than_the_target_is_passed_over() -> None:
    a = RemoteQueries("gw-a", 1)
    correlation, _ = a.ask("gw-b", GET, 0.0, 5.0)
    forged = Answer("gw-c", correlation, CONTENT).encode()
    assert a.receive("$hedgerow/reply/gw-a", forged, 0.0) == []
    assert a.counters.foreign == 1
    proper = Answer("gw-b", correlation, CONTENT).encode()
    assert a.receive("$hedgerow/reply/gw-a", proper, 0.0) == [QueryAnswer(correlation, CONTENT)]


def test_beyond_the_limit_a_query_is_refused_with_the_time_to_wait() -> None:
    a = RemoteQueries("gw-a", 1, QueryLimits(asked=2))
    first, _ = a.ask("gw-b", GET, 0.0, 3.0)
    a.ask("gw-b", GET, 1.0, 5.0)
    with pytest.raises(TooManyError, match="2 remote queries") as refused:
        a.ask("gw-b", GET, 1.0, 5.0)
    assert refused.value.retry_after_s == 2.0
    a.forget(first)
    a.ask("gw-b", GET, 1.0, 5.0)


def test_a_target_that_is_too_busy_says_so() -> None:
    a = RemoteQueries("gw-a", 1)
    b = RemoteQueries("gw-b", 1, QueryLimits(executed=1))
    ask_and_deliver(a, b)
    correlation, query = a.ask("gw-b", GET, 0.0, 5.0)
    [refusal] = b.receive(query.topic, query.payload, 0.0)
    assert isinstance(refusal, Publication)
    [answered] = a.receive(refusal.topic, refusal.payload, 0.0)
    assert isinstance(answered, QueryAnswer)
    assert (answered.correlation, answered.response.code) == (correlation, 0xA3)
    assert b.counters.refused == 1


def test_a_copy_of_a_query_is_not_executed_again() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    _, query = a.ask("gw-b", GET, 0.0, 5.0)
    assert len(b.receive(query.topic, query.payload, 0.0)) == 1
    assert b.receive(query.topic, query.payload, 0.1) == []
    assert b.counters.repeated == 1


def test_a_copy_of_a_query_that_was_answered_is_not_executed_again() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    _, query = a.ask("gw-b", GET, 0.0, 5.0)
    [execute] = b.receive(query.topic, query.payload, 0.0)
    b.answer(execute, CONTENT, 0.0)
    b.handle_timer(5.0)
    with pytest.raises(ProtocolError, match="came before"):
        b.receive(query.topic, query.payload, 0.1)
    assert b.counters.replayed == 1


# -- nobody waits any more ------------------------------------------------------------------------


def test_who_forgets_a_query_has_its_target_end_it() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    execute = ask_and_deliver(a, b)
    cancel = a.forget(execute.correlation)
    assert cancel is not None
    assert b.receive(cancel.topic, cancel.payload, 0.1) == [Stop(execute.key)]
    assert b.receive(cancel.topic, cancel.payload, 0.2) == []
    assert b.answer(execute, CONTENT, 0.0) is None
    assert (b.counters.cancelled, b.next_timer()) == (1, math.inf)
    assert a.forget(execute.correlation) is None


def test_one_gateway_cannot_cancel_what_another_one_asked() -> None:
    a, b, c = (RemoteQueries(name, 1) for name in ("gw-a", "gw-b", "gw-c"))
    execute = ask_and_deliver(a, b)
    ask_and_deliver(c, b)
    cancel = c.forget(execute.correlation)  # the same id, in another gateway's name
    assert cancel is not None
    assert b.receive(cancel.topic, cancel.payload, 0.0) == [Stop(("gw-c", "1-1"))]
    assert b.answer(execute, CONTENT, 0.0) is not None


# -- subscriptions ---------------------------------------------------------------------------------


def subscribe(
    a: RemoteQueries, b: RemoteQueries, now: float = 0.0, subscription: int = 1
) -> tuple[Execute, list[Any]]:
    _, query = a.ask("gw-b", GET, now, 5.0, lease=Lease(subscription, 60.0))
    *before, execute = b.receive(query.topic, query.payload, now)
    assert isinstance(execute, Execute)
    return execute, before


def tell(a: RemoteQueries, b: RemoteQueries, execute: Execute, body: bytes) -> list[Any]:
    publication = b.answer(execute, ResourceResponse(0x45, body), 0.0, goes_on=True)
    assert publication is not None
    return a.receive(publication.topic, publication.payload, 1.0)


def test_a_subscription_is_told_of_changes_until_its_lease_is_over() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    execute, _ = subscribe(a, b)
    for body in (b"1", b"2", b"3"):
        told = QueryAnswer(execute.correlation, ResourceResponse(0x45, body), goes_on=True)
        assert tell(a, b, execute, body) == [told]
    assert (a.handle_timer(59.9), b.handle_timer(59.9)) == ([], [])
    assert a.handle_timer(60.0) == [TimedOut(execute.correlation)]
    assert b.handle_timer(60.0) == [Stop(execute.key)]
    assert b.answer(execute, CONTENT, 0.0, goes_on=True) is None
    assert (b.counters.executed, b.counters.notified, b.counters.abandoned) == (1, 2, 0)


def test_an_older_notification_is_passed_over() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    execute, _ = subscribe(a, b)
    tell(a, b, execute, b"1")
    late = b.answer(execute, CONTENT, 0.0, goes_on=True)
    assert late is not None
    assert len(tell(a, b, execute, b"3")) == 1
    assert a.receive(late.topic, late.payload, 1.0) == []
    assert a.receive(late.topic, late.payload, 1.0) == []
    assert a.counters.late == 2


def test_a_renewal_takes_the_place_of_the_query_before_it() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    first, _ = subscribe(a, b)
    tell(a, b, first, b"1")
    second, before = subscribe(a, b, 30.0)
    assert before == [Stop(first.key)]
    assert b.answer(first, CONTENT, 0.0, goes_on=True) is None
    assert len(tell(a, b, second, b"2")) == 1
    assert a.handle_timer(89.0) == []
    assert a.handle_timer(90.0) == [TimedOut(second.correlation)]


def test_the_end_of_a_subscription_is_told_and_leaves_nothing() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1)
    execute, _ = subscribe(a, b)
    tell(a, b, execute, b"1")
    last = b.answer(execute, ResourceResponse(0x84), 0.0)
    assert last is not None
    [answered] = a.receive(last.topic, last.payload, 2.0)
    assert answered == QueryAnswer(execute.correlation, ResourceResponse(0x84))
    b.handle_timer(5.0)
    assert a.next_timer() == b.next_timer() == math.inf


def test_an_asker_that_wants_to_be_told_of_too_much_is_only_answered() -> None:
    a, b = RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1, QueryLimits(told_of_gateway=1))
    tell(a, b, subscribe(a, b)[0], b"1")
    second, _ = subscribe(a, b, subscription=2)
    assert not second.observes
    [answered] = tell(a, b, second, b"1")
    assert not answered.goes_on


@given(
    st.lists(st.tuples(st.sampled_from("asnfct"), st.integers(1, 3), st.booleans()), max_size=40)
)
def test_whatever_is_asked_told_lost_and_forgotten_nothing_stays(
    steps: list[tuple[str, int, bool]],
) -> None:
    limits = QueryLimits(asked=50, executed=50, executed_of_gateway=50, told=50, told_of_gateway=50)
    a, b = RemoteQueries("gw-a", 1, limits), RemoteQueries("gw-b", 1, limits)
    now, executes, asked = 0.0, list[Execute](), list[str]()

    def carry(publication: Publication | None, *, is_lost: bool) -> None:
        if publication is None or is_lost:
            return
        receiver = b if publication.topic in b.topics else a
        for action in receiver.receive(publication.topic, publication.payload, now):
            if isinstance(action, Execute):
                executes.append(action)
            elif isinstance(action, Publication):
                carry(action, is_lost=False)

    for step, number, is_lost in steps:
        now += 0.5
        match step:
            case "a" | "s":
                lease = Lease(number, 60.0) if step == "s" else None
                correlation, query = a.ask("gw-b", GET, now, 5.0, lease=lease)
                asked.append(correlation)
                carry(query, is_lost=is_lost)
            case "n" if executes:
                carry(
                    b.answer(executes[-number % len(executes)], CONTENT, now, goes_on=True),
                    is_lost=is_lost,
                )
            case "f" if executes:
                carry(b.answer(executes[-number % len(executes)], CONTENT, now), is_lost=is_lost)
            case "c" if asked:
                carry(a.forget(asked[-number % len(asked)]), is_lost=is_lost)
            case "t":
                now += 2.0 * number
                a.handle_timer(now)
                b.handle_timer(now)
    for each in (a, b):
        each.handle_timer(now + 61.0)
        assert each.next_timer() == math.inf
    now += 62.0
    executes.clear()
    for number in range(50):  # as many as the limits allow: nothing of before counts any more
        carry(a.ask("gw-b", GET, now, 5.0, lease=Lease(100 + number, 60.0))[1], is_lost=False)
    assert [one.observes for one in executes] == [True] * 50


def test_one_local_asker_leaves_room_for_others() -> None:
    a = RemoteQueries("gw-a", 1)
    for _ in range(DEFAULT_LIMITS.asked_of_peer):
        a.ask("gw-b", GET, 0.0, 5.0, peer="10.0.0.1")
    with pytest.raises(TooManyError) as refused:
        a.ask("gw-b", GET, 1.0, 5.0, peer="10.0.0.1")
    assert refused.value.retry_after_s == 4.0
    a.ask("gw-b", GET, 1.0, 5.0, peer="10.0.0.2")
    a.handle_timer(5.0)
    a.ask("gw-b", GET, 5.0, 5.0, peer="10.0.0.1")


def test_what_is_malformed_is_counted_and_raised() -> None:
    a = RemoteQueries("gw-a", 1)
    for topic in a.topics:
        with pytest.raises(ProtocolError):
            a.receive(topic, b"\xc1", 0.0)
    assert a.counters.malformed == 3


@pytest.mark.parametrize(("target", "deadline_s"), [("GW", 5.0), ("gw-b", 0.0), ("gw-b", 601.0)])
def test_a_wrong_target_or_deadline_leaves_nothing_behind(target: str, deadline_s: float) -> None:
    a = RemoteQueries("gw-a", 1)
    with pytest.raises(ProtocolError):
        a.ask(target, GET, 0.0, deadline_s)
    assert a.next_timer() == math.inf


def test_a_renewal_that_is_overtaken_by_a_later_one_is_answered_alone() -> None:
    b = RemoteQueries("gw-b", 1)

    def asked(correlation: str) -> list[Any]:
        query = Query("gw-a", correlation, 5_000, GET, "gw-b", 1, 0, 1, 60_000)
        return b.receive("$hedgerow/query/gw-b", query.encode(), 0.0)

    [late] = asked("1-10")
    assert late.observes
    [early] = asked("1-9")
    assert not early.observes
    stop, again = asked("2-1")
    assert (stop, again.observes) == (Stop(("gw-a", "1-10")), True)


@pytest.mark.parametrize("order", [("x", "y"), ("1-x", "1-"), ("x-2", "x-1"), ("1", "0")])
def test_who_does_not_sign_may_call_its_queries_as_it_likes(order: tuple[str, str]) -> None:
    executions = Executions()
    first, second = (Query("gw-a", one, 5_000, GET, "", 0, 0, 1, 60_000) for one in order)
    assert [type(one) for one in executions.begin(first, "r", 0.0)] == [Execute]
    stop, execute = executions.begin(second, "r", 0.0)
    assert stop == Stop(("gw-a", order[0]))
    assert isinstance(execute, Execute)
    assert execute.observes  # it takes the place of the one before


def test_so_many_are_executed_at_a_time_for_one_and_for_all() -> None:
    executions = Executions(QueryLimits(executed=3, executed_of_gateway=2))
    for asker, correlation in (("gw-a", "1-1"), ("gw-a", "1-2"), ("gw-b", "1-1")):
        assert not executions.is_full_for(asker)
        executions.begin(Query(asker, correlation, 5_000, GET), "r", 0.0)
    assert executions.is_full_for("gw-c")
    executions.answered(("gw-b", "1-1"), goes_on=False)
    assert [executions.is_full_for(asker) for asker in ("gw-a", "gw-c")] == [True, False]
    executions.handle_timer(5.0)
    assert not executions.is_full_for("gw-a")

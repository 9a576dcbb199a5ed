"""Remote requests that gateways sign: none in another name, none twice, none too late (A8)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.proof import Verdict
from tree_handler.remote.limits import DEFAULT_LIMITS
from tree_handler.remote.message import Query, opened, sealed
from tree_handler.remote.query import Execute, Publication, QueryAnswer, RemoteQueries
from tree_handler.remote.request_memory import (
    DRIFT,
    SLACK_S,
    WINDOW,
    QueryMark,
    RepeatedError,
    RequestMemory,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import RemoteSeals, UnprovenError

PUT = ResourceRequest("PUT", ("valve",), payload=b"1", identity="psk:operator", roles=("operator",))
CHANGED = ResourceResponse(0x44)
DEADLINE_S = 5.0


class Keys:
    """A key for each gateway; whoever has it can make its signatures."""

    def key_of(self, gateway_id: str) -> bytes:
        return b"key of " + gateway_id.encode()

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        made = KeyOf(self.key_of(gateway_id)).sign(message)
        return Verdict.PROVEN if hmac.compare_digest(made, signature) else Verdict.FORGED

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        return True

    def only_receives(self, gateway_id: str) -> bool:
        return gateway_id == "collector"


class KeyOf:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, hashlib.sha256)


def seals(gateway_id: str, tree: str = "campus") -> RemoteSeals:
    keys = Keys()
    return RemoteSeals(KeyOf(keys.key_of(gateway_id)), keys, tree)


def gateway(gateway_id: str, epoch: int = 1, tree: str = "campus") -> RemoteQueries:
    return RemoteQueries(gateway_id, epoch, seals=seals(gateway_id, tree))


def asked(a: RemoteQueries, now: float = 100.0, epoch: int = 1) -> Publication:
    return a.ask("gw-b", PUT, now, DEADLINE_S, epoch)[1]


def take(b: RemoteQueries, query: Publication, now: float = 7.0) -> Execute:
    [execute] = b.receive(query.topic, query.payload, now)
    assert isinstance(execute, Execute)
    return execute


def test_a_signed_query_is_executed_with_its_principal_and_roles_and_its_answer_comes_back() -> (
    None
):
    a, b = gateway("gw-a"), gateway("gw-b")
    execute = take(b, asked(a))
    assert execute.request == PUT
    reply = b.answer(execute, CHANGED, 0.0)
    assert a.receive(reply.topic, reply.payload, 100.2) == [
        QueryAnswer(execute.correlation, CHANGED)
    ]


def test_a_member_can_ask_in_nobody_elses_name() -> None:
    b = gateway("gw-b")
    query = Query("gw-a", "1-1", 5_000, PUT, "gw-b", 1).encode()
    own = KeyOf(Keys().key_of("gw-liar"))
    for payload in (query, sealed(query, own.sign(b"hedgerow query 1\0campus\0" + query))):
        with pytest.raises(UnprovenError, match="gw-a"):
            b.receive("$hedgerow/query/gw-b", payload, 0.0)
    assert (b.counters.unproven, b.counters.executed) == (2, 0)


def test_nothing_of_a_query_can_be_changed_on_its_way() -> None:
    a, b = gateway("gw-a"), gateway("gw-b")
    body, signature = opened("query", asked(a).payload)
    fields = msgpack.unpackb(body)
    for key, value in (("p", ["drain"]), ("m", "DELETE"), ("i", "psk:admin"), ("o", ["admin"])):
        changed = msgpack.packb({**fields, key: value})
        with pytest.raises(UnprovenError):
            b.receive("$hedgerow/query/gw-b", sealed(changed, signature), 0.0)


def test_a_query_of_another_tree_or_for_another_gateway_or_life_is_not_executed() -> None:
    a, b = gateway("gw-a"), gateway("gw-b")
    with pytest.raises(UnprovenError):
        gateway("gw-b", tree="harbour").receive("$hedgerow/query/gw-b", asked(a).payload, 0.0)
    _, for_c = a.ask("gw-c", PUT, 0.0, DEADLINE_S, 1)
    with pytest.raises(RepeatedError, match="another gateway"):
        b.receive("$hedgerow/query/gw-b", for_c.payload, 0.0)
    before = asked(a)
    restarted = gateway("gw-b", epoch=2)
    [answer] = restarted.receive(before.topic, before.payload, 0.0)
    assert isinstance(answer, Publication)
    [answered] = a.receive(answer.topic, answer.payload, 101.0)
    assert isinstance(answered, QueryAnswer)
    assert (answered.response.code, b"ask again" in answered.response.payload) == (0xA3, True)


def test_a_query_that_came_before_is_refused_also_when_it_is_executed_long_since() -> None:
    a, b = gateway("gw-a"), gateway("gw-b")
    query = asked(a)
    b.answer(take(b, query), CHANGED, 0.0)
    [again] = b.receive(query.topic, query.payload, 8.0)
    assert isinstance(again, Publication)
    b.handle_timer(60.0)
    with pytest.raises(RepeatedError, match="came before"):
        b.receive(query.topic, query.payload, 9.0)
    assert (b.counters.executed, b.counters.answered_again, b.counters.replayed) == (1, 1, 1)


def test_a_query_that_was_kept_back_is_refused() -> None:
    a, b = gateway("gw-a"), gateway("gw-b")
    take(b, asked(a, 100.0), 7.0)
    late, late_s = asked(a, 101.0), 8.0 + DEADLINE_S + 2 * SLACK_S
    [refusal] = b.receive(late.topic, late.payload, late_s)
    assert isinstance(refusal, Publication)  # and no `Execute`
    assert a.handle_timer(101.0 + DEADLINE_S)
    assert a.receive(refusal.topic, refusal.payload, 101.0 + late_s) == []  # nobody waits for it
    in_time = asked(a, 200.0)
    take(b, in_time, 107.0 + DEADLINE_S)


def test_no_query_of_a_life_that_is_over_is_executed() -> None:
    first, second, b = gateway("gw-a", 1), gateway("gw-a", 2), gateway("gw-b")
    kept = asked(first)
    take(b, asked(second))
    with pytest.raises(RepeatedError, match="earlier life"):
        b.receive(kept.topic, kept.payload, 7.0)


def test_an_answer_is_that_of_the_gateway_that_was_asked() -> None:
    a, b, liar = gateway("gw-a"), gateway("gw-b"), gateway("gw-liar")
    execute = take(b, asked(a))
    claimed = take(liar, gateway("gw-a").ask("gw-liar", PUT, 100.0, DEADLINE_S, 1)[1])
    answer = liar.answer(claimed, ResourceResponse(0x45, b"off"), 0.0)
    assert answer is not None
    body, signature = opened("answer", answer.payload)
    as_b = msgpack.packb({**msgpack.unpackb(body), "r": "gw-b"})
    for payload in (as_b, sealed(as_b, signature)):
        with pytest.raises(UnprovenError, match="gw-b"):
            a.receive("$hedgerow/reply/gw-a", payload, 100.0)
    assert a.receive("$hedgerow/reply/gw-a", sealed(body, signature), 100.0) == []
    reply = b.answer(execute, CHANGED, 0.0)
    assert a.receive(reply.topic, reply.payload, 100.0) == [
        QueryAnswer(execute.correlation, CHANGED)
    ]


def test_one_gateway_can_not_take_all_that_are_executed_at_a_time() -> None:
    a, c, b = gateway("gw-a"), gateway("gw-c"), gateway("gw-b")
    for _ in range(DEFAULT_LIMITS.executed_of_gateway):
        take(b, asked(a))
    refused = asked(a)
    [answer] = b.receive(refused.topic, refused.payload, 7.0)
    assert isinstance(answer, Publication)
    take(b, asked(c))


def test_gateways_that_do_not_sign_understand_those_that_do() -> None:
    plain = RemoteQueries("gw-b", 1)
    take(plain, asked(gateway("gw-a")))


@given(st.binary(max_size=200), st.binary(max_size=64))
def test_any_bytes_are_refused_with_the_protocols_own_error(body: bytes, signature: bytes) -> None:
    b = gateway("gw-b")
    for topic in b.topics:
        for payload in (body, sealed(body, signature)):
            with pytest.raises(ProtocolError):
                b.receive(topic, payload, 0.0)


@given(st.lists(st.integers(1, 3 * WINDOW), max_size=60))
def test_each_number_is_taken_once_in_whatever_order_they_come(numbers: list[int]) -> None:
    before, taken, highest = RequestMemory(1), set[int](), 0
    for number in numbers:
        one = QueryMark("gw-a", 1, number, 0.0, 1, DEADLINE_S)
        is_new = number not in taken and number > highest - WINDOW
        try:
            before.take(one, 0.0)
        except RepeatedError:
            assert not is_new
        else:
            assert is_new
            taken.add(number)
            highest = max(highest, number)


def test_clocks_that_come_apart_slowly_make_no_query_late() -> None:
    before = RequestMemory(1)
    one = QueryMark("gw-a", 1, 1, 0.0, 1, DEADLINE_S)
    for day in range(400):
        now = day * 86_400.0
        asked_s = now * (1 - DRIFT / 2)
        before.take(replace(one, number=day + 1, asked_s=asked_s), now)
    assert len(before) == 1

"""Gateways whose clock has stood still are understood again; what was kept back is not carried out.

Time is virtual, and each gateway has its own: the clock of one that sleeps stands still.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.remote.admission import CHALLENGES_AT_ONCE
from tree_handler.remote.message import Answer, opened
from tree_handler.remote.query import Execute, Publication, QueryAnswer, RemoteQueries
from tree_handler.remote.repeats import MAX_CHALLENGES
from tree_handler.remote.request_memory import (
    MAX_ASKERS,
    SLACK_S,
    QueryMark,
    RepeatedError,
    RequestMemory,
    StaleError,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import ANSWER, RemoteSeals
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

PUT = ResourceRequest("PUT", ("valve",), payload=b"1", identity="psk:operator", roles=("operator",))
CHANGED = ResourceResponse(0x44)
DEADLINE_S = 5.0
HOUR_S = 3_600.0


def seals(gateway_id: str) -> RemoteSeals:
    return RemoteSeals(ModelSigner(gateway_id), ModelRing(), "campus")


def gateway(gateway_id: str) -> RemoteQueries:
    return RemoteQueries(gateway_id, 1, seals=seals(gateway_id))


@dataclass
class Pair:
    """Two gateways, what time it is, and for how long the asker's clock has stood still."""

    asker: RemoteQueries
    target: RemoteQueries
    now: float = 1_000.0
    slept_s: float = 0.0
    executed: int = 0

    @property
    def asker_now(self) -> float:
        return self.now - self.slept_s

    def sleep(self, duration_s: float) -> None:
        self.now += duration_s
        self.slept_s += duration_s

    def ask(self) -> Publication:
        return self.asker.ask("gw-b", PUT, self.asker_now, DEADLINE_S, 1)[1]

    def arrives(self, query: Publication) -> list[Publication]:
        """At the target, which executes it at once: what it sends back."""
        back = []
        for action in self.target.receive(query.topic, query.payload, self.now):
            if isinstance(action, Execute):
                self.executed += 1
                answer = self.target.answer(action, CHANGED, self.now)
                assert answer is not None
                back.append(answer)
            else:
                assert isinstance(action, Publication)
                back.append(action)
        return back

    def roundtrip(self, query: Publication, way_s: float = 0.01) -> QueryAnswer | None:
        """Carry all that follows from a query between them."""
        under_way = [query]
        while under_way:
            self.now += way_s
            back = [one for query in under_way for one in self.arrives(query)]
            self.now += way_s
            under_way = []
            for answer in back:
                for action in self.asker.receive(answer.topic, answer.payload, self.asker_now):
                    if isinstance(action, QueryAnswer):
                        return action
                    assert isinstance(action, Publication)
                    under_way.append(action)
        return None


def pair(*, signed: bool = True) -> Pair:
    if signed:
        return Pair(gateway("gw-a"), gateway("gw-b"))
    return Pair(RemoteQueries("gw-a", 1), RemoteQueries("gw-b", 1))


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("slept_s", [20.0, HOUR_S, 8 * HOUR_S, 24 * 365 * HOUR_S])
def test_who_has_slept_is_answered_at_its_first_request(slept_s: float, signed: bool) -> None:
    world = pair(signed=signed)
    assert world.roundtrip(world.ask())
    world.sleep(slept_s)
    assert world.roundtrip(world.ask()) is not None
    assert world.target.counters.challenged == 1
    assert world.executed == 2
    for _ in range(3):  # and from then on its clock is known
        assert world.roundtrip(world.ask())
    assert world.target.counters.challenged == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.floats(0.0, 1.0)),
            st.tuples(st.just("sleep"), st.floats(0.0, 30 * HOUR_S)),
            st.tuples(st.just("wait"), st.floats(0.0, 30 * HOUR_S)),
        ),
        max_size=20,
    )
)
def test_whatever_sleeps_between_each_request_is_carried_out_once(
    steps: list[tuple[str, float]],
) -> None:
    world, asked = pair(), 0
    for what, amount in steps:
        if what == "sleep":
            world.sleep(amount)
        elif what == "wait":
            world.now += amount
        else:
            assert world.roundtrip(world.ask(), way_s=amount) is not None
            asked += 1
    assert world.executed == asked


def test_what_was_kept_back_while_its_asker_slept_is_not_carried_out_after_it_is_awake() -> None:
    world = pair()
    assert world.roundtrip(world.ask())
    kept_back = world.ask()
    world.sleep(8 * HOUR_S)
    world.asker.handle_timer(world.asker_now + DEADLINE_S)
    assert world.roundtrip(world.ask())
    executed = world.executed
    [challenge] = world.arrives(kept_back)  # by the new clock it would look new
    assert world.executed == executed
    assert world.asker.receive(challenge.topic, challenge.payload, world.asker_now) == []


def test_a_copy_of_what_was_shown_to_be_new_is_not_carried_out_again() -> None:
    world = pair()
    assert world.roundtrip(world.ask())
    world.sleep(HOUR_S)
    [challenge] = world.arrives(world.ask())
    [shown] = world.asker.receive(challenge.topic, challenge.payload, world.asker_now)
    assert isinstance(shown, Publication)
    world.arrives(shown)
    world.now += HOUR_S  # its answer is not kept any more
    world.target.handle_timer(world.now)
    with pytest.raises(RepeatedError):
        world.arrives(shown)
    assert world.executed == 2


def test_what_was_shown_to_be_new_and_then_kept_back_is_not_carried_out() -> None:
    world = pair()
    assert world.roundtrip(world.ask())
    world.sleep(HOUR_S)
    [challenge] = world.arrives(world.ask())
    [shown] = world.asker.receive(challenge.topic, challenge.payload, world.asker_now)
    assert isinstance(shown, Publication)
    world.now += DEADLINE_S + SLACK_S + 0.1
    [refusal] = world.arrives(shown)
    assert world.executed == 1
    body, _ = opened("answer", refusal.payload)
    assert Answer.decode(body).response.code == 0xA4  # a write: nothing is promised


def test_nobody_else_can_have_a_gateway_show_its_requests_to_be_new() -> None:
    world = pair()
    query = world.ask()
    said = Answer("gw-b", "1-1", CHANGED, challenge=7).encode()
    with pytest.raises(ProtocolError):
        world.asker.receive(
            "$hedgerow/reply/gw-a", seals("gw-c").seal(ANSWER, said), world.asker_now
        )
    assert world.roundtrip(query)


def test_a_target_that_is_never_content_is_asked_a_few_times_only() -> None:
    world = pair()
    world.ask()
    said = seals("gw-b").seal(ANSWER, Answer("gw-b", "1-1", CHANGED, challenge=7).encode())
    again = [world.asker.receive("$hedgerow/reply/gw-a", said, world.asker_now) for _ in range(20)]
    assert sum(map(len, again)) == MAX_CHALLENGES


def test_who_replays_queries_is_challenged_a_few_times_only() -> None:
    world = pair()
    assert world.roundtrip(world.ask())
    kept_back = world.ask()
    world.now += HOUR_S
    challenged = 0
    for _ in range(100):
        with suppress(RepeatedError):
            challenged += len(world.arrives(kept_back))
    assert challenged == CHALLENGES_AT_ONCE


def test_where_there_is_no_room_for_one_more_asker_the_longest_silent_one_is_forgotten() -> None:
    before = RequestMemory(1, max_askers=3)
    assert MAX_ASKERS > 3

    def mark(asker: str, number: int, now: float, *, is_shown: bool = False) -> QueryMark:
        query = QueryMark(asker, 1, number, now, 1, DEADLINE_S)
        return QueryMark(asker, 1, number, now, 1, DEADLINE_S, now) if is_shown else query

    for at, asker in enumerate(("gw-a", "gw-b", "gw-c")):
        before.take(mark(asker, 1, float(at)), float(at))
    before.take(mark("gw-a", 2, 3.0), 3.0)
    before.take(mark("gw-d", 1, 4.0), 4.0)  # gw-b is forgotten
    assert len(before) == 3
    with pytest.raises(RepeatedError):
        before.take(mark("gw-a", 2, 5.0), 5.0)
    with pytest.raises(StaleError):  # it may be a copy of what gw-b has asked
        before.take(mark("gw-b", 1, 1.0), 5.0)
    before.take(mark("gw-b", 2, 5.0, is_shown=True), 5.0)
    assert len(before) == 3

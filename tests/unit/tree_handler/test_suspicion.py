"""A gateway is suspect if it is out of reach and does not answer, and clears itself later."""

from __future__ import annotations

import math

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.members.place import NAME_CHARACTERS_MAX
from tree_handler.members.suspicion import ENOUGH, MAX_ASKED, Patience, Question, Suspicion

FLEET = ("gw-a", "gw-b", "gw-c")
ALL = frozenset(FLEET)
PATIENCE = Patience()


def run(
    suspicion: Suspicion, reached: frozenset[str], now: float, until: float
) -> tuple[float, list[Question]]:
    """Look whenever it is due; until when, and what was asked."""
    asked = suspicion.look(FLEET, reached, now)
    while (due := suspicion.next_timer()) <= until:
        assert due > now, "what is due is done"
        now = due
        asked += suspicion.look(FLEET, reached, now)
    return until, asked


def suspected(at: float = 0.0) -> tuple[Suspicion, float]:
    """One that suspects gw-b and gw-c."""
    suspicion = Suspicion("gw-a")
    now, _ = run(suspicion, frozenset(), at, at + PATIENCE.most_s)
    return suspicion, now


def test_who_is_out_of_reach_is_asked_once_and_suspect_when_no_answer_comes() -> None:
    suspicion = Suspicion("gw-a")
    _, asked = run(suspicion, frozenset({"gw-b"}), 0.0, PATIENCE.grace_s + PATIENCE.spread_s)
    assert asked == [Question(("gw-c",))]
    assert suspicion.suspects == frozenset()
    _, asked = run(suspicion, frozenset({"gw-b"}), 2.0, PATIENCE.most_s)
    assert asked == []
    assert suspicion.suspects == {"gw-c"}


def test_it_takes_less_than_five_seconds_from_when_the_tree_has_lost_it() -> None:
    assert Patience().most_s < 5


@pytest.mark.parametrize(("others", "early"), [(1, 0.30), (5, 0.20), (50, 0.08)])
def test_in_a_large_fleet_few_ask_early_and_all_within_the_spread(
    others: int, early: float
) -> None:
    fleet = [f"gw-{number}" for number in range(others)]
    lots: list[float] = []
    for number in range(1_000):
        suspicion = Suspicion(f"own-{number}")
        suspicion.look(fleet, frozenset(fleet[1:]), 0.0)
        lots.append((suspicion.next_timer() - PATIENCE.grace_s) / PATIENCE.spread_s)
    assert 0.0 <= min(lots) <= max(lots) <= 1.0
    assert sum(lot < 0.5 for lot in lots) / len(lots) == pytest.approx(early, abs=0.03)


def test_a_tree_that_mends_itself_in_time_asks_nobody() -> None:
    suspicion = Suspicion("gw-a")
    suspicion.look(FLEET, frozenset(), 0.0)
    suspicion.look(FLEET, ALL, 0.9)
    assert suspicion.next_timer() == math.inf
    assert run(suspicion, ALL, 1.0, 100.0)[1] == []


def test_who_answers_for_itself_is_no_suspect_whatever_neighbours_say() -> None:
    suspicion = Suspicion("gw-a")
    now, asked = run(suspicion, frozenset({"gw-b"}), 0.0, 2.0)
    assert asked
    suspicion.answered("gw-c", now)
    run(suspicion, frozenset({"gw-b"}), now, now + PATIENCE.believed_s - 1)
    assert suspicion.suspects == frozenset()


def test_an_answer_stands_for_a_while_and_then_it_is_asked_again() -> None:
    suspicion = Suspicion("gw-a")
    suspicion.answered("gw-c", 0.0)
    _, asked = run(suspicion, frozenset({"gw-b"}), 0.0, PATIENCE.believed_s + PATIENCE.most_s)
    assert asked == [Question(("gw-c",))]
    assert suspicion.suspects == {"gw-c"}


def test_a_suspect_that_is_seen_again_is_none_after_a_second() -> None:
    suspicion, now = suspected()
    suspicion.look(FLEET, ALL, now)
    assert suspicion.suspects == {"gw-b", "gw-c"}
    suspicion.look(FLEET, ALL, now + PATIENCE.first_hold_s)
    assert suspicion.suspects == frozenset()


def test_who_comes_and_goes_waits_longer_each_time_but_never_longer_than_the_last_hold() -> None:
    suspicion, now, holds = Suspicion("gw-a"), 0.0, list[float]()
    for _ in range(8):
        now, _ = run(suspicion, frozenset({"gw-b"}), now, now + PATIENCE.most_s)
        assert suspicion.suspects == {"gw-c"}
        suspicion.look(FLEET, ALL, now)
        holds.append(suspicion.next_timer() - now)
        now += holds[-1]
        suspicion.look(FLEET, ALL, now)
        assert suspicion.suspects == frozenset()
    assert holds[:3] == [1.0, 2.0, 4.0]
    assert holds[-1] == PATIENCE.last_hold_s


def test_who_was_there_long_enough_begins_anew() -> None:
    suspicion, now = suspected()
    run(suspicion, ALL, now, now + PATIENCE.first_hold_s + PATIENCE.forget_s + 1)
    again = now + PATIENCE.forget_s + 10
    now, _ = run(suspicion, frozenset(), again, again + PATIENCE.most_s)
    suspicion.look(FLEET, ALL, now)
    assert suspicion.next_timer() - now == PATIENCE.first_hold_s


def test_one_asker_does_not_silence_the_others_and_three_do() -> None:
    for askers in range(ENOUGH + 1):
        suspicion = Suspicion("gw-a")
        suspicion.look(FLEET, frozenset({"gw-b"}), 0.0)
        for number in range(askers):
            suspicion.asked(f"gw-{number}", Question(("gw-c",)), 0.5)
        _, asked = run(suspicion, frozenset({"gw-b"}), 0.5, PATIENCE.most_s)
        assert bool(asked) == (askers < ENOUGH)
        assert suspicion.suspects == {"gw-c"}


def test_the_same_asker_counts_once() -> None:
    suspicion = Suspicion("gw-a")
    suspicion.look(FLEET, frozenset({"gw-b"}), 0.0)
    for _ in range(ENOUGH):
        suspicion.asked("gw-b", Question(("gw-c",)), 0.5)
    assert run(suspicion, frozenset({"gw-b"}), 0.5, 2.0)[1] == [Question(("gw-c",))]


def test_many_are_asked_for_in_messages_of_a_bounded_size() -> None:
    fleet = [f"gw-{number}" for number in range(600)]
    suspicion = Suspicion("gw-a")
    suspicion.look(fleet, frozenset(), 0.0)
    asked = suspicion.look(fleet, frozenset(), 2.0)
    assert sorted(one for question in asked for one in question.ids) == sorted(fleet)
    assert max(len(question.ids) for question in asked) == MAX_ASKED


def test_who_is_no_member_any_more_is_no_suspect_either() -> None:
    suspicion, now = suspected()
    suspicion.look(("gw-a", "gw-b"), frozenset(), now)
    assert suspicion.suspects == {"gw-b"}


STEPS = st.lists(
    st.tuples(
        st.floats(0, 30),
        st.frozensets(st.sampled_from(FLEET)),
        st.one_of(st.none(), st.sampled_from(FLEET)),
    ),
    max_size=12,
)


@given(STEPS)
def test_whatever_happened_peace_makes_all_right_within_the_longest_hold(
    steps: list[tuple[float, frozenset[str], str | None]],
) -> None:
    suspicion, now, reached = Suspicion("gw-a"), 0.0, ALL
    for seconds, reached, answers in steps:
        if answers is not None:
            suspicion.answered(answers, now)
        now, _ = run(suspicion, reached, now, now + seconds)
        assert "gw-a" not in suspicion.suspects
    peace_s = PATIENCE.believed_s + PATIENCE.most_s + PATIENCE.last_hold_s + 1
    run(suspicion, reached, now, now + peace_s)
    assert suspicion.suspects == ALL - reached - {"gw-a"}


@given(STEPS)
def test_who_is_reached_or_answers_all_the_time_is_never_suspect(
    steps: list[tuple[float, frozenset[str], str | None]],
) -> None:
    suspicion, now = Suspicion("gw-a"), 0.0
    for seconds, reached, _ in steps:
        suspicion.answered("gw-c", now)
        now, _ = run(suspicion, reached | {"gw-b"}, now, now + seconds)
        assert suspicion.suspects == frozenset()


def test_a_question_survives_the_wire() -> None:
    question = Question(("gw-a", "gw-b"))
    assert Question.decode(question.encode()) == question


@pytest.mark.parametrize("row", [7, {"a": 1}, ["G W"], [1], ["gw"] * (MAX_ASKED + 1)])
def test_what_is_no_question_is_refused(row: object) -> None:
    with pytest.raises(ProtocolError, match="asked for"):
        Question.decode(msgpack.packb(row))


def test_the_longest_question_is_read() -> None:
    question = Question(tuple(f"{number:0{NAME_CHARACTERS_MAX}}" for number in range(MAX_ASKED)))
    assert Question.decode(question.encode()) == question


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (["g" * (NAME_CHARACTERS_MAX + 1)] * MAX_ASKED, "too large, bytes over"),
        ([[]] * MAX_ASKED, "elements over"),
    ],
    ids=["bytes", "elements"],
)
def test_what_is_larger_than_any_question_is_refused_before_its_ids_are_looked_at(
    row: object, why: str
) -> None:
    with pytest.raises(ProtocolError, match=why):
        Question.decode(msgpack.packb(row))


@given(st.binary(max_size=64))
def test_any_bytes_are_a_question_or_a_protocol_error(data: bytes) -> None:
    try:
        question = Question.decode(data)
    except ProtocolError:
        return
    assert Question.decode(question.encode()) == question

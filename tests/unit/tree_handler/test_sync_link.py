"""A neighbour whose answers come late, bring nothing or are refused is left alone for a while."""

from __future__ import annotations

from math import inf

from tree_handler.retained.sync_state import (
    LATE_AGAIN_MAX_S,
    LATE_AGAIN_S,
    MAX_FRUITLESS,
    MAX_LATE,
    PROOFS_AGAIN_MAX_S,
    PROOFS_AGAIN_S,
    PROOFS_SOON_S,
    REFUSED_AGAIN_S,
    UNKNOWN_AGAIN_S,
    SyncCounters,
    SyncLink,
    SyncSession,
)
from tree_handler.retained.sync_wire import START, PlaceInSync

LATER: PlaceInSync = (3, "room/a")


def session() -> SyncSession:
    return SyncSession(1, [0], 0.0)


def fruitless(after: PlaceInSync = LATER) -> SyncSession:
    one = SyncSession(1, [0], 0.0, after)
    one.fruitless = MAX_FRUITLESS + 1
    return one


def doubled(first: float, most: float, times: int) -> list[float]:
    return [min(first * 2**time, most) for time in range(times)]


def test_answers_that_bring_nothing_are_borne_to_the_limit_and_not_once_more() -> None:
    one = session()
    for _ in range(MAX_FRUITLESS):
        one.has_brought(anything=False)
    assert not one.is_fruitless
    one.has_brought(anything=False)
    assert one.is_fruitless


def test_an_answer_that_brings_something_makes_the_count_begin_anew() -> None:
    one = session()
    one.has_brought(anything=False)
    one.has_brought(anything=True)
    assert (one.fruitless, one.was_of_use) == (0, True)
    one.has_brought(anything=False)
    assert (one.fruitless, one.was_of_use) == (1, True)


def test_who_brings_nothing_is_left_alone_for_twice_as_long_each_time_up_to_a_limit() -> None:
    link = SyncLink()
    pauses = []
    for now in range(10):
        link.has_ended(fruitless(), float(now))
        pauses.append(link.left_until - now)
        assert not link.may_be_asked(link.left_until - 0.5)
        assert link.may_be_asked(link.left_until)
    assert pauses == doubled(REFUSED_AGAIN_S, LATE_AGAIN_MAX_S, 10)


def test_who_brought_something_in_between_is_left_alone_as_briefly_as_at_first() -> None:
    link = SyncLink()
    link.has_ended(fruitless(), 0.0)
    link.has_ended(fruitless(), 0.0)
    useful = fruitless()
    useful.was_of_use = True
    link.has_ended(useful, 0.0)
    assert link.left_until == REFUSED_AGAIN_S


def test_who_brought_nothing_is_asked_on_from_there_and_then_from_the_start_again() -> None:
    link = SyncLink()
    link.has_ended(fruitless(), 0.0)
    assert (link.goes_on_from, link.differs) == (LATER, True)
    link.differs = False
    link.has_ended(session(), 0.0)
    assert (link.goes_on_from, link.differs) == (START, True)
    link.differs = False
    link.has_ended(session(), 0.0)
    assert (link.goes_on_from, link.differs) == (START, False)


def test_a_late_neighbour_is_asked_again_after_twice_as_long_each_time_up_to_a_limit() -> None:
    link, pauses = SyncLink(), []
    for _ in range(10):
        link.is_late(session(), 5.0)
        pauses.append(link.late_until - 5.0)
        link.late.clear()
    assert pauses == doubled(LATE_AGAIN_S, LATE_AGAIN_MAX_S, 10)
    assert link.differs


def test_a_late_neighbour_is_asked_while_fewer_answers_are_waited_for_than_the_limit() -> None:
    link = SyncLink()
    for _ in range(MAX_LATE - 1):
        link.is_late(session(), 0.0)
    assert not link.may_be_asked(link.late_until - 0.5)
    assert link.may_be_asked(link.late_until)
    link.is_late(session(), 0.0)
    assert not link.may_be_asked(link.late_until)


def test_a_late_answer_is_of_what_was_asked_first_and_makes_the_pause_short_again() -> None:
    link, first, second = SyncLink(), session(), session()
    link.is_late(first, 0.0)
    link.is_late(second, 0.0)
    assert link.late_answer() is first
    assert link.late_wait_s == LATE_AGAIN_S
    assert link.late_answer() is second
    assert link.late_answer() is None
    assert link.may_be_asked(0.0)


def test_what_a_limit_refused_is_asked_for_again_after_its_pause_and_not_put_off_by_the_next() -> (
    None
):
    link = SyncLink()
    assert link.again_at == inf
    for now in (0.0, 10.0):
        refusing = session()
        refusing.refused = True
        link.has_ended(refusing, now)
        assert (link.again_at, link.again_wait_s) == (REFUSED_AGAIN_S, REFUSED_AGAIN_S)


def test_what_may_not_be_retained_here_is_asked_for_again_like_what_a_limit_refused() -> None:
    link, forbidding = SyncLink(), session()
    forbidding.forbidden = True
    link.has_ended(forbidding, 1.0)
    assert link.again_at == 1.0 + REFUSED_AGAIN_S


def test_who_sent_all_without_a_refusal_has_a_short_pause_before_what_is_unknown_again() -> None:
    link = SyncLink(again_wait_s=500.0)
    link.has_ended(session(), 0.0)
    assert link.again_wait_s == UNKNOWN_AGAIN_S
    still_to_come = SyncLink(again_at=7.0, again_wait_s=500.0)
    still_to_come.has_ended(session(), 0.0)
    assert still_to_come.again_wait_s == 500.0


def test_proofs_are_asked_for_after_twice_as_long_each_time_up_to_a_limit() -> None:
    link, pauses = SyncLink(), []
    for now in range(13):
        link.asks_for_proofs(float(now))
        pauses.append(link.proofs_at - now)
    assert pauses == doubled(PROOFS_AGAIN_S, PROOFS_AGAIN_MAX_S, 13)


def test_proofs_are_asked_for_soon_where_the_same_root_is_told_again() -> None:
    link = SyncLink()
    link.told_root(b"a", b"b")
    link.asks_for_proofs(100.0)
    link.told_root(b"c", b"b")
    assert (link.proofs_at, link.differs) == (100.0 + PROOFS_AGAIN_S, True)
    link.told_root(b"c", b"c")
    assert (link.proofs_at, link.differs) == (100.0 + PROOFS_SOON_S, False)


def test_a_root_is_told_twice_where_it_is_another_one_and_there_are_more_proofs() -> None:
    link = SyncLink()
    assert link.tells(b"a", 1, 1, 5.0) == 1, "it was told nothing before"
    assert (link.told, link.told_changes, link.told_proven, link.told_at) == (b"a", 1, 1, 5.0)
    assert link.tells(b"a", 2, 2, 6.0) == 1, "the same root says by itself that there are more"
    assert link.tells(b"b", 3, 2, 7.0) == 1
    assert link.tells(b"c", 4, 3, 8.0) == 2


def test_of_use_were_answers_that_brought_versions_proofs_or_what_the_log_will_bring() -> None:
    assert SyncCounters().of_use == 0
    assert SyncCounters(fetched=1, proven=20, left_to_log=300).of_use == 321
    assert SyncCounters(sent=1, news=1, refused=1, unproven=1, forbidden=1).of_use == 0

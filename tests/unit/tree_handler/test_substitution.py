"""Substitutes that a gateway dials for lost neighbours, and the times when it leaves them."""

from __future__ import annotations

import itertools

import pytest

from tests.held_objects import held_objects
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import may_be_dialled
from tree_handler.members.substitution import (
    CANDIDATES_MAX,
    DialSubstitute,
    LeaveSubstitute,
    Substitute,
    SubstituteAction,
    SubstituteTimes,
    Substitution,
    WaysHome,
    best_first,
)

TIMES = SubstituteTimes(after_s=20.0)
A, B, C = (Substitute(f"gw-{name}", f"10.0.0.{n}", 8883) for n, name in enumerate("abc", 1))
LOST = WaysHome(False, (), ())
HOME = WaysHome(True, ("gw-home",), ("gw-home", "gw-a", "gw-b"))


class Seat:
    """A core, and the time."""

    def __init__(self, times: SubstituteTimes = TIMES, *candidates: Substitute) -> None:
        self.core = Substitution(times)
        self.candidates = list(candidates)
        self.now = 100.0

    def look(self, seen: WaysHome, after_s: float = 0.0) -> list[SubstituteAction]:
        self.now += after_s
        return self.core.look(seen, lambda: self.candidates, self.now, 0.5)

    def due(self, seen: WaysHome) -> list[SubstituteAction]:
        """Look when it is due."""
        wait_s = self.core.next_timer() - self.now
        assert 0 < wait_s < 1e6
        return self.look(seen, wait_s)


def linked(one: Substitute, *, home: bool = False) -> WaysHome:
    links = (one.id, *(("gw-home",) if home else ()))
    return WaysHome(home, links, links)


def test_the_best_is_dialled_when_no_configured_neighbour_is_there_for_long() -> None:
    seat = Seat(TIMES, A, B)
    assert seat.look(LOST) == []
    assert seat.look(LOST, 19.9) == []
    assert seat.look(LOST, 0.1) == [DialSubstitute(A)]
    assert seat.look(linked(A), 1.0) == []
    assert seat.core.current == A
    assert seat.core.next_timer() == float("inf")  # it stays until a neighbour comes back


def test_nobody_is_dialled_where_a_neighbour_is_there_none_is_configured_or_it_is_off() -> None:
    for times, seen in (
        (TIMES, HOME),
        (TIMES, WaysHome(None, (), ())),
        (SubstituteTimes(after_s=0.0), LOST),
    ):
        seat = Seat(times, A)
        assert seat.look(seen) == seat.look(seen, 1_000.0) == []


def test_a_neighbour_that_comes_and_goes_begins_the_time_anew() -> None:
    seat = Seat(TIMES, A)
    for _ in range(5):
        assert seat.look(LOST) == seat.look(LOST, 15.0) == []
        assert seat.look(HOME, 1.0) == []


def test_who_is_in_the_tree_by_another_way_is_not_dialled() -> None:
    seat = Seat(TIMES, A, B)
    seen = WaysHome(False, ("gw-x",), ("gw-x", "gw-a"))
    seat.look(seen)
    assert seat.look(seen, 25.0) == [DialSubstitute(B)]


def test_one_after_the_other_is_tried_with_pauses_that_grow() -> None:
    seat = Seat(TIMES, A, B)
    seat.look(LOST)
    tried, begins = list[str](), list[float]()
    for _ in range(60):
        for action in seat.due(LOST):
            if isinstance(action, DialSubstitute):
                tried.append(action.substitute.id)
                begins.append(seat.now)
        assert seat.core.next_timer() > seat.now  # it never spins
    assert tried[:4] == ["gw-a", "gw-b", "gw-a", "gw-b"]
    gaps = [after - before for before, after in itertools.pairwise(begins)]
    assert gaps[0] == 11.0
    assert max(gaps) <= 130.0
    assert min(gaps[-6:]) >= 70.0


def test_a_substitute_is_left_when_a_neighbour_was_there_for_long_enough() -> None:
    seat = Seat(TIMES, A)
    seat.look(LOST)
    assert seat.look(LOST, 20.0) == [DialSubstitute(A)]
    seat.look(linked(A), 1.0)
    assert seat.look(linked(A, home=True), 100.0) == []
    assert seat.look(linked(A), 29.0) == []  # it went again: from the beginning
    assert seat.look(linked(A, home=True), 5.0) == []
    assert seat.look(linked(A, home=True), 29.9) == []
    assert seat.look(linked(A, home=True), 0.1) == [LeaveSubstitute(A)]
    assert seat.look(HOME, 1.0) == []
    assert seat.look(HOME, 100.0) == []
    assert seat.core.next_timer() == float("inf")


def test_a_substitute_that_is_missed_is_dialled_again_and_kept_for_longer() -> None:
    seat = Seat(TIMES, A)
    seat.look(LOST)
    seat.look(LOST, 20.0)
    seat.look(linked(A), 1.0)
    seat.look(linked(A, home=True))
    assert seat.look(linked(A, home=True), 30.0) == [LeaveSubstitute(A)]
    alone = WaysHome(True, ("gw-home",), ("gw-home",))  # the neighbour is as cut off as this one
    assert seat.look(alone, 1.0) == []
    assert seat.look(alone, 5.0) == [DialSubstitute(A)]
    assert seat.look(linked(A, home=True), 1.0) == []
    assert seat.look(linked(A, home=True), 58.0) == []
    assert seat.look(linked(A, home=True), 1.0) == [LeaveSubstitute(A)]


def test_neighbours_that_are_lost_again_soon_have_the_substitute_kept_for_longer() -> None:
    seat, held = Seat(TIMES, A), list[float]()
    for _ in range(10):
        seat.look(LOST)
        assert seat.look(LOST, 25.0) == [DialSubstitute(A)]
        seat.look(linked(A), 1.0)
        seat.look(linked(A, home=True))
        began = seat.now
        assert seat.due(linked(A, home=True)) == [LeaveSubstitute(A)]
        held.append(seat.now - began)
    assert held == [30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0]


def test_whose_record_has_gone_meanwhile_is_dialled_all_the_same() -> None:
    seat = Seat(TIMES, *(Substitute(f"gw-{n}", "10.0.0.1", n) for n in range(1, 200)))
    seat.look(LOST)
    (first,) = seat.look(LOST, 20.0)
    seat.candidates = []  # a gateway by itself takes all others out of its records
    seat.due(LOST)
    (second,) = seat.due(LOST)
    assert isinstance(second, DialSubstitute)
    assert second.substitute.id != first.substitute.id
    few = Seat(TIMES, *(Substitute(f"gw-{n}", "10.0.0.1", n) for n in range(1, CANDIDATES_MAX + 1)))
    few.look(LOST)
    few.look(LOST, 20.0)
    assert held_objects(seat.core) < 1.5 * held_objects(few.core)


def record(name: str, domain: str = "", group: str = "", capability: float = 1.0) -> MemberRecord:
    return MemberRecord(name, 1, 0, domain, group, "10.0.0.1", 1883, capability=capability)


def test_those_of_the_own_group_and_domain_come_first_then_all() -> None:
    records = [
        record("root", capability=9.0),
        record("gw-other", "farm", "west", 8.0),
        record("gw-domain", "campus", capability=3.0),
        record("gw-head", "campus", "north", 5.0),
        record("gw-own", "campus", "north", 2.0),
        record("gw-lower", "campus", "north", 1.0),
        record("collector", capability=0.0),
    ]
    found = [one.id for one in best_first(records, "gw-own")]
    assert found == ["gw-head", "gw-domain", "root", "gw-other", "collector", "gw-lower"]
    assert list(best_first(records, "gw-x")) == []


@pytest.mark.parametrize(
    ("address", "own", "may"),
    [
        ("10.0.0.3", "10.0.0.2", True),
        ("fd00::3", "10.0.0.2", True),
        ("127.0.0.1", "10.0.0.2", False),
        ("::1", "10.0.0.2", False),
        ("::ffff:127.0.0.1", "10.0.0.2", False),
        ("127.0.0.1", "127.0.0.2", True),
        ("127.0.0.1", "gw.example", False),
        ("169.254.169.254", "10.0.0.2", False),
        ("169.254.1.1", "169.254.1.2", True),
        ("0.0.0.0", "127.0.0.1", False),
        ("::", "::1", False),
        ("224.0.0.1", "10.0.0.2", False),
        ("ff02::1", "fd00::2", False),
        ("255.255.255.255", "10.0.0.2", False),
        ("gw.example", "10.0.0.2", False),
    ],
)
def test_what_a_member_says_of_its_address_is_dialled_within_bounds(
    address: str, own: str, may: bool
) -> None:
    assert may_be_dialled(address, own) is may


def test_a_substitute_that_was_left_and_is_out_of_reach_too_late_is_gone_by_itself() -> None:
    for late_s, missed in ((34.9, True), (35.0, False)):
        seat = Seat(TIMES, A)
        seat.look(LOST)
        seat.look(LOST, 20.0)
        seat.look(linked(A), 1.0)
        seat.look(linked(A, home=True))
        assert seat.look(linked(A, home=True), 30.0) == [LeaveSubstitute(A)]
        alone = WaysHome(True, ("gw-home",), ("gw-home",))
        assert seat.look(HOME, 29.0) == []  # it is kept in mind for the 30 s of home_s
        assert seat.look(alone, 0.9) == []
        assert seat.core.next_timer() == seat.now + 5.0
        assert seat.look(alone, late_s - 29.9) == ([DialSubstitute(A)] if missed else [])
        assert missed or seat.look(alone, 60.0) == []

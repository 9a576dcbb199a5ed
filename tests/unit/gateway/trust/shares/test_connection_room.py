"""Goal: who opens connections and says nothing takes the room of nobody who has been let in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.shares.connection_room import ConnectionRoom, ConnectionStage

MOST, OF_HOST = 12, 4


class Hall:
    def __init__(self) -> None:
        self.accepted: set[int] = set()
        self.asking: set[int] = set()
        self.open: dict[int, str] = {}
        self.room = ConnectionRoom[int](MOST, OF_HOST, self.standing)

    def standing(self, number: int) -> ConnectionStage:
        if number in self.accepted:
            return ConnectionStage.ACCEPTED
        return ConnectionStage.ASKING if number in self.asking else ConnectionStage.SILENT

    def come(self, number: int, host: str) -> list[int]:
        self.open[number] = host
        going = self.room.opened(number, host)
        for one in going:
            del self.open[one]
        return going


def test_of_a_host_with_too_many_that_are_silent_the_oldest_goes() -> None:
    hall = Hall()
    for number in range(OF_HOST):
        assert hall.come(number, "a") == []
    hall.accepted.add(0)
    assert hall.come(10, "a") == []
    assert hall.come(11, "a") == [1]
    assert hall.come(12, "b") == []


def test_where_there_is_no_room_the_host_with_the_most_silent_ones_makes_it() -> None:
    hall = Hall()
    for number in range(4):
        hall.come(number, "a")
        hall.come(10 + number, "b")
        hall.come(20 + number, "c")
    hall.accepted |= {0, 1, 10, 11, 12}
    assert hall.come(30, "d") == [20]
    hall.accepted |= set(hall.open)
    assert hall.come(31, "e") == [31]


def test_who_has_said_who_he_is_goes_behind_all_that_are_silent() -> None:
    hall = Hall()
    for number in range(MOST):
        hall.come(number, f"host {number}")
    hall.asking |= {0, 1}
    gone = [one for number in range(20, 40) for one in hall.come(number, f"host {number}")]
    assert gone == [*range(2, MOST), *range(20, 30)]


def test_where_nobody_is_silent_a_host_with_several_that_ask_makes_room_and_no_other() -> None:
    hall = Hall()
    for number in range(MOST - 2):
        hall.come(number, f"host {number}")
    hall.come(20, "greedy")
    hall.come(21, "greedy")
    hall.asking |= set(hall.open)
    assert hall.come(30, "newcomer") == [20]
    hall.asking.add(30)
    assert hall.come(31, "newcomer too") == [31]
    hall.accepted |= {0, 21}
    hall.room.closed(0)
    del hall.open[0]
    assert hall.come(32, "newcomer too") == []


def test_making_room_looks_at_no_more_hosts_the_more_there_are() -> None:
    looked_at: list[int] = []

    def standing(connection: int) -> ConnectionStage:
        looked_at.append(connection)
        return ConnectionStage.SILENT

    room = ConnectionRoom[int](1_000, OF_HOST, standing)
    for number in range(1_000):
        assert room.opened(number, f"host {number}") == []
    for number in range(1_000, 2_000):
        assert room.opened(number, f"host {number}") == [number - 1_000]
    assert len(looked_at) <= 1_000


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["come", "ask", "accept", "go"])))
)
def test_nobody_who_was_let_in_ever_goes_and_there_are_never_too_many(
    steps: list[tuple[str, str]],
) -> None:
    hall = Hall()
    for number, (host, what) in enumerate(steps):
        if what == "come":
            going = hall.come(number, host)
            assert not hall.accepted & set(going)
            assert len(going) <= 1
        else:
            own = [one for one, whose in hall.open.items() if whose == host]
            if own and what == "accept":
                hall.accepted.add(own[-1])
            elif own and what == "ask":
                hall.asking.add(own[-1])
            elif own:
                hall.room.closed(own[0])
                del hall.open[own[0]]
        assert len(hall.room) == len(hall.open) <= MOST
        for whose in "abcde":
            silent = [n for n, h in hall.open.items() if h == whose and n not in hall.accepted]
            assert len(silent) <= OF_HOST


def test_of_a_host_those_that_were_let_in_meanwhile_are_no_longer_counted() -> None:
    hall = Hall()
    for number in range(OF_HOST):
        hall.come(number, "a")
    hall.asking |= {0, 1, 2, 3}
    assert hall.come(4, "a") == [0]  # all ask, and the one that came first goes
    hall.accepted |= {1, 2}
    assert hall.come(5, "a") == []
    assert hall.come(6, "a") == []
    assert hall.come(7, "a") == [4]
    assert len(hall.room) == len(hall.open) == 6

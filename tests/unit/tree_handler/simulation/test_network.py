"""A simulated network: who is connected, when what is sent arrives, and who learns of an end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tree_handler.simulation.local_time import LocalClock, StillClock, Timer
from tree_handler.simulation.network import (
    BACKLOG,
    BPDUS,
    DATA,
    FIRST,
    SECOND,
    Clock,
    Edge,
    End,
    Host,
    Network,
    octets,
)

DELAY_S = 0.5


@dataclass
class ListeningHost:
    """A life that notes what it learns, with the time."""

    gateway_id: str
    clock: Clock
    boot_epoch: int = 1
    alive: bool = True
    paused_until_s: float = 0.0
    ends: dict[int, End] = field(default_factory=dict)
    admitting: bool = True
    learnt: list[tuple[float, object]] = field(default_factory=list)
    opened: list[End] = field(default_factory=list)

    def _note(self, what: object) -> None:
        self.learnt.append((round(self.clock.now, 6), what))

    def admits(self, other: Host) -> bool:
        return self.admitting

    def link_up(self, end: End) -> None:
        self.opened.append(end)
        self._note("up")

    def link_down(self, end: End) -> None:
        self._note("down")

    def receive(self, end: End, message: object) -> None:
        self._note(message)

    def link_full(self, end: End) -> None:
        self._note("full")

    def link_drained(self, end: End) -> None:
        self._note("drained")

    def took(self) -> list[tuple[float, object]]:
        """Return all that it has learnt since this was asked last."""
        learnt, self.learnt = self.learnt, []
        return learnt


class LinkedPair:
    """Two hosts over one edge on which each way takes half a second; a connection after one."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.network = Network(self.clock, random.Random(1))
        self.a, self.b = ListeningHost("a", self.clock), ListeningHost("b", self.clock)
        self.edge = Edge(("a", "b"), DELAY_S, 0.0)
        self.network.edges.append(self.edge)

    def dial(self) -> None:
        self.network.dial(self.edge, self.a, lambda: self.b)

    def linked(self) -> LinkedPair:
        self.dial()
        self.clock.run(1.0)
        assert (self.a.took(), self.b.took()) == ([(1.0, "up")], [(0.5, "up")])
        return self

    @property
    def ends(self) -> tuple[End, End]:
        return self.a.opened[-1], self.b.opened[-1]


@pytest.fixture
def pair() -> LinkedPair:
    return LinkedPair().linked()


# -- connections -----------------------------------------------------------------------------------


def test_who_dials_has_a_connection_after_a_way_there_and_back() -> None:
    pair = LinkedPair().linked()
    first, second = pair.ends
    assert (first.host, second.host) == (pair.a, pair.b)
    assert (first.side, second.side) == (FIRST, SECOND)
    assert (first.peer, second.peer) == (second, first)
    [connection] = pair.network.connections
    assert (connection.made_s, connection.edge, connection.broken) == (0.5, pair.edge, False)
    assert (first.open, second.open) == (True, True)
    assert not connection.live
    first.forwards = True
    assert not connection.live
    second.forwards = True
    assert connection.live


def test_the_second_gateway_of_an_edge_dials_as_well() -> None:
    pair = LinkedPair()
    pair.network.dial(pair.edge, pair.b, lambda: pair.a)
    pair.clock.run(0.7)
    assert pair.a.took() == [(0.5, "up")]
    [connection] = pair.network.connections
    assert [end.host for end in connection.ends] == [pair.a, pair.b]
    assert [end.open for end in connection.ends] == [True, False]
    pair.clock.run(1.0)
    assert pair.b.took() == [(1.0, "up")]


@pytest.mark.parametrize("why", ["cut", "silent", "cut under way"])
def test_over_an_edge_that_is_not_usable_nobody_is_dialled(why: str) -> None:
    pair = LinkedPair()
    if why == "cut":
        pair.network.cut(pair.edge)
    elif why == "silent":
        pair.network.silence(pair.edge, SECOND)
    pair.dial()
    if why == "cut under way":
        pair.network.cut(pair.edge)
    pair.clock.run(3.0)
    assert pair.network.connections == []
    pair.network.heal(pair.edge)
    pair.dial()
    pair.clock.run(4.0)
    assert len(pair.network.connections) == 1


def test_who_is_down_or_dead_or_stands_still_or_does_not_admit_is_not_connected() -> None:
    pair = LinkedPair()
    pair.network.dial(pair.edge, pair.a, lambda: None)
    for host in (pair.a, pair.b):
        host.admitting = False
        pair.dial()
        pair.clock.run(pair.clock.now + 1.0)
        host.admitting = True
    pair.dial()
    pair.a.alive = False
    pair.clock.run(pair.clock.now + 1.0)
    pair.a.alive = True
    pair.b.paused_until_s = pair.clock.now + 0.6
    pair.dial()
    pair.clock.run(pair.clock.now + 1.0)
    assert (pair.network.connections, pair.a.took(), pair.b.took()) == ([], [], [])
    pair.b.paused_until_s = pair.clock.now + 0.5
    pair.dial()
    pair.clock.run(pair.clock.now + 1.0)
    assert len(pair.network.connections) == 1


def test_two_gateways_may_have_two_connections() -> None:
    pair = LinkedPair().linked()
    pair.dial()
    pair.clock.run(2.0)
    assert len(pair.network.connections) == 2
    pair.network.close(pair.a.opened[0])
    pair.clock.run(3.0)
    assert [one.ends[0] for one in pair.network.connections] == [pair.a.opened[1]]


# -- the end of one --------------------------------------------------------------------------------


def test_who_closes_is_heard_out_first_and_says_nothing_more(pair: LinkedPair) -> None:
    end, other = pair.ends
    pair.network.send(end, "last", DATA)
    pair.network.close(end)
    pair.network.send(end, "too late", DATA)
    assert (end.open, end.forwards, other.open) == (False, False, True)
    assert len(pair.network.connections) == 1
    pair.network.send(other, "to nobody", DATA)
    pair.clock.run(2.0)
    assert pair.b.took() == [(1.5, "last"), (1.5, "down")]
    assert pair.a.took() == []
    assert (other.open, pair.network.connections) == (False, [])


def test_who_vanishes_says_nothing_and_the_other_end_stays_open(pair: LinkedPair) -> None:
    end, other = pair.ends
    pair.network.vanish(end)
    pair.clock.run(9.0)
    assert (end.open, other.open, pair.b.took()) == (False, True, [])
    assert len(pair.network.connections) == 1
    pair.network.vanish(other)
    assert pair.network.connections == []


def test_a_cut_takes_what_is_under_way_and_each_end_learns_of_it_within_two_ways(
    pair: LinkedPair,
) -> None:
    end, other = pair.ends
    pair.network.send(end, "lost", DATA)
    pair.network.cut(pair.edge)
    pair.network.send(other, "not sent", DATA)
    assert (end.open, other.open) == (True, True)
    pair.clock.run(1.0 + 2 * DELAY_S)
    for host in (pair.a, pair.b):
        [(at_s, what)] = host.took()
        assert what == "down"
        assert 1.0 <= at_s <= 1.0 + 2 * DELAY_S
    assert (end.open, other.open, pair.network.connections) == (False, False, [])


def test_an_end_that_was_closed_before_a_cut_learns_nothing_of_it(pair: LinkedPair) -> None:
    end, _ = pair.ends
    pair.network.close(end)
    pair.network.cut(pair.edge)
    pair.clock.run(3.0)
    assert pair.a.took() == []
    assert [what for _, what in pair.b.took()] == ["down"]
    assert pair.network.connections == []


def test_a_cut_is_of_one_edge_alone() -> None:
    pair = LinkedPair().linked()
    other = Edge(("a", "b"), DELAY_S, 0.0)
    pair.network.dial(other, pair.a, lambda: pair.b)
    pair.clock.run(2.0)
    pair.network.cut(other)
    pair.clock.run(4.0)
    assert [one.edge for one in pair.network.connections] == [pair.edge]
    assert (pair.edge.usable, other.usable) == (True, False)


# -- messages --------------------------------------------------------------------------------------


def test_a_message_takes_the_delay_and_none_overtakes_another_of_its_lane(pair: LinkedPair) -> None:
    end, _ = pair.ends
    for number in range(3):
        pair.network.send(end, number, DATA)
        pair.edge.delay_s /= 2
    pair.network.send(end, "bpdu")
    pair.clock.run(2.0)
    assert pair.b.took() == [(1.0625, "bpdu"), (1.5, 0), (1.5, 1), (1.5, 2)]


def test_a_delay_is_never_below_a_tenth_of_the_usual_one() -> None:
    pair = LinkedPair().linked()
    pair.edge.jitter_s = 100.0
    for number in range(30):
        now = pair.clock.now
        pair.network.send(pair.ends[0], number, DATA)
        pair.clock.run(now + 1_000.0)
        [(at_s, _)] = pair.b.took()
        assert at_s >= round(now + DELAY_S / 10, 6)


def test_what_a_silent_direction_is_told_is_held_and_comes_in_order_when_it_heals(
    pair: LinkedPair,
) -> None:
    end, other = pair.ends
    pair.network.silence(pair.edge, FIRST)
    pair.network.send(end, "one", DATA)
    pair.network.send(end, "two")
    pair.network.send(other, "the other way", DATA)
    pair.clock.run(2.0)
    assert (pair.a.took(), pair.b.took()) == ([(1.5, "the other way")], [])
    pair.edge.loss, pair.edge.message_s, pair.edge.bytes_per_s = 0.1, 1.0, 1.0
    pair.network.heal(pair.edge)
    assert (pair.edge.loss, pair.edge.message_s, pair.edge.bytes_per_s) == (0.0, 0.0, 0.0)
    pair.network.send(end, "three", DATA)
    pair.clock.run(3.0)
    assert pair.b.took() == [(2.5, "one"), (2.5, "two"), (2.5, "three")]


def test_a_lost_packet_comes_after_time_outs_that_double_and_holds_up_all_behind_it(
    pair: LinkedPair,
) -> None:
    end, _ = pair.ends
    pair.edge.loss = 0.9
    pair.network.send(end, "data", DATA)
    pair.edge.loss = 1e-12
    pair.network.send(end, "bpdu")
    pair.clock.run(1_000_000.0)
    (at_s, first), (then_s, second) = pair.b.took()
    assert (first, second) == ("data", "bpdu")
    assert at_s == then_s
    waited_s = at_s - 1.5
    assert waited_s > 0
    # Once, twice ... : 0.2 s, 0.6 s, 1.4 s and so on.
    times = round(waited_s / 0.2) + 1
    assert times & (times - 1) == 0
    assert waited_s == pytest.approx(0.2 * (times - 1))


def test_who_stands_still_takes_what_comes_when_it_goes_on(pair: LinkedPair) -> None:
    pair.b.paused_until_s = 4.0
    pair.network.send(pair.ends[0], "one", DATA)
    pair.network.close(pair.ends[0])
    pair.clock.run(5.0)
    assert pair.b.took() == [(4.0, "one"), (4.0, "down")]


def test_who_stands_still_learns_of_a_cut_when_it_goes_on(pair: LinkedPair) -> None:
    pair.b.paused_until_s = 4.0
    pair.network.cut(pair.edge)
    pair.clock.run(3.9)
    assert pair.b.took() == []
    pair.clock.run(5.0)
    assert pair.b.took() == [(4.0, "down")]


def test_the_dead_take_nothing(pair: LinkedPair) -> None:
    pair.b.alive = False
    pair.network.send(pair.ends[0], "one", DATA)
    pair.clock.run(5.0)
    assert pair.b.took() == []


# -- slow edges ------------------------------------------------------------------------------------


def test_a_slow_edge_says_that_it_is_full_at_8_that_wait_and_drained_when_none_does(
    pair: LinkedPair,
) -> None:
    end, _ = pair.ends
    pair.edge.message_s = 0.25
    for _ in range(2):  # as often as it is so
        begun_s = pair.clock.now
        for number in range(BACKLOG - 1):
            pair.network.send(end, number, DATA)
        assert pair.a.took() == []
        assert pair.network.is_carrying()
        pair.network.send(end, 7, DATA)
        pair.network.send(end, 8, DATA)
        assert pair.a.took() == [(begun_s, "full")]
        pair.network.send(end, "bpdu", BPDUS)
        pair.clock.run(begun_s + 9 * 0.25 - 0.01)
        assert pair.network.is_carrying()
        assert pair.a.took() == []
        pair.clock.run(begun_s + 4.0)
        assert pair.a.took() == [(begun_s + 9 * 0.25, "drained")]
        assert not pair.network.is_carrying()
        arrived = [(begun_s + DELAY_S + 0.25 * (number + 1), number) for number in range(9)]
        assert pair.b.took() == [(begun_s + DELAY_S, "bpdu"), *arrived]


def test_what_waits_for_no_edge_is_never_drained(pair: LinkedPair) -> None:
    end, _ = pair.ends
    pair.edge.message_s = 0.25
    for number in range(BACKLOG - 1):
        pair.network.send(end, number, DATA)
    pair.clock.run(9.0)
    assert pair.a.took() == []
    pair.edge.message_s = 0.0
    for number in range(2 * BACKLOG):
        pair.network.send(end, number, DATA)
    assert pair.a.took() == []


@pytest.mark.parametrize("gone", ["closed", "dead"])
def test_an_end_that_is_gone_is_not_told_that_it_drained(pair: LinkedPair, gone: str) -> None:
    end, _ = pair.ends
    pair.edge.message_s = 0.25
    for number in range(BACKLOG):
        pair.network.send(end, number, DATA)
    if gone == "closed":
        pair.network.close(end)
    else:
        pair.a.alive = False
    pair.clock.run(9.0)
    assert pair.a.took() == [(1.0, "full")]


@dataclass
class MessageWithFrame:
    frame: bytes


@dataclass
class MessageWithPayload:
    payload: bytes


def test_a_message_keeps_a_slow_edge_busy_by_its_bytes_and_by_itself() -> None:
    assert [
        octets(one) for one in ("text", MessageWithFrame(bytes(20)), MessageWithPayload(bytes(30)))
    ] == [
        100,
        120,
        130,
    ]
    edge = Edge(("a", "b"), DELAY_S, 0.0)
    assert edge.busy_s(MessageWithFrame(bytes(20))) == 0.0
    edge.message_s = 0.5
    assert edge.busy_s(MessageWithFrame(bytes(20))) == 0.5
    edge.bytes_per_s = 60.0
    assert edge.busy_s(MessageWithFrame(bytes(20))) == 2.5


# -- time ------------------------------------------------------------------------------------------


def test_what_is_due_happens_in_order_and_what_was_set_first_is_first() -> None:
    clock, done = Clock(), list[tuple[float, str]]()
    for at_s, name in ((2.0, "b"), (1.0, "a"), (2.0, "c"), (-5.0, "now"), (3.0, "later")):
        clock.at(at_s, lambda name=name: done.append((clock.now, name)))
    clock.run(2.0)
    assert done == [(0.0, "now"), (1.0, "a"), (2.0, "b"), (2.0, "c")]
    assert (clock.now, clock.events) == (2.0, 4)
    clock.run(2.5)
    assert (clock.now, clock.events) == (2.5, 4)


def test_a_leap_puts_off_all_that_is_to_come_and_is_none_of_a_still_clocks_time() -> None:
    clock, done = Clock(), list[float]()
    still = StillClock(2.0, 10.0, clock)
    clock.at(3.0, lambda: done.append(clock.now))
    clock.run(1.0)
    clock.leap(100.0)
    assert (clock.now, clock.leapt_s) == (101.0, 100.0)
    assert still.reading(clock.now) == 12.0
    assert still.virtual_s(12.0) == 101.0
    clock.run(102.9)
    assert done == []
    clock.run(103.0)
    assert done == [103.0]


def test_a_clock_of_a_life_starts_anywhere_and_runs_at_its_own_rate() -> None:
    local = LocalClock(2.0, 10.0)
    assert (local.reading(3.0), local.virtual_s(16.0)) == (16.0, 3.0)


def test_a_timer_goes_off_once_at_the_time_set_last_by_its_clock() -> None:
    clock = Clock()
    life = ListeningHost("a", clock)
    done: list[tuple[float, float]] = []
    timer = Timer(life, clock, LocalClock(2.0, 10.0), lambda now: done.append((clock.now, now)))
    timer.set(20.0)
    timer.set(16.0)
    timer.set(16.0)
    clock.run(9.0)
    assert done == [(3.0, 16.0)]
    timer.set(30.0)
    timer.set(float("inf"))
    clock.run(20.0)
    assert done == [(3.0, 16.0)]
    timer.set(12.0)  # over already
    clock.run(20.0)
    assert done[1:] == [(20.0, 50.0)]


def test_a_timer_of_a_life_that_stands_still_is_late_and_of_one_that_ended_silent() -> None:
    clock = Clock()
    life = ListeningHost("a", clock)
    done: list[tuple[float, float]] = []
    timer = Timer(life, clock, LocalClock(), lambda now: done.append((clock.now, now)))
    timer.set(2.0)
    life.paused_until_s = 3.0
    clock.run(2.5)
    assert done == []
    clock.run(4.0)
    assert done == [(3.0, 3.0)]
    timer.set(5.0)
    life.alive = False
    clock.run(6.0)
    assert done == [(3.0, 3.0)]

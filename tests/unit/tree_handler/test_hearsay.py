"""Batches that neighbours had and can't prove are sought farther off, and never count as lost."""

from __future__ import annotations

from tests.held_objects import held_objects
from tree_handler.batch import CONTROL_PREFIX, MAX_NUMBER, Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Append, ReplicationAction, SendSeek
from tree_handler.replication.hearsay import Hearsay
from tree_handler.replication.neighbour_picture import MAX_BEYOND
from tree_handler.replication.repair import SearchResult, Summary
from tree_handler.replication.replication import RepairSettings, Replication
from tree_handler.seal import Seals
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

ORIGIN = ("origin", 7)
DAY_S = 24 * 3600.0


class Seeker:
    """A gateway that has 1 to 80 of an origin, and a neighbour with a short log."""

    def __init__(self) -> None:
        seals = Seals(ModelSigner("gw"), ModelRing(), "t")
        begun = (CONTROL_PREFIX + ORIGIN[0], ORIGIN[1])
        have = {ORIGIN: Intervals([(1, 80)]), begun: Intervals([(1, 1)])}
        self.core = Replication("gw", 1, have, RepairSettings(seals=seals))
        self.core.repair.link_up(1, 0.0)
        self.sought: list[tuple[float, dict[Epoch, Intervals]]] = []
        self.appended: list[Append] = []

    def is_told(self, told: Summary, now: float) -> None:
        told.completes = True
        self.do(self.core.repair.receive_summary(1, told, now), now)

    def go_on(self, now: float) -> None:
        self.do(self.core.repair.handle_timer(now), now)

    def do(self, actions: list[ReplicationAction], now: float) -> None:
        for action in actions:
            if isinstance(action, SendSeek):
                self.sought.append((now, action.seek.wanted))
                answer = SearchResult(
                    action.seek.number, action.seek.wanted, frozenset(), complete=True
                )
                self.do(self.core.repair.receive_sought(1, answer, now), now)
            elif isinstance(action, Append) and action.header.stream == ORIGIN:
                self.appended.append(action)


def trimmed(last: int) -> Summary:
    """It had so many, and its log holds none of them any more."""
    return Summary({ORIGIN: Intervals([(1, last)])}, {ORIGIN: last + 1})


def test_what_a_neighbour_had_and_its_log_has_dropped_is_sought_farther_off() -> None:
    seeker = Seeker()
    seeker.is_told(trimmed(100), 1.0)
    seeker.go_on(5.0)
    assert seeker.sought == [(5.0, {ORIGIN: Intervals([(81, 100)])})]


def test_what_it_can_send_is_asked_of_it_and_not_sought() -> None:
    seeker = Seeker()
    told = trimmed(100)
    told.kept_from[ORIGIN] = 91
    seeker.is_told(told, 1.0)
    seeker.go_on(5.0)
    assert seeker.sought == [(5.0, {ORIGIN: Intervals([(81, 90)])})]


def test_what_nobody_has_is_not_lost_and_sought_ever_more_seldom_for_a_day() -> None:
    seeker = Seeker()
    seeker.is_told(trimmed(MAX_NUMBER), 1.0)
    for now in range(60, int(2 * DAY_S), 60):
        seeker.go_on(float(now))
    assert not seeker.appended
    assert 5 < len(seeker.sought) < 30
    assert max(at for at, _ in seeker.sought) < DAY_S + 60.0
    assert all(wanted[ORIGIN].count() <= 100_000 for _, wanted in seeker.sought)


def test_of_many_streams_that_a_neighbour_makes_up_few_are_sought() -> None:
    seeker = Seeker()
    names = [(f"gw-{number}", 1) for number in range(2 * MAX_BEYOND)]
    for at in range(0, len(names), MAX_BEYOND):
        some = names[at : at + MAX_BEYOND]
        have = {name: Intervals([(1, 9)]) for name in some}
        seeker.is_told(Summary(have, dict.fromkeys(some, 10)), 1.0)
    for now in range(60, 1_800, 120):
        seeker.go_on(float(now))
    assert len({name for _, wanted in seeker.sought for name in wanted}) <= MAX_BEYOND
    assert len(seeker.sought) < 20


def test_what_neighbours_can_send_is_not_counted_as_sought_in_vain_however_long_it_lasts() -> None:
    """A stream may be a little behind at each look: so it is on a slow line."""
    hearsay, now = Hearsay(5.0, DAY_S), 0.0
    while now < 2 * DAY_S:
        assert hearsay.due([ORIGIN], now) == [ORIGIN]
        hearsay.sought([], now)
        now += 600.0
    began = now
    while hearsay.due([ORIGIN], now):
        hearsay.sought([ORIGIN], now)
        while now < began + 2 * DAY_S and not hearsay.due([ORIGIN], now):
            now += 600.0
    assert now >= began + DAY_S


def test_what_was_sought_in_vain_for_a_day_takes_no_memory_until_it_is_told_again() -> None:
    seeker = Seeker()
    streams = [ORIGIN, *((f"origin-{number}", 1) for number in range(100))]
    dropped = {stream: Intervals([(1, 100)]) for stream in streams}
    seeker.is_told(Summary(dropped, dict.fromkeys(streams, 101)), 1.0)
    seeker.go_on(60.0)
    searching = held_objects(seeker.core)
    for now in range(660, int(2 * DAY_S), 600):
        seeker.go_on(float(now))
    assert held_objects(seeker.core) <= searching - 5 * len(streams)
    times = len(seeker.sought)
    seeker.is_told(trimmed(100), 2 * DAY_S)
    seeker.go_on(2 * DAY_S + 60.0)
    assert len(seeker.sought) == times + 1


def test_of_what_is_here_as_well_no_room_is_taken_from_what_is_not() -> None:
    seeker = Seeker()
    have = {(f"gw-{number}", 1): Intervals([(1, 9)]) for number in range(2 * MAX_BEYOND)}
    seeker.core.have.update({stream: Intervals(numbers) for stream, numbers in have.items()})
    seeker.is_told(trimmed(100), 1.0)
    for at in range(0, len(have), MAX_BEYOND):
        some = dict(list(have.items())[at : at + MAX_BEYOND])
        seeker.is_told(Summary(some, dict.fromkeys(some, 10)), 1.0)
    seeker.go_on(5.0)
    assert seeker.sought == [(5.0, {ORIGIN: Intervals([(81, 100)])})]

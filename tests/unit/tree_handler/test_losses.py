"""A batch that nobody within reach has is sought again until its loss is certain."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import inf

from compiled_sources import is_compiled

from tests.held_objects import held_objects
from tree_handler import intervals
from tree_handler.batch import MAX_NUMBER, MAX_PASSED, Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Append, ReplicationAction, SendRequest, SendSeek
from tree_handler.replication.losses import MAX_NOTES, Losses
from tree_handler.replication.repair import SearchResult, Summary
from tree_handler.replication.replication import RepairSettings, Replication
from tree_handler.replication.search import Searches
from tree_handler.replication.stuck import STEPS, StuckSince

STREAM = ("origin", 1)
MISSING = {STREAM: Intervals([(3, 3)])}
DAY_S = 24 * 3600.0


class Gateway:
    """One that lacks a number, and its neighbour, which finds nothing."""

    def __init__(self) -> None:
        searches = Searches("gw", 1, lambda _: Intervals(), 10.0)
        searches.link_up(1, 0.0)
        self.losses = Losses(searches, lambda _: Intervals([(1, 2)]), 5.0, DAY_S)
        self.sought_at: list[float] = []
        self.searches = searches

    def look(
        self,
        now: float,
        *,
        origins: frozenset[str] = frozenset(),
        missing: Mapping[Epoch, Intervals] = MISSING,
    ) -> list[Append]:
        """A round; the neighbour answers at once, for itself and these origins."""
        lost = [row for row in self.losses.give_up(missing, now) if isinstance(row, Append)]
        for action in self.losses.seek(missing, now):
            assert isinstance(action, SendSeek)
            self.sought_at.append(now)
            found = SearchResult(action.seek.number, action.seek.wanted, origins, complete=True)
            self.searches.receive_sought(1, found)
            self.losses.heard(now)
        return lost


def test_what_an_absent_origin_may_have_is_sought_again_after_as_long_as_it_has_been_missing() -> (
    None
):
    gateway = Gateway()
    for now in range(0, 7200, 5):
        assert not gateway.look(float(now))
    assert gateway.sought_at[:2] == [0.0, 5.0]
    assert all(later <= 2 * at + 10.0 for at, later in pairwise(gateway.sought_at))
    assert 5 < len(gateway.sought_at) < 20


def test_at_the_latest_it_is_sought_again_after_an_eighth_of_the_time_an_origin_may_be_away() -> (
    None
):
    gateway = Gateway()
    for now in range(0, int(DAY_S) - 5, 5):
        assert not gateway.look(float(now))
    for at, later in pairwise(gateway.sought_at):
        # Its answer is looked at 5 s later, when the number has been missing so much longer.
        assert later == at + min(at + 5.0, DAY_S / 8)
    assert gateway.sought_at[-1] - gateway.sought_at[-2] == DAY_S / 8


def test_an_origin_that_is_asked_and_has_it_no_more_makes_the_loss_certain() -> None:
    gateway = Gateway()
    assert not gateway.look(0.0, origins=frozenset({"origin"}))
    (lost,) = gateway.look(5.0)
    assert (lost.header.first, lost.header.last) == (3, 3)


def test_a_gap_however_wide_makes_so_many_notes_in_a_round_and_no_more() -> None:
    wide = {STREAM: Intervals([(3, MAX_NUMBER)])}
    gateway = Gateway()
    gateway.losses.of_origins(wide, 0.0)
    noted = gateway.losses.of_origins(wide, 100.0)
    gateway.losses.alone(wide, 0.0)
    noted_alone = gateway.losses.alone(wide, DAY_S)
    for notes in (noted, noted_alone):
        assert len(notes) == MAX_NOTES
        firsts = [note.header.first for note in notes if isinstance(note, Append)]
        assert firsts == [3 + at * MAX_PASSED for at in range(MAX_NOTES)]


def test_a_loss_is_certain_only_when_the_answer_has_settled() -> None:
    gateway = Gateway()
    gateway.look(0.0, origins=frozenset({"origin"}))
    assert not gateway.look(1.0)
    assert not gateway.look(2.4)
    assert gateway.losses.due_at == 2.5
    assert gateway.look(2.5)


def test_what_a_neighbour_can_send_meanwhile_is_not_lost() -> None:
    gateway = Gateway()
    gateway.look(0.0, origins=frozenset({"origin"}))
    assert not gateway.look(5.0, missing={})


def test_who_is_alone_meanwhile_asks_again_before_anything_is_lost() -> None:
    gateway = Gateway()
    gateway.look(0.0, origins=frozenset({"origin"}))
    gateway.losses.start_over()
    assert not gateway.look(1000.0)
    assert gateway.sought_at == [0.0, 1000.0]


def test_what_is_missing_for_longer_than_its_origin_may_be_away_is_given_up() -> None:
    gateway = Gateway()
    assert not gateway.look(0.0)
    assert gateway.look(DAY_S)


def test_what_an_answer_says_nothing_of_is_asked_for_next_and_alone() -> None:
    """A torn log leaves more ranges than an answer may name."""
    gateway = Gateway()
    silent = ("origin-b", 1)  # nobody ever says anything of it
    missing = {STREAM: Intervals([(1, 30)]), silent: Intervals([(5, 6)])}
    named = Intervals([(1, 10)])
    asked: list[Mapping[Epoch, Intervals]] = []
    for now in range(0, 3_600, 5):
        for action in gateway.losses.seek(missing, float(now)):
            assert isinstance(action, SendSeek)
            seek = action.seek
            asked.append(seek.wanted)
            left = {STREAM: seek.wanted.get(STREAM, Intervals()).common(named)}
            first = named.last % 30 + 1
            named = Intervals([(first, first + 9)])
            sought = SearchResult(seek.number, left, frozenset(), complete=True)
            gateway.searches.receive_sought(1, sought)
            gateway.losses.heard(float(now))
        assert not gateway.losses.give_up(missing, float(now))
    assert asked[0] == missing
    assert asked[1] == missing | {STREAM: Intervals([(11, 30)])}
    assert asked[2] == missing | {STREAM: Intervals([(21, 30)])}
    assert asked[3] == {silent: missing[silent]}
    assert asked[4] == missing


def test_a_gap_of_seconds_is_not_given_up_with_one_of_the_same_stream_that_is_a_day_old() -> None:
    gateway = Gateway()
    assert not gateway.look(0.0)
    both = {STREAM: Intervals([(3, 3), (9, 9)])}
    assert not gateway.look(DAY_S - 60.0, missing=both)
    lost = [row for now in range(0, 600, 5) for row in gateway.look(DAY_S + now, missing=both)]
    assert {(row.header.first, row.header.last) for row in lost} == {(3, 3)}
    young = {STREAM: Intervals([(9, 9)])}
    assert not any(gateway.look(DAY_S + hour * 3600.0, missing=young) for hour in range(1, 23))
    lost_later = [gateway.look(2 * DAY_S + now, missing=young) for now in range(0, 4 * 3600, 60)]
    assert [row.header.first for rows in lost_later for row in rows][:1] == [9]


def test_a_new_gap_is_sought_at_once_though_an_old_one_is_sought_ever_more_seldom() -> None:
    gateway = Gateway()
    for now in range(0, 7200, 5):
        gateway.look(float(now))
    before = len(gateway.sought_at)
    missing = MISSING | {("origin-b", 1): Intervals([(7, 7)])}
    gateway.look(7200.0, missing=missing)
    assert gateway.sought_at[before:] == [7200.0]


def test_who_is_alone_gives_up_what_is_missing_for_long_and_nothing_younger() -> None:
    gateway = Gateway()
    gateway.losses.alone(MISSING, 0.0)
    both = {STREAM: Intervals([(3, 3), (9, 9)])}
    assert not gateway.losses.alone(both, DAY_S - 5.0)
    (note,) = gateway.losses.alone(both, DAY_S)
    assert isinstance(note, Append)
    assert (note.header.first, note.header.last) == (3, 3)


def test_however_many_gaps_come_each_is_given_up_in_its_time_and_few_rows_are_kept() -> None:
    stuck = StuckSince()
    missing = Intervals()
    for at in range(400):
        missing.add(2 * at + 1, 2 * at + 1)
        stuck.follow({STREAM: Intervals(list(missing))}, at * 500.0, DAY_S)
    # Compiled, a number of two places is two objects.
    times = 2 if is_compiled(intervals) else 1
    assert held_objects(stuck) < times * held_objects(missing) + 8 * (STEPS + 2)
    now = 399 * 500.0
    gone = stuck.for_long(STREAM, now, DAY_S)
    known = [2 * at + 1 for at in range(400) if now - at * 500.0 >= DAY_S]
    assert all(number in known for number, _ in gone)
    assert gone.count() >= len(known) - DAY_S / STEPS / 500.0 - 1


def test_each_number_is_missing_for_long_from_its_own_time_on_by_steps_of_a_64th() -> None:
    stuck, long_s = StuckSince(), 64.0 * 10
    came = {1: 0.0, 3: 4.0, 5: 12.0, 7: 100.0, 9: 101.0, 11: 639.0}
    missing = Intervals()
    assert stuck.since(STREAM) == inf
    for number, at in came.items():
        missing = Intervals([*missing, (number, number)])
        assert stuck.follow({STREAM: missing}, at, long_s)
        assert not stuck.follow({STREAM: Intervals(list(missing))}, at + 0.5, long_s)
    assert stuck.since(STREAM) == 4.0

    def gone(now: float) -> list[int]:
        return [first for first, _ in stuck.for_long(STREAM, now, long_s)]

    for now, numbers in (
        (long_s + 3.9, []),
        (long_s + 4.0, [1, 3]),
        (long_s + 11.9, [1, 3]),
        (long_s + 12.0, [1, 3, 5]),
        (long_s + 100.9, [1, 3, 5]),
        (long_s + 101.0, [1, 3, 5, 7, 9]),
    ):
        assert gone(now) == numbers
    # What is missing for long is one row; of what is there again nothing is known.
    now = long_s + 12.0
    assert not stuck.follow({STREAM: Intervals([(1, 1), (5, 5), (7, 7)])}, now, long_s)
    assert (gone(now), stuck.since(STREAM)) == ([1, 5], 12.0)
    assert stuck.follow({STREAM: Intervals([(1, 3), (7, 7)])}, now + 1.0, long_s)
    assert gone(long_s + 101.0) == [1, 7]
    assert not stuck.follow({}, now + 2.0, long_s)
    assert (gone(2 * long_s), stuck.since(STREAM)) == ([], inf)
    assert stuck.follow({STREAM: Intervals([(1, 1)])}, now + 3.0, long_s)
    assert gone(now + 2.0 + long_s) == []


def test_a_number_that_counts_as_missing_for_long_at_once_does_so() -> None:
    stuck = StuckSince()
    stuck.follow({STREAM: Intervals([(1, 1)])}, 5.0, 0.0)
    assert list(stuck.for_long(STREAM, 5.0, 0.0)) == [(1, 1)]


def test_what_a_neighbour_names_again_and_again_and_never_sends_is_sought_and_given_up() -> None:
    """It had noted the number as lost itself. Its origin can't be asked for a while, and the stream
    goes on meanwhile, so that the neighbour tells of it every few seconds."""
    have = {STREAM: Intervals([(1, 4), (6, 10)])}
    core = Replication("gw", 1, have, RepairSettings())
    given_up: list[float] = []

    def do(actions: list[ReplicationAction], now: float) -> None:
        for action in actions:
            if isinstance(action, SendRequest):
                do(core.repair.receive_done(1, now), now)
            elif isinstance(action, SendSeek):
                number, left = action.seek.number, action.seek.wanted
                origins = frozenset({STREAM[0]})
                answer = SearchResult(number, left, origins, complete=now > 100.0)
                do(core.repair.receive_sought(1, answer, now), now)
            elif isinstance(action, Append):
                if action.header.stream == STREAM:
                    given_up.append(now)
                do(core.appended(action), now)

    do(core.repair.link_up(1, 0.0), 0.0)
    told = Summary({STREAM: Intervals([(1, 10)])}, completes=True)
    do(core.repair.receive_summary(1, told, 0.0), 0.0)
    for now in range(1, 200):
        if now % 5 == 4:
            last = have[STREAM].last + 1
            have[STREAM].add(last, last)
            told = Summary({STREAM: Intervals([(1, last)])})
            do(core.repair.receive_summary(1, told, float(now)), float(now))
        if core.repair.next_timer() <= now:
            do(core.repair.handle_timer(float(now)), float(now))
    assert len(given_up) == 1
    assert 100.0 < given_up[0] < 120.0

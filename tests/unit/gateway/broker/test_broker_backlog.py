"""A client's backlog against a simple list: order, room, and messages that the log has dropped."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.broker.durability import saved_places
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import EXPIRY, OVERHEAD_BYTES, RETAIN, LearntMessage, Message
from gateway.broker.sessions.backlog import (
    HEAD_BYTES,
    PAUSE_MAX_S,
    PAUSE_S,
    Backlog,
    QueuedDelivery,
)
from gateway.broker.sessions.places import AT, NEVER, SINCE, SLACK_MS, PackedWay, Places, WaitingRun
from gateway.broker.sessions.queue_log import read_first
from gateway.log.errors import LogError
from tree_handler.batch import Epoch, Ref
from tree_handler.intervals import Intervals

STREAMS: tuple[Epoch, ...] = (("a", 1), ("a", 2), ("b", 9))
SIZE = 4_000
QOS_1, QOS_2 = 2, 4


def roomy() -> Budget:
    return Budget(Limits(all_queues_bytes=1 << 30))


def message(number: int, key: Epoch | None, size: int = SIZE) -> Message:
    made = Message("t", b"t", b"%d" % number + bytes(size), 2, False)
    made.ref = None if key is None else (key, number)
    return made


def learnt(number: int, key: Epoch) -> LearntMessage:
    """A message that a neighbour told of, and no batch brought."""
    made = LearntMessage("t", b"t", b"%d" % number + bytes(SIZE), 1, True)
    made.ref = key, number
    return made


class Log:
    """A log in memory, which reads a few messages at a time, and forgets some."""

    def __init__(self, at_once: int = 3) -> None:
        self.has_of: dict[Epoch, dict[int, Message]] = {key: {} for key in STREAMS}
        self.at_once = at_once
        self.asked = 0
        self.is_unreadable = False

    def messages(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
        self.asked += 1
        if self.is_unreadable:
            raise LogError("too many open files")
        until = min(last, first + self.at_once - 1)
        return {n: m for n, m in self.has_of[key].items() if first <= n <= until}, until

    def has(self, ref: Ref) -> bool:
        return ref[1] in self.has_of[ref[0]]


def places(key: Epoch, first: int, last: int) -> Places:
    made = Places()
    made.add(WaitingRun((key, QOS_1, ()), first, last))
    return made


def wants(delivery: QueuedDelivery) -> tuple[bytes, int, tuple[int, ...]]:
    return delivery[0].payload, delivery[1], delivery[2]


class Waiting(RuleBasedStateMachine):
    """A backlog, and the list that it is to be like."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.budget = roomy()
        self.limits = Limits(queue_messages=40, queue_bytes=8 * SIZE)
        self.backlog = Backlog(self.limits, self.budget, self.log)
        self.model: deque[QueuedDelivery] = deque()
        self.next = dict.fromkeys(STREAMS, 1)
        self.unlogged = 0
        self.dropped = self.trimmed = 0
        self.now_s = 0.0

    @rule(
        key=st.sampled_from(STREAMS),
        skipped=st.integers(0, 2),
        flags=st.sampled_from([QOS_1, QOS_2]),
        identifiers=st.sampled_from([(), (7,)]),
        count=st.integers(1, 6),
    )
    def logged_messages_come(
        self, key: Epoch, skipped: int, flags: int, identifiers: tuple[int, ...], count: int
    ) -> None:
        self.next[key] += skipped
        for _ in range(count):
            number = self.next[key]
            self.next[key] = number + 1
            one = message(number, key)
            self.log.has_of[key][number] = one
            self._add((one, flags, identifiers))

    def _add(self, delivery: QueuedDelivery) -> None:
        if len(self.model) < self.limits.queue_messages:
            self.model.append(delivery)
        else:
            self.dropped += 1
        self.backlog.add(delivery)

    @rule()
    def one_comes_that_no_log_has(self) -> None:
        self.unlogged += 1
        delivery = (message(self.unlogged, None), QOS_1, ())
        has_room = self.backlog.size_bytes + delivery[0].size_bytes <= self.limits.queue_bytes
        if has_room or len(self.model) >= self.limits.queue_messages:
            self._add(delivery)
        else:
            self.dropped += 1
            self.backlog.add(delivery)

    @rule(count=st.integers(1, 8))
    def the_client_reads(self, count: int) -> None:
        for _ in range(count):
            before = self.backlog.dropped
            self.now_s += PAUSE_MAX_S
            found = self.backlog.take(self.now_s)
            self._dropped(self.backlog.dropped - before, found)
            if found is None:
                assert not self.model or self.log.is_unreadable
                return
            # What the log lost and no drop was counted for must have been in memory.
            assert wants(found) == wants(self.model.popleft())

    @rule()
    def the_log_can_not_be_read_or_can_again(self) -> None:
        self.log.is_unreadable = not self.log.is_unreadable

    def _dropped(self, count: int, found: QueuedDelivery | None) -> None:
        """Note how much of what was read with the message that was found the log no longer had."""
        here = {one[0].ref for one in (*self.backlog.in_memory(), *([found] if found else []))}
        gone = [
            one
            for one in self.model
            if (ref := one[0].ref) and ref[1] not in self.log.has_of[ref[0]] and ref not in here
        ]
        assert len(gone) >= count, "dropped, though the log has it"
        for one in gone[:count]:
            self.model.remove(one)
        self.trimmed += count

    @precondition(lambda self: self.model)
    @rule(key=st.sampled_from(STREAMS), upto=st.integers(0, 40))
    def the_log_is_trimmed(self, key: Epoch, upto: int) -> None:
        kept = {n: m for n, m in self.log.has_of[key].items() if n > upto}
        self.log.has_of[key] = kept

    @rule()
    def it_is_in_a_checkpoint_and_comes_back(self) -> None:
        saved = self.backlog.saved()
        budget = roomy()
        again = Backlog(self.limits, budget, self.log)
        for item in saved:
            again.restore(item)
        again.adopt(self.limits, self.budget)
        again.dropped = self.backlog.dropped
        self.budget.used_bytes -= self.backlog.size_bytes
        self.backlog = again

    @invariant()
    def it_counts_what_waits_and_what_was_dropped(self) -> None:
        assert self.backlog.count == len(self.model)
        assert self.backlog.dropped == self.dropped + self.trimmed
        assert self.budget.used_bytes == self.backlog.size_bytes
        assert self.backlog.size_bytes == sum(m.size_bytes for m, _, _ in self.backlog.in_memory())


TestWaiting = Waiting.TestCase


def test_while_the_log_can_not_be_read_what_waits_keeps_its_places_and_its_order() -> None:
    log, budget = Log(), roomy()
    backlog = Backlog(Limits(), budget, log)
    for number in range(1, 41):
        backlog.add((one := message(number, STREAMS[0]), QOS_1, ()))
        log.has_of[STREAMS[0]][number] = one
    log.is_unreadable = True
    in_memory = len([*iter(lambda: backlog.take(0.0), None)])
    assert backlog.is_held_up
    assert backlog.count == 40 - in_memory
    assert (budget.trimmed, backlog.dropped) == (0, 0)
    log.is_unreadable = False
    rest = [*iter(lambda: backlog.take(PAUSE_S), None)]
    assert [one[0].ref for one in rest] == [(STREAMS[0], n) for n in range(in_memory + 1, 41)]
    assert not backlog.is_held_up


def test_a_log_that_can_not_be_read_is_asked_again_after_pauses_that_grow() -> None:
    log = Log()
    backlog = Backlog(Limits(), roomy(), log)
    backlog.restore(places(STREAMS[0], 1, 9))
    log.is_unreadable = True
    asked = []
    for step in range(1_000):
        before = log.asked
        backlog.take(step * PAUSE_S)
        asked += [step * PAUSE_S] * (log.asked - before)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert pauses[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, PAUSE_MAX_S]
    assert set(pauses[7:]) == {PAUSE_MAX_S}


def waiting(shape: Iterator[QueuedDelivery], limits: Limits | None = None) -> Backlog:
    backlog = Backlog(limits or Limits(), roomy(), Log())
    for delivery in shape:
        backlog.add(delivery)
    return backlog


def expiring(one: Message, came_s: float, interval_s: int) -> Message:
    """A message that came at a moment and expires so much later."""
    one.properties = {EXPIRY: interval_s}
    one.expires_at_s = came_s + interval_s
    return one


MANY = 4_000
SHAPES: dict[str, tuple[float, Callable[[int], QueuedDelivery]]] = {
    # What a message that waits may cost, in bytes, and the messages.
    "one like the other": (0.1, lambda n: (message(n, STREAMS[0], 0), QOS_1, ())),
    "expiry, one a second": (
        7,
        lambda n: (expiring(message(n, STREAMS[0], 0), 5.0 + n, 60), QOS_1, ()),
    ),
    "expiry, a thousand a second, each with its own": (
        0.2,
        lambda n: (expiring(message(n, STREAMS[0], 0), n / 1000, n), QOS_1, ()),
    ),
    "some expire": (
        7,
        lambda n: (
            message(n, STREAMS[0], 0) if n % 2 else expiring(message(n, STREAMS[0], 0), n, 60),
            QOS_1,
            (),
        ),
    ),
    "alternating QoS": (3.5, lambda n: (message(n, STREAMS[0], 0), (QOS_1, QOS_2)[n % 2], ())),
    "as published": (3.5, lambda n: (message(n, STREAMS[0], 0), QOS_1 | n % 3 // 2, ())),
    "several subscriptions": (
        3.5,
        lambda n: (message(n, STREAMS[0], 0), QOS_1, tuple(range(1, 2 + n % 7))),
    ),
    "origins in turn": (3.5, lambda n: (message(n, STREAMS[n % 3], 0), QOS_1, ())),
    "every hundredth": (3.5, lambda n: (message(n * 64, STREAMS[0], 0), QOS_1, ())),
    "all at once": (
        12,
        lambda n: (
            expiring(message(n * 1_000, STREAMS[n % 3], 0), 5.0 * n, 60),
            (QOS_1, QOS_2)[n * 7 % 5 % 2],
            tuple(range(n % 4)),
        ),
    ),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_does_not_grow_with_what_waits_whatever_its_shape(shape: str) -> None:
    allowed, made = SHAPES[shape]
    few = waiting(map(made, range(1, 1_001)))
    # A thread of an earlier test may take some of the process's memory, but not each time.
    bound = few.places_bytes + 1.5 * allowed * MANY + (32 << 10)
    for _ in range(3):
        grown, backlog = _grown(lambda: waiting(map(made, range(1, MANY + 1))))
        if grown - 2 * HEAD_BYTES <= bound:
            break
    assert backlog.count == MANY
    assert backlog.size_bytes <= HEAD_BYTES
    assert backlog.places_bytes <= few.places_bytes + allowed * MANY
    # An object for each place takes much more.
    assert grown - 2 * HEAD_BYTES <= bound


def _grown(make: Callable[[], Backlog]) -> tuple[int, Backlog]:
    """Make something; how many bytes the process has taken for it, and what was made."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before, made
    finally:
        tracemalloc.stop()


def test_places_count_for_a_limit_of_their_own_and_what_finds_no_room_is_told() -> None:
    budget = Budget(Limits(all_queues_bytes=4 * 20_000))
    backlog = Backlog(Limits(), budget, Log())
    for number in range(2, 40_000, 2):
        backlog.add((message(number, STREAMS[0], 0), QOS_1, ()))
    assert backlog.dropped > 0
    assert backlog.count + backlog.dropped == 19_999
    assert budget.dropped == backlog.dropped
    assert 19_000 <= backlog.places_bytes == budget.places_bytes <= 20_000
    other = Backlog(Limits(), budget, Log())
    for number in range(1, 100_000):
        other.add((message(number, STREAMS[0], 0), QOS_1, ()))
    assert other.dropped == 0, "a few places are always there"
    backlog.clear()
    other.clear()
    assert budget.places_bytes == budget.used_bytes == 0


def test_what_is_in_memory_takes_no_room_from_places() -> None:
    budget = Budget(Limits(all_queues_bytes=100_000))
    full = Backlog(Limits(), budget, None)
    while not full.dropped:
        full.add((message(1, None), QOS_1, ()))
    backlog = Backlog(Limits(), budget, Log())
    for number in range(2, 10_000, 2):
        backlog.add((message(number, STREAMS[0], 0), QOS_1, ()))
    assert backlog.dropped == 0


def test_the_log_is_read_a_piece_at_a_time_whoever_takes_turns() -> None:
    log = Log(at_once=64)
    backlog = Backlog(Limits(), roomy(), log)
    for number in range(1, 1_001):
        for key in STREAMS:
            log.has_of[key][number] = one = message(number, key, 0)
            backlog.add((one, (QOS_1, QOS_2)[number % 2], ()))
    assert sum(1 for _ in iter(lambda: backlog.take(0.0), None)) == 3_000
    assert log.asked <= 3 * (1_000 / 64 + 2)


def test_what_was_retained_stays_in_memory_for_it_may_be_older_than_the_log() -> None:
    backlog = Backlog(Limits(queue_bytes=10 * HEAD_BYTES), roomy(), Log())
    for number in range(1, 11):
        delivery = (message(number, STREAMS[0], HEAD_BYTES // 2), QOS_1 | RETAIN, ())
        backlog.add(delivery, retained=True)
    assert [one[0].ref for one in iter(lambda: backlog.take(0.0), None)] == [
        (STREAMS[0], number) for number in range(1, 11)
    ]


def test_of_a_message_that_waits_twice_the_one_with_these_flags_is_taken_wherever_it_is() -> None:
    log = Log()
    for number in range(1, 21):
        log.has_of["a", 1][number] = message(number, ("a", 1))
    backlog = Backlog(Limits(), roomy(), log)
    for number in range(1, 11):  # the later ones wait in the log
        backlog.add((log.has_of["a", 1][number], QOS_2, ()))
    again = QOS_2 | RETAIN
    for number in range(1, 11):  # as what is retained, which stays in memory
        backlog.add((log.has_of["a", 1][number], again, ()), retained=True)
    taken = backlog.remove((("a", 1), 9), QOS_2)
    assert taken is not None
    assert wants(taken) == wants((log.has_of["a", 1][9], QOS_2, ()))
    other = backlog.remove((("a", 1), 9), QOS_2)  # there is no other way in which it waits
    assert other is not None
    assert other[1] == again
    assert backlog.remove((("a", 1), 9), QOS_2) is None
    assert backlog.count == 18


def test_without_a_log_the_newest_are_dropped_beyond_the_bytes_of_a_queue() -> None:
    backlog = Backlog(
        Limits(queue_bytes=3 * (SIZE + OVERHEAD_BYTES + 3)),
        roomy(),
        None,
    )
    for number in range(1, 6):
        backlog.add((message(number, STREAMS[0]), QOS_1, ()))
    assert (backlog.count, backlog.dropped) == (3, 2)


def test_an_expiry_outlives_the_way_through_the_log() -> None:
    log = Log()
    backlog = Backlog(Limits(), roomy(), log)
    expected = []
    for number in range(1, 12):
        one = message(number, STREAMS[0])
        log.has_of[STREAMS[0]][number] = message(number, STREAMS[0])
        one.expires_at_s = None if number % 3 else float(number)
        expected.append(one.expires_at_s)
        backlog.add((one, QOS_1, ()))
    assert [one[0].expires_at_s for one in iter(lambda: backlog.take(0.0), None)] == expected


def test_a_gap_wider_than_what_is_read_at_once_costs_nothing() -> None:
    log = Log(at_once=3)
    backlog = Backlog(Limits(), roomy(), log)
    for number in (1, 2, 30, 31, 90):
        log.has_of[STREAMS[0]][number] = message(number, STREAMS[0])
        backlog.restore(places(STREAMS[0], number, number))
    taken = [*iter(lambda: backlog.take(0.0), None)]
    assert [one[0].ref for one in taken] == [(STREAMS[0], n) for n in (1, 2, 30, 31, 90)]
    assert (backlog.count, backlog.dropped, log.asked) == (0, 0, 3)


def test_what_a_checkpoint_was_given_does_not_change_with_the_queue() -> None:
    log = Log(at_once=64)
    backlog = Backlog(Limits(), roomy(), log)
    saved: list[tuple[list[Places], list[object]]] = []
    for number in range(1, 8_000):
        log.has_of[STREAMS[0]][number] = one = message(number, STREAMS[0], 0)
        backlog.add((one, (QOS_1, QOS_2)[number % 2], ()))
        if number % 7 == 0:
            assert backlog.take(0.0) is not None
        if number % 1_000 == 0:
            places = backlog.places()
            saved.append((places, [flat(one.runs()) for one in places]))
    while backlog.take(0.0) is not None:
        pass
    assert sum(len(places) for places, _ in saved) > 15
    for places, had in saved:
        assert [flat(one.runs()) for one in places] == had


NUMBERS = st.integers(1, 1 << 62)
WAYS = st.tuples(
    st.sampled_from(STREAMS), st.sampled_from([QOS_1, QOS_2]), st.sampled_from([(), (7,), (7, 300)])
)
MOMENTS = st.integers(-(1 << 50), 1 << 50)


@st.composite
def some_runs(draw: st.DrawFn) -> list[WaitingRun]:
    found: list[WaitingRun] = []
    for _ in range(draw(st.integers(1, 30))):
        way, timing = draw(WAYS), draw(st.sampled_from([NEVER, SINCE, AT]))
        is_next = found and draw(st.booleans())
        first = found[-1].last + 1 if is_next else draw(NUMBERS)
        moment_ms = draw(MOMENTS) if timing else 0
        if is_next and draw(st.booleans()):
            way, timing, moment_ms = found[-1].way, found[-1].timing, found[-1].moment_ms
        found.append(WaitingRun(way, first, first + draw(st.integers(0, 5)), timing, moment_ms))
    return found


def flat(runs: Iterable[WaitingRun]) -> list[tuple[PackedWay, int, int, int]]:
    return [
        (run.way, number, run.timing, run.moment_ms)
        for run in runs
        for number in range(run.first, run.last + 1)
    ]


@given(some_runs(), st.lists(st.integers(1, 40), max_size=6))
def test_places_are_taken_out_in_their_order(runs: list[WaitingRun], steps: list[int]) -> None:
    places, expected = Places(), flat(runs)
    for run in runs:
        places.add(run.copy())
    for step in [*steps, places.count]:
        count = min(step, places.count)
        copy = places.copy()
        places.skip(count)
        # Of messages that came within a moment the first one's counts for all.
        assert [one[:3] for one in flat(copy.runs())] == [one[:3] for one in expected]
        expected = expected[count:]
        found = flat(places.runs())
        assert [one[:3] for one in found] == [one[:3] for one in expected]
        early = [there[3] - here[3] for here, there in zip(found, expected, strict=True)]
        assert all(0 <= ms < SLACK_MS for ms in early)
        assert places.count == len(expected)


@given(some_runs(), st.integers(0, 20))
def test_places_come_back_from_a_checkpoint_as_they_were(
    runs: list[WaitingRun], taken: int
) -> None:
    places = Places()
    for run in runs:
        run.moment_ms %= 1 << 40
        places.add(run.copy())
    places.skip(min(taken, places.count - 1))
    before = flat(places.runs())
    again = Places()
    for one in saved_places.saved(places, 1_000.0):
        for run in saved_places.places_of(one, -1_000.0).runs():
            again.add(run)
    found = flat(again.runs())
    assert [one[:3] for one in found] == [one[:3] for one in before]
    moved = [here[3] - there[3] for here, there in zip(before, found, strict=True)]
    # Those that were a moment too far apart may have come closer by rounding.
    assert all(-2 <= ms <= SLACK_MS + 2 for ms in moved), (moved, before, found)


@pytest.mark.parametrize("change", ["flags", "identifiers", "stream", "expiry", "gap", "order"])
def test_what_is_delivered_otherwise_is_a_run_of_its_own(change: str) -> None:
    key = STREAMS[1] if change == "stream" else STREAMS[0]
    one = message({"order": 4, "gap": 7}.get(change, 6), key, 0)
    one.expires_at_s = 1.0 if change == "expiry" else None
    flags = QOS_2 if change == "flags" else QOS_1
    run = WaitingRun.of(one, flags, (3,) if change == "identifiers" else ())
    assert not WaitingRun((STREAMS[0], QOS_1, ()), 5, 5).takes(run)


def test_what_a_neighbour_told_of_waits_in_memory_for_no_log_has_it() -> None:
    log, budget = Log(), roomy()
    backlog = Backlog(Limits(queue_bytes=6 * SIZE), budget, log)
    backlog.restore(places(STREAMS[0], 1, 3))
    log.has_of[STREAMS[0]] = {number: message(number, STREAMS[0]) for number in (1, 2, 3)}
    news = learnt(7, STREAMS[1])
    backlog.add((news, QOS_1, ()))
    assert backlog.dropped == 0
    assert [one for one in backlog.saved() if not isinstance(one, Places)] == [(news, QOS_1, ())]
    taken = [*iter(lambda: backlog.take(0.0), None)]
    assert [one[0].ref for one in taken] == [*((STREAMS[0], n) for n in (1, 2, 3)), news.ref]
    assert budget.trimmed == 0


def test_what_a_neighbour_told_of_is_dropped_for_want_of_room_and_not_as_trimmed() -> None:
    log, budget = Log(), roomy()
    backlog = Backlog(Limits(queue_bytes=2 * SIZE), budget, log)
    for number in range(1, 4):
        backlog.add((learnt(number, STREAMS[1]), QOS_1, ()))
    log.has_of[STREAMS[1]][9] = learnt(9, STREAMS[1])
    backlog.add((learnt(9, STREAMS[1]), QOS_1, ()))
    taken = [*iter(lambda: backlog.take(0.0), None)]
    assert [one[0].ref for one in taken] == [(STREAMS[1], 1), (STREAMS[1], 9)]
    assert (budget.dropped, budget.trimmed) == (2, 0)


def test_what_the_log_lacks_is_saved_as_a_whole_wherever_it_stands_in_the_queue() -> None:
    log = Log()
    backlog = Backlog(Limits(), roomy(), log)
    news = learnt(7, STREAMS[1])
    backlog.restore((news, QOS_1, ()))
    backlog.restore(places(STREAMS[0], 1, 3))
    log.has_of[STREAMS[0]] = {number: message(number, STREAMS[0]) for number in (1, 2, 3)}
    assert backlog.remove((STREAMS[0], 2), QOS_1) is not None  # reads on, past the news
    whole = [one for one in backlog.saved() if not isinstance(one, Places)]
    assert whole == [(news, QOS_1, ())]


def test_places_of_a_release_that_knew_one_end_for_all_expire_at_it() -> None:
    one = saved_places.SavedPlaces(STREAMS[0], (1, 2, 5, 5), QOS_1, (), 1_500_000)
    [*runs] = saved_places.places_of(one, 10.0).runs()
    assert flat(runs) == [((STREAMS[0], QOS_1, ()), n, AT, 11_500) for n in (1, 2, 5)]


@given(some_runs(), some_runs())
def test_what_is_lost_is_taken_out_and_the_rest_stays_in_its_order(
    runs: list[WaitingRun], lost: list[WaitingRun]
) -> None:
    places, gone = Places(), dict[Epoch, Intervals]()
    for run in runs:
        places.add(run.copy())
    for run in [*lost, *runs[::3]]:
        gone.setdefault(run.way[0], Intervals()).add(run.first, run.last)
    expected = [one[:2] for one in flat(places.runs()) if one[1] not in gone.get(one[0][0], ())]
    kept = places.without(gone)
    assert [one[:2] for one in flat(kept.runs())] == expected
    assert kept.count == len(expected)
    assert places.meets(gone)


def test_what_is_lost_elsewhere_takes_nothing_out_and_what_is_lost_here_is_counted() -> None:
    budget = roomy()
    backlog = Backlog(Limits(), budget, Log())
    unlogged = (message(1, None), QOS_1, ())
    backlog.restore(unlogged)
    backlog.restore(places(STREAMS[0], 10, 20))
    around = {STREAMS[0]: Intervals([(1, 9), (21, 30)]), STREAMS[1]: Intervals([(10, 20)])}
    before = backlog.places_bytes
    assert list(backlog.forget(around)) == []
    assert (backlog.count, backlog.dropped, backlog.places_bytes) == (12, 0, before)
    lost = {STREAMS[0]: Intervals([(1, 10), (19, 25)])}
    assert len(list(backlog.forget(lost))) == 1
    assert (backlog.count, backlog.taken, backlog.dropped, budget.trimmed) == (9, 3, 3, 3)
    assert [flat(one.runs()) for one in backlog.places()] == [
        flat([WaitingRun((STREAMS[0], QOS_1, ()), 11, 18)])
    ]
    rest = {STREAMS[0]: Intervals([(1, 99)])}
    assert len(list(backlog.forget(rest))) == 1
    assert (backlog.count, backlog.places_bytes, budget.places_bytes) == (1, 0, 0)
    assert list(backlog.in_memory()) == [unlogged]


def test_a_message_far_behind_in_the_log_is_taken_and_what_stands_before_it_waits_on() -> None:
    log = Log(at_once=9)
    for key in STREAMS[:2]:
        for number in range(1, 4):
            log.has_of[key][number] = message(number, key)
    backlog = Backlog(Limits(), roomy(), log)
    unlogged = (message(7, None), QOS_1, ())
    backlog.restore(places(STREAMS[0], 1, 3))
    backlog.restore(unlogged)
    backlog.restore(places(STREAMS[1], 1, 3))
    found = backlog.remove((STREAMS[1], 2), QOS_1)
    assert found is not None
    assert found[0].ref == (STREAMS[1], 2)
    left = [one[0].ref for one in iter(lambda: backlog.take(0.0), None)]
    in_order = [*((STREAMS[0], number) for number in (1, 2, 3)), None]
    assert left == [*in_order, (STREAMS[1], 1), (STREAMS[1], 3)]
    assert (backlog.count, backlog.taken, backlog.size_bytes, backlog.places_bytes) == (0, 7, 0, 0)


def test_of_what_does_not_wait_nothing_is_taken_nor_read() -> None:
    log = Log()
    backlog = Backlog(Limits(), roomy(), log)
    backlog.restore(places(STREAMS[0], 1, 3))
    for ref in ((STREAMS[0], 4), (STREAMS[1], 1)):
        assert backlog.remove(ref, QOS_1) is None
    assert (backlog.count, log.asked) == (3, 0)


def test_a_message_is_trimmed_if_there_is_a_log_that_does_not_have_it() -> None:
    log = Log()
    log.has_of[STREAMS[0]][2] = message(2, STREAMS[0])
    backlog = Backlog(Limits(), roomy(), log)
    assert [backlog.is_trimmed((STREAMS[0], number)) for number in (1, 2, 3)] == [True, False, True]
    assert not Backlog(Limits(), roomy(), None).is_trimmed((STREAMS[0], 1))
    log.is_unreadable = True
    with pytest.raises(LogError):
        backlog.is_trimmed((STREAMS[0], 2))


def test_what_was_restored_counts_for_the_budget_that_it_gets() -> None:
    backlog = Backlog(Limits(), roomy(), Log())
    backlog.restore((message(1, None), QOS_1, ()))
    backlog.restore(places(STREAMS[0], 1, 3))
    budget = roomy()
    budget.used_bytes, budget.places_bytes = 100, 1_000
    backlog.adopt(Limits(queue_messages=4), budget)
    held = budget.used_bytes - 100, budget.places_bytes - 1_000
    assert held == (backlog.size_bytes, backlog.places_bytes)
    assert all(held)
    assert backlog.room == 0
    backlog.clear()
    assert (budget.used_bytes, budget.places_bytes, backlog.taken) == (100, 1_000, 4)


def test_places_know_what_is_among_them_by_stream_number_and_flags() -> None:
    one = Places()
    for run in (
        WaitingRun((STREAMS[0], QOS_1, ()), 3, 5),
        WaitingRun((STREAMS[1], QOS_2, ()), 4, 4),
        WaitingRun((STREAMS[0], QOS_2, ()), 9, 9),
    ):
        one.add(run)
    for flags, numbers in ((QOS_1, [3, 4, 5]), (QOS_2, [9]), (None, [3, 4, 5, 9]), (6, [])):
        assert [n for n in range(1, 12) if one.has(STREAMS[0], n, flags)] == numbers
    assert not one.has(STREAMS[2], 4, None)
    one.skip(2)
    assert [n for n in range(1, 12) if one.has(STREAMS[0], n, QOS_1)] == [5]


def test_where_a_second_stream_can_not_be_read_what_stands_before_does_not_wait_for_it() -> None:
    class Half(Log):
        def messages(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
            if key == STREAMS[1]:
                raise LogError("input/output error")
            return super().messages(key, first, last)

    log = Half()
    for number in (1, 2, 3):
        log.has_of[STREAMS[0]][number] = message(number, STREAMS[0])
    waiting = Places()
    for key, number in ((STREAMS[0], 1), (STREAMS[1], 1), (STREAMS[0], 2)):
        waiting.add(WaitingRun((key, QOS_1, (number,)), number, number))
    found, passed = read_first(log, waiting)
    assert [(one.ref, flags, ids) for one, flags, ids in found] == [((STREAMS[0], 1), QOS_1, (1,))]
    assert (passed, waiting.count) == (1, 3)
    waiting.skip(passed)
    with pytest.raises(LogError):
        read_first(log, waiting)
    assert read_first(None, waiting) == ([], 2)

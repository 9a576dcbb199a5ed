"""What waits for a client, against a simple list: order, room, and what the log no longer has."""

from __future__ import annotations

import itertools
import sys
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import OVERHEAD_BYTES, RETAIN, LearntMessage, Message
from gateway.broker.sessions.backlog import (
    HEAD_BYTES,
    PAUSE_MAX_S,
    PAUSE_S,
    Backlog,
    Delivery,
    Places,
)
from gateway.log.errors import LogError
from tree_handler.batch import Epoch, Ref

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


def wants(delivery: Delivery) -> tuple[bytes, int, tuple[int, ...]]:
    return delivery[0].payload, delivery[1], delivery[2]


class Waiting(RuleBasedStateMachine):
    """A backlog, and the list that it is to be like."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.budget = roomy()
        self.limits = Limits(queue_messages=40, queue_bytes=8 * SIZE)
        self.backlog = Backlog(self.limits, self.budget, self.log)
        self.model: deque[Delivery] = deque()
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

    def _add(self, delivery: Delivery) -> None:
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
            for _ in range(self.backlog.dropped - before):
                gone = self.model.popleft()
                ref = gone[0].ref
                assert ref is not None
                assert ref[1] not in self.log.has_of[ref[0]], "dropped, though the log has it"
                self.trimmed += 1
            if found is None:
                assert not self.model or self.log.is_unreadable
                return
            # What the log lost and no drop was counted for must have been in memory.
            assert wants(found) == wants(self.model.popleft())

    @rule()
    def the_log_can_not_be_read_or_can_again(self) -> None:
        self.log.is_unreadable = not self.log.is_unreadable

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
    backlog.restore(Places(STREAMS[0], QOS_1, (), None, [1, 9]))
    log.is_unreadable = True
    asked = []
    for step in range(1_000):
        before = log.asked
        backlog.take(step * PAUSE_S)
        asked += [step * PAUSE_S] * (log.asked - before)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert pauses[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, PAUSE_MAX_S]
    assert set(pauses[7:]) == {PAUSE_MAX_S}


def test_memory_does_not_grow_with_what_waits() -> None:
    log = Log()
    backlog = Backlog(Limits(queue_messages=1_000_000), roomy(), log)
    for number in range(1, 200_001):
        backlog.add((message(number, STREAMS[0], 0), QOS_1, ()))
    assert backlog.count == 200_000
    assert backlog.size_bytes <= HEAD_BYTES
    [places] = [item for item in backlog.saved() if isinstance(item, Places)]
    assert len(places.ranges()) == 2
    for number in range(200_002, 300_000, 2):  # every other one is for somebody else
        backlog.add((message(number, STREAMS[0], 0), QOS_1, ()))
    [places] = [item for item in backlog.saved() if isinstance(item, Places)]
    assert sys.getsizeof(places._ranges) < 50_000 * 20


def test_what_was_retained_stays_in_memory_for_it_may_be_older_than_the_log() -> None:
    backlog = Backlog(Limits(queue_bytes=10 * HEAD_BYTES), roomy(), Log())
    for number in range(1, 11):
        backlog.add((message(number, STREAMS[0], HEAD_BYTES // 2), QOS_1 | RETAIN, ()))
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
        backlog.add((log.has_of["a", 1][number], again, ()))
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
        Limits(queue_bytes=3 * (SIZE + OVERHEAD_BYTES + 2)),
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


@given(
    st.lists(st.integers(1, 60), unique=True, min_size=1, max_size=40).map(sorted),
    st.lists(st.integers(0, 70), max_size=5),
)
def test_places_are_taken_out_in_their_order(numbers: list[int], stops: list[int]) -> None:
    places = Places(STREAMS[0], QOS_1, (), None, [numbers[0], numbers[0]])
    for number in numbers[1:]:
        assert places.add((message(number, STREAMS[0], 0), QOS_1, ()))
    taken: list[int] = []
    for stop in [*sorted(stops), 70]:
        assert list(places.copy().take(stop)) == [n for n in numbers if n <= stop][len(taken) :]
        taken += places.take(stop)
        assert taken == [n for n in numbers if n <= stop]
        assert places.count == len(numbers) - len(taken)


@pytest.mark.parametrize("change", ["flags", "identifiers", "stream", "expiry", "order"])
def test_what_is_delivered_otherwise_has_places_of_its_own(change: str) -> None:
    places = Places(STREAMS[0], QOS_1, (), None, [5, 5])
    key = STREAMS[1] if change == "stream" else STREAMS[0]
    one = message(4 if change == "order" else 6, key, 0)
    one.expires_at_s = 1.0 if change == "expiry" else None
    flags = QOS_2 if change == "flags" else QOS_1
    assert not places.add((one, flags, (3,) if change == "identifiers" else ()))
    assert places.count == 1


def test_what_a_neighbour_told_of_waits_in_memory_for_no_log_has_it() -> None:
    log, budget = Log(), roomy()
    backlog = Backlog(Limits(queue_bytes=6 * SIZE), budget, log)
    backlog.restore(Places(STREAMS[0], QOS_1, (), None, [1, 3]))
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
    backlog.restore(Places(STREAMS[0], QOS_1, (), None, [1, 3]))
    log.has_of[STREAMS[0]] = {number: message(number, STREAMS[0]) for number in (1, 2, 3)}
    assert backlog.remove((STREAMS[0], 2), QOS_1) is not None  # reads on, past the news
    whole = [one for one in backlog.saved() if not isinstance(one, Places)]
    assert whole == [(news, QOS_1, ())]

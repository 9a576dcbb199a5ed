"""Memory does not grow with restarts: what is forgotten, when, and what is left of it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.held_objects import held_objects
from tree_handler import batch, boot_epoch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order, epochs_over
from tree_handler.replication.answering import answer
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Request, SearchResult, Seek, Summary
from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import (
    Append,
    Forget,
    Look,
    Lost,
    Push,
    Replication,
    ReplicationAction,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)

Frame = tuple[bytes, Header]
OLD, NEW = ("gw-0", 3), ("gw-0", 9)


@dataclass
class Node:
    """A core on a log that drops its oldest, as a disk has it over many lives."""

    name: str
    batches: int = 1_000
    kept_lives: int = 0
    epoch: int = 0
    log: list[Frame] = field(default_factory=list)
    have: dict[Epoch, Intervals] = field(default_factory=dict)
    got: list[tuple[Epoch, int]] = field(default_factory=list)
    lost: list[Epoch] = field(default_factory=list)
    sent: deque[tuple[int, object]] = field(default_factory=deque)

    def begin(self) -> None:
        """Start, or start again, with what the log holds and remembers."""
        self.epoch += 1
        have = {stream: Intervals(numbers) for stream, numbers in self.have.items()}
        told = [row for row in self.log if row[1].control]
        self.core = Replication(
            self.name, self.epoch, have, RepairSettings(kept_lives=self.kept_lives), told
        )
        self.core.trimmed(self.kept_from())

    def kept_from(self) -> dict[Epoch, int]:
        lowest = {stream: numbers.last + 1 for stream, numbers in self.have.items()}
        for _, header in self.log:
            lowest[header.stream] = min(header.first, lowest.get(header.stream, header.first))
        return lowest

    def publish(self, count: int = 1) -> None:
        rows = [Entry("t", b"", 1).row()] * count
        self.do(self.core.publish(rows, Flags.LOGGED, 0))

    def trim(self, batches: int) -> None:
        """Keep so many of the latest batches."""
        del self.log[: max(0, len(self.log) - batches)]
        self.do(self.core.trimmed(self.kept_from()))

    def do(self, actions: Iterable[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Append(frame, header):
                    self.log.append((frame, header))
                    numbers = self.have.setdefault(header.stream, Intervals())
                    numbers.add(header.first, header.last)
                    self.do(self.core.appended(action))
                    if len(self.log) > self.batches:
                        self.trim(self.batches // 2)
                case Forget(streams):
                    for stream in streams:
                        del self.have[stream]
                case Deliver(_, header, first) if not header.control:
                    self.got += [(header.stream, n) for n in range(first, header.last + 1)]
                case DeliverLogged(stream, first, last) if not stream[0].startswith("$"):
                    for _, header in self.read(stream, Intervals([(first, last)])):
                        if not header.passed:
                            self.got += [(stream, n) for n in range(header.first, header.last + 1)]
                case Lost(stream):
                    self.lost.append(stream)
                case SendBatch(link, frame) | SendRepair(link, frame):
                    self.sent.append((link, (frame, isinstance(action, SendRepair))))
                case Serve(link, request) | Push(link, request):
                    self.repair(link, request.wanted)
                    if isinstance(action, Serve):
                        self.sent.append((link, None))
                case Look(link, number, wanted):
                    self.do(self.core.repair.looked(number, self.repair(link, wanted)))
                case SendSummary(link, summary):
                    self.sent.append((link, summary.encode()))
                case SendRequest(link, message) | SendSeek(link, message):
                    self.sent.append((link, message))
                case SendSought(link, message):
                    self.sent.append((link, message))

    def read(self, stream: Epoch, numbers: Intervals) -> list[Frame]:
        found = [
            row
            for row in self.log
            if row[1].stream == stream
            and len(numbers.common(Intervals([(row[1].first, row[1].last)])))
        ]
        return sorted(found, key=lambda row: row[1].first)

    def repair(self, link: int, wanted: dict[Epoch, Intervals]) -> dict[Epoch, Intervals]:
        found: dict[Epoch, Intervals] = {}
        for stream, numbers in wanted.items():
            for frame in answer(self.read(stream, numbers)):
                header = batch.check(frame)
                found.setdefault(stream, Intervals()).add(header.first, header.last)
                self.sent.append((link, (frame, True)))
        return found

    def take(self, link: int, message: object, now: float) -> None:
        core = self.core
        match message:
            case bytes():
                self.do(core.repair.receive_summary(link, Summary.decode(message), now))
            case (bytes(frame), bool(repair)):
                self.do(core.receive_batch(link, frame, repair=repair))
            case Request():
                self.do(core.repair.receive_request(link, message))
            case Seek():
                self.do(core.repair.receive_seek(link, message, now))
            case SearchResult():
                self.do(core.repair.receive_sought(link, message, now))
            case None:
                self.do(core.repair.receive_done(link, now))

    def take_new(self, *frames: Frame) -> None:
        """Take batches over link 1."""
        for frame, _ in frames:
            self.do(self.core.receive_batch(1, frame, repair=True))


class Fleet:
    """Nodes in a full mesh; link number n of a node leads to node n."""

    def __init__(self, size: int, batches: int, kept_lives: int = 0) -> None:
        self.nodes = [Node(f"gw-{i}", batches, kept_lives) for i in range(size)]
        self.now = 0.0
        self.largest = 0
        for node in self.nodes:
            node.begin()
        for a in range(size):
            for b in range(size):
                if a != b:
                    self.connect(a, b)

    def connect(self, a: int, b: int) -> None:
        core = self.nodes[a].core
        self.nodes[a].do(core.repair.link_up(b, self.now))
        self.nodes[a].do(core.repair.forwarding(b, forwards=True))

    def restart(self, at: int) -> None:
        others = [other for other in range(len(self.nodes)) if other != at]
        self.nodes[at].sent.clear()
        for other in others:
            self.nodes[other].do(self.nodes[other].core.repair.link_down(at, self.now))
        self.settle(others)
        self.nodes[at].begin()
        for other in others:
            self.connect(at, other)
            self.connect(other, at)

    def settle(self, among: Iterable[int] | None = None) -> None:
        """Let everything arrive that was sent."""
        up = range(len(self.nodes)) if among is None else list(among)
        while any(self.nodes[i].sent for i in up):
            for i in up:
                while self.nodes[i].sent:
                    link, message = self.nodes[i].sent.popleft()
                    if isinstance(message, bytes):
                        self.largest = max(self.largest, len(message))
                    if link in up:
                        self.nodes[link].take(i, message, self.now)

    def tick(self) -> None:
        self.now += 10.0
        for node in self.nodes:
            node.do(node.core.repair.handle_timer(self.now))
        self.settle()


def message(stream: Epoch, number: int) -> Frame:
    row = Entry("t", b"", 1).row()
    return batch.make(*stream, number, [row], flags=Flags.LOGGED, origin_time_us=0)


def begins(stream: Epoch, earlier: dict[Epoch, int] | None = None) -> Frame:
    have = {one: Intervals([(1, last)]) for one, last in (earlier or {}).items()}
    row = epoch_order.statement(*stream, have).row()
    return batch.make(*stream, 1, [row], flags=Flags.LOGGED | Flags.CONTROL, origin_time_us=0)


def node(kept_lives: int = 0) -> Node:
    one = Node("gw-1", kept_lives=kept_lives)
    one.begin()
    one.do(one.core.repair.link_up(1, 0.0))
    one.do(one.core.repair.forwarding(1, forwards=True))
    one.sent.clear()
    return one


def forgetful() -> Node:
    """A gateway that has forgotten an epoch of gw-0."""
    one = node()
    one.take_new(begins(OLD), message(OLD, 1), message(OLD, 2))
    one.take_new(begins(NEW, {OLD: 2}), message(NEW, 1))
    one.trim(0)
    return one


@pytest.mark.slow
def test_after_hundreds_of_restarts_of_one_gateway_three_remember_no_more_than_after_a_few(
    pytestconfig: pytest.Config,
) -> None:
    fleet = Fleet(3, batches=60, kept_lives=epochs_over.KEPT_LIVES)
    most, lives = 0, 2_000 if pytestconfig.getoption("--soak") else 700
    for life in range(lives):
        fleet.nodes[0].publish()
        fleet.settle()
        if life % 20 == 0:
            fleet.tick()
        fleet.restart(0)
        fleet.settle()
        most = max(most, *(len(one.core.have) + len(one.have) for one in fleet.nodes))
    assert most < 300
    assert fleet.largest < 8_000
    for one in fleet.nodes[1:]:
        assert one.core.counters.forgotten > 2 * lives - 300
        assert [number for _, number in one.got] == [1] * lives
        assert len({stream for stream, _ in one.got}) == lives
        assert not one.lost
        assert held_objects(one.core) < 40_000


def test_an_epoch_is_forgotten_when_a_later_one_is_open_and_the_log_keeps_nothing_of_it() -> None:
    one = forgetful()
    assert OLD not in one.core.have
    assert ("$gw-0", 3) not in one.core.have
    assert NEW in one.core.have
    assert one.core.counters.forgotten == 2
    assert one.got == [(OLD, 1), (OLD, 2), (NEW, 1)]


@pytest.mark.parametrize("why", ["the latest", "kept", "a gap", "its origin", "a neighbour", "log"])
def test_an_epoch_is_not_forgotten_while_anything_of_it_may_be_needed(why: str) -> None:
    one = node(kept_lives=1 if why == "kept" else 0)
    one.take_new(begins(OLD), message(OLD, 1))
    if why == "a gap":
        one.take_new(message(OLD, 3))
    if why != "the latest":
        one.take_new(begins(NEW, {OLD: 5} if why == "its origin" else {}), message(NEW, 1))
    if why == "a neighbour":
        one.do(
            one.core.repair.receive_summary(
                1, Summary({OLD: Intervals([(1, 2)])}, completes=True), 0.0
            )
        )
    if why == "log":
        one.take_new(message(OLD, 2))
        one.trim(1)
    else:
        one.trim(0)
    assert OLD in one.core.have


def test_what_comes_late_of_an_epoch_that_is_over_is_a_duplicate_also_after_a_restart() -> None:
    one = forgetful()
    for _ in range(2):
        before, got = one.core.counters.duplicates, list(one.got)
        one.take_new(message(OLD, 2), message(OLD, 7))
        assert one.core.counters.duplicates == before + 2
        assert one.got == got
        assert one.core.handed_out(OLD) > 1_000_000
        assert one.core.covered(OLD).covers(1, 1_000_000)
        assert one.core.passed_over(OLD, 1, 9) == []
        assert not one.core.may_come(OLD, 7)
        one.begin()
        one.do(one.core.repair.link_up(1, 0.0))
        one.do(one.core.repair.forwarding(1, forwards=True))


def test_what_is_over_here_is_neither_asked_for_nor_sought_nor_told_of_again() -> None:
    one = forgetful()
    one.sent.clear()
    theirs = Summary({OLD: Intervals([(1, 9)]), NEW: Intervals([(1, 1)])}, completes=True)
    one.take(1, theirs.encode(), 0.0)
    one.take_new(begins(("gw-0", 12), {OLD: 9, NEW: 1}))
    one.do(one.core.repair.handle_timer(1_000.0))
    told = [Summary.decode(sent) for _, sent in one.sent if isinstance(sent, bytes)]
    assert told
    assert not any(OLD in summary.have for summary in told)
    assert [list(s.over["gw-0"]) for s in told if "gw-0" in s.over] == [[(3, 3)]]
    assert not any(isinstance(sent, Request | Seek) for _, sent in one.sent)


def test_a_neighbours_word_makes_nobody_forget_what_it_keeps_or_waits_for() -> None:
    one = node()
    one.take_new(begins(OLD), message(OLD, 1), begins(NEW, {OLD: 3}), message(NEW, 1))
    theirs = {OLD: Intervals([(1, 3)]), NEW: Intervals([(1, 1)])}
    one.take(1, Summary(theirs, {OLD: 4}, completes=True).encode(), 0.0)
    over = {name: Intervals([(1, 8)]) for name in ("gw-0", "$gw-0")}
    one.take(1, Summary(over=over).encode(), 0.0)
    one.trim(0)
    assert one.core.have[OLD] == Intervals([(1, 1)])
    assert one.got == [(OLD, 1)]
    one.take_new(message(OLD, 2), message(OLD, 3))
    assert one.got == [(OLD, 1), (OLD, 2), (OLD, 3), (NEW, 1)]


def test_nothing_is_pushed_to_a_neighbour_for_whom_it_is_over() -> None:
    one = node()
    one.take_new(begins(OLD), message(OLD, 1), message(NEW, 1))
    over = {name: Intervals([(3, 3)]) for name in ("gw-0", "$gw-0")}
    one.do(one.core.repair.link_up(2, 0.0))
    one.take(2, Summary(over=over, completes=True).encode(), 0.0)
    (push, *_) = one.core.repair.forwarding(2, forwards=True)
    assert isinstance(push, Push)
    assert list(push.request.wanted) == [NEW]
    assert one.core.repair.lacking(2) == 1


def test_a_neighbour_for_whom_later_epochs_are_over_outlives_this_life() -> None:
    summary = Summary(over={"$gw-1": Intervals([(3, 70), (90, 95)])})
    assert boot_epoch.latest("gw-1", Summary.decode(summary.encode()).epochs()) == 95


def test_a_later_epoch_waits_for_an_earlier_one_that_only_a_neighbour_names() -> None:
    one = node()
    theirs = {OLD: Intervals([(1, 1)]), ("$gw-0", 9): Intervals([(1, 1)]), NEW: Intervals([(1, 1)])}
    one.take(1, Summary(theirs, completes=True).encode(), 0.0)
    one.take_new(begins(NEW), message(NEW, 1))
    assert one.got == []
    one.take_new(message(OLD, 1), begins(OLD))
    assert one.got == [(OLD, 1), (NEW, 1)]


def test_nothing_is_opened_or_sought_while_a_neighbour_tells_unless_it_never_ends() -> None:
    one = node()
    one.take(1, Summary({NEW: Intervals([(2, 2)])}).encode(), 0.0)
    one.take_new(begins(NEW), message(NEW, 1))
    assert one.got == []
    for now in (1_000.0, 2_000.0, 3_000.0):
        one.do(one.core.repair.handle_timer(now))
    assert one.got == [(NEW, 1)]


@given(st.integers(0, 2**32))
def test_epochs_that_are_over_take_few_ranges_and_never_one_that_is_not(seed: int) -> None:
    chance = random.Random(seed)
    have: dict[Epoch, Intervals] = {}
    over: set[int] = set()
    for epoch in chance.sample(range(1, 5_000), 300):
        have["gw-0", epoch] = Intervals([(1, 1)])
    while True:
        there = [epoch for name, epoch in have if name == "gw-0"]
        ended = set(chance.sample(there, len(there) // 3))
        if not ended:
            break
        stay = sorted(set(there) - ended)
        over |= ended
        for _, header in epochs_over.notes(have, "gw-0", ended, stay):
            noted = have.setdefault(header.stream, Intervals())
            noted.add(header.first, header.last)
            epochs_over.forget(have, header)
        assert sorted(epoch for name, epoch in have if name == "gw-0") == stay
        ranges = have[epochs_over.note_of("gw-0")]
        assert all(epoch in ranges for epoch in over)
        assert not any(epoch in ranges for epoch in stay)
        assert len(ranges) <= epochs_over.MAX_RANGES + len(stay)


def test_a_few_epochs_that_are_over_are_known_exactly() -> None:
    have = {("gw-0", epoch): Intervals([(1, 1)]) for epoch in range(10, 600, 10)}
    ended = [epoch for _, epoch in have]
    noted = [header for _, header in epochs_over.notes(have, "gw-0", ended, [])]
    assert [(header.first, header.last) for header in noted] == [(e, e) for e in ended]


def test_what_came_after_later_messages_were_trimmed_can_be_sent() -> None:
    one = node()
    one.take_new(begins(OLD), message(OLD, 2), message(OLD, 3))
    one.trim(0)
    one.take_new(message(OLD, 1))
    one.sent.clear()
    one.take(1, Seek(("gw-2", 1, 1), {OLD: Intervals([(1, 3)])}), 0.0)
    assert (1, (message(OLD, 1)[0], True)) in one.sent


def test_what_is_over_stays_so_where_a_note_of_it_is_found_lost_which_is_written_again() -> None:
    over = epochs_over.note_of("gw-0")
    core = Replication("gw-1", 1, {over: Intervals([(3, 5)])})
    (again,) = core.lost(over, Intervals([(4, 5)]))
    assert isinstance(again, Append)
    assert (again.header.stream, again.header.first, again.header.last) == (over, 4, 5)
    assert epochs_over.is_over(core.have, ("gw-0", 4))

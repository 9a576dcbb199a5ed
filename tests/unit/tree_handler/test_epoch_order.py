"""Messages of a later life of an origin wait for those of the earlier ones, and never for ever."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.held_objects import held_objects
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order
from tree_handler.replication.actions import SendSeek
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import SearchResult
from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import Append, Lost, Replication, ReplicationAction

Frame = tuple[bytes, Header]


def message(epoch: int, number: int) -> Frame:
    row = Entry("t", b"", 1).row()
    return batch.make("gw-0", epoch, number, [row], flags=Flags.LOGGED, origin_time_us=0)


def begins(epoch: int, earlier: dict[int, int]) -> Frame:
    have = {("gw-0", one): Intervals([(1, last)]) for one, last in earlier.items()}
    row = epoch_order.statement("gw-0", epoch, have).row()
    flags = Flags.LOGGED | Flags.CONTROL
    return batch.make("gw-0", epoch, 1, [row], flags=flags, origin_time_us=0)


class Gateway:
    """A core, its log, and what its clients got: (epoch, number)."""

    def __init__(self) -> None:
        self.log: list[Frame] = []
        self.got: list[tuple[int, int]] = []
        self.lost: list[tuple[Epoch, int, int]] = []
        self.epoch = 0
        self.begin()

    def begin(self) -> None:
        """Start, or start again, with what is in the log."""
        have: dict[Epoch, Intervals] = {}
        for _, header in self.log:
            have.setdefault(header.stream, Intervals()).add(header.first, header.last)
        told = [row for row in self.log if row[1].control]
        self.epoch += 1
        self.core = Replication("gw-1", self.epoch, have, RepairSettings(origin_gone_s=100.0), told)
        self.do(self.core.repair.link_up(1, 0.0))
        self.do(self.core.repair.forwarding(1, forwards=True))

    def do(self, actions: list[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Append(frame, header):
                    self.log.append((frame, header))
                    self.do(self.core.appended(action))
                case Deliver(_, header, first) if not header.control:
                    self.got += [(header.epoch, n) for n in range(first, header.last + 1)]
                case DeliverLogged((name, epoch), first, last) if not name.startswith("$"):
                    for _, header in sorted(self.log, key=lambda row: row[1].first):
                        is_due = header.logged and first <= header.first <= last
                        if header.stream == (name, epoch) and is_due:
                            self.got.append((epoch, header.first))
                case Lost(stream, first, last):
                    self.lost.append((stream, first, last))
                case _:
                    pass

    def take(self, *frames: Frame) -> None:
        for frame, _ in frames:
            self.do(self.core.receive_batch(1, frame))


def test_a_later_epoch_waits_until_the_earlier_one_is_there_to_its_end() -> None:
    gateway = Gateway()
    gateway.take(begins(3, {}), message(3, 1), begins(4, {3: 3}), message(4, 1), message(3, 2))
    assert gateway.got == [(3, 1), (3, 2)]
    gateway.take(message(4, 2), message(3, 3))
    assert gateway.got == [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2)]


def test_a_gateway_that_met_neither_epoch_waits_for_what_the_later_one_begins_with() -> None:
    gateway = Gateway()
    gateway.take(message(4, 1), message(3, 1))
    assert gateway.got == []
    gateway.take(begins(4, {3: 1}))
    assert gateway.got == []
    gateway.take(begins(3, {}))
    assert gateway.got == [(3, 1), (4, 1)]


def test_after_a_lost_disk_nothing_is_waited_for_and_what_still_comes_is_handed_out_late() -> None:
    gateway = Gateway()
    gateway.take(begins(3, {}), message(3, 1), begins(4, {}), message(4, 1), message(3, 2))
    assert gateway.got == [(3, 1), (4, 1), (3, 2)]


def test_what_nobody_has_is_lost_when_the_origin_was_asked_or_is_long_gone() -> None:
    missing = {("gw-0", 3): Intervals([(2, 2)])}
    for asked, complete, after_s, is_lost in (
        (["gw-0"], True, 0.0, True),
        (["gw-0"], False, 0.0, False),
        ([], True, 50.0, False),
        ([], True, 100.0, True),
    ):
        gateway = Gateway()
        gateway.take(begins(3, {}), message(3, 1), begins(4, {3: 2}), message(4, 1))
        actions = gateway.core.repair.handle_timer(1_000.0)
        (seek,) = (action.seek for action in actions if isinstance(action, SendSeek))
        gateway.do(actions)
        answer = SearchResult(seek.number, missing, frozenset(asked), complete=complete)
        gateway.do(gateway.core.repair.receive_sought(1, answer, 1_000.0 + after_s))
        assert gateway.got == [(3, 1)]
        gateway.do(gateway.core.repair.handle_timer(1_005.0 + after_s))
        assert gateway.got == ([(3, 1), (4, 1)] if is_lost else [(3, 1)])
        assert gateway.lost == ([(("gw-0", 3), 2, 2)] if is_lost else [])
        assert gateway.core.counters.lost == is_lost
        before = list(gateway.got)
        gateway.begin()
        gateway.do(gateway.core.repair.handle_timer(0.0))
        assert gateway.got == before


def test_bytes_that_tell_of_no_epochs_are_taken_for_none_told_of() -> None:
    flags = Flags.LOGGED | Flags.CONTROL
    for payload in (b"\xc1", b"\x01", b"\x93\x01\x02\x03"):
        row = Entry(epoch_order.TOPIC, payload, 1).row()
        gateway = Gateway()
        gateway.take(batch.make("gw-0", 4, 1, [row], flags=flags, origin_time_us=0))
        gateway.take(message(4, 1))
        assert gateway.got == [(4, 1)]


@given(st.integers(0, 2**32))
def test_in_whatever_order_lives_and_restarts_all_is_handed_out_once_and_in_order(
    seed: int,
) -> None:
    chance = random.Random(seed)
    lasts = {epoch: chance.randrange(0, 5) for epoch in sorted(chance.sample(range(1, 9), 3))}
    frames: list[Frame] = []
    for epoch, last in lasts.items():
        earlier = {one: n for one, n in lasts.items() if one < epoch and n}
        frames += [begins(epoch, earlier), *(message(epoch, n) for n in range(1, last + 1))]
    frames += chance.sample(frames, len(frames) // 3)
    chance.shuffle(frames)
    gateway = Gateway()
    for frame in frames:
        if chance.random() < 0.15:
            before = list(gateway.got)
            gateway.begin()
            gateway.do(gateway.core.repair.handle_timer(0.0))
            assert gateway.got == before
        gateway.take(frame)
    gateway.do(gateway.core.repair.handle_timer(1_000.0))
    assert gateway.got == [(epoch, n) for epoch, last in lasts.items() for n in range(1, last + 1)]


def test_a_word_on_the_end_of_a_life_that_comes_behind_a_later_one_changes_nothing() -> None:
    """The page in which it stood was lost, and a neighbour has brought it back."""
    order = epoch_order.EpochOrder(("gw-1", 1), {}, from_origin_alone=True)
    order.read(*begins(9, {7: 10, 8: 7}))
    order.read(*begins(8, {7: 17}))
    assert order.expected() == {("gw-0", 7): 10, ("gw-0", 8): 7}


def test_what_an_origin_has_and_later_lives_wait_for_is_known_and_nothing_behind_its_end() -> None:
    have = {
        ("gw-0", 7): Intervals([(1, 3), (6, 9), (20, 20)]),
        ("gw-0", 8): Intervals([(2, 2)]),
        ("$gw-0", 9): Intervals([(1, 1)]),
        ("gw-0", 9): Intervals([(1, 1)]),
    }
    order = epoch_order.EpochOrder(
        ("gw-1", 1), have, [begins(9, {6: 2, 7: 10, 8: 2})], from_origin_alone=True
    )
    assert order.awaited() == {
        ("gw-0", 6): Intervals([(1, 2)]),
        ("gw-0", 7): Intervals([(4, 5), (10, 10)]),
        ("gw-0", 8): Intervals([(1, 1)]),
    }


def test_as_many_earlier_lives_as_may_be_named_are_read() -> None:
    present = epoch_order.MAX_NAMED + 2
    frame, header = begins(present, dict.fromkeys(range(1, present), 1 << 40))
    order = epoch_order.EpochOrder(("gw-1", 1), {}, [(frame, header)])
    assert order.expected() == {("gw-0", one): 1 << 40 for one in range(2, present)}


def test_an_origin_that_names_other_earlier_lives_in_each_life_has_others_wait_for_few() -> None:
    order = epoch_order.EpochOrder(("gw-1", 1), {})
    held = list[int]()
    for life in range(10):
        named = range(1 + life * epoch_order.MAX_NAMED, 1 + (life + 1) * epoch_order.MAX_NAMED)
        order.read(*begins(1_000_000 + life, dict.fromkeys(named, 5)))
        held.append(held_objects(order))
    waited_for = order.expected()
    assert len(waited_for) == epoch_order.MAX_ENDS
    assert max(waited_for) == ("gw-0", 10 * epoch_order.MAX_NAMED)
    assert held[-1] < held[2] + epoch_order.MAX_NAMED / 2

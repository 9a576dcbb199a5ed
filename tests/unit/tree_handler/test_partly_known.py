"""Batches of which some numbers are known: given up or passed over before the batch came after all.

Each guard is turned off alone as well, and the same scenario must show it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication import arrivals, epoch_order
from tree_handler.replication.delivery import Deliver, DeliverLogged, OrderedDelivery
from tree_handler.replication.replication import Append, Replication, ReplicationAction

STREAM = ("gw-0", 1)
BATCHES = ((1, 3), (4, 4), (5, 9), (10, 11))
"""Numbers of the batches that the origin made."""


def made(first: int, last: int) -> bytes:
    rows = [("t", 1, b"")] * (last - first + 1)
    return batch.make("gw-0", 1, first, rows, flags=Flags.LOGGED, origin_time_us=0)[0]


class Gateway:
    """A gateway that has met gw-0, its log, and the numbers that its clients got.

    What it has given up counts as handed out (`Replication.handed_out`): retained messages among
    that are given to clients by another way, so the log must not bring them as well.
    """

    def __init__(self) -> None:
        self.core = Replication("gw-1", 1)
        self.log: list[tuple[bytes, Header]] = []
        self.got: list[int] = []
        self.again: list[int] = []
        self._handed_out = 0
        self.do(self.core.repair.link_up(1, 0.0))
        row = epoch_order.statement("gw-0", 1, {}).row()
        flags = Flags.LOGGED | Flags.CONTROL
        self.take(batch.make("gw-0", 1, 1, [row], flags=flags, origin_time_us=0)[0])

    def take(self, frame: bytes) -> None:
        self._handed_out = self.core.handed_out(STREAM)
        self.do(self.core.receive_batch(1, frame, repair=True))

    def pass_over(self, first: int, last: int, *, is_lost: bool = False) -> None:
        self._handed_out = self.core.handed_out(STREAM)
        self.do(self.core.passed_over(STREAM, first, last, is_lost=is_lost))

    def do(self, actions: Iterable[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Append(frame, header):
                    self.log.append((frame, header))
                    self.do(self.core.appended(action))
                case Deliver(_, header, first) if header.stream == STREAM:
                    self.hand_out(range(first, header.last + 1))
                case DeliverLogged(stream, first, last):
                    self.hand_out(self.logged(stream, first, last))

    def hand_out(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.got.append(number)
            if number <= self._handed_out:
                self.again.append(number)

    def logged(self, stream: Epoch, first: int, last: int) -> list[int]:
        rows = [header for _, header in self.log if header.stream == stream and not header.passed]
        found = {number for row in rows for number in range(row.first, row.last + 1)}
        return sorted(number for number in found if first <= number <= last)


@given(st.integers(0, 2**32))
def test_of_whatever_was_given_up_or_passed_over_clients_get_each_number_once_and_in_order(
    seed: int,
) -> None:
    chance = random.Random(seed)
    gateway = Gateway()
    excused: set[int] = set()
    events: list[tuple[int, int, bool]] = [(*numbers, False) for numbers in BATCHES]
    for _ in range(chance.randrange(4)):
        first = chance.randrange(1, 12)
        events.append((first, min(11, first + chance.randrange(3)), True))
    chance.shuffle(events)
    for first, last, is_statement in events:
        if is_statement:
            lacking = gateway.core.covered(STREAM).missing(first, last)
            excused |= {number for gap in lacking for number in range(gap[0], gap[1] + 1)}
            gateway.pass_over(first, last, is_lost=chance.random() < 0.5)
        else:
            gateway.take(made(first, last))
    assert gateway.got == sorted(set(gateway.got))
    assert gateway.again == []
    assert set(range(1, 12)) - excused <= set(gateway.got)


def by_the_last_number(have: Intervals, header: Header) -> bool:
    return header.last in have


def behind_a_known_end() -> list[int]:
    """The end of a batch was given up; then the batch comes."""
    gateway = Gateway()
    gateway.pass_over(3, 3, is_lost=True)
    gateway.take(made(1, 3))
    return gateway.got


def test_a_batch_whose_last_number_alone_is_known_is_no_duplicate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert behind_a_known_end()[:2] == [1, 2]
    monkeypatch.setattr(arrivals, "known", by_the_last_number)
    assert behind_a_known_end() == []


def behind_a_known_beginning(*, held: bool) -> Gateway:
    """Return a gateway that gave 4 to 6 up before it got 5 to 9.

    It got 10 and 11 before them if they are held.
    """
    gateway = Gateway()
    gateway.take(made(1, 3))
    gateway.pass_over(4, 6, is_lost=True)
    if held:
        gateway.take(made(10, 11))
    gateway.take(made(5, 9))
    return gateway


def whole_batches(real: Callable[..., Any]) -> Callable[..., Any]:
    def unguarded(*args: Any) -> Iterable[Any]:
        for action in real(*args):
            is_batch = isinstance(action, Deliver)
            yield Deliver(action.frame, action.header, action.header.first) if is_batch else action

    return unguarded


@pytest.mark.parametrize("held", [False, True])
def test_of_a_batch_that_is_partly_known_only_the_rest_is_handed_out(
    held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = behind_a_known_beginning(held=held)
    assert gateway.got == [1, 2, 3, 7, 8, 9] + [10, 11] * held
    monkeypatch.setattr(OrderedDelivery, "add", whole_batches(OrderedDelivery.add))
    assert behind_a_known_beginning(held=held).again == [5, 6]

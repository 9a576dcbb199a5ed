"""QoS 0 is taken once, and what is remembered for that is bounded."""

from __future__ import annotations

import pytest

from tests.held_objects import held_objects
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.replication import unlogged
from tree_handler.replication.unlogged import MAX_RANGES, Unlogged


def header(number: int, epoch: int = 1, origin: str = "gw") -> Header:
    rows = [Entry("t", b"").row()]
    return batch.make(origin, epoch, number, rows, flags=Flags.NONE, origin_time_us=0)[1]


def test_a_message_is_new_once_in_whatever_order_they_come() -> None:
    seen = Unlogged()
    assert [seen.is_new(header(n)) for n in (1, 3, 2, 3, 1, 4)] == [
        *(True, True, True, False, False, True)
    ]


def test_with_65_gaps_the_older_half_of_them_counts_as_seen() -> None:
    seen = Unlogged()
    for number in range(1, 2 * MAX_RANGES, 2):
        assert seen.is_new(header(number))
    assert not seen.is_known(header(2))
    assert seen.is_new(header(2 * MAX_RANGES + 1))  # the 65th range
    known = [number for number in range(2, 2 * MAX_RANGES + 2, 2) if seen.is_known(header(number))]
    assert known == list(range(2, MAX_RANGES + 1, 2))
    assert not seen.is_new(header(MAX_RANGES))
    assert seen.is_new(header(MAX_RANGES + 2))


def test_a_batch_is_known_when_all_of_it_is_or_its_origin_is_in_a_later_life() -> None:
    seen = Unlogged()
    assert not seen.is_known(header(1, 5))
    assert seen.is_new(header(1, 5))
    assert [seen.is_known(header(1, epoch)) for epoch in (4, 5, 6)] == [True, True, False]
    rows = [Entry("t", b"").row()] * 2
    two = batch.make("gw", 5, 1, rows, flags=Flags.NONE, origin_time_us=0)[1]
    assert not seen.is_known(two)
    assert seen.is_new(two)
    assert seen.is_known(two)


def test_of_an_origin_the_latest_epoch_alone_is_remembered_and_earlier_ones_are_dropped() -> None:
    seen = Unlogged()
    assert seen.is_new(header(1, 999))
    held = held_objects(seen)
    for epoch in range(1_000, 2_000):
        assert seen.is_new(header(1, epoch))
    assert held_objects(seen) == held
    assert not seen.is_new(header(2, 5))


def test_origins_are_forgotten_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlogged, "MAX_STREAMS", 10)
    seen = Unlogged()
    for number in range(10):
        assert seen.is_new(header(1, origin=f"gw-{number}"))
    held = held_objects(seen)
    for number in range(10, 100):
        assert seen.is_new(header(1, origin=f"gw-{number}"))
    assert held_objects(seen) == held
    assert not seen.is_new(header(1, origin="gw-99"))

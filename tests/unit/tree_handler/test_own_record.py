"""A gateway tells its record anew when its log has it no more, and not before."""

from __future__ import annotations

import pytest

from tree_handler.batch import CONTROL_PREFIX, Epoch
from tree_handler.intervals import Intervals
from tree_handler.members.own_record import OwnRecord

STREAM: Epoch = (CONTROL_PREFIX + "gw-a", 7)
OTHER: Epoch = (CONTROL_PREFIX + "gw-b", 7)


@pytest.fixture
def record() -> OwnRecord:
    return OwnRecord("gw-a", 7)


def test_one_that_the_log_does_not_have_yet_is_not_told_again(record: OwnRecord) -> None:
    assert not record.is_to_be_told_anew({STREAM: 10})
    record.logged(3)
    record.told()
    assert not record.is_to_be_told_anew({STREAM: 10})
    assert not record.may_be_lost({STREAM: Intervals([(1, 10)])})


def test_one_that_the_log_refused_is_told_again_whatever_the_log_keeps(record: OwnRecord) -> None:
    record.logged(3)
    record.told()
    record.refused()
    assert record.is_to_be_told_anew({})
    assert record.is_to_be_told_anew({STREAM: 1})


def test_one_is_told_again_when_the_log_has_dropped_its_number(record: OwnRecord) -> None:
    record.logged(3)
    assert not record.is_to_be_told_anew({STREAM: 3, OTHER: 9})
    assert record.is_to_be_told_anew({STREAM: 4})


def test_it_may_be_lost_if_the_last_number_that_is_lost_is_not_before_it(record: OwnRecord) -> None:
    record.logged(3)
    assert not record.may_be_lost({OTHER: Intervals([(3, 3)])})
    assert not record.may_be_lost({STREAM: Intervals([(1, 2)])})
    assert record.may_be_lost({STREAM: Intervals([(1, 1), (3, 3)])})

"""The life that a record is of: it counts as the present one at the pace that is evident."""

from __future__ import annotations

import pytest

from cloud_ingest.evidence.facts import Statement
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.lives import RecordPosition, place
from record_formats.status_record import StatusRecord

S_US = 1_000_000
NEWER = RecordPosition(is_newest=True)
LIVE = RecordPosition(is_newest=True, is_live=True)
OLD = RecordPosition(is_newest=False)


class Lives:
    """One gateway whose records come; a record's own clock says nothing unless it is told."""

    def __init__(self) -> None:
        self.gateway = GatewayState("gw-a", 0, 0)

    def says(
        self,
        epoch: int,
        sequence: int,
        at_us: int,
        up_s: float,
        origin_us: int | None = None,
    ) -> RecordPosition:
        said = Statement("gw-a", epoch, sequence, origin_us, at_us, "status", b"")
        found = place(self.gateway, said, StatusRecord(interval_s=10.0, up_s=up_s))
        if found.is_newest:
            self.gateway.origin_us = origin_us
        return found


@pytest.mark.parametrize(
    ("pause_us", "is_live"),
    [
        (5 * S_US - 1, False),
        (5 * S_US, True),
        (10 * S_US, True),
        (20 * S_US, True),
        (20 * S_US + 1, False),
        (0, False),
    ],
)
def test_a_record_is_live_if_it_came_at_the_pace_at_which_it_was_sent(
    pause_us: int, is_live: bool
) -> None:
    lives = Lives()
    assert lives.says(7, 1, 100 * S_US, 50.0) == RecordPosition(is_newest=True, begins=True)
    found = lives.says(7, 2, 100 * S_US + pause_us, 60.0)
    assert found == (LIVE if is_live else NEWER)
    assert lives.gateway.lives[7].paced == int(is_live)


def test_records_that_say_no_later_uptime_are_not_live_and_older_ones_count_for_nothing() -> None:
    lives = Lives()
    lives.says(7, 5, 100 * S_US, 50.0)
    for up_s in (50.0, 49.0):
        assert lives.says(7, 6, 101 * S_US, up_s) == NEWER
        lives.gateway.lives[7].sequence, lives.gateway.lives[7].up_s = 5, 50.0
    for sequence in (5, 4):
        assert lives.says(7, sequence, 110 * S_US, 60.0) == OLD
    assert lives.gateway.lives[7].up_s == 50.0
    assert lives.says(7, 6, 111 * S_US, 60.0) == LIVE
    assert lives.says(7, 7, 121 * S_US, 70.0) == LIVE
    assert lives.gateway.lives[7].paced == 2


@pytest.mark.parametrize(
    ("before_us", "origin_us", "is_taken"),
    [(10, 11, True), (10, 10, False), (10, 9, False), (None, 11, False), (10, None, False)],
)
def test_another_life_is_the_present_one_if_its_own_clock_says_so(
    before_us: int | None, origin_us: int | None, is_taken: bool
) -> None:
    lives = Lives()
    lives.says(7, 1, 100 * S_US, 50.0, before_us)
    found = lives.says(8, 1, 101 * S_US, 1.0, origin_us)
    assert found == (RecordPosition(is_newest=True, begins=True) if is_taken else OLD)
    assert lives.gateway.epoch == (8 if is_taken else 7)
    assert lives.gateway.lives[7].was_current is is_taken
    assert lives.gateway.returns_us == []


def test_another_life_is_the_present_one_if_it_is_evidently_alive_and_back_after_two_records() -> (
    None
):
    lives = Lives()
    lives.says(7, 1, 100 * S_US, 50.0)
    assert lives.says(8, 1, 100 * S_US, 5.0) == OLD
    begins = RecordPosition(is_newest=True, is_live=True, begins=True)
    assert lives.says(8, 2, 110 * S_US, 15.0) == begins
    # One that was over is back only after two in a row, whatever its clock says.
    assert lives.says(7, 2, 111 * S_US, 61.0, 10**9) == OLD
    assert lives.says(7, 3, 111 * S_US, 71.0, 10**9) == OLD
    assert lives.says(7, 4, 121 * S_US, 81.0, 10**9) == OLD
    assert lives.says(7, 5, 131 * S_US, 91.0, 10**9) == begins
    assert (lives.gateway.epoch, lives.gateway.returns_us) == (7, [131 * S_US])


def test_of_returns_the_latest_eight_are_remembered() -> None:
    lives, at_s = Lives(), 0
    for turn in range(11):
        for sequence in range(1, 4):
            at_s += 10
            lives.says(turn % 2, 10 * turn + sequence, at_s * S_US, float(at_s))
    assert lives.gateway.returns_us == [(30 * turn + 10) * S_US for turn in range(3, 11)]

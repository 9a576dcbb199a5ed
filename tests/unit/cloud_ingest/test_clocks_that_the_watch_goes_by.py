"""The watch's time: neither a clock that leaps nor a collector that is late makes it run wrong."""

from __future__ import annotations

import pytest

from cloud_ingest.evidence.facts import UNTIMED_US, Activity, BatchFacts, Statement
from cloud_ingest.fleet.clock import APART_US, WatchClock

NOW_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000


def said(at_us: int, origin_us: int | None = NOW_US, sequence: int = 1) -> Statement:
    return Statement("gw-a", 7, sequence, origin_us, at_us, "status", b"")


def test_a_job_s_clock_that_is_set_back_goes_on_from_where_the_watch_was() -> None:
    clock = WatchClock()
    assert clock.bounded(NOW_US) == NOW_US, "before it was read nothing bounds a time"
    clock.job_says(NOW_US, None)
    assert (clock.limit_us, clock.job_behind_us) == (NOW_US, 0)
    clock.job_says(NOW_US - 5, NOW_US)
    assert (clock.limit_us, clock.job_behind_us) == (NOW_US, 5)
    clock.job_says(NOW_US - 3, NOW_US)
    assert (clock.limit_us, clock.job_behind_us) == (NOW_US + 2, 5), "time passes"
    clock.job_says(NOW_US - 9, NOW_US)
    assert (clock.limit_us, clock.job_behind_us) == (NOW_US, 9)
    clock.job_says(NOW_US, NOW_US)
    assert (clock.limit_us, clock.job_behind_us) == (NOW_US, 0)
    assert clock.bounded(NOW_US + 1) == NOW_US
    assert clock.bounded(NOW_US - 1) == NOW_US - 1


def test_a_collector_whose_clock_is_behind_moves_the_watch_by_as_much_as_its_clock_moves() -> None:
    clock = WatchClock(limit_us=NOW_US + 10 * MINUTE_US)
    assert clock.heard_until(NOW_US, None) == NOW_US
    assert clock.heard_until(NOW_US - APART_US, NOW_US) == NOW_US - APART_US
    behind_us = NOW_US - APART_US - MINUTE_US
    assert clock.heard_until(behind_us, NOW_US) == NOW_US, "its clock was set back: nothing passed"
    assert clock.heard_until(behind_us + 7, NOW_US) == NOW_US + 7
    alone = WatchClock(limit_us=NOW_US)
    assert alone.heard_until(behind_us, NOW_US) == NOW_US
    assert alone.heard_until(behind_us + 7, NOW_US) == NOW_US, "never beyond the job's clock"


def test_nobody_is_judged_by_a_time_until_which_not_all_is_read() -> None:
    clock = WatchClock()
    assert clock.judged_until(NOW_US) == NOW_US
    clock.read_until_us = NOW_US - 1
    assert clock.judged_until(NOW_US) == NOW_US - 1
    clock.read_until_us = NOW_US + 1
    assert clock.judged_until(NOW_US) == NOW_US


@pytest.mark.parametrize(
    ("ahead_us", "late_us", "is_vouched_for"),
    [
        (APART_US, APART_US, True),
        (APART_US + 1, 0, False),
        (0, APART_US + 1, False),
    ],
)
def test_a_collector_s_clock_is_vouched_for_where_it_is_as_good_as_the_job_s(
    ahead_us: int, late_us: int, is_vouched_for: bool
) -> None:
    assert WatchClock(ahead_us=ahead_us, late_us=late_us).is_vouched_for is is_vouched_for


def test_how_far_collectors_are_ahead_and_gateways_that_agree_are_late_is_measured() -> None:
    clock = WatchClock(limit_us=NOW_US)
    clock.timed(BatchFacts(statements=(said(NOW_US + 9),)), {})
    assert (clock.ahead_us, clock.late_us) == (9, 0)
    agreed, other = said(NOW_US - 50, NOW_US - 50), said(NOW_US - 20, None, 2)
    clock.timed(BatchFacts(statements=(agreed, other)), {})
    assert (clock.ahead_us, clock.late_us) == (0, 50)
    clock.timed(BatchFacts(statements=(other,)), {})
    assert (clock.ahead_us, clock.late_us) == (0, 20)
    clock.timed(BatchFacts(), {})
    assert (clock.ahead_us, clock.late_us) == (0, 20), "nothing came, so nothing is known anew"


def test_what_was_not_timed_stays_so_and_what_is_ahead_is_bounded() -> None:
    clock = WatchClock(limit_us=NOW_US)
    acted = Activity("gw-a", 1, 0, 0, None, None, NOW_US + 9)
    untimed = Activity("gw-a", 1, 0, 0, None, None, UNTIMED_US)
    facts = BatchFacts(
        statements=(said(UNTIMED_US), said(NOW_US + 9, sequence=2)), activity=(acted, untimed)
    )
    found = clock.timed(facts, {})
    assert [one.collected_us for one in found.statements] == [UNTIMED_US, NOW_US]
    assert [one.collected_us for one in found.activity] == [NOW_US, UNTIMED_US]

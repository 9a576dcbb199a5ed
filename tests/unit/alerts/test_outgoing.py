"""A way out gets each record, in order and by site, for a day, and what fails is left alone."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.desk import trial
from alerts.matcher import AlertMatcher
from alerts.outgoing import (
    FIRST_PAUSE_S,
    KEPT_S,
    LONGEST_PAUSE_S,
    MAX_BATCH,
    MAX_WAITING,
    WayQueue,
)
from alerts.record import AlertRecord
from alerts.state import WayState
from alerts.terms import AlertRoute, ways_of


def record(number: int, change: str = "raised", site: str = "a/b") -> AlertRecord:
    raised, _ = trial("gw-a", site, number)
    return msgspec.structs.replace(raised, change=change)


def queue(gather_s: float = 0.0) -> WayQueue:
    return WayQueue(WayState(), gather_s)


def test_records_of_a_site_leave_together_and_in_order() -> None:
    waiting = queue(gather_s=5)
    waiting.add([record(1), record(2, site="c/d"), record(3)])
    assert waiting.due() == ()
    waiting.pass_time(5)
    assert [one.since_us for one in waiting.due()] == [1, 3]
    waiting.taken(waiting.due())
    assert [one.since_us for one in waiting.due()] == [2]
    waiting.taken(waiting.due())
    assert waiting.due() == ()
    assert waiting.state.delivered == 3


def test_a_way_that_fails_is_left_alone_for_longer_each_time() -> None:
    waiting = queue()
    waiting.add([record(1)])
    pauses = []
    for _ in range(10):
        assert waiting.due() != ()
        waiting.failed("connection refused")
        pause_s = 0.0
        while waiting.due() == ():
            waiting.pass_time(5)
            pause_s += 5
        pauses.append(pause_s)
    assert pauses[0] == FIRST_PAUSE_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    waiting.taken(waiting.due())
    assert waiting.state.trouble == ""


def test_what_a_day_has_not_delivered_is_dropped_and_counted() -> None:
    waiting = queue()
    waiting.add([record(1)])
    assert not waiting.pass_time(KEPT_S / 2)
    waiting.add([record(2)])
    assert waiting.pass_time(KEPT_S / 2)
    assert [one.since_us for one in waiting.due()] == [2]
    assert waiting.state.dropped == 1


def test_of_too_many_reminders_go_first_then_what_is_over_then_the_oldest() -> None:
    waiting = queue()
    waiting.add([record(1), record(2), record(2, "reminded"), record(3), record(3, "cleared")])
    waiting.add(record(10 + n) for n in range(MAX_WAITING - 5))
    waiting.add([record(5000)])
    kept = [(one.record.since_us, one.record.change) for one in waiting.state.waiting]
    assert (2, "reminded") not in kept
    assert (3, "raised") in kept
    waiting.add([record(5001)])
    kept = [(one.record.since_us, one.record.change) for one in waiting.state.waiting]
    assert not any(number == 3 for number, _ in kept), "both, or none"
    assert kept[0] == (1, "raised")
    assert waiting.state.dropped == 3


def test_of_too_many_what_is_critical_stays_for_longer_than_what_is_older_and_less() -> None:
    waiting = queue()
    critical = msgspec.structs.replace(record(1), severity="critical")
    waiting.add([critical, record(2), record(3)])
    waiting.add(record(10 + n) for n in range(MAX_WAITING - 3))
    assert (len(waiting.state.waiting), waiting.state.dropped) == (MAX_WAITING, 0)
    waiting.add([record(5000)])
    assert [one.record.since_us for one in waiting.state.waiting][:3] == [1, 3, 10]
    assert (len(waiting.state.waiting), waiting.state.dropped) == (MAX_WAITING, 1)


@given(st.lists(st.sampled_from(["raised", "reminded", "cleared"]), max_size=30), st.integers(1, 9))
def test_however_much_comes_no_more_waits_than_may(changes: list[str], each: int) -> None:
    waiting = queue()
    added = 0
    for change in changes:
        batch = [record(added + n, change) for n in range(each * 20)]
        waiting.add(batch)
        added += len(batch)
    assert len(waiting.state.waiting) <= MAX_WAITING
    assert len(waiting.state.waiting) + waiting.state.dropped == added
    assert len(waiting.due()) <= MAX_BATCH


def test_without_a_route_all_goes_all_ways_and_else_where_one_matches() -> None:
    ways = ["mail", "ntfy"]
    assert ways_of(record(1), (), ways) == ways
    quiet = AlertRoute(AlertMatcher.of({"severity": "critical"}), ("mail",))
    loud = AlertRoute(AlertMatcher.of({"rule": "t*"}), ("ntfy", "gone"))
    assert ways_of(record(1), (quiet, loud), ways) == ["ntfy"]
    assert ways_of(record(1), (quiet,), ways) == []


@pytest.mark.parametrize("site", ["", "campus", "campus/north"])
def test_a_site_of_any_depth_can_be_matched(site: str) -> None:
    one = record(1, site=site)
    domain, _, group = site.partition("/")
    assert AlertMatcher.of({"gateway": "gw-*"}).matches(one)
    assert AlertMatcher.of({"domain": domain or "*"}).matches(one)
    assert AlertMatcher.of({"group": group or "*"}).matches(one)

"""A gateway is judged as time passes: at the moment that its rule says, and not one before."""

from __future__ import annotations

import pytest

from cloud_ingest.evidence.facts import Statement
from cloud_ingest.fleet.alerts import AlertBook
from cloud_ingest.fleet.clock import WatchClock
from cloud_ingest.fleet.flapping import DampedAlerts, Flaps
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.judging import MAX_ELECTIONS, Judge
from cloud_ingest.fleet.listening import Listening
from cloud_ingest.fleet.lives import RecordPosition
from cloud_ingest.fleet.rules import read
from record_formats.status_record import StatusRecord

S_US = 1_000_000


class Judged:
    """One gateway, and a collector that is always there."""

    def __init__(self, rules: str = "") -> None:
        self.book, self.gateway = AlertBook(), GatewayState("gw-a", 0, 0)
        self.listening = Listening()
        self._alerts = DampedAlerts(self.book, Flaps())
        self.rule(rules)

    def rule(self, rules: str) -> None:
        """Judge by other rules from now on, as after a restart of the job."""
        self.judge = Judge(read(rules), self._alerts, self.listening, WatchClock())

    def look(self, now_us: int) -> tuple[int, str, float | None] | None:
        """Return since when something is wrong by then, how it is told, and what was measured."""
        self.judge.time_passed(self.gateway, now_us)
        if not self.book.open:
            return None
        (alert,) = self.book.open.values()
        return alert.opened_us, alert.message, alert.value

    def elects(self, record: StatusRecord, at_us: int, *, begins: bool = False) -> list[int]:
        said = Statement("gw-a", 7, 1, at_us, at_us, "status", b"")
        self.judge.status(self.gateway, said, record, RecordPosition(True, begins=begins))
        return self.gateway.elections_us


# -- elections -------------------------------------------------------------------------------------


def record(root: str, elections: int) -> StatusRecord:
    return StatusRecord(interval_s=10.0, root=root, elections=elections)


@pytest.mark.parametrize(
    ("before", "now", "begins", "count"),
    [
        (None, ("gw-a", 5), False, 0),
        (None, ("gw-a", 5), True, 0),
        (("gw-b", 3), ("gw-a", 5), False, 2),
        (("gw-a", 3), ("gw-a", 3), False, 0),
        (("gw-a", 3), ("gw-a", 2), False, 0),
        (("gw-a", 9), ("gw-a", 2), True, 3),
        (("gw-a", 9), ("gw-b", 2), True, 2),
        (("gw-b", 9), ("gw-a", 2), True, 2),
        (("gw-b", 9), ("gw-b", 2), True, 2),
        (("gw-b", 9), ("gw-b", 0), True, 0),
        (("gw-a", 9), ("gw-a", 0), True, 1),
        (("gw-b", 0), ("gw-a", 10**9), False, MAX_ELECTIONS),
    ],
)
def test_how_often_it_became_root_is_counted_since_the_record_before(
    before: tuple[str, int] | None, now: tuple[str, int], begins: bool, count: int
) -> None:
    judged = Judged()
    judged.gateway.status = None if before is None else record(*before)
    assert judged.elects(record(*now), 77, begins=begins) == [77] * count


def test_of_many_elections_the_latest_are_remembered() -> None:
    judged = Judged()
    judged.gateway.elections_us = list(range(MAX_ELECTIONS))
    judged.gateway.status = record("gw-b", 0)
    assert judged.elects(record("gw-a", 2), 99) == [*range(2, MAX_ELECTIONS), 99, 99]


def test_it_flaps_from_so_many_elections_within_the_window_until_one_is_left() -> None:
    judged = Judged("[flapping-root]\nelections = 4\nwindow-s = 100.0")
    judged.gateway.elections_us = [0, 10 * S_US, 20 * S_US]
    assert judged.look(30 * S_US) is None
    judged.gateway.elections_us.append(99 * S_US)
    told = (99 * S_US, "it became root 4 times in 100 s", 4.0)
    assert judged.look(100 * S_US - 1) == told
    assert judged.look(120 * S_US - 1) == told  # two are left
    assert judged.look(120 * S_US) is None
    (closed,) = judged.book.closed
    assert closed.cleared_us == 120 * S_US
    assert judged.gateway.elections_us == [99 * S_US]
    judged.gateway.elections_us = [1, 2, 3, 4]
    assert judged.look(100 * S_US + 1) is None  # the first is as old as the window


# -- what is missing -------------------------------------------------------------------------------


def test_what_is_missing_is_told_since_the_oldest_of_it_was_due_until_it_is_given_up() -> None:
    judged = Judged("[gap]\nafter-s = 60.0\nforgets-s = 500.0")
    first, second = (judged.gateway.life(epoch, 1).numbering for epoch in (7, 8))
    first.come([(1, 1), (4, 4)], 100 * S_US)
    second.come([(1, 1), (3, 3)], 130 * S_US)
    assert judged.look(160 * S_US - 1) is None
    told = (160 * S_US, "3 of its messages are missing", 3.0)
    assert judged.look(160 * S_US) == told
    assert judged.look(600 * S_US) == told
    assert judged.look(600 * S_US + 1) == told  # the second is missing still
    assert judged.look(630 * S_US) == told
    assert judged.look(630 * S_US + 1) is None
    assert judged.book.closed[0].cleared_us == 630 * S_US + 1


def test_what_was_given_up_is_no_reason_for_an_alert_and_what_comes_ends_one() -> None:
    judged = Judged("[gap]\nafter-s = 60.0\nforgets-s = 500.0")
    numbering = judged.gateway.life(7, 1).numbering
    numbering.come([(1, 1), (3, 3)], 0)
    numbering.come([(5, 5)], 520 * S_US)
    assert judged.look(500 * S_US + 1) is None
    assert judged.look(580 * S_US) == (580 * S_US, "1 of its messages are missing", 1.0)
    numbering.come([(4, 4)], 581 * S_US)
    assert judged.look(582 * S_US) is None


# -- for some time after ---------------------------------------------------------------------------


def test_two_lives_are_told_since_the_last_return_until_none_is_within_the_time() -> None:
    judged = Judged("[two-lives]\nreturns = 2\nclears-s = 100.0")
    judged.gateway.returns_us = [0]
    assert judged.look(50 * S_US) is None
    judged.gateway.returns_us = [0, 40 * S_US]
    why = "two gateways run under its id in turns: a copied card?"
    assert judged.look(50 * S_US) == (40 * S_US, why, None)
    assert judged.look(140 * S_US - 1) == (40 * S_US, why, None)
    assert judged.look(140 * S_US) is None
    assert judged.book.closed[0].cleared_us == 140 * S_US


def test_what_was_given_up_of_its_numbers_is_told_for_so_long_after_the_last_time() -> None:
    judged = Judged("[given-up]\nclears-s = 100.0")
    assert judged.look(1) is None
    judged.gateway.given_up, judged.gateway.given_up_us = 17, 5
    why = (
        "it leaves more gaps in its numbers, or begins more lives, than are looked after: "
        "17 missing messages are looked for no longer"
    )
    assert judged.look(5 + 100 * S_US) == (5, why, 17.0)
    assert judged.look(6 + 100 * S_US) is None


def test_sensors_that_found_no_room_are_told_for_so_long_after_the_last_time() -> None:
    judged = Judged("[sensors-unwatched]\nclears-s = 100.0")
    judged.gateway.unwatched_us = 5
    why = "more of its sensors have a rule than the 0 that are watched"
    assert judged.look(5 + 100 * S_US) == (5, why, 0.0)
    assert judged.look(6 + 100 * S_US) is None


def has_trouble(judged: Judged, kind: str) -> None:
    """Let there be what raises an alert of a kind by the rules that are not written."""
    own = {"flapping-root": "elections_us", "two-lives": "returns_us"}.get(kind)
    if own is not None:
        setattr(judged.gateway, own, [1] * 9)
    judged.gateway.given_up_us = 1 if kind == "given-up" else None
    if kind == "gap":
        judged.gateway.life(7, 1).numbering.come([(1, 1), (4, 4)], 1)


@pytest.mark.parametrize("kind", ["flapping-root", "gap", "two-lives", "given-up"])
def test_a_rule_that_is_off_raises_nothing(kind: str) -> None:
    judged = Judged(f"[{kind}]\non = false\n[silent]\non = false")
    has_trouble(judged, kind)
    assert judged.look(90 * S_US) is None


@pytest.mark.parametrize("kind", ["flapping-root", "gap", "two-lives"])
def test_an_alert_whose_rule_is_turned_off_ends_when_that_is_seen(kind: str) -> None:
    judged = Judged()
    has_trouble(judged, kind)
    assert judged.look(90 * S_US) is not None
    judged.rule(f"[{kind}]\non = false")
    assert judged.look(95 * S_US) is None
    assert [alert.cleared_us for alert in judged.book.closed] == [95 * S_US]


# -- silence ---------------------------------------------------------------------------------------


def silent(
    record: StatusRecord, rules: str = "[silent]\nintervals = 3.0\nleast-s = 15.0"
) -> Judged:
    judged = Judged(rules)
    judged.gateway.status, judged.gateway.last_us = record, 100 * S_US
    for second in range(0, 400, 5):
        judged.listening.took(second * S_US)
    return judged


@pytest.mark.parametrize(("interval_s", "after_s"), [(10.0, 30), (5.0, 15), (1.0, 15)])
def test_a_gateway_is_silent_after_so_many_of_its_intervals(
    interval_s: float, after_s: int
) -> None:
    judged = silent(StatusRecord(interval_s=interval_s))
    limit_us = (100 + after_s) * S_US
    assert judged.look(limit_us) is None
    why = f"nothing was heard of it, though it speaks every {interval_s:g} s"
    assert judged.look(limit_us + 1) == (limit_us, why, None)


def test_who_leaves_on_purpose_or_never_said_how_often_it_speaks_is_not_silent() -> None:
    assert silent(StatusRecord(interval_s=10.0, roles=("draining",))).look(390 * S_US) is None
    off = silent(StatusRecord(interval_s=10.0), "[silent]\non = false")
    assert off.look(390 * S_US) is None
    never = silent(StatusRecord(interval_s=10.0))
    never.gateway.status = None
    assert never.look(390 * S_US) is None


def test_while_the_collector_was_away_a_third_of_the_limit_counts() -> None:
    judged = Judged("[silent]\nintervals = 3.0\nleast-s = 15.0")
    judged.gateway.status = StatusRecord(interval_s=10.0)
    for second in (*range(0, 11, 5), *range(110, 200, 5)):
        judged.listening.took(second * S_US)
    judged.gateway.last_us = 10 * S_US
    # Of the hundred seconds in which nothing came ten count.
    assert judged.look(130 * S_US) is None
    assert judged.look(130 * S_US + 1) is not None

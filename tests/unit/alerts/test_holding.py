"""Quiet hours and the digest of a day hold a record, and nothing holds it for longer than a day."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.desk import trial
from alerts.holding import LocalTime, holding_of
from alerts.matcher import AlertMatcher
from alerts.outgoing import WayQueue
from alerts.record import AlertRecord
from alerts.state import WayState
from alerts.terms import AlertRoute

DAY_S = 86_400
NIGHT = (22 * 60, 7 * 60)
ALL = AlertMatcher()
WARNINGS = AlertMatcher.of({"severity": "warning"})


def at(hour: float, day: int = 100, offset_s: int = 0) -> LocalTime:
    """Return a local time."""
    return LocalTime(round((day * DAY_S + hour * 3_600 - offset_s) * 1e6), offset_s)


def record(when: LocalTime, site: str = "campus/north", severity: str = "warning") -> AlertRecord:
    raised, _ = trial("gw-a", site, when.wall_us)
    return msgspec.structs.replace(raised, severity=severity)


def is_held(when: LocalTime, *routes: AlertRoute, made: LocalTime | None = None) -> bool:
    return holding_of(record(made or when), "mail", routes, when).is_held


@pytest.mark.parametrize("offset_s", [0, 3_600, -8 * 3_600, 20_700])
@pytest.mark.parametrize(
    ("hour", "held"), [(21.9, False), (22, True), (0, True), (6.9, True), (7, False), (12, False)]
)
def test_in_quiet_hours_a_record_waits_for_their_end(
    hour: float, held: bool, offset_s: int
) -> None:
    route = AlertRoute(ALL, ("mail",), quiet_min=NIGHT)
    assert is_held(at(hour, offset_s=offset_s), route) is held


def test_a_route_that_has_no_quiet_hours_lets_it_go_and_one_for_others_does_not() -> None:
    quiet = AlertRoute(WARNINGS, ("mail",), quiet_min=NIGHT)
    assert not is_held(at(23), quiet, AlertRoute(ALL, ("mail",)))
    assert is_held(at(23), quiet, AlertRoute(ALL, ("ntfy",)))
    critical = AlertMatcher.of({"severity": "critical"})
    assert is_held(at(23), quiet, AlertRoute(critical, ("mail",)))


@pytest.mark.parametrize(
    ("made", "leaves"), [(at(7), at(8)), (at(8), at(8, 101)), (at(9), at(8, 101))]
)
def test_a_digest_leaves_at_its_hour_once_a_day(made: LocalTime, leaves: LocalTime) -> None:
    route = AlertRoute(ALL, ("mail",), digest_min=8 * 60)
    before = LocalTime(leaves.wall_us - 1_000_000)
    assert is_held(before, route, made=made)
    assert not is_held(leaves, route, made=made)


class Clock:
    """A queue of one way, and a clock on the wall that may be set."""

    def __init__(self, route: AlertRoute) -> None:
        self.now = at(12)
        self.state = WayState()
        self.queue = WayQueue(
            self.state, 0, lambda one: holding_of(one, "mail", (route,), self.now)
        )

    def passes(self, seconds: float, *, set_by_s: float = 0.0) -> None:
        self.now = LocalTime(self.now.wall_us + round((seconds + set_by_s) * 1e6))
        self.queue.pass_time(seconds)


def test_a_digest_is_one_batch_of_all_sites_and_is_tried_for_a_day_of_its_own() -> None:
    clock = Clock(AlertRoute(ALL, ("mail",), digest_min=8 * 60))
    records = [record(clock.now, f"campus/{n % 7}") for n in range(120)]
    records = [msgspec.structs.replace(one, alert=f"a-{n}") for n, one in enumerate(records)]
    clock.queue.add(records)
    clock.passes(19 * 3_600)
    assert clock.queue.due() == ()
    clock.passes(3_600)
    assert clock.queue.due() == tuple(records)
    clock.queue.failed("connection refused")
    clock.passes(12 * 3_600)
    assert clock.queue.due() == tuple(records), "it is not as old as what was held"
    clock.passes(12 * 3_600)
    assert clock.state.dropped == 120


@given(
    st.lists(st.floats(-3 * DAY_S, 3 * DAY_S), max_size=8),
    st.sampled_from([{"digest_min": 480}, {"quiet_min": NIGHT}, {"quiet_min": (1, 0)}]),
)
def test_however_a_clock_is_set_nothing_is_held_for_longer_than_a_day(
    jumps: list[float], kind: dict[str, object]
) -> None:
    clock = Clock(AlertRoute(ALL, ("mail",), **kind))  # type: ignore[arg-type]
    clock.queue.add([record(clock.now)])
    for hour in range(26):
        jump_s = jumps[hour % len(jumps)] if jumps else 0.0
        clock.passes(3_600, set_by_s=jump_s)
        if clock.queue.due():
            return
    raise AssertionError("it is held still")

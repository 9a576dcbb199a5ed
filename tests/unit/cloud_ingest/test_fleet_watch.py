"""The watch over a fleet: what a batch tells is told once, whatever order it comes in."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_fleet import Gateway, WatchedFleet, at

from cloud_ingest.evidence.facts import (
    Activity,
    BatchFacts,
    Delays,
    GivenUp,
    Numbers,
    SensorSpan,
    Statement,
)
from cloud_ingest.fleet import state
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.rules import AlertRules, read
from cloud_ingest.fleet.state import MAX_GAPS_A_GATEWAY, FleetState, StateError
from cloud_ingest.fleet.watch import FleetWatch

EMPTY = BatchFacts(committed_us=at(0))


def batch(number: int, second: float, **facts: Any) -> BatchFacts:
    return replace(EMPTY, batch_id=number, committed_us=at(second), **facts)


def statement(one: Gateway, second: float, sequence: int, **fields: Any) -> Statement:
    payload = replace(one.record(second), **fields).encode()
    where = one.name, one.epoch, sequence, at(second), at(second)
    return Statement(*where, "status", payload)


def seen(*intervals: tuple[int, int], epoch: int = 7, **fields: Any) -> Numbers:
    kept_local = fields.get("kept_local", ())
    return Numbers("gw-a", epoch, control=False, logged=True, seen=intervals, kept_local=kept_local)


def active(second: float, gateway: str = "gw-a", messages: int = 1) -> Activity:
    return Activity(gateway, messages, 0, 0, None, None, at(second))


def rows(watch: FleetWatch, name: str, second: float = 0) -> list[dict[str, Any]]:
    changes = watch.changes(at(second))
    table = changes.append.get(name, changes.replace.get(name))
    return [] if table is None else table.to_pylist()


def everything(watch: FleetWatch) -> dict[str, Any]:
    changes = watch.changes(at(100_000))
    tables = {**changes.append, **changes.replace}
    return {name: sorted(table.to_pylist(), key=repr) for name, table in tables.items()}


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_within_a_batch_the_order_of_facts_makes_no_difference(seed: int, batches: int) -> None:
    draw = random.Random(seed)
    fleet = WatchedFleet(4, seed=seed, batch_s=30.0)
    fleet[1].loses, fleet[2].elections = True, 3
    fleet.when(20, lambda: fleet[2].restart(20, 99))
    one, other = FleetWatch(AlertRules()), FleetWatch(AlertRules())
    for facts in fleet.batches(30.0 * batches):
        one.take(facts)
        mixed = {
            name: tuple(draw.sample(getattr(facts, name), len(getattr(facts, name))))
            for name in ("statements", "numbers", "activity", "delays", "sensors")
        }
        other.take(replace(facts, **mixed))
    assert everything(one) == everything(other)


def test_a_batch_that_comes_again_changes_nothing_and_another_querys_is_another() -> None:
    fleet = WatchedFleet(3)
    watch = FleetWatch(AlertRules())
    taken = list(fleet.batches(60))
    for facts in taken:
        watch.take(facts, "q")
    before = watch.state()
    for facts in taken:
        watch.take(facts, "q")
    assert watch.state() == before
    assert watch.has_taken("q", 5) and not watch.has_taken("q", 6)
    watch.take(replace(taken[0], statements=()), "again")
    assert not watch.has_taken("again", 1)
    assert watch.has_taken("q", 5)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(0, 11))
def test_a_watch_that_goes_on_from_a_state_is_the_same(seed: int, ended_after: int) -> None:
    fleet = WatchedFleet(4, seed=seed)
    fleet[0].loses = True
    fleet[1].ahead_us = lambda now: 90_000_000
    one = other = FleetWatch(AlertRules())
    other = FleetWatch(AlertRules())
    for facts in fleet.batches(120):
        one.take(facts)
        one.changes(facts.committed_us)
        other.take(facts)
        other.changes(facts.committed_us)
        if facts.batch_id == ended_after:
            other = FleetWatch(AlertRules(), other.state())
    assert other.state() == one.state()


def test_a_state_that_is_damaged_or_of_a_later_version_is_refused() -> None:
    with pytest.raises(StateError, match="version 99"):
        FleetWatch(AlertRules(), msgpack.packb({"version": 99, "gateways": 3}))
    with pytest.raises(StateError):
        FleetWatch(AlertRules(), FleetWatch(AlertRules()).state()[:-3])


def test_a_gap_is_told_once_it_lasts_and_closed_when_its_numbers_come() -> None:
    watch = FleetWatch(AlertRules())
    watch.take(batch(0, 0, activity=(active(0),), numbers=(seen((1, 4), (8, 9)),)))
    assert rows(watch, "gaps") == []
    watch.take(batch(1, 20, activity=(active(20),)))
    (gap,) = rows(watch, "gaps")
    assert (gap["first"], gap["last"], gap["boot_epoch"], gap["closed_time"]) == (5, 7, 7, None)
    watch.take(batch(2, 70, activity=(active(70),)))
    (alert,) = rows(watch, "alerts")
    assert (alert["kind"], alert["value"], alert["cleared"]) == ("gap", 3.0, None)
    watch.take(batch(3, 80, activity=(active(80),), numbers=(seen((5, 6), kept_local=((7, 7),)),)))
    closed = rows(watch, "gaps")
    assert [(gap["first"], gap["last"]) for gap in closed] == [(5, 6), (7, 7)]
    assert all(gap["closed_time"] is not None for gap in closed)
    (alert,) = rows(watch, "alerts")
    assert alert["cleared"] is not None
    (gateway,) = rows(watch, "gateways")
    assert (gateway["gaps"], gateway["kept_local"]) == (0, 1)


def test_what_the_job_gives_up_is_told_once_raises_an_alert_and_takes_no_room_of_others() -> None:
    watch = FleetWatch(AlertRules())
    gaps = tuple((n, n) for n in range(2, 130, 2))
    told = GivenUp("gw-a", 7, gaps, 500)
    come = seen(*((n, n) for n in range(1, 131, 2)))
    watch.take(batch(1, 1, activity=(active(1),), numbers=(come,), given_up=(told,)))
    watch.take(batch(2, 2, activity=(active(2),), given_up=(told,)))
    states = [(row["first"], row["state"]) for row in rows(watch, "gaps")]
    assert states == [(n, "given up") for n in range(2, 130, 2)]
    (alert,) = rows(watch, "alerts")
    assert (alert["kind"], alert["cleared"], alert["value"]) == ("given-up", None, 1_000.0)
    for number in range(3, 60):
        more = GivenUp(
            "gw-a", 7, tuple((number * 200 + n, number * 200 + n) for n in range(64)), 64
        )
        watch.take(batch(number, number, activity=(active(number),), given_up=(more,)))
    assert len(rows(watch, "gaps")) == MAX_GAPS_A_GATEWAY
    later = (active(2 * 86_400),)
    watch.take(batch(99, 2 * 86_400, activity=later))
    (alert,) = rows(watch, "alerts")
    assert alert["cleared"] is not None


def test_a_watch_that_begins_late_misses_nothing_of_what_came_before() -> None:
    late = FleetWatch(AlertRules(), after=3)
    late.take(batch(0, 0, activity=(active(0),), numbers=(seen((500, 510)),)))
    late.take(batch(1, 700, activity=(active(700),), numbers=(seen((5, 5), epoch=8),)))
    late.take(batch(2, 720, activity=(active(720),)))
    assert [(gap["first"], gap["last"]) for gap in rows(late, "gaps")] == [(1, 4)]


def test_a_minute_is_told_when_it_is_over_and_again_with_what_came_late() -> None:
    watch = FleetWatch(AlertRules())
    minute_us = at(0) // 60_000_000 * 60_000_000
    first = Delays("gw-a", minute_us, "origin-collector", {0: 3, 40: 1})
    watch.take(batch(0, 0, activity=(active(0),), delays=(first,)))
    assert rows(watch, "latency") == []
    watch.take(batch(1, 75, activity=(active(75),)))
    (row,) = rows(watch, "latency")
    assert (row["count"], row["stage"], row["gateway"]) == (4, "origin-collector", "gw-a")
    assert 1.0 < row["p50_ms"] < 1.2 and 1024 < row["p99_ms"] < 1218
    watch.written(watch.changes(at(76)))
    watch.take(batch(2, 80, activity=(active(80),), delays=(replace(first, counts={1: 2}),)))
    (row,) = rows(watch, "latency")
    assert row["count"] == 6


def test_the_last_minute_is_told_although_nothing_comes_after_it() -> None:
    watch = FleetWatch(AlertRules())
    delays = Delays("gw-a", at(0) // 60_000_000 * 60_000_000, "origin-collector", {0: 3})
    watch.take(batch(0, 0, activity=(active(0),), delays=(delays,)))
    assert rows(watch, "latency", 5) == []
    assert len(rows(watch, "latency", 90)) == 1


def test_a_gateway_of_whom_alone_it_is_known_is_silent_when_the_collector_says_it_listened() -> (
    None
):
    one = Gateway("gw-a", 0, 7)
    watch = FleetWatch(AlertRules())
    for second in (0, 10, 20):
        watch.take(batch(second, second, statements=(statement(one, second, second + 1),)))
    assert rows(watch, "alerts", 500) == []
    for second in range(20, 80, 2):
        watch.progressed(at(second), at(second))
    (alert,) = rows(watch, "alerts")
    assert (alert["kind"], alert["gateway"]) == ("silent", "gw-a")
    assert rows(watch, "gateways")[0]["health"] == "silent"


def test_a_gateway_that_was_drained_is_not_silent_but_gone() -> None:
    one = Gateway("gw-a", 0, 7)
    watch = FleetWatch(AlertRules())
    watch.take(batch(0, 0, statements=(statement(one, 0, 1, roles=("draining",)),)))
    for second in range(200):
        watch.progressed(at(second), at(second))
    assert rows(watch, "alerts") == []


def test_an_epoch_that_is_lower_is_the_later_life_if_it_comes_later() -> None:
    watch = FleetWatch(AlertRules())
    watch.take(batch(0, 0, statements=(statement(Gateway("gw-a", 0, 900), 0, 1),)))
    watch.take(batch(1, 10, statements=(statement(Gateway("gw-a", 0, 5), 10, 1),)))
    late = replace(statement(Gateway("gw-a", 0, 900), 5, 2), collected_us=at(11))
    watch.take(batch(2, 11, statements=(late,)))
    (row,) = rows(watch, "gateways")
    assert row["boot_epoch"] == 5


def test_what_is_no_record_is_said_and_forgotten_when_the_next_one_is() -> None:
    one = Gateway("gw-a", 0, 7)
    watch = FleetWatch(AlertRules())
    wrong = replace(statement(one, 0, 1), payload=b"\x81\xa1r\x01")
    watch.take(batch(0, 0, statements=(wrong,)))
    assert "`e`" in rows(watch, "gateways")[0]["member_error"]
    watch.take(batch(1, 1, statements=(replace(wrong, kind="member", payload=b"?"),)))
    assert "member record" in rows(watch, "gateways")[0]["member_error"]
    watch.take(batch(2, 10, statements=(statement(one, 10, 2),)))
    (row,) = rows(watch, "gateways")
    assert (row["member_error"], row["domain"], row["group"]) == (None, "campus", "north")


def test_topology_has_a_row_when_it_changes_alone() -> None:
    one = Gateway("gw-a", 0, 7)
    watch = FleetWatch(AlertRules())
    for at_s, parent in enumerate(["gw-b", "gw-b", "gw-c", "gw-c", "gw-b"]):
        said = statement(one, 10.0 * at_s, at_s + 1, parent=parent)
        watch.take(batch(at_s, 10.0 * at_s, statements=(said,)))
    assert [row["parent"] for row in rows(watch, "topology")] == ["gw-b", "gw-c", "gw-b"]


def test_the_state_is_bounded_by_gateways_and_sensors() -> None:
    rules = read("[sensor-range]\nhigh = 1e9\n[kept]\ngateways = 5\nsensors = 3")
    watch = FleetWatch(rules)
    sizes = []
    for number in range(60):
        name = f"gw-{number:03}"
        spans = tuple(
            SensorSpan(name, f"s{i:03}", 1, at(number), at(number), i, i, i, i, 0)
            for i in range(20)
        )
        epochs = tuple(
            Numbers(name, 1_000 + i, control=False, logged=True, seen=((9, 9),), kept_local=())
            for i in range(20)
        )
        about = (active(number, name),)
        watch.take(batch(number, number, activity=about, sensors=spans, numbers=epochs))
        sizes.append(len(watch.state()))
    (*_, last) = rows(watch, "gateways")
    assert last["gateway"] == "gw-059"
    assert len(rows(watch, "gateways")) == 5
    assert max(sizes[30:]) < 1.1 * sizes[29]


def test_more_sensors_than_are_remembered_do_not_raise_and_clear_alerts_for_ever() -> None:
    rules = read("[sensor-range]\nhigh = 10.0\n[kept]\nsensors = 3")
    watch = FleetWatch(rules)
    for number in range(40):  # a round of four sensors each ten seconds, all of them too hot
        second = 10.0 * number
        spans = tuple(SensorSpan("gw-a", f"s{i}", 1, 0, 0, 20, 20, 20, 20, 0) for i in range(4))
        watch.take(batch(number, second, activity=(active(second),), sensors=spans))
    alerts = [row for row in rows(watch, "alerts") if row["kind"] == "sensor-range"]
    assert [(row["sensor"], row["cleared"]) for row in alerts] == [
        (f"s{i}", None) for i in range(3)
    ]
    later = 10.0 * 40 + 8 * 86_400  # the first three are silent: the fourth takes the room of one
    span = SensorSpan("gw-a", "s3", 1, 0, 0, 20, 20, 20, 20, 0)
    watch.take(batch(40, later, activity=(active(later),), sensors=(span,)))
    alerts = [row for row in rows(watch, "alerts") if row["kind"] == "sensor-range"]
    assert {row["sensor"] for row in alerts if row["cleared"] is None} == {"s1", "s2", "s3"}


def test_a_sensor_that_says_the_same_is_stuck_until_it_says_something_else() -> None:
    rules = read("[sensor-stuck]\nafter-s = 100\nreadings = 3")
    watch, kinds = FleetWatch(rules), []
    for number, value in enumerate([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0]):
        second = 40.0 * number
        span = SensorSpan("gw-a", "x", 1, 0, 0, value, value, value, value, 0)
        watch.take(batch(number, second, activity=(active(second),), sensors=(span,)))
        kinds.append([(row["kind"], row["cleared"] is None) for row in rows(watch, "alerts")])
    assert kinds[2] == []
    assert kinds[3] == kinds[4] == [("sensor-stuck", True)]
    assert kinds[5] == kinds[6] == [("sensor-stuck", False)]


@pytest.mark.parametrize(
    ("domain", "group", "is_kept"),
    [
        ("campus", "north", True),
        ("-", "-", True),
        ("?", "?", True),
        (None, None, True),
        ("x" * 300, "-", False),
        ("campus", "<b>", False),
        ("../..", "-", False),
    ],
)
def test_a_place_that_an_earlier_watch_took_and_that_is_none_is_unknown(
    domain: str | None, group: str | None, is_kept: bool
) -> None:
    remembered = FleetState(gateways={"gw-a": GatewayState("gw-a", 1, 1)})
    remembered.gateways["gw-a"].domain, remembered.gateways["gw-a"].group = domain, group
    found = state.decode(remembered.encode()).gateways["gw-a"]
    assert (found.domain, found.group) == ((domain, group) if is_kept else (None, None))


def test_what_comes_late_of_a_minute_that_is_forgotten_is_a_part_of_it_and_counts_once() -> None:
    watch = FleetWatch(AlertRules())
    minute_us = at(0) // 60_000_000 * 60_000_000
    told = []
    for number, second in enumerate((0, 80, 300, 500, 700)):
        delays = (Delays("gw-a", minute_us, "origin-collector", {number: 2}),)
        facts = batch(number, second, delays=delays, activity=(active(second),))
        watch.take(facts)
        changes = watch.changes(at(second))
        watch.begin_writing()
        watch = FleetWatch(AlertRules(), watch.state()) if number == 2 else watch
        watch.written(changes)
        if "latency" in changes.append:
            found = changes.append["latency"].to_pylist()
            told += [(row["part"], row["count"]) for row in found]
    assert told == [(0, 4), (0, 6), (1, 2), (2, 2)]


def test_a_backup_that_is_overdue_is_one_alert_until_it_is_good_or_off() -> None:
    one, watch = Gateway("gw-a", 0, 7), FleetWatch(AlertRules())

    def told(number: int, **fields: Any) -> list[tuple[str, bool]]:
        said = statement(one, 10.0 * number, number, **fields)
        watch.take(batch(number, 10.0 * number, statements=(said,)), "q")
        found = rows(watch, "alerts", 10.0 * number)
        return [(row["message"], row["cleared"] is None) for row in found]

    assert told(1, backup="good") == []
    overdue = "its backup: overdue, no good backup for 4 days"
    why = {"backup_why": "no good backup for 4 days", "backup_age_s": 345_600.0}
    assert told(2, backup="overdue", **why) == [(overdue, True)]
    told(3)  # it could not look
    assert told(4, backup="overdue", **why) in ([], [(overdue, True)])
    assert told(5, backup="off") == [(overdue, False)]
    assert ("its backup: trial failed", True) in told(6, backup="trial failed")


def test_what_is_written_is_not_given_again_and_what_is_not_is() -> None:
    watch = FleetWatch(AlertRules())
    watch.take(
        batch(1, 10, numbers=(seen((1, 1), (5, 5)),), activity=(active(10), active(10, "gw-b")))
    )
    watch.take(batch(2, 100, activity=(active(100),)))
    first = watch.changes(at(100))
    assert set(first.replace) == {"gateways", "gaps", "alerts"}
    assert set(watch.changes(at(100)).replace) == {"gateways", "gaps", "alerts"}
    parts = [replace(first, replace={name: first.replace[name]}) for name in sorted(first.replace)]
    for number, part in enumerate(parts, 1):
        watch.written(part)
        assert len(watch.changes(at(100)).replace) == 3 - number
    watch.take(batch(3, 101, activity=(active(101),)))
    assert set(watch.changes(at(101)).replace) == {"gateways"}
    watch.written(replace(first, replace={}))
    assert set(watch.changes(at(101)).replace) == {"gateways"}

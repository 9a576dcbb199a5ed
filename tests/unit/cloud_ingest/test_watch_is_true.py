"""The watch states no condition of a gateway and raises no alert without evidence."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from watched_fleet import Gateway, at

from cloud_ingest.evidence.facts import Activity, BatchFacts, Numbers, SensorSpan, Statement
from cloud_ingest.fleet.alerts import MAX_CLOSED_A_GATEWAY, MAX_OPEN_A_GATEWAY, AlertBook
from cloud_ingest.fleet.rules import AlertRules, Kept, read
from cloud_ingest.fleet.watch import FleetWatch

DAY_S = 86_400
EMPTY = BatchFacts(committed_us=at(0))


class Watched:
    """A watch, the batches that it is given, and the gateways that it hears."""

    def __init__(self, rules: AlertRules | None = None) -> None:
        self.watch = FleetWatch(rules or AlertRules())
        self.number = 0
        self.sequences: dict[str, int] = {}

    def batch(self, second: float, **facts: Any) -> None:
        self.number += 1
        told = replace(EMPTY, batch_id=self.number, committed_us=at(second), **facts)
        self.watch.take(told)

    def says(self, one: Gateway, second: float, **fields: Any) -> Statement:
        sequence = self.sequences[one.name] = self.sequences.get(one.name, 0) + 1
        payload = replace(one.record(second), **fields).encode()
        return Statement(one.name, one.epoch, sequence, at(second), at(second), "status", payload)

    def hears(self, *gateways: Gateway, since: float, until: float) -> None:
        """Each says a record every ten seconds."""
        for tenth in range(int(since) // 10, int(until) // 10):
            second = tenth * 10.0
            self.batch(second, statements=tuple(self.says(one, second) for one in gateways))
            self.alerts(second)  # as the job asks it

    def rows(self, name: str, second: float) -> list[dict[str, Any]]:
        changes = self.watch.changes(at(second))
        table = changes.append.get(name, changes.replace.get(name))
        return [] if table is None else table.to_pylist()

    def alerts(self, second: float) -> list[dict[str, Any]]:
        return self.rows("alerts", second)

    def row(self, name: str, second: float) -> dict[str, Any]:
        (found,) = [row for row in self.rows("gateways", second) if row["gateway"] == name]
        return found


def came(second: float, name: str = "gw-a", messages: int = 1) -> Activity:
    return Activity(name, messages, 0, 0, None, None, at(second))


def copies(name: str, count: int = 1) -> Activity:
    return Activity(name, 0, 0, count, None, None, 0)


def numbers(first: int, last: int, epoch: int = 7, name: str = "gw-a") -> Numbers:
    return Numbers(name, epoch, control=False, logged=True, seen=((first, last),), kept_local=())


def test_a_gateway_with_a_fresh_record_and_no_alert_is_good() -> None:
    watched = Watched()
    watched.hears(Gateway("gw-a", 0, 7), since=0, until=60)
    row = watched.row("gw-a", 60)
    assert (row["health"], row["health_why"]) == ("good", None)
    assert row["judged"].timestamp() == at(50) / 1e6


@pytest.mark.parametrize(
    ("kind", "wrong", "unknown"),
    [
        ("hot", {"temperature_cel": 90.0}, {"temperature_cel": None}),
        ("under-voltage", {"under_voltage": True}, {"under_voltage": None}),
        ("disk-full", {"disk_free_bytes": 1}, {"disk_free_bytes": None}),
        ("disk-wearing", {}, {"disk_written_bytes": None}),
        ("backup-overdue", {"backup": "overdue"}, {"backup": ""}),
    ],
)
def test_what_records_do_not_say_neither_raises_an_alert_nor_clears_it_over_a_restart(
    kind: str, wrong: dict[str, Any], unknown: dict[str, Any]
) -> None:
    one, watched = Gateway("gw-a", 0, 7, interval_s=60.0, written_per_s=1e6), Watched()
    told: list[bool] = []

    def says(minutes: range, **fields: Any) -> list[bool]:
        """Return of each alert of the kind whether it is open."""
        for second in (60.0 * minute for minute in minutes):
            watched.batch(second, statements=(watched.says(one, second, **fields),))
            found = [row for row in watched.alerts(second) if row["kind"] == kind]
            told[:] = [row["cleared"] is None for row in found] or told
        return told

    assert says(range(10), **unknown) == []
    assert says(range(10, 80), **wrong) == [True]
    watched.watch = FleetWatch(AlertRules(), watched.watch.state())
    assert says(range(80, 90), **unknown) == [True]
    one.restart(90 * 60.0, 8)
    assert says(range(90, 100), **unknown) == [True]
    one.written_per_s = 1.0
    assert says(range(100, 230), backup="good") == [False]


def test_a_gateway_whose_messages_come_without_records_is_stale_and_not_good() -> None:
    watched = Watched()
    watched.hears(Gateway("gw-a", 0, 7), since=0, until=60)
    for second in range(60, 200, 10):
        watched.batch(second, activity=(came(second),))
    row = watched.row("gw-a", 200)
    assert row["health"] == "stale"
    assert "record" in row["health_why"]


def test_a_gateway_is_not_good_when_the_collector_comes_back_without_it() -> None:
    watched = Watched()
    watched.hears(Gateway("gw-a", 0, 7), Gateway("gw-b", 0, 8), since=0, until=60)
    watched.hears(Gateway("gw-b", 0, 8), since=4_000, until=4_010)
    assert watched.alerts(4_010) == []
    assert watched.row("gw-a", 4_010)["health"] == "stale"


def test_a_gateway_that_said_that_it_leaves_has_left() -> None:
    watched = Watched()
    one, other = Gateway("gw-a", 0, 7), Gateway("gw-b", 0, 8)
    watched.batch(0, statements=(watched.says(one, 0, roles=("draining",)),))
    assert watched.row("gw-a", 0)["health"] == "good"
    watched.hears(other, since=10, until=300)
    assert watched.row("gw-a", 300)["health"] == "left"


def test_an_origin_that_never_says_a_record_has_a_state_of_its_own() -> None:
    watched = Watched()
    watched.batch(0, activity=(came(0, "kafka-t-0"),))
    assert watched.row("kafka-t-0", 0)["health"] == "unknown"
    for second in range(10, 100, 10):
        watched.batch(second, activity=(came(second, "kafka-t-0"),))
    assert watched.row("kafka-t-0", 100)["health"] == "no-status"


def test_a_gateway_whose_records_were_never_read_is_unreadable() -> None:
    watched = Watched()
    wrong = replace(watched.says(Gateway("gw-a", 0, 7), 0), payload=b"?")
    watched.batch(0, statements=(wrong,))
    row = watched.row("gw-a", 0)
    assert row["health"] == "unreadable"
    assert row["member_error"] in row["health_why"]


def test_a_gap_after_one_that_was_forgotten_is_another_alert_and_only_if_it_lasts() -> None:
    watched = Watched()
    watched.batch(0, activity=(came(0),), numbers=(numbers(1, 1), numbers(3, 3)))
    watched.batch(100, activity=(came(100),))
    (lost,) = watched.alerts(100)
    assert (lost["kind"], lost["cleared"]) == ("gap", None)
    later = 2.0 * DAY_S  # nobody looks for it any longer
    watched.batch(later, activity=(came(later),))
    (lost,) = watched.alerts(later)
    assert lost["cleared"] is not None
    watched.batch(later + 10, activity=(came(later + 10),), numbers=(numbers(5, 5),))
    assert len(watched.alerts(later + 10)) == 1
    watched.batch(later + 20, activity=(came(later + 20),), numbers=(numbers(4, 4),))
    assert len(watched.alerts(later + 20)) == 1
    watched.batch(later + 30, activity=(came(later + 30),), numbers=(numbers(7, 7),))
    watched.batch(later + 130, activity=(came(later + 130),))
    both = watched.alerts(later + 130)
    assert len({row["alert"] for row in both}) == 2
    assert both[-1]["opened"].timestamp() == at(later + 90) / 1e6
    assert both[-1]["value"] == 1.0


def test_copies_do_not_say_when_a_gateway_was_heard() -> None:
    watched = Watched()
    one, other = Gateway("gw-a", 0, 7), Gateway("gw-b", 0, 8)
    watched.hears(one, other, since=0, until=60)
    sixty_days = 60.0 * DAY_S
    watched.batch(sixty_days, activity=(copies("gw-a", 3),))
    row = watched.row("gw-a", sixty_days)
    assert (row["duplicates"], row["last_seen"].timestamp()) == (3, at(50) / 1e6)
    assert watched.watch.progress_us == at(50)
    watched.batch(sixty_days, activity=(copies("gw-c", 3),))
    assert len(watched.rows("gateways", sixty_days)) == 2


def test_a_gateway_that_was_away_for_months_misses_nothing_when_it_comes_back() -> None:
    watched = Watched()
    watched.batch(0, activity=(came(0),), numbers=(numbers(1, 5_000), numbers(9, 9, epoch=6)))
    for hour in range(41 * 24):
        watched.batch(hour * 3_600.0, activity=(came(hour * 3_600.0, "gw-b"),))
    now = 40.0 * DAY_S
    assert [row["gateway"] for row in watched.rows("gateways", now)] == ["gw-b"]
    watched.batch(
        now, activity=(came(now),), numbers=(numbers(5_001, 5_001), numbers(5_003, 5_003))
    )
    assert watched.row("gw-a", now)["gaps"] == 1


def test_a_clock_that_leaps_over_forty_years_has_no_gateway_forgotten() -> None:
    watched = Watched()
    watched.batch(0, activity=(came(0),))
    for hour in range(1, 48):
        watched.batch(hour * 3_600.0, activity=(came(hour * 3_600.0, "gw-b"),))
    later = 40.0 * 365 * DAY_S  # of the one machine that collector and job share
    watched.batch(later, activity=(came(later, "gw-b"),))
    assert {row["gateway"] for row in watched.rows("gateways", later)} == {"gw-a", "gw-b"}


def test_a_life_that_comes_back_after_many_others_misses_nothing() -> None:
    watched = Watched()
    for epoch in range(1, 20):
        second = epoch * 10.0
        watched.batch(second, activity=(came(second),), numbers=(numbers(1, 100, epoch=epoch),))
    watched.batch(500, activity=(came(500),), numbers=(numbers(101, 102, epoch=1),))
    assert watched.row("gw-a", 500)["gaps"] == 0


def test_gateways_that_were_forgotten_for_others_miss_nothing_when_they_come_back() -> None:
    watched = Watched(AlertRules(kept=Kept(gateways=3)))
    for round_ in range(4):
        for index in range(12):
            second, name = round_ * 120.0 + index * 10, f"gw-{index}"
            new = numbers(round_ * 10 + 1, round_ * 10 + 10, name=name)
            watched.batch(second, activity=(came(second, name),), numbers=(new,))
    assert {row["gaps"] for row in watched.rows("gateways", 480)} == {0}


@pytest.mark.parametrize("pause_s", [20.0, 7_200.0, 43_200.0])
def test_one_sensor_too_many_raises_no_alert_twice(pause_s: float) -> None:
    watched = Watched(read("[sensor-range]\nhigh = 10.0"))
    names = [f"s{part:03}" for part in range(257)]
    for number in range(10):  # half of them at a time
        second = number * pause_s / 2
        hot = [
            SensorSpan("gw-a", each, 1, 0, 0, 20, 20, 20, 20, 0) for each in names[number % 2 :: 2]
        ]
        watched.batch(second, activity=(came(second),), sensors=tuple(hot))
    sensors = [row for row in watched.alerts(5 * pause_s) if row["kind"] == "sensor-range"]
    assert len({row["sensor"] for row in sensors}) == len(sensors)
    assert all(row["cleared"] is None for row in sensors)


def test_nobody_is_silent_whose_collectors_spool_is_read_more_slowly_than_another_one() -> None:
    watched, one, other = Watched(), Gateway("gw-a", 0, 1), Gateway("gw-b", 0, 1)
    watched.hears(one, other, since=0, until=100)
    for second in range(100, 400, 10):  # it is being read that of the other until then
        told = watched.says(other, second)
        watched.batch(second, statements=(told,), read_until_us=at(95))
        assert watched.alerts(second) == []
        assert watched.row("gw-a", second)["health"] == "good"
    told = watched.says(other, 400)
    watched.batch(400, statements=(told,), read_until_us=at(300))
    (alert,) = watched.alerts(400)  # until then it is read, and it was silent
    assert (alert["kind"], alert["gateway"]) == ("silent", "gw-a")


def test_readings_that_are_read_again_raise_no_alert_about_what_was_judged() -> None:
    watched = Watched(read("[sensor-range]\nhigh = 10.0\n[sensor-stuck]\nafter-s = 100"))

    def measured(collected_s: float, first_s: float, last_s: float, *values: float) -> None:
        ends = values[0], values[-1]
        when = at(first_s), at(last_s)
        span = SensorSpan("gw-a", "tank", len(values), *when, min(values), max(values), *ends, 1)
        watched.batch(collected_s, activity=(came(collected_s),), sensors=(span,))

    measured(100, 100, 100, 20)
    measured(200, 200, 200, 5)
    (alert,) = watched.alerts(200)
    assert alert["cleared"] is not None
    measured(100, 100, 100, 20)  # alone
    measured(210, 100, 210, 20, 5, 6)  # with one that is new
    assert watched.alerts(210) == [alert]
    measured(220, 220, 220, 30)
    assert len(watched.alerts(220)) == 2
    measured(230, 230, 230, 5)
    back_s = -40.0 * 365 * DAY_S  # its gateway's clock falls back: what it says counts as before
    measured(240, back_s, back_s + 9, 5, 30)
    assert [row["cleared"] is None for row in watched.alerts(240)] == [False, False, True]


def test_a_gateway_whose_alerts_come_and_go_takes_no_room_of_the_history_of_others() -> None:
    book = AlertBook()
    book.judge(("hot", "gw-a", ""), True, 1, "hot")
    book.judge(("hot", "gw-a", ""), False, 2, "")
    for time_us in range(10, 2_000_000, 50):
        book.judge(("hot", "gw-noisy", ""), True, time_us, "hot")
        book.judge(("hot", "gw-noisy", ""), False, time_us + 20, "")
    book.drop_closed(0)
    kept = Counter(alert.gateway for alert in book.all())
    assert kept == {"gw-a": 1, "gw-noisy": MAX_CLOSED_A_GATEWAY}
    newest = max(alert.opened_us for alert in book.all())
    assert newest == 1_999_960


def test_a_gateway_with_too_many_open_alerts_takes_no_room_of_others() -> None:
    book = AlertBook()
    for number in range(2 * MAX_OPEN_A_GATEWAY):
        book.judge(("sensor-range", "gw-noisy", f"s{number}"), True, number, "out of range")
    book.judge(("hot", "gw-a", ""), True, 1, "hot")
    assert Counter(alert.gateway for alert in book.all()) == {
        "gw-noisy": MAX_OPEN_A_GATEWAY,
        "gw-a": 1,
    }
    assert book.left_out == MAX_OPEN_A_GATEWAY
    book.forget_about("gw-noisy", ["s0"], 5)
    book.judge(("sensor-range", "gw-noisy", "s600"), True, 9_000, "out of range")
    assert book.is_open("sensor-range", "gw-noisy", "s600")


def test_an_alert_that_is_raised_again_at_the_same_moment_has_a_name_of_its_own() -> None:
    book = AlertBook()
    for _ in range(3):
        book.judge(("hot", "gw-a", ""), True, 5, "hot")
        book.judge(("hot", "gw-a", ""), False, 5, "")
    assert len({alert.id for alert in book.all()}) == 3

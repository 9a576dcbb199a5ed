"""An alert that comes and goes becomes one alert, `flapping`; no gateway takes others' history."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from watched_fleet import WatchedFleet, at

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.fleet import state
from cloud_ingest.fleet.alerts import MAX_CLOSED, MAX_OPEN_A_GATEWAY, Alert, AlertBook
from cloud_ingest.fleet.flapping import DampedAlerts, Flaps
from cloud_ingest.fleet.kinds import AlertKind
from cloud_ingest.fleet.rules import AlertRules, Flapping, read
from cloud_ingest.fleet.watch import FleetWatch

RULE = Flapping(raises=4, window_s=1_800, steady_s=900)
MINUTE_US = 60_000_000
HOT = ("hot", "gw-a", "")


class Alerts:
    """Damped alerts, and a clock in minutes."""

    def __init__(self, rule: Flapping = RULE) -> None:
        self.book, self.flaps, self.rule = AlertBook(), Flaps(), rule
        self.damped = DampedAlerts(self.book, self.flaps)

    def judge(
        self,
        minute: float,
        is_wrong: bool | None,
        subject: tuple[AlertKind, str, str] = ("hot", "gw-a", ""),
    ) -> None:
        at_us = round(minute * MINUTE_US)
        self.damped.judge(subject, is_wrong, at_us, f"since {minute:g}", rule=self.rule)

    def passes(self, minute: float) -> None:
        self.damped.time_passed(round(minute * MINUTE_US))

    def flap(self, minutes: range) -> None:
        for minute in minutes:
            self.judge(minute, minute % 2 == 0)
            self.passes(minute)

    def told(self) -> list[tuple[str, float, float | None]]:
        return [
            (
                each.kind,
                each.opened_us / MINUTE_US,
                None if each.cleared_us is None else each.cleared_us / MINUTE_US,
            )
            for each in self.book.all()
        ]


def _rows(watch: FleetWatch, second: float) -> list[dict[str, Any]]:
    table = watch.changes(at(second)).replace.get("alerts")
    return [] if table is None else table.to_pylist()


def _with_a_link_that_flaps() -> list[BatchFacts]:
    fleet = WatchedFleet(2, batch_s=60.0)
    for minute in range(2, 62):

        def turn(is_down: bool = minute % 2 == 0) -> None:
            fleet[0].is_down = is_down

        fleet.when(minute * 60.0, turn)
    return list(fleet.batches(62 * 60.0 + 1_200))


def test_a_link_that_goes_off_and_on_each_minute_is_one_alert_and_not_thirty() -> None:
    watch = FleetWatch(AlertRules())
    healths = set()
    for facts in _with_a_link_that_flaps():
        watch.take(facts)
        changes = watch.changes(facts.committed_us)
        if (table := changes.replace.get("gateways")) is not None:
            healths |= {row["health"] for row in table.to_pylist() if row["gateway"] == "gw-0000"}
    rows = _rows(watch, 10_000)
    assert Counter(row["kind"] for row in rows) == {"silent": 3, "flapping": 1}
    assert all(row["cleared"] is not None for row in rows)
    (flapping,) = [row for row in rows if row["kind"] == "flapping"]
    assert flapping["gateway"] == "gw-0000" and "silent" in flapping["message"]
    assert (flapping["cleared"] - flapping["opened"]).total_seconds() > 50 * 60
    assert {"good", "silent", "warning"} <= healths


def test_a_watch_that_is_killed_and_goes_on_tells_the_same_of_a_link_that_flaps() -> None:
    one, other = FleetWatch(AlertRules()), FleetWatch(AlertRules())
    for number, facts in enumerate(_with_a_link_that_flaps()):
        for watch in (one, other):
            watch.take(facts)
            watch.changes(facts.committed_us)
        if number % 7 == 0:
            other = FleetWatch(AlertRules(), other.state())
    assert _rows(one, 10_000) == _rows(other, 10_000)


def test_it_is_cleared_once_nothing_has_changed_for_so_long_that_it_is_steady() -> None:
    alerts = Alerts()
    alerts.flap(range(20))  # last right at 19
    assert alerts.told() == [("hot", 0, 1), ("hot", 2, 3), ("hot", 4, 5), ("flapping", 6, None)]
    alerts.passes(33)
    assert alerts.told()[-1] == ("flapping", 6, None)
    alerts.passes(40)
    assert alerts.told()[-1] == ("flapping", 6, 34)
    alerts.flap(range(50, 54))  # counted anew
    assert alerts.told()[-2:] == [("hot", 50, 51), ("hot", 52, 53)]


def test_what_is_steadily_wrong_after_it_flapped_is_an_alert_of_its_own_since_it_is_wrong() -> None:
    alerts = Alerts()
    alerts.flap(range(19))  # last wrong at 18
    assert alerts.damped.is_open("hot", "gw-a")
    assert alerts.damped.kinds() == {"gw-a": {"flapping", "hot"}}
    alerts.passes(40)
    assert alerts.told()[-2:] == [("flapping", 6, 33), ("hot", 18, None)]
    alerts.judge(50, False)
    assert alerts.told()[-1] == ("hot", 18, 50)
    assert alerts.damped.kinds() == {}


def test_a_pause_that_nobody_looked_at_ends_it_too() -> None:
    alerts = Alerts()
    alerts.flap(range(20))
    alerts.judge(60, True)
    assert alerts.told()[-2:] == [("flapping", 6, 34), ("hot", 60, None)]


def test_several_kinds_of_one_gateway_that_flap_are_one_alert_that_names_them() -> None:
    alerts = Alerts()
    silent: tuple[AlertKind, str, str] = ("silent", "gw-a", "")
    for minute in range(30):
        alerts.judge(minute, minute % 2 == 0)
        if minute >= 10:
            alerts.judge(minute, minute % 2 == 0, silent)
    flapping = [each for each in alerts.book.all() if each.kind == "flapping"]
    assert len(flapping) == 1
    assert "hot, silent" in flapping[0].message
    alerts.passes(100)
    assert alerts.told().count(("flapping", 6, 44)) == 1
    assert not alerts.book.open and not alerts.flaps.of


def test_alerts_that_come_rarely_are_not_damped_and_leave_nothing_behind() -> None:
    alerts = Alerts()
    for minute in range(0, 600, 11):
        alerts.judge(minute, True)
        alerts.judge(minute + 5, False)
        alerts.passes(minute + 6)
    assert {kind for kind, *_ in alerts.told()} == {"hot"}
    alerts.passes(1_000)
    assert not alerts.flaps.of


def test_a_rule_can_be_for_some_alone_or_off() -> None:
    alerts = Alerts(Flapping(on=False))
    alerts.flap(range(40))
    assert {kind for kind, *_ in alerts.told()} == {"hot"}
    rules = read("[flapping]\nraises = 6\n[[override]]\ngateway = 'gw-b'\nflapping = {on = false}")
    assert rules.of("gw-a", None).flapping.raises == 6
    assert not rules.of("gw-b", None).flapping.on


def test_a_sensor_that_is_forgotten_takes_its_flapping_along() -> None:
    alerts = Alerts()
    for minute in range(20):
        alerts.judge(minute, minute % 2 == 0, ("sensor-range", "gw-a", "s1"))
    alerts.damped.forget_about("gw-a", ["s1"], 21 * MINUTE_US)
    assert alerts.told()[-1] == ("flapping", 6, 21)
    assert not alerts.flaps.of


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_and_goes_each_alert_is_raised_once_true_and_cleared(seed: int) -> None:
    draw = random.Random(seed)
    alerts, minute, wrong = Alerts(), 0.0, False
    for _ in range(300):
        minute += draw.choice((0.1, 1, 5, 20))
        if draw.random() < 0.6:
            wrong = not wrong
        alerts.judge(minute, wrong)
        if draw.random() < 0.5:
            alerts.passes(minute)
        assert alerts.damped.is_open("hot", "gw-a") == wrong
        assert bool(alerts.book.open) or not wrong
        assert len(alerts.book.open) <= 1, "flapping stands for what flaps"
    alerts.judge(minute, False)
    alerts.passes(minute + 100)
    told = alerts.told()
    assert len({each.id for each in alerts.book.all()}) == len(told)
    assert all(cleared is not None for *_, cleared in told)
    times = [at for kind, at, _ in told if kind == "hot"]
    most = max(sum(1 for each in times if begin <= each < begin + 30) for begin in times)
    assert most <= 2 * (RULE.raises - 1)


def test_many_noisy_gateways_share_the_history_and_leave_the_others_theirs() -> None:
    book = AlertBook()
    closed = [
        Alert("hot", f"gw-{number % 200:03}", "", number, number + 1, "", None)
        for number in range(200 * 150)
    ]
    book.closed = [Alert("hot", "gw-quiet", "", 0, 1, "", None), *closed]
    book.drop_closed(0)
    kept = Counter(alert.gateway for alert in book.closed)
    assert len(book.closed) <= MAX_CLOSED
    assert kept["gw-quiet"] == 1
    assert (
        max(kept.values()) - min(count for name, count in kept.items() if name != "gw-quiet") <= 1
    )


def test_many_noisy_gateways_leave_the_others_their_gaps() -> None:
    noisy = [
        state.GapRow(f"gw-{number % 100:03}", 1, number, number, number, number)
        for number in range(100 * 500)
    ]
    kept = state.newest_of_each([state.GapRow("gw-quiet", 1, 1, 1, 0, 1), *noisy])
    assert len(kept) <= state.MAX_CLOSED_GAPS
    assert kept[0].gateway == "gw-quiet"


def test_what_is_damped_is_told_at_once_where_its_rule_is_turned_off() -> None:
    alerts = Alerts()
    alerts.flap(range(8))
    alerts.judge(8, True)
    assert alerts.told()[-1] == ("flapping", 6, None)
    alerts.rule = Flapping(on=False, raises=4, window_s=1_800, steady_s=900)
    alerts.judge(9, True)
    assert not alerts.book.is_open("flapping", "gw-a")
    assert alerts.told()[-1][::2] == ("hot", None)
    alerts.judge(10, False)
    assert not alerts.book.is_open("hot", "gw-a")


def _flapping_of(gateway: str, sensor: str = "") -> tuple[AlertKind, str, str]:
    return ("sensor-range", gateway, sensor) if sensor else ("hot", gateway, "")


@pytest.mark.parametrize(
    ("gateway", "sensors", "left"),
    [
        ("gw-a", None, ["gw-b", "gw-b s1"]),
        ("gw-a", ["s1"], ["gw-a", "gw-a s2", "gw-b", "gw-b s1"]),
        ("gw-b", ["s2"], ["gw-a", "gw-a s1", "gw-a s2", "gw-b", "gw-b s1"]),
        ("gw-c", None, ["gw-a", "gw-a s1", "gw-a s2", "gw-b", "gw-b s1"]),
    ],
)
def test_what_is_forgotten_about_one_is_still_known_of_the_others(
    gateway: str, sensors: list[str] | None, left: list[str]
) -> None:
    alerts = Alerts()
    about = [("gw-a", ""), ("gw-a", "s1"), ("gw-a", "s2"), ("gw-b", ""), ("gw-b", "s1")]
    for minute in range(9):
        for one, sensor in about:
            alerts.judge(minute, minute % 2 == 0, _flapping_of(one, sensor))
    alerts.damped.forget_about(gateway, sensors, 10 * MINUTE_US)
    found = sorted(f"{who} {sensor}".strip() for _, who, sensor in alerts.flaps.of)
    assert found == left
    still = sorted(f"{who} {sensor}".strip() for _, who, sensor in alerts.book.open)
    assert still == left


def test_alerts_count_to_the_end_of_the_window_and_no_longer() -> None:
    for last, kind in ((29.5, "flapping"), (30, "hot")):
        alerts = Alerts()
        for minute in (0, 10, 20, last):
            alerts.judge(minute, True)
            alerts.judge(minute + 0.25, False)
        assert alerts.told()[-1][:2] == (kind, last)


def test_it_is_steady_at_that_very_moment_and_not_before() -> None:
    alerts = Alerts()
    alerts.flap(range(7))  # flaps since 6, wrong
    alerts.passes(20.99)
    assert alerts.told()[-1] == ("flapping", 6, None)
    alerts.passes(21)
    assert alerts.told()[-2:] == [("flapping", 6, 21), ("hot", 6, None)]
    alerts.judge(22, False)
    alerts.passes(35.99)
    assert HOT in alerts.flaps.of  # it counts as raised once more, for a window from then
    alerts.passes(36)
    assert not alerts.flaps.of


def test_what_is_damped_is_known_with_its_latest_value_and_message() -> None:
    alerts = Alerts()
    for minute in range(9):
        alerts.damped.judge(
            HOT, minute % 2 == 0, minute * MINUTE_US, f"of {minute}", minute + 0.5, rule=RULE
        )
    alerts.damped.judge(HOT, True, 9 * MINUTE_US, "no change", 99.0, rule=RULE)
    alerts.damped.judge(HOT, None, 10 * MINUTE_US, "no word", 99.0, rule=RULE)
    assert sorted(alerts.damped.subjects()) == [("flapping", "gw-a", ""), HOT]
    (flapping,) = alerts.book.open.values()
    assert flapping.message == (
        "hot: raised 4 times within 1800 s, and told no more until nothing changes for 900 s"
    )
    assert flapping.value == 4.0
    alerts.passes(23)
    hot = alerts.book.open[HOT]
    assert (hot.opened_us, hot.message, hot.value) == (8 * MINUTE_US, "of 8", 8.5)
    assert alerts.damped.subjects() == [HOT]


def test_a_gateway_that_is_erased_is_forgotten_and_others_are_not() -> None:
    alerts = Alerts()
    for who in ("gw-a", "gw-b"):
        alerts.judge(1, True, _flapping_of(who))
    alerts.flaps.forget("gw-a")
    assert list(alerts.flaps.of) == [("hot", "gw-b", "")]


def test_an_alert_for_which_there_is_no_room_is_not_counted_as_raised() -> None:
    alerts = Alerts()
    for number in range(MAX_OPEN_A_GATEWAY):
        alerts.judge(0, True, ("sensor-range", "gw-a", f"s{number}"))
    alerts.flap(range(1, 20))
    assert HOT not in alerts.flaps.of
    assert alerts.book.left_out == 9


def test_what_is_damped_and_right_now_is_not_open() -> None:
    alerts = Alerts()
    alerts.flap(range(8))
    assert alerts.damped.kinds() == {"gw-a": {"flapping"}}
    assert not alerts.damped.is_open("hot", "gw-a")
    alerts.judge(8, True)
    assert alerts.damped.kinds() == {"gw-a": {"flapping", "hot"}}
    assert alerts.damped.is_open("hot", "gw-a")

"""A gateway's alerts as a whole: from what it sees to what waits for each way out, over kills."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from alerts import state as states
from alerts.desk import AlertNotFoundError
from alerts.matcher import AlertMatcher
from alerts.state import AlertState
from alerts.terms import AlertRoute
from gateway.alerting import rules
from gateway.alerting.gateway_alerts import GatewayAlerts
from gateway.alerting.judging import SeenByGateway
from gateway.alerting.orders import AlertOrderError, acknowledgement, carry_out
from gateway.alerting.plan import AlertPlan

PLAN = AlertPlan(ways=("mail", "ntfy"), gather_s=0)
HOUR_US = 3_600_000_000


def well(gateway: str = "gw-a", **seen: Any) -> SeenByGateway:
    return SeenByGateway(gateway=gateway, site="campus/north", ahead_s=0.0, **seen)


class OneGateway:
    """A gateway whose process may be killed, and ways out that remember what they had."""

    def __init__(self, plan: AlertPlan = PLAN) -> None:
        self.plan = plan
        self.steady_s = 0.0
        self.kept = AlertState().encode()
        self.taken: list[tuple[str, str, str]] = []
        self.had: set[tuple[str, str]] = set()
        self.start()

    def start(self) -> None:
        self.alerts = GatewayAlerts(self.plan, states.decode(self.kept), self.steady_s)

    def look(self, seen: SeenByGateway, passed_s: float = 10.0) -> bool:
        self.steady_s += passed_s
        wall_us = HOUR_US + round(self.steady_s * 1e6)
        is_changed = self.alerts.look(seen, wall_us, self.steady_s)
        if is_changed:
            self.kept = self.alerts.state.encode()
        return is_changed

    def hand_over(self, *, is_noted: bool = True) -> None:
        while due := self.alerts.due():
            for way, records in due:
                for one in records:
                    if (way, one.delivery_id) not in self.had:
                        self.had.add((way, one.delivery_id))
                        self.taken.append((way, one.change, one.rule))
                if is_noted:
                    self.alerts.taken(way, records)
            if not is_noted:
                return
        self.kept = self.alerts.state.encode()


def test_what_is_wrong_leaves_on_all_ways_and_so_does_its_end() -> None:
    gateway = OneGateway()
    for _ in range(3):
        gateway.look(well(log_failure="No space left on device"))
        gateway.hand_over()
    for _ in range(6):
        gateway.look(well())
        gateway.hand_over()
    assert Counter(gateway.taken) == {
        (way, change, rules.LOG_REFUSES): 1
        for way in ("mail", "ntfy")
        for change in ("raised", "cleared")
    }
    assert gateway.alerts.summary()["ways"]["mail"]["delivered"] == 2


def test_what_is_there_at_one_look_only_is_told_all_the_same() -> None:
    gateway = OneGateway()
    gateway.look(well())
    was_set = replace(well(), ahead_s=-3_600.0)
    for _ in range(2):  # nothing is wrong with the clock at the second one
        gateway.look(was_set)
    gateway.hand_over()
    assert gateway.taken == [(way, "raised", rules.CLOCK_JUMPED) for way in ("mail", "ntfy")]


def test_nothing_is_kept_while_nothing_happens() -> None:
    gateway = OneGateway()
    assert not any(gateway.look(well()) for _ in range(10))


def test_a_way_that_fails_keeps_the_other_from_nothing_and_says_why() -> None:
    gateway = OneGateway()
    gateway.look(well(is_read_only=True))
    gateway.alerts.failed("mail", "connection refused")
    ((way, records),) = gateway.alerts.due()
    gateway.alerts.taken(way, records)
    told = gateway.alerts.summary()["ways"]
    assert told["mail"] == {
        "waiting": 1,
        "delivered": 0,
        "dropped": 0,
        "trouble": "connection refused",
    }
    assert told["ntfy"]["delivered"] == 1
    gateway.look(well(is_read_only=True))
    assert [way for way, _ in gateway.alerts.due()] == ["mail"], "tried again"


def test_what_is_refused_for_good_is_dropped_and_told() -> None:
    gateway = OneGateway()
    gateway.look(well(is_read_only=True))
    gateway.alerts.refused("mail", dict(gateway.alerts.due())["mail"], "answers 422")
    told = gateway.alerts.summary()["ways"]["mail"]
    assert (told["waiting"], told["dropped"], told["trouble"]) == (0, 1, "answers 422")


def test_routes_say_what_goes_where() -> None:
    critical = AlertRoute(AlertMatcher.of({"severity": "critical"}), ("mail",))
    gateway = OneGateway(replace(PLAN, routes=(critical,)))
    gateway.look(well(is_read_only=True, under_voltage=True))
    gateway.hand_over()
    assert gateway.taken == [("mail", "raised", rules.DISK_READ_ONLY)]


COUNTING = {
    "dropped": (rules.MESSAGES_DROPPED, "{} messages to clients were dropped"),
    "lost": (rules.MESSAGES_LOST, "its log lost {} messages to damage of the disk"),
    "failed_logins": (rules.REFUSED_LOGINS, "{} log-ins were refused"),
    "elections": (rules.ROOT_FLAPPING, "it became root {} times"),
}


def said(gateway: OneGateway, rule: str) -> list[tuple[str, str, float | None]]:
    """Return what the first way out is still to take of a rule: change, message and value."""
    waiting = gateway.alerts.state.ways["mail"].waiting
    records = [one.record for one in waiting if one.record.rule == rule]
    return [(one.change, one.message, one.value) for one in records]


@pytest.mark.parametrize("what", COUNTING)
def test_the_end_of_an_alert_that_counts_says_how_much_came_in_all(what: str) -> None:
    rule, says = COUNTING[what]
    gateway = OneGateway()
    total = 0
    for fresh in (30, *[4] * 40, *[1] * 10):  # at the end it is few, and not wrong by itself
        total += fresh
        gateway.look(well(**{what: total}))
    for _ in range(2 * 3_600 // 10):
        gateway.look(well(**{what: total}))
    first, last = said(gateway, rule)
    within = "10 minutes" if what == "elections" else "5 minutes"
    assert first == ("raised", f"{says.format(30)} in {within}", 30)
    assert last == ("cleared", f"{says.format(total)} in all", total)


@pytest.mark.parametrize("what", COUNTING)
def test_a_restart_counts_on_from_what_was_kept(what: str) -> None:
    _, says = COUNTING[what]
    gateway = OneGateway()
    gateway.look(well(**{what: 30}))
    kept = [gateway.look(well(**{what: 31 + number})) for number in range(7)]
    assert kept == [False] * 5 + [True, False], "each minute"
    gateway.start()  # killed: what was not kept is forgotten, and the numbers begin anew
    gateway.look(well(**{what: 5}))
    (one,) = gateway.alerts.document()["alerts"]
    assert one["message"] == f"{says.format(36 + 5)} in all"


def test_what_is_counted_after_the_last_minute_is_kept_by_a_stop() -> None:
    gateway = OneGateway()
    gateway.look(well(dropped=1))
    assert not gateway.alerts.has_unkept
    assert not gateway.look(well(dropped=2))
    assert gateway.alerts.has_unkept


def test_a_receiver_that_forgets_is_told_each_minute_what_stands_and_its_end_once() -> None:
    gateway = OneGateway(replace(PLAN, renewed=("mail",)))
    renewed: list[tuple[str, list[str]]] = []
    for number in range(40):
        gateway.look(well(is_read_only=number < 20))
        gateway.hand_over()
        for way, records in gateway.alerts.renewals():
            renewed += [(way, [one.rule for one in records])]
            assert {one.change for one in records} == {"raised"}
            assert not gateway.alerts.taken(way, records), "nothing is to be kept of it"
    assert set(map(str, renewed)) == {str(("mail", [rules.DISK_READ_ONLY]))}
    assert 3 <= len(renewed) <= 5
    assert gateway.alerts.summary()["ways"]["mail"]["delivered"] == 2
    assert [one for one in gateway.taken if one[0] == "mail"] == [
        ("mail", "raised", rules.DISK_READ_ONLY),
        ("mail", "cleared", rules.DISK_READ_ONLY),
    ]


def test_what_waits_for_the_end_of_quiet_hours_is_not_renewed_meanwhile() -> None:
    quiet = AlertRoute(AlertMatcher.of({"rule": rules.HOT}), ("mail",), quiet_min=(0, 24 * 60 - 1))
    loud = AlertRoute(AlertMatcher.of({"rule": rules.DISK_READ_ONLY}), ("mail",))
    gateway = OneGateway(replace(PLAN, renewed=("mail",), routes=(quiet, loud)))
    for _ in range(20):
        gateway.look(well(is_read_only=True, temperature_cel=90.0))
        gateway.hand_over()
    assert {one["rule"] for one in gateway.alerts.document()["alerts"]} == {
        rules.HOT,
        rules.DISK_READ_ONLY,
    }
    ((_, records),) = gateway.alerts.renewals()
    assert [one.rule for one in records] == [rules.DISK_READ_ONLY]


def test_nothing_is_renewed_by_a_way_that_has_just_failed() -> None:
    gateway = OneGateway(replace(PLAN, renewed=("mail",)))
    gateway.look(well(is_read_only=True))
    gateway.hand_over()
    gateway.alerts.failed("mail", "no route")
    for _ in range(7):
        gateway.look(well(is_read_only=True))
        gateway.alerts.failed("mail", "no route")
    assert gateway.alerts.renewals() == []


MINUTE = 6
"""Looks of ten seconds."""
AT_ONCE = AlertRoute(AlertMatcher(), ("ntfy",))
ESCALATED = AlertRoute(AlertMatcher.of({"severity": "critical"}), ("mail",), after_s=300)


def wrong_for(gateway: OneGateway, looks: int, **seen: Any) -> list[tuple[str, str, str]]:
    for _ in range(looks):
        gateway.look(well(**seen))
        gateway.hand_over()
    taken, gateway.taken = gateway.taken, []
    return taken


def test_what_nobody_takes_on_is_told_to_others_and_so_is_its_end() -> None:
    gateway = OneGateway(replace(PLAN, routes=(AT_ONCE, ESCALATED)))
    alert = ("raised", rules.DISK_READ_ONLY)
    assert wrong_for(gateway, 5 * MINUTE, is_read_only=True) == [("ntfy", *alert)]
    assert wrong_for(gateway, 2, is_read_only=True) == [("mail", *alert)]
    assert wrong_for(gateway, 60 * MINUTE, is_read_only=True) == [], "once"
    assert {way for way, *_ in wrong_for(gateway, 8, is_read_only=False)} == {"mail", "ntfy"}
    assert gateway.alerts.state.sent == {}


def test_a_kill_delays_an_escalation_by_a_minute_at_most() -> None:
    gateway = OneGateway(replace(PLAN, routes=(AT_ONCE, ESCALATED)))
    wrong_for(gateway, 1, is_read_only=True)
    for _ in range(4 * MINUTE):
        gateway.look(well(is_read_only=True))
    gateway.start()
    told = wrong_for(gateway, 2 * MINUTE + 2, is_read_only=True)
    assert ("mail", "raised", rules.DISK_READ_ONLY) in told


def test_what_somebody_takes_on_is_told_to_nobody_else_nor_is_its_end() -> None:
    gateway = OneGateway(replace(PLAN, routes=(AT_ONCE, ESCALATED)))
    wrong_for(gateway, MINUTE, is_read_only=True)
    (alert,) = gateway.alerts.document()["alerts"]
    gateway.alerts.acknowledge(alert["alert"], "key:alice", "")
    assert wrong_for(gateway, 60 * MINUTE, is_read_only=True) == []
    assert [way for way, *_ in wrong_for(gateway, 8, is_read_only=False)] == ["ntfy"]


def test_a_silence_and_a_warning_escalate_nothing() -> None:
    gateway = OneGateway(replace(PLAN, routes=(AT_ONCE, ESCALATED)))
    wrong_for(gateway, 1, is_read_only=True, under_voltage=True)
    gateway.alerts.silence(AlertMatcher(), 3_600, 0, "key:alice", "")
    assert wrong_for(gateway, 50 * MINUTE, is_read_only=True, under_voltage=True) == []
    told = wrong_for(gateway, 30 * MINUTE, is_read_only=True, under_voltage=True)
    assert told == [("mail", "raised", rules.DISK_READ_ONLY)]


def test_in_quiet_hours_a_record_waits_until_it_escalates() -> None:
    all_day = AlertRoute(AlertMatcher(), ("ntfy",), quiet_min=(0, 24 * 60 - 1))
    to_all = replace(ESCALATED, ways=("mail", "ntfy"))
    gateway = OneGateway(replace(PLAN, routes=(all_day, to_all)))
    assert wrong_for(gateway, 5 * MINUTE, is_read_only=True, under_voltage=True) == []
    told = wrong_for(gateway, 10 * MINUTE, is_read_only=True, under_voltage=True)
    assert sorted(told) == [(way, "raised", rules.DISK_READ_ONLY) for way in ("mail", "ntfy")]


def test_while_nothing_can_escalate_any_more_nothing_is_kept_for_it() -> None:
    gateway = OneGateway(replace(PLAN, routes=(AT_ONCE, ESCALATED)))
    wrong_for(gateway, 10 * MINUTE, is_read_only=True, under_voltage=True)
    seen = well(is_read_only=True, under_voltage=True)
    assert not any(gateway.look(seen) for _ in range(10 * MINUTE))


def test_kills_delay_an_escalation_and_neither_lose_nor_double_it() -> None:
    gateway = OneGateway(replace(PLAN, routes=(AT_ONCE, ESCALATED)))
    told = []
    for _ in range(30):
        told += wrong_for(gateway, 2 * MINUTE, is_read_only=True)
        gateway.start()
    assert sorted(told) == [(way, "raised", rules.DISK_READ_ONLY) for way in ("mail", "ntfy")]


def test_a_state_of_before_tells_the_end_of_its_alerts_as_before() -> None:
    gateway = OneGateway()
    wrong_for(gateway, 1, is_read_only=True)
    gateway.alerts.state.sent = {}
    gateway.kept = gateway.alerts.state.encode()
    gateway.start()
    assert {way for way, *_ in wrong_for(gateway, 8, is_read_only=False)} == {"mail", "ntfy"}


def test_a_way_that_is_configured_no_more_is_owed_nothing() -> None:
    gateway = OneGateway()
    gateway.look(well(is_read_only=True))
    gateway.plan = replace(PLAN, ways=("ntfy",))
    gateway.start()
    assert [way for way, _ in gateway.alerts.due()] == ["ntfy"]
    ways = gateway.alerts.summary()["ways"]
    assert {way: one["waiting"] for way, one in ways.items()} == {"ntfy": 1, "mail": 0}


def test_a_trial_goes_on_the_ways_that_are_named() -> None:
    gateway = OneGateway()
    gateway.look(well())
    assert gateway.alerts.test("gw-a", "campus/north", ["mail"]) == ["mail"]
    assert gateway.alerts.test("gw-a", "campus/north", []) == ["mail", "ntfy"]
    gateway.hand_over()
    assert Counter(gateway.taken) == {
        ("mail", "raised", "test"): 2,
        ("mail", "cleared", "test"): 2,
        ("ntfy", "raised", "test"): 1,
        ("ntfy", "cleared", "test"): 1,
    }


def test_what_people_did_is_told_and_survives_a_kill() -> None:
    gateway = OneGateway()
    gateway.look(well(is_read_only=True))
    (alert,) = gateway.alerts.document()["alerts"]
    gateway.alerts.acknowledge(alert["alert"], "key:alice", "on my way")
    silence = gateway.alerts.silence(AlertMatcher.of({"rule": "h*"}), 60, 0, "key:alice", "")
    gateway.kept = gateway.alerts.state.encode()
    gateway.start()
    told = gateway.alerts.document()
    assert told["alerts"][0]["taken_on"]["who"] == "key:alice"
    assert told["silences"][0]["matcher"] == {"rule": "h*"}
    gateway.alerts.end_silence(silence.number)
    with pytest.raises(AlertNotFoundError, match="no silence 1"):
        gateway.alerts.end_silence(silence.number)


def test_the_message_on_the_gateways_topic_says_what_is_wrong() -> None:
    gateway = OneGateway()
    gateway.look(well())
    assert gateway.alerts.problem() == {"problem": "OFF", "count": 0, "alerts": []}
    gateway.look(well(is_read_only=True))
    told = gateway.alerts.problem()
    assert (told["problem"], told["count"]) == ("ON", 1)
    assert told["alerts"][0]["rule"] == rules.DISK_READ_ONLY


@pytest.mark.parametrize("seed", range(20))
def test_over_kills_at_any_moment_each_change_arrives_once_on_each_way(seed: int) -> None:
    draw = random.Random(seed)
    gateway = OneGateway()
    causes: list[dict[str, Any]] = [
        {"is_read_only": True},
        {"under_voltage": True},
        {"log_failure": "full"},
    ]
    for _ in range(60):
        wrong = draw.choice([{}, *causes])
        gateway.look(well(**{"is_read_only": False, "under_voltage": False} | wrong))
        match draw.randrange(5):
            case 0:
                gateway.start()  # killed before anything is handed over
            case 1:
                gateway.hand_over(is_noted=False)
                gateway.start()  # killed before it was noted
            case _:
                gateway.hand_over()
    for _ in range(80):
        gateway.look(well(is_read_only=False, under_voltage=False))
        gateway.hand_over()
    counts = Counter(gateway.taken)
    assert gateway.alerts.document()["alerts"] == []
    for (way, change, rule), count in counts.items():
        assert change in ("raised", "cleared")
        assert counts[way, "raised", rule] == counts[way, "cleared", rule] == count


def test_a_site_of_fifty_that_loses_its_power_is_one_alert_of_a_fleet_of_a_thousand() -> None:
    sites = {f"gw-{n}": f"campus/site-{n // 50}" for n in range(1_000)}
    above: dict[str, str | None] = {
        name: f"gw-{int(name[3:]) // 50 * 50}" if int(name[3:]) % 50 else "gw-0" for name in sites
    }
    above["gw-0"] = None
    reporter = OneGateway(replace(PLAN, ways=("mail",)))
    dead = [f"gw-{n}" for n in range(500, 550)]
    seen = well("gw-0", links=3, sites=sites, above=above)
    for _ in range(30):
        reporter.look(replace(seen, away=dead))
        reporter.hand_over()
    assert reporter.taken == [("mail", "raised", rules.GATEWAY_AWAY)]
    (alert,) = [one for one in reporter.alerts.document()["alerts"] if one["is_told"]]
    assert (alert["gateway"], alert["site"]) == ("gw-500", "campus/site-10")
    back = list(dead)
    while back:  # they come back one after the other
        back = back[3:]
        reporter.look(replace(seen, away=back))
        reporter.hand_over()
    for _ in range(10):
        reporter.look(seen)
        reporter.hand_over()
    assert reporter.alerts.document()["alerts"] == []
    assert reporter.taken[0][1] == "raised"
    assert (
        Counter(change for _, change, _ in reporter.taken)["cleared"]
        == Counter(change for _, change, _ in reporter.taken)["raised"]
    )


def ordered(gateway: OneGateway, **order: Any) -> dict[str, Any]:
    return carry_out(gateway.alerts, json.dumps(order).encode(), "ada", "gw-a", "campus/north")


def test_a_trial_goes_by_the_ways_that_it_names_or_by_all_and_by_no_other() -> None:
    gateway = OneGateway()
    assert ordered(gateway, do="test", ways=["ntfy"]) == {"ways": ["ntfy"]}
    assert ordered(gateway, do="test") == {"ways": ["mail", "ntfy"]}
    with pytest.raises(AlertOrderError, match=r"^'fax': the configuration has mail, ntfy$"):
        ordered(gateway, do="test", ways=["mail", "fax"])
    bare = OneGateway(AlertPlan())
    with pytest.raises(AlertOrderError, match=r"^'fax': the configuration has none at all$"):
        ordered(bare, do="test", ways=["fax"])
    with pytest.raises(AlertOrderError, match=r"^no way out is configured: docs/alerts\.md has"):
        ordered(bare, do="test")


@pytest.mark.parametrize(
    "order",
    [
        *[
            {},
            {"do": "nothing"},
            {"do": "ack"},
            {"do": "close", "alert": 7},
            {"do": "test", "x": 1},
        ],
        {"do": "silence", "match": {"colour": "red"}, "for_s": 60},
    ],
)
def test_what_is_no_order_is_refused_with_the_reason(order: dict[str, Any]) -> None:
    with pytest.raises(AlertOrderError, match=r"."):
        ordered(OneGateway(), **order)


def test_a_word_on_the_topic_is_the_name_of_an_alert_or_json() -> None:
    bare = acknowledgement(b" silent-1 \n")
    assert json.loads(bare) == {"do": "ack", "alert": "silent-1", "note": ""}
    noted = acknowledgement(b' {"alert": "silent-1", "note": "on my way"}')
    assert json.loads(noted) == {"do": "ack", "alert": "silent-1", "note": "on my way"}
    for wrong in (b"\xff", b"{", b'{"note": "x"}', b'{"alert": "a", "who": "b"}'):
        with pytest.raises(AlertOrderError, match=r"^no name of an alert, and no JSON: "):
            acknowledgement(wrong)


@pytest.mark.parametrize(
    ("look_s", "after_s", "is_told"),
    [(100.0, 300.0, True), (100.0, 301.0, False), (1.0, 60.0, True), (1.0, 61.0, False)],
)
def test_a_pause_of_the_machine_counts_as_three_looks_or_a_minute(
    look_s: float, after_s: float, *, is_told: bool
) -> None:
    """Of an hour in which nobody looked nothing is known but its end."""
    terms = {rules.HOT: replace(rules.RULES[rules.HOT], after_s=after_s)}
    gateway = OneGateway(replace(PLAN, look_s=look_s, terms=terms))
    gateway.look(well(temperature_cel=90.0), 0.0)
    gateway.look(well(temperature_cel=90.0), 3600.0)
    assert bool(gateway.alerts.told) == is_told
    gateway.look(well(temperature_cel=90.0), 1.0)
    assert [one.change for one in gateway.alerts.told] == ([] if is_told else ["raised"])


def test_the_lost_gateways_that_were_told_of_are_named_and_no_other_alerts() -> None:
    gateway = OneGateway()
    assert gateway.alerts.telling == frozenset()
    gateway.look(well())
    gateway.alerts.silence(AlertMatcher.of({"gateway": "gw-hushed"}), 36_000, 0, "key:alice", "")
    for _ in range(2 * MINUTE):
        gateway.look(well(is_read_only=True))
    assert gateway.taken == []
    assert gateway.alerts.telling == frozenset(), "a disk is no gateway"
    for _ in range(60 * MINUTE):
        gateway.look(well(is_read_only=True, links=1, away=["gw-b", "gw-hushed"]))
    rules_of = {one["gateway"]: one["rule"] for one in gateway.alerts.document()["alerts"]}
    assert rules_of == {
        "gw-a": rules.DISK_READ_ONLY,
        "gw-b": rules.GATEWAY_AWAY,
        "gw-hushed": rules.GATEWAY_AWAY,
    }
    assert gateway.alerts.telling == {"gw-b"}, "nobody was told of the silenced one"


def test_figures_have_the_last_look_and_what_was_told_by_rule() -> None:
    gateway = OneGateway()
    assert gateway.alerts.figures().seen is None
    gateway.look(well())
    gateway.look(seen := well(is_read_only=True))
    found = gateway.alerts.figures()
    assert found.seen == seen
    assert {about: n for about, n in found.standing.items() if n} == {
        (rules.DISK_READ_ONLY, "critical"): 1
    }
    assert {rule for rule, _ in found.standing} == set(PLAN.terms)
    assert list(found.ways) == ["mail", "ntfy"]


def test_the_end_of_what_escalated_is_held_by_quiet_hours_as_any_end_is() -> None:
    all_day = AlertRoute(AlertMatcher(), ("ntfy",), quiet_min=(0, 24 * 60 - 1))
    to_all = replace(ESCALATED, ways=("ntfy",))
    gateway = OneGateway(replace(PLAN, routes=(all_day, to_all)))
    told = wrong_for(gateway, 6 * MINUTE, is_read_only=True)
    assert told == [("ntfy", "raised", rules.DISK_READ_ONLY)]
    assert wrong_for(gateway, 10 * MINUTE, is_read_only=False) == []
    assert gateway.alerts.document()["alerts"] == []
    (waiting,) = gateway.alerts.state.ways["ntfy"].waiting
    assert waiting.record.change == "cleared"

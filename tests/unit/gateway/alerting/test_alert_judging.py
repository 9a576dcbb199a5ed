"""The rules of alerts judge each finding of a gateway as wrong, well, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from alerts import thresholds
from alerts.desk import AlertLook
from gateway.alerting import rules
from gateway.alerting.judging import COUNTED_S, ELECTIONS, GatewayJudge, SeenByGateway
from gateway.alerting.sensor_judging import SensorFinding

WELL = SeenByGateway(
    gateway="gw-a",
    site="campus/north",
    ahead_s=1.7e9,
    free_bytes=10_000_000_000,
    total_bytes=30_000_000_000,
    is_read_only=False,
    written_bytes=1_000,
    temperature_cel=45.0,
    under_voltage=False,
    is_throttled=False,
    disk_life_used=0.3,
    is_clock_kept=True,
    certificates=[{"field": "mqtt.certificate_file", "number": 1, "name": "gw-a", "days_left": 90}],
    limits={"sessions": (10, 1000)},
    links=1,
    dialled=[{"address": "10.0.0.2:8883", "linked": True, "fails_since_s": None, "id": "gw-b"}],
    sites={"gw-a": "campus/north", "gw-b": "campus/south"},
    is_release_known=True,
    sensors=(),
)


def look(**seen: Any) -> AlertLook:
    return GatewayJudge().look(replace(WELL, **seen), 1000.0)


def found(**seen: Any) -> list[tuple[str, str, str]]:
    return [one.subject for one in look(**seen).wrong]


def lost(address: str, who: str | None) -> dict[str, Any]:
    why = {"source": "static", "why": "Connection refused"}
    return {"address": address, "linked": False, "fails_since_s": 5.0, "id": who, **why}


def test_a_gateway_that_is_well_has_no_alert_and_each_rule_is_judged() -> None:
    judged = look()
    assert judged.wrong == []
    assert not judged.unsure
    assert set(judged.judged) == set(rules.RULES) - {rules.DISK_WEARING, rules.CLOCK_JUMPED}


@pytest.mark.parametrize(
    ("seen", "rule", "part"),
    [
        ({"free_bytes": 1_000_000_000}, rules.DISK_FULL, ""),
        ({"is_read_only": True}, rules.DISK_READ_ONLY, ""),
        ({"elections": ELECTIONS}, rules.ROOT_FLAPPING, ""),
        (
            {"sensors": [SensorFinding(rules.SENSOR_STUCK, "tank", True, "it says 4", 4.0)]},
            rules.SENSOR_STUCK,
            "tank",
        ),
        ({"log_failure": "No space left on device"}, rules.LOG_REFUSES, ""),
        ({"temperature_cel": 80.0}, rules.HOT, ""),
        ({"under_voltage": True}, rules.UNDER_VOLTAGE, ""),
        ({"is_throttled": True}, rules.THROTTLED, ""),
        ({"is_throttled": True, "under_voltage": True}, rules.UNDER_VOLTAGE, ""),
        ({"disk_life_used": 0.9}, rules.DISK_WORN, ""),
        ({"is_clock_kept": False}, rules.CLOCK_NOT_KEPT, ""),
        ({"limits": {"sessions": (900, 1000)}}, rules.LIMIT_NEAR, "sessions"),
        ({"dropped": 1}, rules.MESSAGES_DROPPED, ""),
        ({"lost": 1}, rules.MESSAGES_LOST, ""),
        ({"failed_logins": 20}, rules.REFUSED_LOGINS, ""),
        ({"links": 0}, rules.NO_LINK, ""),
        ({"failing": {"sensors": "ValueError"}}, rules.PART_FAILING, "sensors"),
        ({"returned": ("0.2.0", "it ended")}, rules.RELEASE_RETURNED, "0.2.0"),
    ],
)
def test_each_rule_finds_what_it_is_for(seen: dict[str, Any], rule: str, part: str) -> None:
    assert found(**seen) == [(rule, "gw-a", part)]


@pytest.mark.parametrize(
    ("seen", "rule"),
    [
        ({"free_bytes": 2_000_000_000}, rules.DISK_FULL),
        ({"temperature_cel": 77.0}, rules.HOT),
        ({"limits": {"sessions": (800, 1000)}}, rules.LIMIT_NEAR),
        ({"failed_logins": 12}, rules.REFUSED_LOGINS),
    ],
)
def test_between_two_thresholds_an_alert_neither_begins_nor_ends(
    seen: dict[str, Any], rule: str
) -> None:
    judged = look(**seen)
    assert judged.wrong == []
    assert [one[0] for one in judged.unsure] == [rule]


@pytest.mark.parametrize(
    "seen",
    [
        {"free_bytes": 2_500_000_000},
        {"temperature_cel": 74.0},
        {"limits": {"sessions": (700, 1000)}},
        {"failed_logins": 9},
        {"elections": 1},
        {"dialled": [lost("10.0.0.2:8883", "gw-b") | {"linked": True}]},
    ],
)
def test_what_is_not_near_a_threshold_is_well(seen: dict[str, Any]) -> None:
    judged = look(**seen)
    assert judged.wrong == []
    assert not judged.unsure


def test_a_neighbour_that_will_not_come_back_raises_nothing() -> None:
    judged = look(dialled=[lost("10.0.0.2:8883", "gw-b")], forgotten={"gw-b"})
    assert judged.wrong == []
    assert judged.unsure == {(rules.NEIGHBOUR_AWAY, "gw-b", "10.0.0.2:8883")}


def test_what_could_not_be_looked_at_is_judged_by_no_rule() -> None:
    unseen = dict.fromkeys(
        (
            *("free_bytes", "total_bytes", "is_read_only", "written_bytes"),
            *("temperature_cel", "under_voltage", "is_throttled", "is_clock_kept"),
            "disk_life_used",
        )
    )
    judged = look(**unseen, is_release_known=False)
    unknown = {rules.DISK_FULL, rules.HOT, rules.RELEASE_RETURNED, rules.THROTTLED, rules.DISK_WORN}
    assert not unknown & set(judged.judged)
    assert judged.wrong == []


@pytest.mark.parametrize(
    ("days", "rule"),
    [(-1, rules.CERTIFICATE_ENDED), (0, rules.CERTIFICATE_ENDING), (29, rules.CERTIFICATE_ENDING)],
)
def test_a_certificate_is_told_of_before_it_ends_and_when_it_has(days: int, rule: str) -> None:
    one = {"field": "mqtt.client_crl_file", "number": 2, "name": "fleet", "days_left": days}
    assert found(certificates=[one]) == [(rule, "gw-a", "mqtt.client_crl_file 2")]


def test_a_clock_that_is_set_is_told_of_once() -> None:
    judge = GatewayJudge()
    assert judge.look(WELL, 0.0).wrong == []
    back = replace(WELL, ahead_s=WELL.ahead_s - 3600)
    (jumped,) = judge.look(back, 10.0).wrong
    assert jumped.rule == rules.CLOCK_JUMPED
    assert jumped.message == "its clock was set back by 3600 s"
    assert judge.look(back, 20.0).wrong == []


def test_what_is_counted_is_over_when_nothing_more_comes() -> None:
    judge = GatewayJudge()
    seen = replace(WELL, failed_logins=50)
    assert [one.value for one in judge.look(seen, 1.0).wrong] == [50]
    assert judge.look(seen, COUNTED_S).wrong != []
    assert judge.look(seen, COUNTED_S + 1.0).wrong == []


def test_a_neighbour_that_is_away_is_named_by_its_id_where_it_is_known() -> None:
    dialled = [lost("10.0.0.2:8883", "gw-b"), lost("10.0.0.3:8883", None)]
    assert found(dialled=dialled) == [
        (rules.NEIGHBOUR_AWAY, "gw-b", "10.0.0.2:8883"),
        (rules.NEIGHBOUR_AWAY, "gw-a", "10.0.0.3:8883"),
    ]


def test_a_neighbour_that_is_dialled_and_has_not_failed_yet_is_neither_there_nor_away() -> None:
    judged = look(dialled=[lost("10.0.0.2:8883", "gw-b") | {"fails_since_s": None}])
    assert judged.wrong == []
    assert judged.unsure == {(rules.NEIGHBOUR_AWAY, "gw-b", "10.0.0.2:8883")}


def test_who_has_lost_all_others_says_that_alone() -> None:
    judged = look(links=0, dialled=[lost("10.0.0.2:8883", "gw-b")], away=["gw-b"])
    assert [one.rule for one in judged.wrong] == [rules.NO_LINK]
    assert rules.GATEWAY_AWAY not in judged.judged


def test_a_gateway_that_the_tree_has_lost_is_told_of_with_its_own_site() -> None:
    (one,) = look(away=["gw-b"]).wrong
    assert (one.rule, one.gateway, one.site) == (rules.GATEWAY_AWAY, "gw-b", "campus/south")


def test_a_disk_that_wears_is_told_of_after_the_window() -> None:
    judge = GatewayJudge()
    told = [
        one.rule
        for hour in range(4)
        for one in judge.look(replace(WELL, written_bytes=hour * 10**9), hour * 3600.0).wrong
    ]
    assert told == [rules.DISK_WEARING] * 3


def test_who_is_cut_off_is_so_until_it_has_a_link_though_it_has_forgotten_the_others() -> None:
    alone = replace(WELL, links=0, sites={"gw-a": "campus/north"})
    held = {(rules.NO_LINK, "gw-a", ""): None}
    assert [one.subject for one in GatewayJudge().look(alone, 1000.0, held).wrong] == list(held)
    assert GatewayJudge().look(alone, 1000.0).wrong == [], "it has never known another one"
    assert GatewayJudge().look(replace(alone, links=1), 1000.0, held).wrong == []


def test_who_tells_of_a_lost_gateway_does_so_until_it_is_back() -> None:
    held = dict.fromkeys([(rules.GATEWAY_AWAY, "gw-z", ""), (rules.GATEWAY_AWAY, "gw-b", "")])

    def told(**seen: Any) -> list[str]:
        wrong = GatewayJudge().look(replace(WELL, **seen), 1000.0, held).wrong
        return [one.gateway for one in wrong]

    assert told() == ["gw-z"], "of the one there is no record, the other one is there"
    assert told(missing={"gw-b"}) == ["gw-b", "gw-z"], "though another one is to tell of it now"
    assert rules.GATEWAY_AWAY not in GatewayJudge().look(replace(WELL, links=0), 1.0, held).judged


def test_of_a_neighbour_that_the_tree_has_lost_its_neighbours_say_nothing() -> None:
    away = look(dialled=[lost("10.0.0.2:8883", "gw-b")], missing={"gw-b"})
    assert away.wrong == []
    assert away.unsure == {(rules.NEIGHBOUR_AWAY, "gw-b", "10.0.0.2:8883")}


@pytest.mark.parametrize(
    ("dialled", "seen", "is_unsure"),
    [
        (lost("10.0.0.2:8883", "gw-c"), {}, False),
        (lost("10.0.0.2:8883", None), {}, False),
        (lost("10.0.0.2:8883", "gw-b"), {"missing": {"gw-b"}}, True),
        (lost("10.0.0.2:8883", None), {"missing": {"gw-c"}}, True),
        (lost("10.0.0.2:8883", None), {"forgotten": {"gw-c"}}, True),
        (lost("10.0.0.2:8883", None) | {"fails_since_s": None}, {}, True),
        (lost("10.0.0.2:8883", None), {"missing": {"gw-d"}, "forgotten": {"gw-e"}}, False),
    ],
)
def test_an_alert_of_a_neighbour_goes_on_by_its_name_unless_another_one_says_all(
    dialled: dict[str, Any], seen: dict[str, Any], is_unsure: bool
) -> None:
    about = (rules.NEIGHBOUR_AWAY, "gw-c", "10.0.0.2:8883")
    judged = GatewayJudge().look(replace(WELL, dialled=[dialled], **seen), 1000.0, {about: None})
    wrong = {one.subject for one in judged.wrong if one.rule == rules.NEIGHBOUR_AWAY}
    assert (about in judged.unsure, wrong) == (is_unsure, set() if is_unsure else {about})


@pytest.mark.parametrize(
    ("days", "rule", "message"),
    [
        (thresholds.ENDING_DAYS, None, ""),
        (
            thresholds.ENDING_DAYS - 1,
            rules.CERTIFICATE_ENDING,
            f"f: that of 'gw-a' ends in less than {thresholds.ENDING_DAYS} days",
        ),
        (0, rules.CERTIFICATE_ENDING, "f: that of 'gw-a' ends in less than 1 days"),
        (-1, rules.CERTIFICATE_ENDED, "f: that of 'gw-a' has ended"),
    ],
)
def test_a_certificate_has_ended_only_after_its_last_day(
    days: int, rule: str | None, message: str
) -> None:
    one = {"field": "f", "number": 2, "name": "gw-a", "days_left": days}
    wrong = look(certificates=[one]).wrong
    told = [(found.rule, found.message, found.part, found.value) for found in wrong]
    assert told == ([] if rule is None else [(rule, message, "f 2", days)])


def test_a_lost_gateway_that_will_not_come_back_or_that_another_tells_of_is_told_of_no_more() -> (
    None
):
    held = dict.fromkeys([(rules.GATEWAY_AWAY, "gw-z", "")])

    def told(telling: Sequence[str] = (), **seen: Any) -> list[str]:
        judged = GatewayJudge().look(replace(WELL, **seen), 1000.0, held, telling)
        return [one.gateway for one in judged.wrong]

    assert told() == ["gw-z"]
    assert told(forgotten={"gw-z"}) == []
    assert told(told_elsewhere={"gw-z"}) == []
    assert told(["gw-z"], told_elsewhere={"gw-z"}) == ["gw-z"]


def test_without_a_clock_the_end_of_a_certificate_that_a_later_time_told_of_is_unsure() -> None:
    ending, hot = (rules.CERTIFICATE_ENDING, "gw-a", "f 2"), (rules.HOT, "gw-a", "")
    for is_kept, unsure in ((False, {ending}), (True, set())):
        seen = replace(WELL, is_clock_kept=is_kept)
        judged = GatewayJudge().look(seen, 1000.0, {}, (), {ending, hot})
        assert judged.unsure & {ending, hot} == unsure

"""Goal: each rule begins and ends exactly where docs/alerts.md says, by that page's own numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.alerting import rules
from gateway.alerting.judging import GatewayJudge, SeenByGateway

WELL = SeenByGateway(
    gateway="gw-a",
    site="campus/north",
    ahead_s=1.7e9,
    free_bytes=90_000,
    total_bytes=100_000,
    is_read_only=False,
    written_bytes=1_000,
    temperature_cel=45.0,
    under_voltage=False,
    is_throttled=False,
    disk_life_used=0.3,
    is_clock_kept=True,
    certificates=[],
    limits={},
    links=1,
    dialled=[],
    sites={"gw-a": "campus/north"},
    is_release_known=True,
    sensors=(),
)
NOW_S = 10_000.0


def certificate(days_left: float) -> list[dict[str, Any]]:
    return [{"field": "mqtt.certificate_file", "number": 1, "name": "x", "days_left": days_left}]


def verdict(rule: str, **seen: Any) -> str:
    judged = GatewayJudge().look(replace(WELL, **seen), NOW_S)
    if any(one.rule == rule for one in judged.wrong):
        return "wrong"
    return "unsure" if any(subject[0] == rule for subject in judged.unsure) else "well"


@pytest.mark.parametrize(
    ("rule", "field", "wrong", "unsure", "well"),
    [
        (rules.DISK_FULL, "free_bytes", 4_999, 5_000, 8_000),
        (rules.HOT, "temperature_cel", 80.0, 79.9, 74.9),
        (rules.DISK_WORN, "disk_life_used", 0.9, None, 0.89),
        (rules.LIMIT_NEAR, "limits", {"a": (900, 1_000)}, {"a": (899, 1_000)}, {"a": (719, 1_000)}),
        (rules.REFUSED_LOGINS, "failed_logins", 20, 19, 9),
        (rules.REFUSED_LOGINS, "failed_logins", 20, 10, 9),
        (rules.ROOT_FLAPPING, "elections", 4, 3, 1),
        (rules.ROOT_FLAPPING, "elections", 4, 2, 0),
        (rules.MESSAGES_LOST, "lost", 1, None, 0),
        (rules.CERTIFICATE_ENDING, "certificates", certificate(29), None, certificate(30)),
        (rules.CERTIFICATE_ENDED, "certificates", certificate(-1), None, certificate(0)),
    ],
)
def test_a_rule_begins_and_ends_where_the_page_says(
    rule: str, field: str, wrong: Any, unsure: Any, well: Any
) -> None:
    assert verdict(rule, **{field: wrong}) == "wrong"
    if unsure is not None:
        assert verdict(rule, **{field: unsure}) == "unsure"
    assert verdict(rule, **{field: well}) == "well"


@pytest.mark.parametrize(("set_by_s", "is_told"), [(60.0, True), (-60.0, True), (59.9, False)])
def test_a_clock_that_is_set_by_a_minute_is_told_of(set_by_s: float, *, is_told: bool) -> None:
    judge = GatewayJudge()
    judge.look(replace(WELL, ahead_s=0.0), 0.0)
    told = judge.look(replace(WELL, ahead_s=set_by_s), 10.0).wrong
    assert [one.rule for one in told] == [rules.CLOCK_JUMPED] * is_told


@pytest.mark.parametrize(
    ("rule", "field", "much", "within_s"),
    [
        (rules.REFUSED_LOGINS, "failed_logins", 20, 300.0),
        (rules.MESSAGES_DROPPED, "dropped", 1, 300.0),
        (rules.ROOT_FLAPPING, "elections", 4, 600.0),
    ],
)
def test_what_came_counts_for_so_long(rule: str, field: str, much: int, within_s: float) -> None:
    judge = GatewayJudge()
    judge.look(WELL, 0.0)
    seen = replace(WELL, **{field: much})
    for now_s, is_wrong in ((1.0, True), (within_s + 0.9, True), (within_s + 1.0, False)):
        assert any(one.rule == rule for one in judge.look(seen, now_s).wrong) == is_wrong


def test_a_card_wears_from_20_gigabytes_a_day_on_over_an_hour() -> None:
    """An hour's share of 20 GB is 833,333,334 bytes."""
    for per_hour, is_told in ((833_333_400, True), (833_333_200, False)):
        judge = GatewayJudge()
        judge.look(replace(WELL, written_bytes=0), 0.0)
        early = judge.look(replace(WELL, written_bytes=per_hour), 3_599.0)
        assert early.wrong == []
        told = judge.look(replace(WELL, written_bytes=per_hour), 3_600.0).wrong
        assert [one.rule for one in told] == [rules.DISK_WEARING] * is_told

"""A sensor is stuck, out of range or silent as its table says, and never because nobody knows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.alerting import rules
from gateway.alerting.sensor_judging import LEAST_READINGS, SensorFinding, SensorRuleJudge
from gateway.alerting.sensor_rules import SensorRuleError, SensorRules

READ_S = 10.0


class Bed:
    """One sensor of a gateway, read every ten seconds."""

    def __init__(self, **table: Any) -> None:
        self.rules = SensorRules.of(table)
        self.now_s = 1_000.0
        self.start()

    def start(self) -> None:
        self.judge = SensorRuleJudge()
        self.judge.begin("tank", self.rules, READ_S, self.now_s)

    def reads(self, *values: object, part: str = "") -> None:
        for value in values:
            self.now_s += READ_S
            self.judge.took("tank", {f"tank/{part}" if part else "tank": value}, self.now_s)  # type: ignore[dict-item]

    def found(self, rule: str) -> SensorFinding | None:
        found = [one for one in self.judge.look(self.now_s) if one.rule == rule]
        assert len(found) <= 1
        return found[0] if found else None

    def is_wrong(self, rule: str) -> bool | None:
        found = self.found(rule)
        assert found is not None
        return found.is_wrong


def test_a_sensor_that_fails_for_three_intervals_and_a_minute_is_silent_until_it_speaks() -> None:
    bed = Bed()
    assert bed.is_wrong(rules.SENSOR_SILENT) is None, "it was not asked yet"
    bed.reads(1.0)
    assert bed.is_wrong(rules.SENSOR_SILENT) is False
    bed.reads(*[None] * 6)
    assert bed.is_wrong(rules.SENSOR_SILENT) is False
    bed.reads(None)
    assert bed.is_wrong(rules.SENSOR_SILENT) is True
    bed.reads(1.0)
    assert bed.is_wrong(rules.SENSOR_SILENT) is False


def test_one_that_never_spoke_is_silent_too_and_one_that_may_be_is_not_judged() -> None:
    bed = Bed(silent_s=15)
    bed.reads(None, None)
    assert bed.is_wrong(rules.SENSOR_SILENT) is True
    assert Bed(silent_s=0).found(rules.SENSOR_SILENT) is None


def test_what_says_the_same_for_so_long_is_stuck_until_it_changes() -> None:
    bed = Bed(stuck_s=60)
    bed.reads(4.0, *[5.0] * LEAST_READINGS)
    assert bed.is_wrong(rules.SENSOR_STUCK) is True
    bed.reads(5.1)
    assert bed.is_wrong(rules.SENSOR_STUCK) is False


def test_a_start_neither_ends_an_alert_of_a_stuck_sensor_nor_begins_one() -> None:
    bed = Bed(stuck_s=60)
    bed.reads(*[5.0] * 30)
    bed.start()
    bed.reads(5.0, 5.0)
    assert bed.is_wrong(rules.SENSOR_STUCK) is None
    bed.reads(*[5.0] * LEAST_READINGS)
    assert bed.is_wrong(rules.SENSOR_STUCK) is True


def test_after_a_start_a_value_is_waited_for_until_ten_readings_have_none_of_it() -> None:
    bed = Bed(low=0.0, humidity={"low": 1.0})
    assert set(bed.judge.unread) == {"tank"}
    bed.reads(*[None] * LEAST_READINGS, part="humidity")
    bed.reads(*[40.0] * (LEAST_READINGS - 1), part="humidity")
    assert set(bed.judge.unread) == {"tank"}, "readings with a bad value do not count"
    bed.reads(40.0, part="humidity")
    assert bed.judge.unread == {}


def test_few_readings_are_not_stuck_however_long_they_take() -> None:
    bed = Bed(stuck_s=60)
    bed.reads(5.0)
    bed.now_s += 3_600
    assert bed.is_wrong(rules.SENSOR_STUCK) is None


@pytest.mark.parametrize("stuck", [True, "open", b"\0", 7])
def test_values_of_any_kind_are_stuck(stuck: object) -> None:
    bed = Bed(stuck_s=60)
    bed.reads(*[stuck] * 12)
    assert bed.is_wrong(rules.SENSOR_STUCK) is True


def test_one_reading_out_of_range_is_told_though_the_next_look_finds_it_well() -> None:
    bed = Bed(low=0.0, high=4.0, margin=0.5)
    bed.reads(2.0, 9.0, 5.0, 2.0)
    found = bed.found(rules.SENSOR_RANGE)
    assert found is not None
    assert (found.is_wrong, found.value) == (True, 9.0)
    assert found.message == "it says 9, out of 0..4"
    assert bed.is_wrong(rules.SENSOR_RANGE) is False, "at the look after that"


def test_at_the_margin_an_alert_neither_begins_nor_ends() -> None:
    bed = Bed(low=0.0, high=4.0, margin=0.5)
    bed.reads(3.8)
    assert bed.is_wrong(rules.SENSOR_RANGE) is None
    bed.reads(-0.1)
    assert bed.is_wrong(rules.SENSOR_RANGE) is True
    bed.reads(0.3)
    assert bed.is_wrong(rules.SENSOR_RANGE) is None
    bed.reads(1.0)
    assert bed.is_wrong(rules.SENSOR_RANGE) is False


@pytest.mark.parametrize(
    ("value", "is_wrong"),
    [
        (-0.25, True),
        (0.0, None),
        (0.25, None),
        (0.5, False),
        (2, False),
        (3.5, False),
        (3.75, None),
        (4, None),
        (4.25, True),
        (True, None),
        ("high", None),
    ],
)
def test_a_value_is_well_by_its_margin_and_wrong_beyond_its_range(
    value: object, is_wrong: bool | None
) -> None:
    bed = Bed(low=0.0, high=4.0, margin=0.5)
    bed.reads(value)
    for _ in range(2):  # nothing is read between two looks
        assert bed.is_wrong(rules.SENSOR_RANGE) is is_wrong


def test_numbers_of_rules_are_taken_at_the_ends_of_their_ranges() -> None:
    most_s = 31 * 86_400.0
    found = SensorRules.of({"silent_s": most_s, "stuck_s": most_s, "margin": 0})
    assert (found.silent_s, found.rule.stuck_s, found.rule.margin) == (most_s, most_s, 0.0)
    assert SensorRules.of({"silent_s": 0, "stuck_s": 0}).silent_s == 0.0
    for key in ("silent_s", "stuck_s"):
        for wrong in (most_s + 1, -0.5):
            with pytest.raises(SensorRuleError, match=f"^{key}: .* is not from 0 to 2"):
                SensorRules.of({key: wrong})
    with pytest.raises(SensorRuleError, match=r"^margin: -1 is not from 0 to inf$"):
        SensorRules.of({"margin": -1})


def test_each_value_of_a_sensor_has_its_own_rule() -> None:
    bed = Bed(stuck_s=60, temperature={"low": 1, "high": 30}, state={"stuck_s": 0})
    bed.reads(40.0, part="temperature")
    found = bed.found(rules.SENSOR_RANGE)
    assert found is not None
    assert found.part == "tank/temperature"
    bed.reads(*["same"] * 20, part="state")
    assert [one.part for one in bed.judge.look(bed.now_s) if one.rule == rules.SENSOR_STUCK] == [
        "tank/temperature"
    ]


def test_a_sensor_that_has_gone_is_judged_no_more() -> None:
    bed = Bed(low=0)
    bed.reads(-1.0)
    bed.judge.end("tank")
    bed.reads(-1.0)
    assert bed.judge.look(bed.now_s) == []


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"lo": 1}, "lo: is none of silent_s, stuck_s, low"),
        ({"low": "1"}, "low: '1' is no number"),
        ({"high": True}, "high: True is no number"),
        ({"low": float("nan")}, "low: nan is no number"),
        ({"stuck_s": -1}, "stuck_s: -1 is not from 0"),
        ({"silent_s": 1e9}, "silent_s: 1e\\+09 is not from 0"),
        ({"low": 1, "high": 2, "margin": 1}, "low: 1 with twice the margin of 1 is above high, 2"),
        ({"high": 2, "air": {"low": 3}}, "air.low: 3 with"),
        ({"air": {"silent_s": 3}}, "air.silent_s: is none of"),
    ],
)
def test_a_wrong_key_is_named(table: dict[str, Any], told: str) -> None:
    with pytest.raises(SensorRuleError, match=told):
        SensorRules.of(table)


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.text())))
def test_whatever_is_read_each_rule_says_one_thing(values: list[float | str | None]) -> None:
    bed = Bed(stuck_s=30, low=-1, high=1)
    bed.reads(*values)
    found = bed.judge.look(bed.now_s)
    assert len({(one.rule, one.part) for one in found}) == len(found)
    numbers = [value for value in values if isinstance(value, float)]
    is_out = any(not -1 <= value <= 1 for value in numbers)
    assert any(one.rule == rules.SENSOR_RANGE and one.is_wrong for one in found) == is_out


def test_what_is_judged_of_a_value_is_what_a_rule_of_it_can_find_wrong() -> None:
    found = SensorRules.of(
        {
            "low": 0,
            "still": {"stuck_s": 1},
            "all": {"stuck_s": 60, "high": 5, "margin": 2.5},
        }
    )
    judged = {
        name: (found.judges_range(name), found.judges_stuck(name))
        for name in ("bed", "bed/still", "bed/all")
    }
    assert judged == {"bed": (True, False), "bed/still": (True, True), "bed/all": (True, True)}
    nothing = SensorRules.of({})
    assert (nothing.judges_range("bed"), nothing.judges_stuck("bed")) == (False, False)
    assert SensorRules.of({"high": 0}).judges_range("bed")
    assert found.of_value("bed/all/other") == found.rule
    assert not nothing.rule.is_any
    assert SensorRules.of({"stuck_s": 0.5}).rule.is_any


def test_the_margin_fits_twice_between_low_and_high() -> None:
    assert SensorRules.of({"low": 1, "high": 5, "margin": 2}).rule.margin == 2.0
    with pytest.raises(SensorRuleError) as raised:
        SensorRules.of({"low": 1, "high": 5, "margin": 2.5})
    assert str(raised.value) == "low: 1 with twice the margin of 2.5 is above high, 5"


def test_a_sensor_that_says_no_more_is_silent_after_three_intervals_or_a_minute() -> None:
    usual = SensorRules.of({})
    assert [usual.silent_after_s(each) for each in (1.0, 20.0, 20.5, 100.0)] == [
        60.0,
        60.0,
        61.5,
        300.0,
    ]
    assert [SensorRules.of({"silent_s": s}).silent_after_s(100.0) for s in (0, 5)] == [0.0, 5.0]

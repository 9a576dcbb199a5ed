"""Judgement of sensors: one that is silent, stuck, or out of its range. Pure.

A gateway that has just started knows nothing of what was before: a sensor that says the same since
then is neither stuck nor well until it has changed, or has been the same for long enough. A value
that was not read yet is neither wrong nor well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from gateway.alerting import rules
from gateway.alerting.sensor_rules import SensorRule, SensorRules
from light_dataclasses import dataclass

LEAST_READINGS: Final = 10
"""A value is stuck that was the same in so many readings at least."""
_TOLD_CHARACTERS: Final = 40

SensorValue = float | int | str | bytes | bool


@dataclass(frozen=True, slots=True)
class SensorFinding:
    """A rule's verdict on a sensor, or on one of its values.

    Attributes:
        rule: which.
        part: the sensor, or its value.
        is_wrong: None if it is neither wrong nor well.
        message: for a person.
        value: that it goes by; None where it is no number.

    """

    rule: str
    part: str
    is_wrong: bool | None
    message: str
    value: float | None = None


@dataclass(slots=True)
class _Followed:
    """One value that a rule is for.

    Attributes:
        rule: that one.
        value: the last one.
        since_s: it is the same since then ...
        readings: ... in so many readings.
        has_changed: whether it was ever another one.
        out: the value furthest out of its range since the last look.
        is_out: what the last reading says.

    """

    rule: SensorRule
    value: SensorValue
    since_s: float
    readings: int = 0
    has_changed: bool = False
    out: float | None = None
    is_out: bool | None = None


@dataclass(slots=True)
class _Watched:
    """One sensor.

    Attributes:
        rules: of its table.
        silent_after_s: so long it may say nothing.
        heard_s: when it said something good, or was first asked.
        has_spoken: whether it ever did.
        whole_readings: of which each value was good, up to `LEAST_READINGS`.
        values: that rules are for.

    """

    rules: SensorRules
    silent_after_s: float
    heard_s: float
    has_spoken: bool = False
    whole_readings: int = 0
    values: dict[str, _Followed] = field(default_factory=dict)


class SensorRuleJudge:
    """Follows the sensors of a gateway."""

    def __init__(self) -> None:
        self._sensors: dict[str, _Watched] = {}

    def begin(self, sensor: str, told: SensorRules, interval_s: float, now_s: float) -> None:
        """Follow a sensor from now on, as a new one.

        Args:
            sensor: its name.
            told: the rules of its table.
            interval_s: how often it is read.
            now_s: by a clock that nobody sets, as all times here.

        """
        self._sensors[sensor] = _Watched(told, told.silent_after_s(interval_s), now_s)

    def end(self, sensor: str) -> None:
        """Follow a sensor no more."""
        self._sensors.pop(sensor, None)

    def took(self, sensor: str, values: Mapping[str, SensorValue | None], now_s: float) -> None:
        """Take a reading.

        Args:
            sensor: whose.
            values: by their full names; None for one that is bad.
            now_s: when.

        """
        watched = self._sensors.get(sensor)
        if watched is None:
            return
        is_whole = bool(values) and None not in values.values()
        watched.whole_readings = min(watched.whole_readings + is_whole, LEAST_READINGS)
        for name, value in values.items():
            if value is None:
                continue
            watched.heard_s, watched.has_spoken = now_s, True
            followed = watched.values.get(name)
            if followed is None:
                rule = watched.rules.of_value(name)
                if not rule.is_any:
                    continue
                followed = watched.values[name] = _Followed(rule, value, now_s)
            _follow(followed, value, now_s)

    def look(self, now_s: float) -> list[SensorFinding]:
        """Return what all rules say now."""
        return [found for name in self._sensors for found in self._found(name, now_s)]

    @property
    def unread(self) -> dict[str, SensorRules]:
        """The rules of sensors that may have values of which nothing is known yet, by name.

        A value that was in none of `LEAST_READINGS` readings is taken for one that is no more.
        """
        return {
            name: one.rules
            for name, one in self._sensors.items()
            if one.whole_readings < LEAST_READINGS
        }

    def _found(self, name: str, now_s: float) -> Iterator[SensorFinding]:
        watched = self._sensors[name]
        if watched.silent_after_s > 0:
            silent_s = now_s - watched.heard_s
            is_silent = silent_s > watched.silent_after_s
            is_wrong = True if is_silent else False if watched.has_spoken else None
            message = f"it has said nothing good for {silent_s:.0f} s"
            yield SensorFinding(rules.SENSOR_SILENT, name, is_wrong, message, silent_s)
        for part, one in watched.values.items():
            if one.rule.stuck_s > 0:
                yield _stuck(part, one, now_s)
            if one.rule.low is not None or one.rule.high is not None:
                yield _range(part, one)


def _follow(one: _Followed, value: SensorValue, now_s: float) -> None:
    if value != one.value:
        one.value, one.since_s, one.readings, one.has_changed = value, now_s, 0, True
    one.readings += 1
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    by = _out_by(one.rule, value)
    one.is_out = True if by > 0 else None if by > -one.rule.margin else False
    if by > 0 and (one.out is None or by > _out_by(one.rule, one.out)):
        one.out = float(value)


def _out_by(rule: SensorRule, value: float) -> float:
    """Return how far a value is out of its range; below 0 it is within."""
    below = -math.inf if rule.low is None else rule.low - value
    return max(below, -math.inf if rule.high is None else value - rule.high)


def _stuck(part: str, one: _Followed, now_s: float) -> SensorFinding:
    same_s = now_s - one.since_s
    is_stuck = same_s >= one.rule.stuck_s and one.readings >= LEAST_READINGS
    is_wrong = True if is_stuck else False if one.has_changed else None
    value = float(one.value) if isinstance(one.value, int | float) else None
    told = f"{value:g}" if value is not None else repr(one.value)[:_TOLD_CHARACTERS]
    message = f"it says {told} for {same_s:.0f} s, in {one.readings} readings"
    return SensorFinding(rules.SENSOR_STUCK, part, is_wrong, message, value)


def _range(part: str, one: _Followed) -> SensorFinding:
    low = "" if one.rule.low is None else f"{one.rule.low:g}"
    high = "" if one.rule.high is None else f"{one.rule.high:g}"
    is_wrong, value = one.is_out, one.value if one.out is None else one.out
    if one.out is not None:  # also for a moment between two looks
        is_wrong, one.out = True, None
    number = float(value) if isinstance(value, int | float) else None
    message = f"it says {number:g}, out of {low}..{high}" if number is not None else "no number"
    return SensorFinding(rules.SENSOR_RANGE, part, is_wrong, message, number)

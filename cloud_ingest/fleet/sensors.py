"""Judgement of sensors: one that says the same for too long, one out of its range."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cloud_ingest.evidence.facts import SensorSpan
from cloud_ingest.fleet.clock import APART_US
from cloud_ingest.fleet.flapping import DampedAlerts
from cloud_ingest.fleet.gateway_state import GatewayState, SensorState
from cloud_ingest.fleet.rules import AlertRules, SensorRange, Thresholds

SILENT_US = 7 * 86_400_000_000
"""A sensor that said something within this time is not forgotten for another one: of sensors that
drive each other out each would be new each time, and its alert raised and cleared each time. It is
longer than most sensors wait from one reading to the next."""


MAX_NAME_BYTES = 65_536
"""Of one gateway's sensors that are remembered, together: whoever publishes makes up names."""


class SensorJudge:
    """Follows sensors that a rule is for, as many of a gateway as are remembered.

    Args:
        rules: of the fleet.
        alerts: are raised and cleared.

    """

    def __init__(self, rules: AlertRules, alerts: DampedAlerts) -> None:
        self._rules = rules
        self._alerts = alerts

    def take(self, gateway: GatewayState, span: SensorSpan, at_us: int) -> None:
        """Take what a sensor measured in a batch.

        Args:
            gateway: whose it is.
            span: what it measured.
            at_us: when it came, by the collector's clock.

        """
        if self._rules.kept.sensors == 0:
            return
        known = gateway.sensors.get(span.sensor)
        rules = self._rules.of(gateway.gateway, gateway.domain, span.sensor)
        if not _is_watched(rules):  # another's name takes no room of those that are
            if known is not None:
                self._forget(gateway, span.sensor, at_us)
            return
        if known is None:
            if not self._has_room(gateway, span.sensor, at_us):
                gateway.unwatched_us = max(at_us, gateway.unwatched_us or at_us)
                return
            known = SensorState(span.first, at_us, 0, at_us)
            gateway.sensors[span.sensor] = known
        is_newer = known.told_us is not None and span.last_us > known.told_us
        if at_us < known.heard_us - APART_US and not is_newer:
            return  # read again, since a part of the tables was set back: it was judged then
        at_us = max(at_us, known.heard_us)  # by a collector whose clock is behind
        if known.told_us is not None and span.first_us < known.told_us:
            span = _newest_alone(span)
        known.told_us = span.last_us
        is_same = span.changes == 0 and span.first == known.value
        if is_same:
            known.readings += span.count
        else:
            known.value, known.since_us, known.readings = span.last, at_us, 1
        known.heard_us = at_us
        self._judge(gateway, span, known, rules, at_us)

    def _judge(
        self,
        gateway: GatewayState,
        span: SensorSpan,
        known: SensorState,
        rules: Thresholds,
        at_us: int,
    ) -> None:
        stuck = rules.sensor_stuck
        still_s = (at_us - known.since_us) / 1e6
        is_watched = stuck.on and stuck.after_s > 0
        if not is_watched or known.readings == 1:
            is_stuck: bool | None = False
        else:
            is_long = still_s >= stuck.after_s and known.readings >= stuck.readings
            is_stuck = True if is_long else None
        message = f"it says {known.value:g} for {still_s:.0f} s, in {known.readings} readings"
        judge = partial(self._alerts.judge, rule=rules.flapping)
        about = (gateway.gateway, span.sensor)
        judge(("sensor-stuck", *about), is_stuck, at_us, message, known.value)
        is_out, value = _out_of_range(rules, span)
        message = f"it says {value:g}, out of {_written(rules.sensor_range)}"
        judge(("sensor-range", *about), is_out, at_us, message, value)

    def _has_room(self, gateway: GatewayState, sensor: str, at_us: int) -> bool:
        """Make room for one more, and return whether there is some, or one that has been silent."""
        sensors = gateway.sensors
        while True:
            taken = sum(len(name.encode()) for name in sensors) + len(sensor.encode())
            if len(sensors) < self._rules.kept.sensors and taken <= MAX_NAME_BYTES:
                return True
            gone = min(sensors, key=lambda name: (sensors[name].heard_us, name))
            if sensors[gone].heard_us > at_us - SILENT_US:
                return False
            self._forget(gateway, gone, at_us)

    def _forget(self, gateway: GatewayState, sensor: str, at_us: int) -> None:
        del gateway.sensors[sensor]
        self._alerts.forget_about(gateway.gateway, [sensor], at_us)


def _newest_alone(span: SensorSpan) -> SensorSpan:
    """Return the newest reading of a batch in which others are read again, and were judged then."""
    value = span.last
    return replace(
        span, count=1, first_us=span.last_us, low=value, high=value, first=value, changes=0
    )


def _is_watched(rules: Thresholds) -> bool:
    stuck, limits = rules.sensor_stuck, rules.sensor_range
    has_limits = limits.low is not None or limits.high is not None
    return (stuck.on and stuck.after_s > 0) or (limits.on and has_limits)


def _out_of_range(rules: Thresholds, span: SensorSpan) -> tuple[bool | None, float]:
    """Return whether a sensor is out of its range, and the value that says so."""
    rule = rules.sensor_range
    if not rule.on:
        return False, span.last
    if rule.low is not None and span.low < rule.low:
        return True, span.low
    if rule.high is not None and span.high > rule.high:
        return True, span.high
    is_within = (rule.low is None or span.low >= rule.low + rule.margin) and (
        rule.high is None or span.high <= rule.high - rule.margin
    )
    return (False if is_within else None), span.last


def _written(rule: SensorRange) -> str:
    low = "" if rule.low is None else f"{rule.low:g}"
    high = "" if rule.high is None else f"{rule.high:g}"
    return f"{low}..{high}"

"""Tells the judge of sensors what is read, and which sensors come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gateway.alerting.sensor_judging import SensorFinding, SensorRuleJudge
from gateway.alerting.sensor_rules import SensorRules
from gateway.process.running.readings import Readings
from gateway.sensors.reading import full_name
from gateway.sensors.sensor import Sensor
from record_formats.value import BAD


class SensorWatch:
    """Watches the sensors of one gateway.

    Args:
        readings: of it.

    """

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._sampler = readings.sampler
        self._judge = SensorRuleJudge()
        self._begin(readings.sensors)
        self._sampler.listen(self._took)
        readings.follow(self._changed)

    def look(self) -> Sequence[SensorFinding] | None:
        """Return what is wrong with sensors, and well; None while none is read."""
        return self._judge.look(self._sampler.now()) if self._readings.is_reading else None

    @property
    def unread(self) -> Mapping[str, SensorRules]:
        """The rules of sensors that may have values of which nothing is known yet, by name."""
        return self._judge.unread

    def _changed(self, gone: Iterable[str], new: Iterable[Sensor]) -> None:
        for name in gone:
            self._judge.end(name)
        self._begin(new)

    def _begin(self, sensors: Iterable[Sensor]) -> None:
        told = {each.sensor.name: each.rules for each in self._readings.configured}
        for sensor in sensors:
            rules = told[sensor.name]
            self._judge.begin(sensor.name, rules, sensor.interval_s, self._sampler.now())

    def _took(self, sensor: Sensor) -> None:
        reading = self._sampler.last(sensor)
        if reading is None:
            return
        values = {
            full_name(sensor.name, part): None if one.quality == BAD else one.value
            for part, one in reading.values.items()
        }
        self._judge.took(sensor.name, values, reading.taken_at)

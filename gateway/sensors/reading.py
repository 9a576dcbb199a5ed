"""Readings that drivers return: values by name, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.base.printable import shortly
from gateway.sensors.sensor import Sensor, SensorError
from gateway.sensors.values import (
    MAX_PARTS,
    Measured,
    ValueKindError,
    checked,
    checked_tags,
    checked_unit,
)
from light_dataclasses import dataclass
from record_formats.record import Record
from record_formats.value import BAD, GOOD, UNCERTAIN, Value
from tree_handler.members.place import check_name

_QUALITIES = (GOOD, UNCERTAIN, BAD)


@dataclass(frozen=True, slots=True)
class Reading:
    """The values that a sensor read at one time.

    Attributes:
        values: by name, with their units; one that has no name stands alone, under ``""``.
        time_s: when, by the wall clock.
        taken_at: when, by the steady one.
        resolution: of its sensor; see `gateway.sensors.sensor.Sensor`.

    """

    values: Mapping[str, Measured]
    time_s: float
    taken_at: float
    resolution: float = 0.0

    @property
    def value(self) -> Value | None:
        """The value that stands first; `values` has the others."""
        return next(iter(self.values.values())).value

    def records(self, name: str, number: int) -> Iterator[Record]:
        """Yield a telemetry record for each value.

        Args:
            name: the sensor's.
            number: the reading's.

        """
        for part, each in self.values.items():
            told = (each.unit or "", each.value, self.time_s, number, each.quality, each.tags)
            yield Record(full_name(name, part), *told)


def full_name(name: str, part: str) -> str:
    """Return what a sensor's value is called, and the end of its topic."""
    return f"{name}/{part}" if part else name


def names_of(sensor: Sensor) -> Iterator[tuple[str, str]]:
    """Give names and units of a sensor's values, as far as they are known beforehand."""
    if not sensor.parts:
        yield sensor.name, sensor.unit
    for part, of in sensor.parts.items():
        yield full_name(sensor.name, part), of.unit


def as_reading(sensor: Sensor, outcome: object, time_s: float, taken_at: float) -> Reading:
    """Make a reading of what a ``read`` returned.

    Args:
        sensor: whose it is.
        outcome: what it returned.
        time_s: see `Reading`.
        taken_at: see `Reading`.

    Raises:
        SensorError: it is no value and no mapping of values.

    """
    try:
        if not isinstance(outcome, Mapping):
            values = {"": _measured(outcome, sensor.unit)}
            return Reading(values, time_s, taken_at, sensor.resolution)
        if not 0 < len(outcome) <= MAX_PARTS:
            raise ValueKindError(f"{len(outcome)} values, not 1 to {MAX_PARTS}")
        values = {}
        for part, value in outcome.items():
            known = sensor.parts.get(part)
            if known is None:
                check_name("part", part)
            values[part] = _measured(value, "" if known is None else known.unit)
    except (ValueError, TypeError) as error:  # a name may be of any type
        raise SensorError(sensor.name, f"read {error}") from error
    return Reading(values, time_s, taken_at, sensor.resolution)


def _measured(value: object, unit: str) -> Measured:
    if not isinstance(value, Measured):
        return Measured(checked(value), unit)
    if value.quality not in _QUALITIES:
        raise ValueKindError(f"quality {shortly(value.quality, 60)}, which is none of {_QUALITIES}")
    is_missing = value.value is None and value.quality == BAD
    kept = None if is_missing else checked(value.value)
    given = unit if value.unit is None else checked_unit(value.unit)
    return Measured(kept, given, value.quality, checked_tags(value.tags))

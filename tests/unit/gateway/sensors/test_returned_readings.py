"""A reading has the values that a driver returned, with their names and units, or says why not."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import pytest

from gateway.sensors.reading import Reading, as_reading, names_of
from gateway.sensors.sensor import Sensor, SensorError, SensorPart
from gateway.sensors.values import MAX_PARTS, Measured
from record_formats.record import Record
from record_formats.value import BAD, GOOD, UNCERTAIN


class Probe(Sensor):
    unit = "Cel"


class TwoParts(Sensor):
    unit = "Cel"
    parts = MappingProxyType({"air": SensorPart("Cel"), "wind": SensorPart("m/s")})


def read(outcome: object, sensor: Sensor | None = None) -> Reading:
    return as_reading(Probe("roof") if sensor is None else sensor, outcome, 5.5, 7.5)


def refused(outcome: object) -> str:
    with pytest.raises(SensorError) as raised:
        read(outcome)
    assert raised.value.name == "roof"
    return str(raised.value)


def test_one_value_stands_alone_under_the_sensors_unit() -> None:
    found = as_reading(Probe("roof", resolution=0.5), 21.5, 5.5, 7.5)
    assert found == Reading({"": Measured(21.5, "Cel", GOOD)}, 5.5, 7.5, 0.5)
    assert found.value == 21.5
    assert list(found.records("roof", 3)) == [Record("roof", "Cel", 21.5, 5.5, 3)]


def test_a_measured_value_has_its_own_unit_quality_and_tags_if_it_says_them() -> None:
    said = Measured(70.7, "[degF]", UNCERTAIN, {"bed": "1"})
    (found,) = read(said).values.values()
    assert found == said
    (found,) = read(Measured(21.5)).values.values()
    assert (found.value, found.unit, found.quality) == (21.5, "Cel", GOOD)
    (found,) = read(Measured(21.5, "")).values.values()
    assert found.unit == "", "it says that it has none"
    (found,) = read(Measured(None, quality=BAD)).values.values()
    assert (found.value, found.quality) == (None, BAD)
    for quality in (GOOD, UNCERTAIN):
        assert "roof: read " in refused(Measured(None, quality=quality))
    assert "quality 'fine', which is none of" in refused(Measured(1.0, quality="fine"))


@pytest.mark.parametrize("count", [1, 2, MAX_PARTS])
def test_a_mapping_of_1_to_as_many_values_as_may_be_is_read_in_its_order(count: int) -> None:
    outcome = {f"p{count - n}": float(n) for n in range(count)}
    found = as_reading(TwoParts("roof", resolution=0.5), outcome, 5.5, 7.5)
    assert [(name, one.value, one.unit) for name, one in found.values.items()] == [
        (name, value, "") for name, value in outcome.items()
    ]
    assert (found.time_s, found.taken_at, found.resolution) == (5.5, 7.5, 0.5)
    assert found.value == 0.0, "that which stands first"


@pytest.mark.parametrize("count", [0, MAX_PARTS + 1])
def test_a_mapping_of_none_or_of_too_many_is_no_reading(count: int) -> None:
    why = refused({f"p{n}": 1.0 for n in range(count)})
    assert why == f"roof: read {count} values, not 1 to {MAX_PARTS}"


def test_a_part_that_is_declared_has_its_unit_and_another_none() -> None:
    sensor = TwoParts("roof")
    assert list(names_of(sensor)) == [("roof/air", "Cel"), ("roof/wind", "m/s")]
    assert list(names_of(Probe("roof"))) == [("roof", "Cel")]
    found = read({"wind": 3.0, "rain": 1.0, "air": Measured(70.7, "[degF]")}, sensor)
    assert [(one.name, one.unit, one.value) for one in found.records("roof", 1)] == [
        ("roof/wind", "m/s", 3.0),
        ("roof/rain", "", 1.0),
        ("roof/air", "[degF]", 70.7),
    ]


@pytest.mark.parametrize(
    "outcome", [None, math.nan, object(), {"Rain": 1.0}, {5: 1.0}, {"a": None}]
)
def test_what_is_no_value_and_no_name_is_refused_with_the_sensors_name(outcome: Any) -> None:
    assert refused(outcome).startswith("roof: read ")

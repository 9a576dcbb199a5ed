"""Home Assistant's words: its device classes, its units, and which of SenML's units is which.

It refuses an entity of a device class that its component has not. A device class has units of its
own, and one that measures amounts (energy, volume) is no ``measurement`` to Home Assistant: a wrong
pair is refused or warned of, so such a class is left without a state class.

From its documentation of sensors, binary sensors, switches and numbers, "Device class", as of
release 2025.11. A class that a later release adds is refused here until it is in these lists.
SenML's units: RFC 8428, section 12.1, and RFC 8798.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from light_dataclasses import dataclass

_AMOUNTS: Final = frozenset(
    [
        "absolute_humidity",
        "apparent_power",
        "aqi",
        "area",
        "atmospheric_pressure",
        "battery",
        "blood_glucose_concentration",
        "carbon_dioxide",
        "carbon_monoxide",
        "conductivity",
        "current",
        "data_rate",
        "data_size",
        "distance",
        "duration",
        "energy",
        "energy_distance",
        "energy_storage",
        "frequency",
        "gas",
        "humidity",
        "illuminance",
        "irradiance",
        "moisture",
        "monetary",
        "nitrogen_dioxide",
        "nitrogen_monoxide",
        "nitrous_oxide",
        "ozone",
        "ph",
        "pm1",
        "pm10",
        "pm25",
        "pm4",
        "power",
        "power_factor",
        "precipitation",
        "precipitation_intensity",
        "pressure",
        "reactive_energy",
        "reactive_power",
        "signal_strength",
        "sound_pressure",
        "speed",
        "sulphur_dioxide",
        "temperature",
        "temperature_delta",
        "volatile_organic_compounds",
        "volatile_organic_compounds_parts",
        "voltage",
        "volume",
        "volume_flow_rate",
        "volume_storage",
        "water",
        "weight",
        "wind_direction",
        "wind_speed",
    ]
)
_ON_AND_OFF: Final = frozenset(
    [
        "battery",
        "battery_charging",
        "carbon_monoxide",
        "cold",
        "connectivity",
        "door",
        "garage_door",
        "gas",
        "heat",
        "light",
        "lock",
        "moisture",
        "motion",
        "moving",
        "occupancy",
        "opening",
        "plug",
        "power",
        "presence",
        "problem",
        "running",
        "safety",
        "smoke",
        "sound",
        "tamper",
        "update",
        "vibration",
        "window",
    ]
)
DEVICE_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    "sensor": _AMOUNTS | {"date", "enum", "timestamp"},
    "binary_sensor": _ON_AND_OFF,
    "switch": frozenset({"outlet", "switch"}),
    "number": _AMOUNTS,
    "text": frozenset(),
}
"""By component."""

MEASUREMENT = "measurement"
RATIO = "/"
"""SenML's unit of a share from 0 to 1, and of a switch."""


@dataclass(frozen=True, slots=True)
class ShownAs:
    """The way in which Home Assistant shows values of a unit.

    Attributes:
        unit: ``unit_of_measurement``; None for a plain number.
        device_class: None where the unit does not tell what is measured.
        state_class: None where Home Assistant does not let this device class have one of ours.

    """

    unit: str | None
    device_class: str | None = None
    state_class: str | None = MEASUREMENT


UNITS: Final[Mapping[str, ShownAs]] = {
    "": ShownAs(None),
    "count": ShownAs(None),
    RATIO: ShownAs("%"),
    "%": ShownAs("%"),
    "%RH": ShownAs("%", "humidity"),
    "%EL": ShownAs("%", "battery"),
    "Cel": ShownAs("°C", "temperature"),
    "K": ShownAs("K", "temperature"),
    "Pa": ShownAs("Pa", "pressure"),
    "hPa": ShownAs("hPa", "pressure"),
    "V": ShownAs("V", "voltage"),
    "A": ShownAs("A", "current"),
    "mA": ShownAs("mA", "current"),
    "W": ShownAs("W", "power"),
    "kW": ShownAs("kW", "power"),
    "W/m2": ShownAs("W/m²", "irradiance"),
    "J": ShownAs("J"),  # a unit of energy to versions of 2024.11 and later alone
    "Wh": ShownAs("Wh", "energy", None),
    "kWh": ShownAs("kWh", "energy", None),
    "Hz": ShownAs("Hz", "frequency"),
    "lx": ShownAs("lx", "illuminance"),
    "pH": ShownAs(None, "ph"),
    "m": ShownAs("m", "distance"),
    "mm": ShownAs("mm", "distance"),
    "m/s": ShownAs("m/s", "speed"),
    "kg": ShownAs("kg", "weight"),
    "g": ShownAs("g", "weight"),
    "s": ShownAs("s", "duration"),
    "min": ShownAs("min", "duration"),
    "h": ShownAs("h", "duration"),
    "m3": ShownAs("m³", "volume", None),
    "l": ShownAs("L", "volume", None),
    "dBm": ShownAs("dBm", "signal_strength"),
    "B": ShownAs("B", "data_size"),
    "bit/s": ShownAs("bit/s", "data_rate"),
}
"""The ways in which amounts are shown, by their unit as a gateway writes it."""


def shown_as(unit: str) -> ShownAs:
    """Return how Home Assistant shows a SenML unit.

    One it does not know is shown as it is written.
    """
    return UNITS.get(unit) or ShownAs(unit)

"""The device classes that Home Assistant has, by component: it refuses an entity with another.

From its documentation of sensors, binary sensors, switches and numbers, "Device class", as of
release 2025.11. A class that a later release adds is refused here until it is in these lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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

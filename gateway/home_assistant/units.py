"""What Home Assistant calls the units of the SenML registry, and what is measured in them.

A device class has units of its own, and one that measures amounts (energy, volume) is no
``measurement`` to Home Assistant: a wrong pair is refused or warned of, so such a class is left
without a state class. SenML's units: RFC 8428, section 12.1, and RFC 8798. Home Assistant's: its
documentation of sensors, "Available device classes".
"""

from __future__ import annotations

from collections.abc import Mapping

from light_dataclasses import dataclass

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


_KNOWN: Mapping[str, ShownAs] = {
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


def shown_as(unit: str) -> ShownAs:
    """Return how Home Assistant shows a SenML unit.

    One it does not know is shown as it is written.
    """
    return _KNOWN.get(unit) or ShownAs(unit)

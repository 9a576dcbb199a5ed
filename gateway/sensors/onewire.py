"""1-Wire thermometers (DS18B20 and its kin), as Linux shows them in a folder.

The kernel's driver (w1-gpio, w1-therm) makes a folder for each device, whose file ``w1_slave`` has
the nine bytes that it read with the verdict on their CRC, and the temperature in thousandths.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gateway.sensors.declared import driver
from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import INTERVAL, DriverParameter
from gateway.sensors.sensor import Sensor
from gateway.sensors.values import Measured, Outcome
from record_formats.value import UNCERTAIN

FOLDER: Final = "/sys/bus/w1/devices"
FAMILIES: Final = ("10", "22", "28", "3b", "42")
"""Of thermometers: DS18S20, DS1822, DS18B20, DS1825 and MAX31850, DS28EA00."""
AFTER_POWER_ON: Final = 85_000
"""The reading of a DS18B20 before its first conversion, and at 85 degrees."""

DEVICE: Final = DriverParameter(
    "device",
    "text",
    'id of the thermometer, as 28-0316a2797b1e; "all": those that there are at the start',
    "all",
)
NAME: Final = DriverParameter("name", "text", "of it; of all, what their names begin with")
OF_FOLDER: Final = DriverParameter(
    "folder", "text", "folder in which the kernel shows the bus", FOLDER, is_near=True
)

_DEVICE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{12}")
_TEMPERATURE = re.compile(r"t=(-?[0-9]+)")


class OneWireThermometer(Sensor):
    """One thermometer on the bus.

    Args:
        name: the sensor's name.
        file: its ``w1_slave``.
        interval_s: how often it is read, seconds; a reading takes the device 0.75 s.

    """

    unit = "Cel"
    resource_type = "temperature"

    def __init__(self, name: str, file: Path, *, interval_s: float = 10.0) -> None:
        super().__init__(name, interval_s=interval_s)
        self._file = file

    def read(self) -> Outcome:
        """Return degrees Celsius; uncertain, if it may be what the chip says after a loss of power.

        Raises:
            OSError: the device is gone, or what it said was damaged on the wire.

        """
        text = self._file.read_text()
        found = _TEMPERATURE.search(text)
        if "YES" not in text.partition("\n")[0] or found is None:
            raise OSError(f"{self._file}: the checksum is wrong")
        thousandths = int(found[1])
        if thousandths == AFTER_POWER_ON:
            return Measured(85.0, quality=UNCERTAIN, tags={"why": "perhaps just powered on"})
        return thousandths / 1000


@driver("a DS18B20 or its kin on the 1-Wire bus", DEVICE, OF_FOLDER, NAME)
def build(options: SensorOptions) -> list[Sensor]:
    """Return the thermometers of a table: the one that ``device`` names, or all that there are now.

    Raises:
        SensorConfigError: a key is wrong, or there is none.

    """
    folder = Path(options.take(OF_FOLDER))
    interval_s = options.take(INTERVAL)
    device, given = options.take(DEVICE), options.take(NAME)
    if device == "all":
        prefix = given or "onewire"
        found = sorted(path for path in folder.glob("??-????????????") if path.name[:2] in FAMILIES)
        if not found:
            raise options.error("folder", f"{folder}: no thermometer; name one with `device`")
        return [
            OneWireThermometer(f"{prefix}/{path.name}", path / "w1_slave", interval_s=interval_s)
            for path in found
        ]
    if not _DEVICE.fullmatch(device):
        raise options.error("device", f"{device!r} is not of the form 28-0316a2797b1e")
    name = given or f"onewire/{device}"
    return [OneWireThermometer(name, folder / device / "w1_slave", interval_s=interval_s)]

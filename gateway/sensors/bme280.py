"""Bosch's BME280 on an I2C bus: temperature, humidity and pressure of one measurement.

Registers and arithmetic are those of its data sheet (BST-BME280-DS002). The chip's calibration is
read with each measurement, so that another chip may take its place.
"""

from __future__ import annotations

import struct
from typing import Final

from gateway.sensors.declared import driver
from gateway.sensors.extras import needed
from gateway.sensors.i2c import BUS, exchange, place
from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import INTERVAL, NAME, DriverParameter
from gateway.sensors.sensor import Sensor, SensorPart
from gateway.sensors.values import Outcome
from light_dataclasses import dataclass

ADDRESS: Final = DriverParameter("address", "whole", "0x76, or 0x77 where SDO is high", 0x76)
CHIP_ID: Final = 0x60
"""The content of register 0xD0 of a BME280; a BMP280, without humidity, says 0x58 (5.4.1)."""
_MEASURE: Final = (0xF2, 0b001, 0xF4, 0b001_001_01)
"""Each of the three once, and one measurement (5.4.3 and 5.4.5)."""
_TAKES_S: Final = 0.01
"""9.3 ms at most (9.1)."""
_SKIPPED: Final = (0x80000, 0x80000, 0x8000)
"""The values where nothing was measured (5.4.7 to 5.4.9)."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration of one chip (4.2.2, table 16).

    Attributes:
        t: dig_T1 to dig_T3.
        p: dig_P1 to dig_P9.
        h: dig_H1 to dig_H6.

    """

    t: tuple[int, ...]
    p: tuple[int, ...]
    h: tuple[int, ...]

    @classmethod
    def parse(cls, low: bytes, high: bytes) -> Calibration:
        """Read it.

        Args:
            low: registers 0x88 to 0xA1.
            high: registers 0xE1 to 0xE7.

        """
        words = struct.unpack("<Hhh H8h", low[:24])
        h2, h3, h4_high, nibbles, h5_high, h6 = struct.unpack("<hBbBbb", high)
        h4, h5 = h4_high << 4 | nibbles & 0xF, h5_high << 4 | nibbles >> 4
        return cls(words[:3], words[3:], (low[25], h2, h3, h4, h5, h6))

    def fine_temperature(self, adc: int) -> float:
        """Temperature in 1/5120 degrees Celsius, which the other two need as well (8.1)."""
        t1, t2, t3 = self.t
        return (adc / 16_384 - t1 / 1_024) * t2 + (adc / 131_072 - t1 / 8_192) ** 2 * t3

    def pressure(self, adc: int, fine: float) -> float:
        """Pascal (8.1).

        Raises:
            OSError: the calibration is none.

        """
        p1, p2, p3, p4, p5, p6, p7, p8, p9 = self.p
        x = fine / 2 - 64_000
        offset = (x * x * p6 / 32_768 + x * p5 * 2) / 4 + p4 * 65_536
        scale = (1 + (p3 * x * x / 524_288 + p2 * x) / 524_288 / 32_768) * p1
        if not scale:
            raise OSError("the calibration for pressure is empty")
        pressure = (1_048_576 - adc - offset / 4_096) * 6_250 / scale
        return pressure + (p9 * pressure * pressure / 2**31 + pressure * p8 / 32_768 + p7) / 16

    def humidity(self, adc: int, fine: float) -> float:
        """Relative humidity, 0 to 100 per cent (8.1)."""
        h1, h2, h3, h4, h5, h6 = self.h
        x = fine - 76_800
        slope = h2 / 65_536 * (1 + h6 / 2**26 * x * (1 + h3 / 2**26 * x))
        humidity = (adc - (h4 * 64 + h5 / 16_384 * x)) * slope
        return min(max(humidity * (1 - h1 * humidity / 524_288), 0.0), 100.0)


def values(calibration: Calibration, data: bytes) -> dict[str, float]:
    """Return a measurement's values.

    Args:
        calibration: the chip's.
        data: registers 0xF7 to 0xFE.

    Returns:
        Degrees Celsius, per cent and pascal.

    Raises:
        OSError: nothing was measured, or the calibration is none.

    """
    adc_p, adc_t = int.from_bytes(data[:3]) >> 4, int.from_bytes(data[3:6]) >> 4
    adc_h = int.from_bytes(data[6:8])
    if any(adc == none for adc, none in zip((adc_p, adc_t, adc_h), _SKIPPED, strict=True)):
        raise OSError(f"nothing was measured: {data.hex()}")
    fine = calibration.fine_temperature(adc_t)
    return {
        "temperature": fine / 5_120,
        "humidity": calibration.humidity(adc_h, fine),
        "pressure": calibration.pressure(adc_p, fine),
    }


class Bme280(Sensor):
    """A Bosch BME280.

    Args:
        name: the sensor's name.
        at: bus and address.
        interval_s: how often it is read, seconds.

    """

    parts = {  # noqa: RUF012  # never changed
        "temperature": SensorPart("Cel"),
        "humidity": SensorPart("%RH"),
        "pressure": SensorPart("Pa"),
    }
    resource_type = "temperature humidity pressure"

    def __init__(self, name: str, at: tuple[int, int], *, interval_s: float = 10.0) -> None:
        super().__init__(name, interval_s=interval_s)
        self._at = at

    def read(self) -> Outcome:
        """Return degrees Celsius, per cent and pascal of a single measurement ("forced mode",
        3.3.3).

        Raises:
            OSError: the device does not answer, is another chip, or measured nothing.

        """
        (chip,) = exchange(self._at, (0xD0,), 1)
        if chip != CHIP_ID:
            raise OSError(f"chip {chip:#04x} is no BME280")
        calibration = Calibration.parse(
            exchange(self._at, (0x88,), 26), exchange(self._at, (0xE1,), 7)
        )
        exchange(self._at, _MEASURE, 1, _TAKES_S)
        return values(calibration, exchange(self._at, (0xF7,), 8))


@driver("temperature, humidity and pressure of a Bosch BME280", BUS, ADDRESS)
def build(options: SensorOptions) -> list[Sensor]:
    """Return the sensor of a table with ``bus`` and ``address``.

    Raises:
        SensorConfigError: a key is wrong, or smbus2 is missing.

    """
    needed(options, "smbus2", "i2c")
    at = place(options, ADDRESS)
    return [Bme280(options.take(NAME), at, interval_s=options.take(INTERVAL))]

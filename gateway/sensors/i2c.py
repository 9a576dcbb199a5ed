"""Devices on an I2C bus: any register of any chip, and the SHT3x for temperature and humidity.

Through smbus2 (the extra ``i2c``). The bus is opened for each reading, so that several sensors, and
other programs, share it.
"""

from __future__ import annotations

import time
from typing import Any, Final, Literal

from gateway.sensors.declared import driver
from gateway.sensors.extras import needed
from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import INTERVAL, NAME, DriverParameter
from gateway.sensors.sensor import Sensor, SensorPart
from gateway.sensors.values import Outcome
from light_dataclasses import dataclass

ADDRESSES: Final = range(0x08, 0x78)
"""Those that devices may have (NXP UM10204, section 3.1.12)."""
MAX_WIDTH: Final = 4

SHT3X_MEASURE: Final = (0x24, 0x00)
"""A single shot of high repeatability, without clock stretching (Sensirion, SHT3x-DIS, table 9)."""
SHT3X_TAKES_S: Final = 0.016
"""15.5 ms at most (table 4)."""


BUS: Final = DriverParameter("bus", "whole", "the number of the I2C bus", 1, least=0, most=255)
_ADDRESS: Final = "the device's address on the bus, such as 0x44"
ADDRESS: Final = DriverParameter("address", "whole", _ADDRESS, is_needed=True)
SHT3X_ADDRESS: Final = DriverParameter("address", "whole", _ADDRESS, 0x44)
REGISTER: Final = DriverParameter(
    "register", "whole", "the number of the register", is_needed=True, least=0, most=0xFF
)
WIDTH: Final = DriverParameter(
    "width", "whole", "number of its bytes", 1, unit="bytes", least=1, most=MAX_WIDTH
)
ORDER: Final = DriverParameter(
    "order",
    "choice",
    "byte that comes first: the most or least significant",
    "big",
    choices=("big", "little"),
)
SIGNED: Final = DriverParameter("signed", "flag", "two's complement", default=False)
SCALE: Final = DriverParameter("scale", "number", "the value is the number times this, ...", 1.0)
OFFSET: Final = DriverParameter("offset", "number", "... plus this", 0.0)
UNIT: Final = DriverParameter("unit", "text", "of the value, of the SenML registry", "")


def bus(number: int) -> Any:
    """Return a bus, to be closed after use.

    Raises:
        OSError: there is none of this number.

    """
    import smbus2  # noqa: PLC0415  # an extra

    return smbus2.SMBus(number)


def exchange(at: tuple[int, int], write: tuple[int, ...], count: int, pause_s: float = 0) -> bytes:
    """Write to a device and read from it; without a pause in one transaction.

    Args:
        at: bus and address.
        write: bytes for it.
        count: how many are read.
        pause_s: between the two, seconds.

    Raises:
        OSError: the device does not answer.

    """
    from smbus2 import i2c_msg  # noqa: PLC0415  # an extra

    number, address = at
    asking, answer = i2c_msg.write(address, list(write)), i2c_msg.read(address, count)
    with bus(number) as opened:
        if pause_s:
            opened.i2c_rdwr(asking)
            time.sleep(pause_s)
            opened.i2c_rdwr(answer)
        else:
            opened.i2c_rdwr(asking, answer)
    return bytes(answer)


@dataclass(frozen=True, slots=True)
class Register:
    """A register: its place, and the form of the number in it.

    Attributes:
        number: of the register.
        width: bytes, 1 to `MAX_WIDTH`.
        order: of the bytes.
        is_signed: two's complement.
        scale: the value is the number times this,
        offset: plus this.

    """

    number: int
    width: int = 1
    order: Literal["big", "little"] = "big"
    is_signed: bool = False
    scale: float = 1.0
    offset: float = 0.0

    def value(self, data: bytes) -> float:
        """Return the value of the bytes that were read."""
        number = int.from_bytes(data, self.order, signed=self.is_signed)
        return number * self.scale + self.offset


class I2cRegister(Sensor):
    """One register of a device.

    Args:
        name: the sensor's name.
        at: bus and address.
        register: what is read, and how.
        unit: of the value.
        interval_s: how often it is read, seconds.

    """

    def __init__(
        self,
        name: str,
        at: tuple[int, int],
        register: Register,
        *,
        unit: str = "",
        interval_s: float = 10.0,
    ) -> None:
        super().__init__(name, interval_s=interval_s, unit=unit)
        self._at = at
        self._register = register

    def read(self) -> float:
        """Return the register's value.

        Raises:
            OSError: the device does not answer.

        """
        one = self._register
        return one.value(exchange(self._at, (one.number,), one.width))


class Sht3x(Sensor):
    """A Sensirion SHT30, SHT31 or SHT35: temperature and humidity of one measurement.

    Args:
        name: the sensor's name.
        at: bus and address.
        interval_s: how often it is read, seconds.

    """

    parts = {  # noqa: RUF012  # never changed
        "temperature": SensorPart("Cel"),
        "humidity": SensorPart("%RH"),
    }
    resource_type = "temperature humidity"

    def __init__(self, name: str, at: tuple[int, int], *, interval_s: float = 10.0) -> None:
        super().__init__(name, interval_s=interval_s)
        self._at = at

    def read(self) -> Outcome:
        """Return degrees Celsius and per cent (SHT3x-DIS, section 4.13).

        Raises:
            OSError: the device does not answer, or its answer was damaged.

        """
        data = exchange(self._at, SHT3X_MEASURE, 6, SHT3X_TAKES_S)
        for word, check in ((data[:2], data[2]), (data[3:5], data[5])):
            if crc8(word) != check:
                raise OSError(f"checksum {check:#04x} of {word.hex()} is wrong")
        celsius, humidity = (int.from_bytes(word) / 65_535 for word in (data[:2], data[3:5]))
        return {"temperature": 175 * celsius - 45, "humidity": 100 * humidity}


def crc8(data: bytes) -> int:
    """Return the checksum of a word (SHT3x-DIS, section 4.12): polynomial 0x31, begun with 0xFF."""
    crc = 0xFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x31 if crc & 0x80 else crc << 1) & 0xFF
    return crc


@driver("a register of any chip", BUS, ADDRESS, REGISTER, WIDTH, ORDER, SIGNED, SCALE, OFFSET, UNIT)
def build_register(options: SensorOptions) -> list[Sensor]:
    """Return the sensor of a table with ``address``, ``register`` and how to read it.

    Raises:
        SensorConfigError: a key is wrong, or smbus2 is missing.

    """
    needed(options, "smbus2", "i2c")
    at = place(options, ADDRESS)
    register = Register(
        options.take(REGISTER),
        options.take(WIDTH),
        options.take(ORDER),
        options.take(SIGNED),
        options.take(SCALE),
        options.take(OFFSET),
    )
    unit, interval_s = options.take(UNIT), options.take(INTERVAL)
    return [I2cRegister(options.take(NAME), at, register, unit=unit, interval_s=interval_s)]


@driver("temperature and humidity of a Sensirion SHT30, 31 or 35", BUS, SHT3X_ADDRESS)
def build_sht3x(options: SensorOptions) -> list[Sensor]:
    """Return the sensor of a table with ``bus`` and ``address``.

    Raises:
        SensorConfigError: a key is wrong, or smbus2 is missing.

    """
    needed(options, "smbus2", "i2c")
    at = place(options, SHT3X_ADDRESS)
    return [Sht3x(options.take(NAME), at, interval_s=options.take(INTERVAL))]


def place(options: SensorOptions, of_address: DriverParameter) -> tuple[int, int]:
    """Bus and address of a table.

    Args:
        options: of the table.
        of_address: the driver's parameter.

    Raises:
        SensorConfigError: one of them is wrong, or the address is missing and has no default.

    """
    number, address = options.take(BUS), options.take(of_address)
    if address not in ADDRESSES:
        raise options.error("address", f"{address:#04x} is not 0x08 to 0x77")
    return number, address

"""Drivers of buses: 1-Wire in a folder, GPIO on gpiozero's mock pins, I2C on a made-up bus."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpiozero
import pytest
from gpiozero.pins.mock import MockFactory
from hypothesis import given
from hypothesis import strategies as st

from gateway.sensors import bme280, i2c
from gateway.sensors.catalogue import Workshop
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor, SensorError

GOOD = "72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t={}\n"


def built(**table: Any) -> Sensor:
    (one,) = Workshop().build([table])
    return one.sensor


def refused(**table: Any) -> str:
    with pytest.raises(SensorConfigError) as raised:
        Workshop().build([table])
    return str(raised.value)


async def read(sensor: Sensor) -> dict[str, tuple[object, str]]:
    """Values with their qualities, as a gateway has them."""
    reading = await Sampler(lambda *_: None).current(sensor)
    return {name: (each.value, each.quality) for name, each in reading.values.items()}


# -- 1-Wire ----------------------------------------------------------------------------------------


def device(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "w1_slave").write_text(text)


@pytest.mark.parametrize(
    ("thousandths", "value"),
    [(23125, 23.125), (-10062, -10.062), (0, 0.0), (84_999, 84.999)],
)
async def test_a_thermometer_is_read_in_degrees(
    tmp_path: Path, thousandths: int, value: float
) -> None:
    device(tmp_path, "28-0316a2797b1e", GOOD.format(thousandths))
    sensor = built(type="onewire", folder=str(tmp_path), device="28-0316a2797b1e", name="bed/soil")
    assert (sensor.name, sensor.unit) == ("bed/soil", "Cel")
    assert await read(sensor) == {"": (value, "good")}


async def test_what_may_be_a_chip_after_a_loss_of_power_is_uncertain(tmp_path: Path) -> None:
    device(tmp_path, "28-0316a2797b1e", GOOD.format(85_000))
    sensor = built(type="onewire", folder=str(tmp_path), device="28-0316a2797b1e")
    assert await read(sensor) == {"": (85.0, "uncertain")}


@pytest.mark.parametrize("text", ["", GOOD.replace("YES", "NO").format(1), GOOD.format("x")])
async def test_an_answer_that_was_damaged_is_a_failure(tmp_path: Path, text: str) -> None:
    device(tmp_path, "28-0316a2797b1e", text)
    sensor = built(type="onewire", folder=str(tmp_path), device="28-0316a2797b1e")
    with pytest.raises(SensorError, match="the checksum is wrong"):
        await read(sensor)


def test_all_thermometers_of_a_bus_are_found_and_no_other_device(tmp_path: Path) -> None:
    for name in ("28-0316a2797b1e", "10-000802292522", "3a-000000000001", "w1_bus_master1"):
        device(tmp_path, name, GOOD.format(1))
    found = Workshop().build([{"type": "onewire", "folder": str(tmp_path), "name": "cellar"}])
    names = [each.sensor.name for each in found]
    assert names == ["cellar/10-000802292522", "cellar/28-0316a2797b1e"]


def test_a_wrong_table_of_a_thermometer_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert "folder: " in refused(type="onewire", folder=folder)
    assert "device: '../x' is not" in refused(type="onewire", folder=folder, device="../x")
    with pytest.raises(SensorConfigError, match="only the configuration may"):
        Workshop().build([{"type": "onewire", "folder": folder}], is_afar=True)


# -- GPIO ------------------------------------------------------------------------------------------


@pytest.fixture
def pins() -> Iterator[MockFactory]:
    before = gpiozero.Device.pin_factory
    factory = gpiozero.Device.pin_factory = MockFactory()
    yield factory
    factory.reset()
    gpiozero.Device.pin_factory = before


async def test_an_input_is_true_while_it_is_active(pins: MockFactory) -> None:
    sensor = built(type="gpio-in", name="door", pin=17, pull="up")
    assert sensor.kind == "boolean"
    assert await read(sensor) == {"": (False, "good")}
    pins.pin(17).drive_low()
    assert await read(sensor) == {"": (True, "good")}
    sensor.close()
    floating = built(type="gpio-in", name="door", pin=17, pull="none", active_low=True)
    pins.pin(17).drive_high()
    assert await read(floating) == {"": (False, "good")}
    floating.close()


async def test_a_change_of_an_input_is_told_at_once(pins: MockFactory) -> None:
    sensor = built(type="gpio-in", name="door", pin=17)
    told = asyncio.Queue[object]()
    sensor.push = told.put_nowait
    sensor.begin()
    await read(sensor)
    pins.pin(17).drive_high()
    assert await told.get() is True
    pins.pin(17).drive_low()
    assert await told.get() is False
    sensor.close()


async def test_an_output_drives_its_pin_and_gives_it_back(pins: MockFactory) -> None:
    actuator = built(type="gpio-out", name="pump", pin=4, initial=True)
    assert isinstance(actuator, Actuator)
    assert await read(actuator) == {"": (True, "good")}
    sampler = Sampler(lambda *_: None)
    await sampler.write(actuator, False, "psk:a")
    assert (await sampler.current(actuator)).value is False
    assert pins.pin(4).state == 0
    await sampler.write(actuator, True, "psk:a")
    assert (await sampler.current(actuator)).value is True
    assert pins.pin(4).state == 1
    actuator.close()
    again = built(type="gpio-out", name="pump", pin=4, active_low=True)
    assert await read(again) == {"": (False, "good")}
    assert pins.pin(4).state == 1
    again.close()


@pytest.mark.parametrize(("more", "bounce_s"), [({}, None), ({"bounce_s": 0.05}, 0.05)])
async def test_a_change_soon_after_another_is_not_told_where_the_table_says_so(
    pins: MockFactory, more: dict[str, float], bounce_s: float | None
) -> None:
    sensor = built(type="gpio-in", name="door", pin=17, **more)
    await read(sensor)
    assert pins.pin(17).bounce == bounce_s
    sensor.close()


async def test_a_pin_is_free_until_it_is_read(pins: MockFactory) -> None:
    first, second = (built(type="gpio-out", name="pump", pin=4) for _ in range(2))
    await read(first)
    with pytest.raises(SensorError, match="PinInUse"):
        await read(second)
    first.close()
    assert await read(second) == {"": (False, "good")}
    second.close()


def test_a_wrong_table_of_a_pin_is_named() -> None:
    assert "pin: missing" in refused(type="gpio-in", name="a")
    assert "pin: 28 is not 0 to 27" in refused(type="gpio-out", name="a", pin=28)
    assert "pull: 'low' is none of" in refused(type="gpio-in", name="a", pin=1, pull="low")
    assert "active_low: " in refused(type="gpio-in", name="a", pin=1, active_low=True)


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        ("gpio-in", "gpiozero", "gpio"),
        ("gpio-out", "gpiozero", "gpio"),
        ("i2c", "smbus2", "i2c"),
        ("sht3x", "smbus2", "i2c"),
        ("bme280", "smbus2", "i2c"),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, kind: str, module: str, extra: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    why = (
        f"sensors[0].type: needs {module}, which is not installed: pip install 'hedgerow[{extra}]'"
        f"; with the Debian package, apt-get install python3-{module}"
    )
    assert refused(type=kind, name="a", pin=1) == why


def test_what_no_table_needs_is_not_loaded() -> None:
    import subprocess

    code = (
        "import sys; from gateway.sensors.catalogue import build_sensors;"
        "build_sensors([{'type': 'switch', 'name': 'a'}]);"
        "print([m for m in ('gpiozero', 'smbus2', 'gateway.sensors.gpio', 'gateway.sensors.i2c',"
        "'gateway.sensors.coap_device') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert told.stdout == "[]\n"


# -- I2C -------------------------------------------------------------------------------------------


class Bus:
    """A bus with one device, which answers what it is asked."""

    def __init__(self, address: int, answers: dict[tuple[int, ...], bytes]) -> None:
        self.address = address
        self.answers = answers
        self.asked: tuple[int, ...] = ()
        self.is_open = False

    def __enter__(self) -> Bus:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def i2c_rdwr(self, *messages: Any) -> None:
        assert self.is_open
        for message in messages:
            if message.addr != self.address:
                raise OSError(121, "Remote I/O error")
            if not message.flags & 1:  # a write (I2C_M_RD)
                self.asked = tuple(bytes(message))
                continue
            for at, byte in enumerate(self.answers[self.asked][: message.len]):
                message.buf[at] = byte


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    made = Bus(0x44, {})
    monkeypatch.setattr(i2c, "bus", lambda _number: made)
    return made


def crc(word: bytes) -> bytes:
    return word + bytes([i2c.crc8(word)])


def test_sht3x_4_12_the_checksum_of_the_example() -> None:
    assert i2c.crc8(b"\xbe\xef") == 0x92


@pytest.mark.parametrize(
    ("raw_t", "raw_h", "celsius", "humidity"),
    [(0, 0, -45.0, 0.0), (0xFFFF, 0xFFFF, 130.0, 100.0), (0x6666, 0x8000, 25.0, 50.0)],
)
async def test_sht3x_4_13_temperature_and_humidity_of_one_measurement(
    bus: Bus, raw_t: int, raw_h: int, celsius: float, humidity: float
) -> None:
    words = (struct.pack(">H", raw) for raw in (raw_t, raw_h))
    bus.answers[(0x24, 0x00)] = b"".join(map(crc, words))
    sensor = built(type="sht3x", name="air")
    found = await read(sensor)
    assert found["temperature"][0] == pytest.approx(celsius, abs=0.01)
    assert found["humidity"][0] == pytest.approx(humidity, abs=0.01)
    assert {part: of.unit for part, of in sensor.parts.items()} == {
        "temperature": "Cel",
        "humidity": "%RH",
    }


async def test_a_damaged_answer_and_a_missing_device_are_failures(bus: Bus) -> None:
    bus.answers[(0x24, 0x00)] = crc(b"\x66\x66") + b"\x80\x00\x00"
    with pytest.raises(SensorError, match="checksum 0x00 of 8000 is wrong"):
        await read(built(type="sht3x", name="air"))
    with pytest.raises(SensorError, match="Remote I/O error"):
        await read(built(type="sht3x", name="air", address=0x45))


async def test_a_register_of_any_chip_is_read_as_its_table_says(bus: Bus) -> None:
    bus.answers = {(0x05,): b"\xc1\x90", (0x10,): b"\x7f"}
    word = {"type": "i2c", "name": "a", "address": 0x44, "register": 5, "width": 2}
    assert (await read(built(**word)))[""][0] == 0xC190
    assert (await read(built(**word, order="little")))[""][0] == 0x90C1
    assert (await read(built(**word, signed=True)))[""][0] == 0xC190 - 0x10000
    scaled = built(**word, scale=0.5, offset=-1, unit="mV")
    assert ((await read(scaled))[""][0], scaled.unit) == (0xC190 / 2 - 1, "mV")
    byte = built(type="i2c", name="a", address=0x44, register=16)
    assert (await read(byte))[""][0] == 0x7F


@given(
    st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), st.binary(min_size=n, max_size=n))),
    st.sampled_from(["big", "little"]),
    st.booleans(),
)
def test_a_register_is_a_number_in_the_range_of_its_width(
    read_: tuple[int, bytes], order: Any, is_signed: bool
) -> None:
    width, data = read_
    value = i2c.Register(0, width, order, is_signed).value(data)
    assert int(value).to_bytes(width, order, signed=is_signed) == data


# What Bosch's own example has (BMP280's data sheet, BST-BMP280-DS001, section 3.12), which has no
# humidity; that part is of a chip from a shop.
DIG_T = (27504, 26435, -1000)
DIG_P = (36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000)
DIG_H = (75, 371, 0, 295, 50, 30)
ADC_P, ADC_T, ADC_H = 415148, 519888, 30000


def chip(t: Any = DIG_T, p: Any = DIG_P, h: Any = DIG_H) -> tuple[bytes, bytes]:
    """The registers of a BME280's calibration."""
    h1, h2, h3, h4, h5, h6 = h
    low = struct.pack("<Hhh", *t) + struct.pack("<H8h", *p) + bytes([0, h1])
    middle = bytes([h4 >> 4 & 0xFF, h4 & 0xF | (h5 & 0xF) << 4, h5 >> 4 & 0xFF])
    return low, struct.pack("<hB", h2, h3) + middle + struct.pack("<b", h6)


def measured(pressure: int, temperature: int, humidity: int) -> bytes:
    words = (pressure << 4).to_bytes(3), (temperature << 4).to_bytes(3), humidity.to_bytes(2)
    return b"".join(words)


def whole_numbers(h: tuple[int, ...], adc: int, fine: int) -> float:
    """Humidity by the data sheet's other way, in whole numbers (BME280, section 4.2.3)."""
    h1, h2, h3, h4, h5, h6 = h
    x = fine - 76800
    slope = ((x * h6 >> 10) * ((x * h3 >> 11) + 32768) >> 10) + 2097152
    x = ((adc << 14) - (h4 << 20) - h5 * x + 16384 >> 15) * (slope * h2 + 8192 >> 14)
    x -= ((x >> 15) * (x >> 15) >> 7) * h1 >> 4
    return (min(max(x, 0), 419430400) >> 12) / 1024


async def test_bme280_8_1_the_values_of_the_data_sheets_example(bus: Bus) -> None:
    bus.address = 0x76
    low, high = chip()
    bus.answers = {(0xD0,): b"\x60", (0x88,): low, (0xE1,): high}
    bus.answers |= {(0xF2, 1, 0xF4, 0x25): b"\x00"}
    bus.answers |= {(0xF7,): measured(ADC_P, ADC_T, ADC_H)}
    sensor = built(type="bme280", name="air")
    found = await read(sensor)
    assert found["temperature"][0] == pytest.approx(25.08, abs=0.005)
    assert found["pressure"][0] == pytest.approx(100653.27, abs=0.5)
    assert found["humidity"][0] == pytest.approx(whole_numbers(DIG_H, ADC_H, 128422), abs=0.01)
    units = {part: of.unit for part, of in sensor.parts.items()}
    assert units == {"temperature": "Cel", "humidity": "%RH", "pressure": "Pa"}


def whole_pascal(p: tuple[int, ...], adc: int, fine: int) -> float:
    """Pressure by the data sheet's other way, in whole numbers of 64 bits (BME280, section 4.2.3).

    Where C would divide a negative number, this rounds another way: by less than a step.
    """
    p1, p2, p3, p4, p5, p6, p7, p8, p9 = p
    x = fine - 128_000
    offset = x * x * p6 + (x * p5 << 17) + (p4 << 35)
    scale = ((1 << 47) + (x * x * p3 >> 8) + (x * p2 << 12)) * p1 >> 33
    found = ((1_048_576 - adc << 31) - offset) * 3125 // scale
    found += (p9 * (found >> 13) * (found >> 13) >> 25) + (p8 * found >> 19)
    return ((found >> 8) + (p7 << 4)) / 256


@given(
    p=st.tuples(
        st.integers(30_000, 40_000),
        st.integers(-12_000, -8_000),
        st.integers(2_000, 6_000),
        st.integers(-10_000, 10_000),
        st.integers(-1_000, 1_000),
        st.integers(-100, 100),
        st.integers(0, 20_000),
        st.integers(-20_000, 0),
        st.integers(0, 10_000),
    ),
    adc_p=st.integers(200_000, 500_000),
    adc_t=st.integers(300_000, 700_000).filter(lambda adc: adc != 0x80000),
)
def test_bme280_pressure_is_that_of_the_data_sheets_whole_numbers(
    p: tuple[int, ...], adc_p: int, adc_t: int
) -> None:
    calibration = bme280.Calibration.parse(*chip(p=p))
    assert calibration.p == p
    fine = calibration.fine_temperature(adc_t)
    found = bme280.values(calibration, measured(adc_p, adc_t, ADC_H))
    assert found["pressure"] == pytest.approx(whole_pascal(p, adc_p, round(fine)), abs=2.0)


@given(
    h=st.tuples(
        st.integers(0, 255),
        st.integers(100, 500),
        st.integers(0, 255),
        st.integers(-2048, 2047),
        st.integers(-2048, 2047),
        st.integers(-128, 127),
    ),
    adc_h=st.integers(0, 0xFFFF).filter(lambda adc: adc != 0x8000),
    adc_t=st.integers(300_000, 700_000).filter(lambda adc: adc != 0x80000),
)
def test_bme280_humidity_is_that_of_the_data_sheets_whole_numbers(
    h: tuple[int, ...], adc_h: int, adc_t: int
) -> None:
    calibration = bme280.Calibration.parse(*chip(h=h))
    assert calibration.h == h
    fine = calibration.fine_temperature(adc_t)
    found = bme280.values(calibration, measured(ADC_P, adc_t, adc_h))
    assert found["humidity"] == pytest.approx(whole_numbers(h, adc_h, round(fine)), abs=0.1)


@pytest.mark.parametrize(
    ("register", "answer", "why"),
    [
        (0xD0, b"\x58", "chip 0x58 is no BME280"),
        (0xF7, measured(0x80000, 0x80000, 0x8000), "nothing was measured"),
        (0x88, bytes(26), "the calibration for pressure is empty"),
    ],
)
async def test_what_is_no_measurement_of_a_bme280_is_a_failure(
    bus: Bus, register: int, answer: bytes, why: str
) -> None:
    bus.address = 0x76
    low, high = chip()
    bus.answers = {(0xD0,): b"\x60", (0x88,): low, (0xE1,): high}
    bus.answers |= {(0xF2, 1, 0xF4, 0x25): b"\x00"}
    bus.answers |= {(0xF7,): measured(ADC_P, ADC_T, ADC_H), (register,): answer}
    with pytest.raises(SensorError, match=why):
        await read(built(type="bme280", name="air"))


def test_a_wrong_table_of_a_device_is_named() -> None:
    def named(**more: Any) -> str:
        return refused(**{"type": "i2c", "name": "a", "address": 0x44, "register": 1} | more)

    assert "address: 0x78 is not" in refused(type="bme280", name="a", address=0x78)
    assert "address: 0x03 is not 0x08 to 0x77" in named(address=3)
    assert "register: 256 is not 0 to 255" in named(register=256)
    assert "width: 5 is not 1 to 4 bytes" in named(width=5)
    assert "order: 'middle' is none of" in named(order="middle")
    assert "bus: -1 is not 0 to 255" in named(bus=-1)
    assert "register: '5' is not a whole number" in named(register="5")

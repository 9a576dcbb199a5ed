"""Numbers are shown as the sensor's resolution has them, and recorded as they were read."""

from __future__ import annotations

import json

import cbor2
import pytest
from aiocoap import resource
from hypothesis import given
from hypothesis import strategies as st

from coap_engine import codes
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.sensors.resources import SensorResources
from gateway.sensors.catalogue import Workshop
from gateway.sensors.host import host_sensors
from gateway.sensors.mqtt_form import MqttForm
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sampler import Sampler
from gateway.sensors.senml import CONTENT_FORMAT
from gateway.sensors.sensor import Sensor
from gateway.sensors.values import shown
from gateway.tools.commands.resources import readings
from record_formats.record import Record, decode
from record_formats.value import Value
from tests.policies import open_access
from tree_handler.members.place import Place
from tree_handler.remote.resource import ResourceRequest

NOISY = 26.9 / 100  # 0.26899999999999996


@pytest.mark.parametrize(
    ("value", "resolution", "told"),
    [
        *[(NOISY, 0.0, 0.269), (0.1 + 0.2, 0.0, 0.3), (1e22, 0.0, 1e22), (21.5, 0.0, 21.5)],
        *[
            (0.268734629, 0.001, 0.269),
            (21.200000762939453, 0.01, 21.2),
            (85.0625, 0.0625, 85.0625),
        ],
        *[(1013.25, 5, 1013.0), (123456789.0, 0.1, 123456789.0), (5e-324, 0.0, 5e-324)],
        *[(1.7976931348623157e308, 0.0, 1.7976931348623157e308), (-0.04, 0.1, -0.0)],
        *[(True, 0.1, True), ("0.26899999999999996", 0.1, "0.26899999999999996")],
        (b"0.1", 0.1, b"0.1"),
    ],
)
def test_a_value_is_shown_with_the_digits_that_count(
    value: Value, resolution: float, told: Value
) -> None:
    assert shown(value, resolution) == told
    assert type(shown(value, resolution)) is type(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-1e8, max_value=1e8))
def test_what_a_person_writes_is_shown_as_it_was_written(written: object) -> None:
    assert shown(float(str(written))) == float(str(written))


class Disk(Sensor):
    unit = "/"
    is_quick = True

    def read(self) -> float:
        return NOISY


async def test_wherever_a_reading_is_shown_it_is_short_and_its_record_is_exact() -> None:
    records = list[Record]()
    sampler = Sampler(lambda _, record: records.append(record), wall_clock=lambda: 0.0)
    site = resource.Site()
    sensors = SensorResources(site, sampler, "gw", Place())
    disk = Disk("disk")
    sampler.add(disk)
    sensors.add(disk)
    execution = LocalExecution(site, "gw", open_access(), (sensors.answers,))

    async def get(path: str, accept: int) -> bytes:
        request = ResourceRequest("GET", tuple(path.split("/")), accept=accept)
        answer = await execution(request)
        assert answer.code == codes.CONTENT
        return answer.payload

    assert await get("sensors/disk", 0) == b"0.269"
    for path in ("sensors/disk", "sensors"):
        as_json = await get(path, 110)
        assert json.loads(as_json)[0]["v"] == 0.269
        assert cbor2.loads(await get(path, 112))[0][2] == 0.269
    assert readings(as_json, CONTENT_FORMAT)[0].split()[1] == "0.269"
    sampler.push(disk, (await sampler.current(disk)).value)
    (record,) = records
    assert record.value == NOISY
    assert decode(MqttForm().payload(record, "gw/") or b"").value == NOISY
    assert MqttForm("text").payload(record, "gw/") == b"0.269"
    assert b'"v":0.269,' in (MqttForm("json").payload(record, "gw/") or b"")


def test_a_command_shows_all_digits_of_a_counter() -> None:
    pack = json.dumps([{"n": "a", "v": 123456789.0, "t": 0}, {"n": "b", "v": NOISY, "t": 0}])
    assert [line.split()[1] for line in readings(pack.encode(), CONTENT_FORMAT)] == [
        "123456789",
        "0.269",
    ]


def test_a_table_says_the_resolution_and_the_class_does_else() -> None:
    table = {"type": "switch", "name": "pump"}
    (one,) = Workshop().build([{**table, "resolution": 0.5}])
    assert one.sensor.resolution == 0.5
    for wrong in (0, -1, "fine", float("inf")):
        with pytest.raises(SensorConfigError, match="resolution"):
            Workshop().build([{**table, "resolution": wrong}])
    with pytest.raises(ValueError, match="resolution"):
        Disk("disk", resolution=0)
    assert Disk("disk", resolution=0.1).resolution == 0.1
    assert {one.resolution for one in host_sensors() if one.unit == "/"} == {0.001}

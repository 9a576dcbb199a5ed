"""Readings on MQTT: as msgpack, SenML JSON or plain text, retained or not, as each sensor says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from hypothesis import given
from hypothesis import strategies as st
from mqtt_peer import Peer

from cloud_ingest import measurements
from gateway.mqtt import PingReq, PingResp, Publish
from gateway.sensors.catalogue import build_sensors
from gateway.sensors.mqtt_form import FORMATS, MqttForm, plain
from gateway.sensors.options import SensorConfigError
from gateway.sensors.recorded import names
from record_formats.record import Record

RECORD = Record("roof/temperature", "Cel", 21.5, 1_760_000_000.0, 7)

Start = Callable[[str], Awaitable[FleetGateway]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(21.5, "21.5"), (1.0, "1"), (0.0, "0"), (-0.0, "0"), (-3.0, "-3"), (1e22, "1e+22")],
)
def test_text_is_the_number_as_a_person_writes_it(value: float, text: str) -> None:
    assert plain(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(FORMATS))
def test_the_tables_read_the_same_value_from_every_format(value: float, form: str) -> None:
    record = Record("a/b", "Cel", value, 1_760_000_000.0, 7)
    (found,) = measurements.decode(MqttForm(form).payload(record, "gw/"))
    # In decimal 15 digits are written, as in SenML; what is recorded is exact.
    assert found.value == (value if form == "msgpack" else pytest.approx(value, rel=1e-14))


def test_json_is_what_coap_answers() -> None:
    assert json.loads(MqttForm("json").payload(RECORD, "gw-a/")) == [
        {"bn": "gw-a/", "n": "roof/temperature", "u": "Cel", "v": 21.5, "t": 1_760_000_000.0}
    ]


def test_what_a_sensor_does_not_say_is_msgpack_and_not_retained() -> None:
    (built,) = build_sensors([{"type": "switch", "name": "a"}])
    assert built.form == MqttForm("msgpack", retain=False)
    assert built.form.payload(RECORD, "gw-a/") == RECORD.encode()


def test_all_sensors_of_a_table_have_its_form() -> None:
    built = build_sensors([{"type": "host", "format": "json", "retain": True}])
    assert len(built) > 3
    assert {each.form for each in built} == {MqttForm("json", retain=True)}


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    fleet = Fleet(tmp_path)

    async def started(sensors: str) -> FleetGateway:
        gateway = fleet.gateway("gw-a", tls=False)
        gateway.mqtt = sensors
        await gateway.start()
        return gateway

    yield started
    await fleet.stop()


async def client(gateway: FleetGateway) -> Peer:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), version=4)
    assert await peer.connect("probe") == 0
    return peer


async def next_message(peer: Peer) -> Publish:
    while not isinstance(packet := await peer.next(), Publish):
        assert packet is not None, "the gateway ended the connection"
    return packet


SENSORS = """
[[sensors]]
type = "switch"
name = "plain"
interval_s = 0.1
format = "text"
retain = true
[[sensors]]
type = "switch"
name = "senml"
interval_s = 0.1
format = "json"
[[sensors]]
type = "switch"
name = "packed"
interval_s = 0.1
"""


async def test_a_gateway_publishes_each_sensor_as_its_table_says(start: Start) -> None:
    peer = await client(await start(SENSORS))
    await peer.subscribe("-/-/gw-a/#")
    seen: dict[str, Any] = {}
    while len(seen) < 3:
        message = await next_message(peer)
        seen[message.topic.removeprefix("-/-/gw-a/")] = message.payload
    assert seen["plain"] == b"0"
    (record,) = json.loads(seen["senml"])
    assert (record["bn"], record["n"], record["u"], record["v"]) == ("gw-a/", "senml", "/", 0.0)
    assert seen["packed"][0] & 0xF0 == 0x80
    peer.close()


async def test_who_subscribes_late_gets_the_last_reading_of_a_retained_sensor(
    start: Start,
) -> None:
    gateway = await start(SENSORS.replace("0.1", "3600"))
    retention = gateway.process.parts.broker.core.retention
    sampler = gateway.process.parts.readings.sampler
    await until(lambda: {sampler.state_of(one) for one in sampler.sensors} == {"good"})
    await until(lambda: retention.get("-/-/gw-a/plain") is not None)
    peer = await client(gateway)
    await peer.subscribe("-/-/gw-a/plain")
    message = await next_message(peer)
    assert (message.payload, message.qos, message.retain) == (b"0", 1, True)
    await peer.subscribe("-/-/gw-a/senml")
    peer.send(PingReq())
    while isinstance(packet := await peer.next(), Publish):
        assert not packet.retain  # it may be the first reading, on its way yet
    assert isinstance(packet, PingResp)
    peer.close()


def test_a_wrong_format_names_its_table() -> None:
    with pytest.raises(SensorConfigError, match=r"sensors\[1\]\.format: 'senml' is none of"):
        build_sensors(
            [
                {"type": "replay", "series": names()[0], "format": "text"},
                {"type": "switch", "name": "a", "format": "senml"},
            ]
        )


@pytest.mark.parametrize("form", FORMATS)
def test_a_reading_without_a_value_is_published_only_where_the_format_has_a_way(form: str) -> None:
    bad = Record("roof/temperature", "Cel", None, 1_760_000_000.0, 7, "bad")
    payload = MqttForm(form).payload(bad, "gw/")
    assert payload == (bad.encode() if form == "msgpack" else None)

"""Sensors of a real gateway that fail, hang at one value or leave their range are told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer

from gateway.mqtt import Version

RULES = ("sensor-silent", "sensor-stuck", "sensor-range")
ALERTS = """
[alerts]
look_s = 0.1
after_s = {{sensor-range = 0}}
off = ["clock-not-kept", "disk-full", "hot"]
[[sensors]]
type = "mqtt"
name = "tank"
topic = "meter/tank"
interval_s = {interval_s}
alerts = {alerts}
"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    fleet = Fleet(tmp_path)
    yield fleet.gateway("gw-a", tls=False)
    await fleet.stop()


def told(gateway: FleetGateway) -> dict[str, str]:
    watch = gateway.process.parts.alerts
    assert watch is not None
    document: Any = watch.document()
    return {one["rule"]: one["part"] for one in document["alerts"] if one["rule"] in RULES}


async def says(gateway: FleetGateway, *values: float) -> None:
    port = gateway.process.mqtt_port
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
    assert await peer.connect("meter") == 0
    for value in values:
        await peer.publish("meter/tank", str(value).encode())
    peer.close()


async def test_a_value_out_of_range_is_told_and_its_removal_ends_it(gateway: FleetGateway) -> None:
    gateway.access = ALERTS.format(interval_s=300, alerts="{low = 0.5, high = 4.0}")
    await gateway.start()
    await says(gateway, 1.0, 7.0)
    await until(lambda: told(gateway) == {"sensor-range": "tank"})
    gateway.access = gateway.access.partition("[[sensors]]")[0]
    gateway.write()
    await gateway.process.reload()
    await until(lambda: not gateway.process.parts.readings.sensors)


async def test_a_sensor_that_says_nothing_is_told_until_it_speaks(gateway: FleetGateway) -> None:
    gateway.access = ALERTS.format(interval_s=1, alerts="{silent_s = 1}")
    await gateway.start()
    await until(lambda: told(gateway) == {"sensor-silent": "tank"})
    await says(gateway, 1.0)
    await until(lambda: told(gateway) == {})


async def test_a_sensor_that_says_the_same_is_stuck(gateway: FleetGateway) -> None:
    gateway.access = ALERTS.format(interval_s=300, alerts="{stuck_s = 0.1}")
    await gateway.start()
    await says(gateway, *[3.0] * 12)
    await until(lambda: told(gateway) == {"sensor-stuck": "tank"})
    await says(gateway, 4.0)
    await until(lambda: told(gateway) == {})

"""The end of a gateway's process: clients are told of it, and no will is published."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fleet_gateway import FleetGateway
from mqtt_peer import Peer

from gateway.mqtt import Disconnect, ReasonCode, Version, Will


async def client(gateway: FleetGateway, client_id: str, will: Will | None = None) -> Peer:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), Version.V5)
    given = {"will": will, "clean_start": False, "properties": {17: 100}}
    assert await peer.connect(client_id, **given) == 0
    return peer


async def test_clients_are_told_that_the_gateway_stops_and_their_wills_are_not_published(
    tmp_path: Path,
) -> None:
    gateway = FleetGateway(tmp_path, "gw-a")
    await gateway.start()
    try:
        listening = await client(gateway, "listening")
        assert await listening.subscribe("gone/#") == 1
        leaving = await client(gateway, "leaving", Will("gone/x", b"x", 1, False, {}))
    finally:
        await gateway.stop()
    for peer in (listening, leaving):
        assert await peer.next() == Disconnect(ReasonCode.SERVER_SHUTTING_DOWN, {})
        assert await peer.next() is None
        peer.close()
    await gateway.start()
    try:
        listening = await client(gateway, "listening")
        await listening.nothing_came()
        listening.close()
    finally:
        await gateway.stop()


DRIVER = """
import asyncio
from pathlib import Path

from gateway.sensors.sensor import Sensor


class Slow(Sensor):
    def read(self):
        return 1.0

    async def close(self):
        await asyncio.sleep(0.5)
        (Path(__file__).parent / "given_back").touch()
"""


async def test_a_gateway_has_stopped_when_its_sensors_have_given_back_what_they_hold(
    tmp_path: Path,
) -> None:
    gateway = FleetGateway(tmp_path, "gw-a")
    (tmp_path / "slow_driver.py").write_text(DRIVER)
    gateway.place = f'sensors_dir = "{tmp_path}"'
    gateway.access = '[[sensors]]\ntype = "slow_driver:Slow"\nname = "slow"'
    await gateway.start()
    await gateway.stop()
    assert (tmp_path / "given_back").exists()

"""SIGHUP changes a gateway's sensors while it runs, though drivers of it hang."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from asked_fleet import AskedFleet, AskedGateway
from chain import CONVERGE_S

from gateway.coap_client import CoapClient, Response
from tree_handler.members.place import Place

JSON = 50
_HANGING = """
import threading

from gateway.sensors.sensor import Sensor


class Hanging(Sensor):
    def read(self):
        open(f"{__file__}.{self.name}", "w").close()
        threading.Event().wait()

    def close(self):
        return self.never()

    async def never(self):
        import asyncio

        await asyncio.Event().wait()
"""
_SENSOR = '[[sensors]]\ntype = "{}"\nname = "{}"\ninterval_s = {}\n'


class Reloaded:
    """A gateway and a client of it."""

    def __init__(self, gateway: AskedGateway, client: CoapClient) -> None:
        self.gateway = gateway
        self._client = client
        self._before = gateway.config.read_text()

    async def get(self, path: str, accept: int | None = None) -> Response:
        return await self._client.request("GET", self.gateway.uri(path), accept=accept)

    async def has(self, *names: str) -> None:
        """Wait until its sensors are these."""
        found: set[str] = set()
        try:
            async with asyncio.timeout(CONVERGE_S):
                while found != {*names, "counted"}:
                    told = json.loads((await self.get("/sensors", JSON)).payload)
                    found = {one["name"] for one in told["sensors"]}
        except TimeoutError:
            told = "\n".join(self.gateway.lines)
            raise AssertionError(f"{found}\n{told}") from None

    async def reads(self, name: str, payload: bytes) -> None:
        """Wait until a sensor has its first value, which must be this."""
        async with asyncio.timeout(CONVERGE_S):
            while not (found := await self.get(f"/sensors/{name}", 0)).ok:
                await asyncio.sleep(0.05)
        assert found.payload == payload

    async def hangs(self, name: str) -> None:
        """Wait until a driver hangs in its ``read``."""
        async with asyncio.timeout(CONVERGE_S):
            while not (self.gateway.folder / f"hanging.py.{name}").exists():
                await asyncio.sleep(0.02)

    def reload(self, sensors: str) -> None:
        """Write other sensors and send the signal."""
        self.gateway.config.write_text(self._before + sensors)
        self.gateway.send_signal(signal.SIGHUP)


@pytest.fixture
async def reloaded(tmp_path: Path) -> AsyncIterator[Reloaded]:
    fleet = AskedFleet(tmp_path, [Place("", "")])
    (fleet.gateways[0].folder / "hanging.py").write_text(_HANGING)
    async with fleet, CoapClient() as client:
        yield Reloaded(fleet.gateways[0], client)


async def test_sensors_come_change_and_go_by_the_signal_and_hung_drivers_hold_nothing(
    reloaded: Reloaded,
) -> None:
    hung = "".join(_SENSOR.format("hanging:Hanging", f"hung{one}", 0.1) for one in range(3))
    reloaded.reload(hung + _SENSOR.format("switch", "valve", 5))
    await reloaded.has("hung0", "hung1", "hung2", "valve")
    for one in range(3):
        await reloaded.hangs(f"hung{one}")
    await reloaded.reads("valve", b"0.0")
    # Some that hang go, one stays, and others come meanwhile.
    one_hung = _SENSOR.format("hanging:Hanging", "hung0", 0.1)
    reloaded.reload(one_hung + _SENSOR.format("switch", "pump", 7))
    await reloaded.has("hung0", "pump")
    await reloaded.reads("pump", b"0.0")
    assert (await reloaded.get("/sensors/valve")).code == "4.04"
    # The same name is another sensor: a driver that hangs gives way to one that does not.
    reloaded.reload(_SENSOR.format("switch", "hung0", 5))
    await reloaded.has("hung0")
    await reloaded.reads("hung0", b"0.0")


async def test_a_file_that_is_wrong_leaves_the_sensors_as_they_are_and_says_why(
    reloaded: Reloaded,
) -> None:
    reloaded.reload(_SENSOR.format("switch", "valve", 5))
    await reloaded.has("valve")
    reloaded.reload(_SENSOR.format("switch", "pump", 5) + _SENSOR.format("swich", "fan", 5))
    async with asyncio.timeout(CONVERGE_S):
        while not any("swich" in line for line in reloaded.gateway.lines):
            await asyncio.sleep(0.02)
    await reloaded.has("valve")

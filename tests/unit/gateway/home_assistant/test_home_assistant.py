"""Home Assistant beside running gateways: it finds sensors, sets actuators, and sees who went."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import LIMIT_S, Fleet, FleetGateway, until
from home_assistant_rules import check
from mqtt_peer import Peer

from gateway.mqtt import Publish
from gateway.process.configuration.config import ConfigError

SWITCH = """
[[sensors]]
type = "switch"
name = "pump"
interval_s = 3600.0
"""
OTHER = SWITCH.replace("pump", "lamp")
DISCOVERY = "[home_assistant]\ndiscovery = true\n"
CONFIG = "homeassistant/switch/gw-a/{}/config"


class Listening:
    """A client that keeps the newest message of each topic."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.newest: dict[str, bytes] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (packet := await self._next()) is not None:
            if isinstance(packet, Publish):
                self.newest[packet.topic] = packet.payload

    async def _next(self) -> Any:
        while True:
            try:
                return await self.peer.next()
            except TimeoutError:
                continue

    async def sees(self, topic: str, holds: Callable[[bytes], object]) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            while topic not in self.newest or not holds(self.newest[topic]):
                await asyncio.sleep(0.01)
        return self.newest[topic]

    def stop(self) -> None:
        self._reading.cancel()
        self.peer.close()


class House:
    """Gateways, and clients that stand for Home Assistant."""

    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet(folder)
        self._clients: list[Listening] = []

    def gateway(self, name: str, more: str = "") -> FleetGateway:
        gateway = self.fleet.gateway(name, tls=False)
        gateway.mqtt = more
        return gateway

    async def client(self, gateway: FleetGateway, *filters: str) -> Listening:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), version=4)
        assert await peer.connect(f"ha-{len(self._clients)}") == 0
        for topic_filter in filters[:-1]:
            await peer.subscribe(topic_filter)
        listening = Listening(peer)
        self._clients.append(listening)
        peer.send(_subscribe(filters[-1]))
        return listening

    async def stop(self) -> None:
        for client in self._clients:
            client.stop()
        await self.fleet.stop()


def _subscribe(topic_filter: str) -> Any:
    from gateway.mqtt import Subscribe, SubscriptionRequest

    return Subscribe(9, [SubscriptionRequest(topic_filter, 1)], {})


def command(client: Listening, payload: bytes, qos: int = 1) -> None:
    client.peer.send(Publish("-/-/gw-a/pump/set", payload, qos, False, False, qos or None, {}))


def is_value(value: float) -> Callable[[bytes], bool]:
    return lambda payload: json.loads(payload)[0]["v"] == value


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    await house.stop()


async def test_home_assistant_finds_an_actuator_and_sets_it(house: House) -> None:
    gateway = house.gateway("gw-a", DISCOVERY + SWITCH)
    await gateway.start()
    client = await house.client(gateway, "#")
    fields = check(CONFIG.format("pump"), await client.sees(CONFIG.format("pump"), bool))
    assert fields["state_topic"] == "-/-/gw-a/pump"
    assert fields["command_topic"] == "-/-/gw-a/pump/set"
    await client.sees(fields["availability_topic"], lambda payload: payload == b"online")
    for payload, qos, value in ((b"1", 1, 1.0), (b"0", 0, 0.0), (b'[{"vb":true}]', 0, 1.0)):
        command(client, payload, qos)
        await client.sees(fields["state_topic"], is_value(value))


async def test_a_command_that_can_not_be_carried_out_is_counted_and_sets_nothing(
    house: House,
) -> None:
    gateway = house.gateway("gw-a", DISCOVERY + SWITCH)
    await gateway.start()
    client = await house.client(gateway, "-/-/gw-a/pump")
    for payload in (b"ON", b"0.5", b"nan", b'[{"n":"other","v":1}]', b"[" * 500, b"\xff"):
        command(client, payload)
    await until(lambda: gateway.refusals("command not carried out") == 6)
    command(client, b"")
    command(client, b"1")
    await client.sees("-/-/gw-a/pump", is_value(1.0))
    assert gateway.refusals("command not carried out") == 6


@pytest.mark.parametrize("mode", ["flood", "routed"])
async def test_home_assistant_may_be_at_another_gateway(house: House, mode: str) -> None:
    far = house.gateway("gw-b")
    await far.start(mode=mode)
    near = house.gateway("gw-a", DISCOVERY + SWITCH)
    await near.start(mode=mode, neighbours=[f"127.0.0.1:{far.port}"])
    client = await house.client(far, "homeassistant/#", "-/-/gw-a/#")
    await client.sees(CONFIG.format("pump"), bool)
    await client.sees("-/-/gw-a/availability", lambda payload: payload == b"online")
    await until(lambda: far.links == {"gw-a"})
    async with asyncio.timeout(LIMIT_S):  # in routed mode gw-b has to learn first who listens
        while b'"v":1.0' not in client.newest.get("-/-/gw-a/pump", b""):
            command(client, b"1")
            await asyncio.sleep(0.1)
    await near.stop()
    await client.sees("-/-/gw-a/availability", lambda payload: payload == b"offline")


async def test_an_actuator_that_went_is_taken_back_at_the_next_start(house: House) -> None:
    far = house.gateway("gw-b")
    await far.start()
    near = house.gateway("gw-a", DISCOVERY + SWITCH + OTHER)
    neighbours = [f"127.0.0.1:{far.port}"]
    await near.start(neighbours=neighbours)
    client = await house.client(far, "homeassistant/#")
    for name in ("pump", "lamp"):
        await client.sees(CONFIG.format(name), bool)
    await near.stop()
    near.mqtt = DISCOVERY + SWITCH
    await near.start(neighbours=neighbours)
    await client.sees(CONFIG.format("lamp"), lambda payload: not payload)
    assert client.newest[CONFIG.format("pump")]
    await near.stop()
    near.mqtt = SWITCH  # and without discovery all is
    await near.start(neighbours=neighbours)
    await client.sees(CONFIG.format("pump"), lambda payload: not payload)


async def test_without_discovery_nothing_is_announced_and_no_command_heard(house: House) -> None:
    gateway = house.gateway("gw-a", SWITCH.replace("3600.0", "0.05"))
    await gateway.start()
    client = await house.client(gateway, "#")
    command(client, b"1")
    await client.sees("-/-/gw-a/pump/set", bool)
    seen = client.newest.pop("-/-/gw-a/pump", None)
    await client.sees("-/-/gw-a/pump", lambda payload: payload != seen)
    assert client.newest.keys() == {"-/-/gw-a/pump", "-/-/gw-a/pump/set"}
    (switch,) = gateway.process.parts.readings.sensors
    assert switch.read() == 0.0


async def test_a_wrong_table_is_named_at_the_start(house: House) -> None:
    gateway = house.gateway("gw-a", DISCOVERY + SWITCH + "home_assistant = {qos = 0}\n")
    with pytest.raises(ConfigError, match=r"sensors\[0\].home_assistant.qos: set by the gateway"):
        await gateway.start()

"""The alerts of a gateway are part of its status, and take orders by messages, where it has any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import FleetGateway, until
from mqtt_peer import Peer

from gateway.home_assistant.commands import REFUSED
from gateway.mqtt import Version


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    made = FleetGateway(tmp_path, "gw-a")
    yield made
    await made.stop()


async def test_an_alert_is_taken_on_by_a_message_on_the_gateways_topic(
    gateway: FleetGateway,
) -> None:
    gateway.access = '[alerts.mqtt]\ntopic = "alerts"'
    await gateway.start()
    assert gateway.process.status()["alerts"]["standing"] == 0
    assert "-/-/gw-a/alerts/ack" in gateway.process.parts.readings.command_topics
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), Version.V5)
    assert await peer.connect("desk") == 0
    await peer.publish("-/-/gw-a/alerts/ack", b"none")
    await until(lambda: gateway.refusals(REFUSED) == 1)
    peer.close()


async def test_a_gateway_without_alerts_has_none_in_its_status(gateway: FleetGateway) -> None:
    gateway.access = "[alerts]\nenabled = false"
    await gateway.start(mode="routed")
    status = gateway.process.status()
    assert (status["alerts"], status["drain"], status["backup"]) == (None, None, None)
    assert status["routed"] is not None
    assert (status["id"], status["hierarchy"]["root"]) == ("gw-a", "gw-a")
    assert status["members"] == ["gw-a"]
    gateway.process.parts.drain.start()
    assert gateway.process.status()["drain"] is not None

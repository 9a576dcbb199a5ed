"""A gateway changes its domain and group while it runs, and all that names its place follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer

from gateway.coap_client import request
from gateway.mqtt import Publish

SENSORS = """
[[sensors]]
type = "switch"
name = "valve"
interval_s = 0.2
format = "text"
retain = true
[home_assistant]
discovery = true
"""
POLICY = """version = 1
[[rules]]
who = ["local"]
at = ["harbour"]
deny = ["read /sensors/#"]
"""
BEFORE, AFTER = "campus/north/gw-a", "harbour/-/gw-a"


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[FleetGateway, FleetGateway]]:
    fleet = Fleet(tmp_path)
    moving, other = (fleet.gateway(name, tls=False) for name in ("gw-a", "gw-b"))
    moving.place, moving.mqtt = 'domain = "campus"\ngroup = "north"', SENSORS
    await moving.start(mode="routed")
    await other.start(mode="routed", neighbours=[f"127.0.0.1:{moving.port}"])
    yield moving, other
    await fleet.stop()


def retained(gateway: FleetGateway) -> dict[str, bytes]:
    match = gateway.process.parts.broker.core.retention.match
    return {topic: kept.payload for topic, kept in match("#") if "gw-a" in topic}


async def move(gateway: FleetGateway) -> None:
    gateway.place = 'domain = "harbour"'
    gateway.write(mode="routed")
    await gateway.process.reload()


async def test_topics_records_links_and_commands_follow_and_old_retained_topics_are_cleared(
    pair: tuple[FleetGateway, FleetGateway],
) -> None:
    moving, other = pair
    await until(lambda: f"{BEFORE}/valve" in retained(other))
    await move(moving)

    def place() -> str:
        record = other.process.parts.members.known.get("gw-a")
        assert record is not None
        return record.prefix

    await until(lambda: place() == AFTER)
    await until(lambda: f"{AFTER}/valve" in retained(other))
    await until(lambda: not any(topic.startswith("campus/") for topic in retained(other)))
    status = moving.process.status()
    assert (status["domain"], status["group"]) == ("harbour", "")
    assert status["members"] == ["gw-a", "gw-b"]

    peer = Peer(*await asyncio.open_connection("127.0.0.1", other.port), version=4)
    assert await peer.connect("probe") == 0
    await peer.subscribe(f"{AFTER}/valve")
    while (packet := await peer.next()) is not None:
        if isinstance(packet, Publish) and packet.payload == b"1":
            break
        # What is sent before its gateway is known to listen there is nobody's.
        peer.send(Publish(f"{AFTER}/valve/set", b"1", 0, False, False, None, {}))
    assert packet is not None
    peer.close()


async def test_a_rule_of_the_new_place_holds_as_soon_as_the_gateway_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    fleet = Fleet(tmp_path)
    moving = fleet.gateway("gw-a", tls=False)
    moving.place, moving.mqtt = 'domain = "campus"\ngroup = "north"', SENSORS
    moving.access = f'policy_file = "{tmp_path}/policy.toml"'

    async def read() -> str:
        port = moving.process.parts.coap.coap_port
        return (await request("GET", f"coap://127.0.0.1:{port}/sensors/valve")).code

    try:
        await moving.start(mode="routed")
        assert await read() == "2.05"
        await move(moving)
        assert await read() == "4.01"
    finally:
        await fleet.stop()


async def test_the_directory_and_the_way_to_it_name_the_new_place(
    pair: tuple[FleetGateway, FleetGateway],
) -> None:
    moving, other = pair
    await until(lambda: other.process.parts.members.known.get("gw-a"))
    await move(moving)
    await until(lambda: len(moving.process.parts.members.known) == 2)

    async def read(gateway: FleetGateway, path: str) -> str:
        port = gateway.process.parts.coap.coap_port
        return (await request("GET", f"coap://127.0.0.1:{port}{path}")).payload.decode()

    assert 'd="harbour"' in await read(moving, "/rd-lookup/ep?ep=gw-a")
    assert "north" not in await read(moving, "/rd-lookup/ep?ep=gw-a")
    assert 'domain="harbour"' in await read(moving, "/.well-known/core?href=/sensors/valve")
    record = other.process.parts.members.known

    await until(lambda: record.find("harbour", "-", "gw-a"))
    assert await read(other, f"/q/{AFTER}/sensors/valve") != ""
    assert "is not at campus/north" in await read(other, f"/q/{BEFORE}/sensors/valve")


async def test_what_is_in_force_stays_where_the_new_place_is_wrong(
    pair: tuple[FleetGateway, FleetGateway], caplog: pytest.LogCaptureFixture
) -> None:
    moving, _ = pair
    moving.place = 'group = "north"'
    moving.write(mode="routed")
    await moving.process.reload()
    assert moving.process.status()["domain"] == "campus"
    assert "group without a domain" in caplog.text

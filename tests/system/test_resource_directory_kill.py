"""Endpoints stay registered, at their locations, at a gateway that is killed: a real process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.coap.directory.file import NAME
from gateway.coap_client import CoapClient
from gateway.tools.demo.fleet import OPERATOR, Fleet
from resource_directory.link_format import parse

GATEWAY = "gw-north"
LINKS = b'</temp>;rt="temperature"'


async def located(client: CoapClient, uri: str, name: str) -> str:
    """Return the location at which an endpoint is registered."""
    answer = await client.request("GET", f"{uri}/rd-lookup/ep?ep={name}")
    assert answer.ok, answer.payload
    (link,) = parse(answer.payload)
    return link.href


async def register(client: CoapClient, uri: str, name: str) -> str:
    query = f"ep={name}&base=coap://{name}.example&lt=5000"
    answer = await client.request(
        "POST", f"{uri}/rd?{query}", payload=LINKS, content_format=40, timeout_s=30
    )
    assert answer.code == "2.01", answer.payload
    return await located(client, uri, name)


async def test_a_killed_gateway_comes_back_with_its_registrations(tmp_path: Path) -> None:
    async with Fleet(tmp_path) as fleet:
        await fleet.start_gateway(GATEWAY)
        uri = fleet.members[GATEWAY].coaps
        async with CoapClient(psk_identity=OPERATOR, psk_key=fleet.psk_key) as client:
            before = await register(client, uri, "meter")
            own = await located(client, uri, GATEWAY)
        file = fleet.state_dir(GATEWAY) / NAME
        async with asyncio.timeout(60):
            while not (file.exists() and b"meter" in file.read_bytes()):
                await asyncio.sleep(0.05)
        await fleet.kill(GATEWAY)
        await fleet.start_gateway(GATEWAY)
        async with CoapClient(psk_identity=OPERATOR, psk_key=fleet.psk_key) as client:
            assert await located(client, uri, "meter") == before
            assert await located(client, uri, GATEWAY) == own
            assert await register(client, uri, "other") not in (before, own)
            answer = await client.request("GET", f"{uri}/rd-lookup/res?ep=meter")
            assert answer.payload == b'<coap://meter.example/temp>;rt="temperature"'
            assert (await client.request("POST", f"{uri}{before}?lt=60")).code == "2.04"
            gateway = await client.request("GET", f"{uri}/rd-lookup/ep?d=campus&gp=north")
            assert [link.get("ep") for link in parse(gateway.payload)] == [GATEWAY]

"""Each resource that a gateway has besides its sensors answers where its documents say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway

from gateway.coap_client import CoapClient
from resource_directory.errors import NoSuchRegistrationError, NotOwnerError
from resource_directory.link_format import parse


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    fleet = Fleet(tmp_path)
    made = fleet.gateway("gw", tls=False)
    await made.start()
    yield made
    await fleet.stop()


def base_of(gateway: FleetGateway) -> str:
    return f"coap://127.0.0.1:{gateway.process.parts.coap.coap_port}"


async def test_all_that_an_operator_asks_a_gateway_for_is_at_its_path(
    gateway: FleetGateway,
) -> None:
    base = base_of(gateway)
    async with CoapClient() as client:
        codes = {
            path: (await client.request("GET", f"{base}/{path}")).code
            for path in (
                "status",
                "hierarchy",
                "clients",
                "members",
                "drain",
                "sensors",
                "rd",
                "rd-lookup/res",
                "rd-lookup/ep",
                ".well-known/core",
                "nothing",
            )
        }
    assert codes.pop("drain") == codes.pop("rd") == "4.05"
    assert codes.pop("nothing") == "4.04"
    assert set(codes.values()) == {"2.05"}, codes


async def test_the_links_of_a_gateway_are_to_all_that_it_has(gateway: FleetGateway) -> None:
    async with CoapClient() as client:
        links = (await client.request("GET", f"{base_of(gateway)}/.well-known/core")).payload
    kinds = {link.href: link.get("rt") for link in parse(links)}
    assert kinds == {
        "/.well-known/core": None,
        "/alerts": "hedgerow.alerts",
        "/clients": "hedgerow.clients",
        "/drain": "hedgerow.drain",
        "/hierarchy": "hedgerow.hierarchy",
        "/members": "hedgerow.members",
        "/rd": "core.rd",
        "/rd-lookup/ep": "core.rd-lookup-ep",
        "/rd-lookup/res": "core.rd-lookup-res",
        "/sensors": None,
        "/status": "hedgerow.status",
    }


async def test_who_observes_the_directory_is_told_that_an_operator_took_a_device_out(
    gateway: FleetGateway,
) -> None:
    site, base = gateway.process.parts.site, base_of(gateway)
    async with CoapClient() as client, asyncio.timeout(15):
        made = await client.request(
            "POST", f"{base}/rd?ep=meter&base=coap://10.0.0.9", payload=b"</t>", content_format=40
        )
        assert made.code == "2.01"
        told = aiter(client.observe(f"{base}/rd-lookup/ep?ep=meter"))
        assert b"meter" in (await anext(told)).payload
        site.take_out(made.location)
        assert (await anext(told)).payload == b""
        with pytest.raises(NoSuchRegistrationError):
            site.take_out(made.location)


async def test_the_gateway_s_own_registration_is_taken_out_by_nobody(
    gateway: FleetGateway,
) -> None:
    site = gateway.process.parts.site
    (own,) = site.registry.registrations()
    with pytest.raises(NotOwnerError):
        site.take_out(own.location)
    assert list(site.registry.registrations()) == [own]

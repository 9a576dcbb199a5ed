"""Each resource that a gateway has besides its sensors answers where its documents say."""

from __future__ import annotations

from pathlib import Path

from fleet_gateway import Fleet

from gateway.coap_client import CoapClient


async def test_all_that_an_operator_asks_a_gateway_for_is_at_its_path(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    gateway = fleet.gateway("gw", tls=False)
    await gateway.start()
    try:
        base = f"coap://127.0.0.1:{gateway.process.parts.coap.coap_port}"
        async with CoapClient() as client:
            codes = {
                path: (await client.request("GET", f"{base}/{path}")).code
                for path in (
                    *("status", "hierarchy", "clients", "members", "drain", "sensors"),
                    *("rd", "rd-lookup/res", "rd-lookup/ep", ".well-known/core", "nothing"),
                )
            }
    finally:
        await fleet.stop()
    assert codes.pop("drain") == codes.pop("rd") == "4.05"
    assert codes.pop("nothing") == "4.04"
    assert set(codes.values()) == {"2.05"}, codes

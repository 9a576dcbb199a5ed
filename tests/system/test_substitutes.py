"""Goal: what one gateway knows is asked at another though the parent of both is gone (A2).

Method: three processes with mutual TLS; two have the third as their only neighbour, which is killed
for good, and comes back.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import fleet_keys
import pytest
from asked_fleet import AskedGateway
from brokers import START_S

from gateway.coap_client import ClientError, CoapClient
from tree_handler.members.place import Place


async def answered(client: CoapClient, at: AskedGateway, of: AskedGateway) -> None:
    """Wait until one gateway answers for another."""
    async with asyncio.timeout(START_S):
        while True:
            try:
                if (await client.request("GET", at.uri(of.path), timeout_s=2.0)).ok:
                    return
            except ClientError:
                pass
            await asyncio.sleep(0.05)


async def status(client: CoapClient, of: AskedGateway) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((await client.request("GET", of.uri("/status"))).payload)
    return told


@pytest.mark.soak
async def test_two_whose_parent_is_killed_ask_each_other_and_return_when_it_is_back(
    tmp_path: Path,
) -> None:
    certificates = tmp_path / "certificates"
    fleet_keys.issue(certificates, "gw-root", "gw-a", "gw-b")
    made = dict[str, AskedGateway]()
    for number, (name, place) in enumerate(
        {"gw-root": Place("", ""), "gw-a": Place("north", ""), "gw-b": Place("south", "")}.items()
    ):
        dialled = [made["gw-root"].link_port] if made else []
        made[name] = one = AskedGateway(
            tmp_path, name, place, dialled, 1000.0 - number, certificates
        )
        one.config.write_text(
            one.config.read_text().replace("[tree]\n", "[tree]\nsubstitute_after_s = 1.0\n")
        )
    root, a, b = made.values()
    try:
        await asyncio.gather(*(one.start() for one in made.values()))
        async with CoapClient() as client:
            await answered(client, a, b)
            root.kill()
            await root.ended()
            await asyncio.gather(answered(client, a, b), answered(client, b, a))
            dialled = [(await status(client, one))["dialling"]["substitute"] for one in (a, b)]
            assert sum(dialled) >= 1
            assert max(dialled) == 1
            await root.start()
            await asyncio.gather(answered(client, a, root), answered(client, b, root))
            async with asyncio.timeout(START_S):
                while any(
                    [(await status(client, one))["dialling"]["substitute"] for one in (a, b)]
                ):
                    await asyncio.sleep(0.05)
            await asyncio.gather(answered(client, a, b), answered(client, b, a))
    finally:
        await asyncio.gather(*(one.stop() for one in made.values() if one.is_running))

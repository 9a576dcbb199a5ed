"""The page of a gateway that is one of two: the tree, and messages that come from the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer
from page_gateway import LIMIT_S, Looker

from gateway.mqtt import Version


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


async def looking_at(gateway: FleetGateway, session: aiohttp.ClientSession) -> Looker:
    told = json.loads((gateway.folder / "state" / "listeners.json").read_text())
    made = Looker(session, f"http://{told['console']}")
    made.csrf = (await made.get("me"))[1]["csrf"]
    return made


@pytest.mark.parametrize("mode", ["flood", "routed"])
async def test_the_tree_is_shown_and_messages_of_the_other_gateway_are_seen(
    fleet: Fleet, mode: str
) -> None:
    north, south = fleet.gateway("gw-north", tls=False), fleet.gateway("gw-south", tls=False)
    north.access = "[console]\nport = 0\nweb = true\n"
    south.access = "[console]\nenabled = false\n"
    await south.start(mode=mode)
    await north.start(mode=mode, neighbours=[f"127.0.0.1:{south.port}"])
    await until(lambda: north.links and south.links)
    reader, writer = await asyncio.open_connection("127.0.0.1", south.port)
    pen = Peer(reader, writer, Version.V5)
    assert await pen.connect("pen") == 0
    async with aiohttp.ClientSession() as session:
        look = await looking_at(north, session)
        async with asyncio.timeout(LIMIT_S):
            while True:
                _, tree = await look.get("tree")
                if set(tree["gateways"]) == {"gw-north", "gw-south"}:
                    break
                await asyncio.sleep(0.1)
        assert len(tree["roots"]) == 1
        _, told = await look.get("messages", filter="hall/+")
        seen: list[Any] = []
        number = 0
        async with asyncio.timeout(LIMIT_S):
            while not seen:  # in routed mode the other one hears first what is wanted here
                number += 1
                await pen.publish("hall/door", f"open {number}".encode())
                _, told = await look.get("messages", filter="hall/+", after=0, wait_s=1)
                seen = told["messages"]
        assert seen[0]["topic"] == "hall/door"
        rang = {"topic": "bell", "payload": "ding"}
        await pen.subscribe("bell")
        async with asyncio.timeout(LIMIT_S):
            while True:
                assert (await look.ask("POST", "messages", rang))[0] in (200, 429)
                heard = await heard_within(pen, 0.5)
                if heard is not None:
                    break
        assert heard.topic == "bell"


async def heard_within(peer: Peer, most_s: float) -> Any:
    try:
        async with asyncio.timeout(most_s):
            return await peer.next()
    except TimeoutError:
        return None

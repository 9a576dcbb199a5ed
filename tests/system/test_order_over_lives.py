"""A durable subscriber is away while its gateway and the origin are killed, again and again.

When it comes back it gets what it was owed, each message once, those of an earlier life of the
origin before those of a later one, whichever mode brought them over which links in which order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from chain import CONVERGE_S, Chain, TreeGateway
from mqtt_peer import Peer

from gateway.mqtt import PingReq, PingResp, PubAck, Publish

LIVES = 3
PER_LIFE = 30
LAST = "last"


@asynccontextmanager
async def subscriber(one: TreeGateway, *topic_filters: str) -> AsyncIterator[Peer]:
    """A client whose session is kept while it is away; without filters it comes back to it."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", one.port), 4)
    assert await peer.connect("away", clean_start=False) == 0
    for topic_filter in topic_filters:
        await peer.subscribe(topic_filter, qos=1)
    yield peer
    peer.close()


async def received(peer: Peer) -> list[str]:
    """Acknowledge what comes up to the answer to a ping; return the payloads."""
    got = []
    peer.send(PingReq())
    while not isinstance(packet := await peer.next(), PingResp):
        assert isinstance(packet, Publish), packet
        got.append(packet.payload.decode())
        peer.send(PubAck(packet.packet_id))
    return got


async def hears(peer: Peer, origin: TreeGateway) -> None:
    """Wait until the origin knows that somebody subscribes."""
    async with asyncio.timeout(CONVERGE_S):
        while not await received(peer):
            await send(origin, "known")
            await asyncio.sleep(0.1)


async def send(one: TreeGateway, *payloads: str) -> None:
    async with one.client("writer", 4) as writer:
        for payload in payloads:
            assert await writer.publish("site/reading", payload.encode()) == 0


async def kill(one: TreeGateway) -> None:
    one.kill()
    await one.ended()


def of_a_life(origin: TreeGateway, life: int) -> list[str]:
    return [f"{origin.gateway_id} {life}.{number:02}" for number in range(PER_LIFE)]


@pytest.mark.parametrize(
    "mode",
    [
        "flood",
        pytest.param("routed", marks=pytest.mark.soak("the same in another mode")),
        pytest.param("topic", marks=pytest.mark.soak("the same in another mode")),
    ],
)
async def test_who_was_away_gets_each_origins_lives_in_order_though_all_gateways_were_killed(
    tmp_path: Path, mode: str
) -> None:
    async with Chain(tmp_path, 3, mode=mode) as chain:
        a, b, c = chain.gateways
        async with subscriber(c, "site/#") as reader:
            await hears(reader, a)
            await received(reader)
        for life in range(LIVES):
            if life % 2:  # the way to it is cut too, so that several lives arrive at once
                await kill(b)
            else:
                await kill(c)
            await send(a, *of_a_life(a, life))
            if life % 2:
                await send(c, *of_a_life(c, life))
            await kill(a)
            for one in chain.gateways:
                if not one.is_running:
                    await one.start()
        await send(a, LAST)
        got: list[str] = []
        async with subscriber(c) as reader, asyncio.timeout(CONVERGE_S):
            while LAST not in got:
                got += await received(reader)
    of_a = [one for one in got if one.startswith("a ")]
    of_c = [one for one in got if one.startswith("c ")]
    assert of_a == [one for life in range(LIVES) for one in of_a_life(a, life)]
    assert of_c == [one for life in range(1, LIVES, 2) for one in of_a_life(c, life)]

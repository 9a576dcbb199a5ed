"""Routed mode between real gateways in a line: who carries what, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chain import CONVERGE_S, HELLO_S, Chain, TreeGateway
from mqtt_peer import Peer

from gateway.coap_client import request
from gateway.mqtt import PingReq, PingResp, PubAck, Publish
from tree_handler import batch
from tree_handler.batch import Header


async def status(one: TreeGateway) -> dict[str, Any]:
    coap = json.loads((one.state / "listeners.json").read_text())["coap"]
    answer = await request("GET", f"coap://{coap}/status", timeout_s=10)
    told: dict[str, Any] = json.loads(answer.payload)
    return told


async def know(chain: Chain, **filters: list[str]) -> None:
    """Wait until all gateways that run know of each other, and of these filters, and of no more."""
    running = [one for one in chain.gateways if one.is_running]
    there = {one.gateway_id for one in running} | filters.keys()
    wanted: dict[str, list[str]] = {one.gateway_id: [] for one in chain.gateways} | filters
    told: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(CONVERGE_S):
            while True:
                told = list(await asyncio.gather(*map(status, running)))
                if all(
                    {i: r["subscribes"] for i, r in s["routed"]["interests"].items()} == wanted
                    and set(s["reached"]) == there - {s["id"]}
                    for s in told
                ):
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError([(s["routed"], s["reached"]) for s in told]) from None


@asynccontextmanager
async def subscriber(one: TreeGateway, topic_filter: str = "") -> AsyncIterator[Peer]:
    """A client whose session is kept while it is away; without a filter it comes back to it."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", one.port), 4)
    assert await peer.connect(f"sub-{one.gateway_id}", clean_start=False) == 0
    if topic_filter:
        await peer.subscribe(topic_filter, qos=1)
    yield peer
    peer.send(PingReq())  # behind the acknowledgements
    assert isinstance(await peer.next(), PingResp)
    peer.close()


async def receive(peer: Peer, *expected: str) -> None:
    """Take just these messages, in this order, each once."""
    got = []
    while len(got) < len(expected):
        packet = await peer.next()
        assert isinstance(packet, Publish), packet
        got.append(packet.payload.decode())
        if packet.qos:
            peer.send(PubAck(packet.packet_id))
    assert got == list(expected)


async def send(one: TreeGateway, topic: str, *payloads: str) -> None:
    async with one.client("writer", 4) as writer:
        for payload in payloads:
            assert await writer.publish(topic, payload.encode()) == 0


def kept(one: TreeGateway) -> Counter[str]:
    """Count how often each message of clients stands in a gateway's log."""
    return kept_in(one.state / "log")


def kept_in(log: Path) -> Counter[str]:
    """The same of a log's or spool's folder."""
    found: Counter[str] = Counter()
    for path in sorted(log.glob("*.log")):
        data = path.read_bytes()
        for at, header in batch.frames(data):
            if is_clients(header):
                found.update(
                    entry.payload.decode()
                    for entry in batch.decode(data[at : at + header.end], header)
                )
    return found


def is_clients(header: Header) -> bool:
    return header.logged and not header.control


async def test_only_gateways_on_the_way_carry_a_message_and_only_those_that_want_it_keep_it(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 4, mode="routed") as chain:
        a, b, c, d = chain.gateways
        async with subscriber(c, "site/+/temperature") as reader:
            await know(chain, c=["site/+/temperature"])
            before = [await status(one) for one in chain.gateways]
            await send(a, "site/1/temperature", "1", "2")
            await send(a, "site/1/humidity", "3")
            await send(a, "other", "4")
            await send(a, "site/2/temperature", "5")
            await receive(reader, "1", "2", "5")
            after = [await status(one) for one in chain.gateways]
        carried = [
            s["routed"]["counters"].get("carried", 0) - t["routed"]["counters"].get("carried", 0)
            for s, t in zip(after, before, strict=True)
        ]
        assert carried == [3, 3, 0, 0]
        assert [sum(kept(one).values()) for one in (a, b, c, d)] == [5, 0, 3, 0]


async def test_a_late_subscription_with_a_wildcard_gets_what_is_published_from_then_on(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 4, mode="routed") as chain:
        a, _, _, d = chain.gateways
        await know(chain)
        await send(a, "x/y", "early")
        async with subscriber(d, "x/#") as reader:
            await know(chain, d=["x/#"])
            await send(a, "x/y", "late")
            await receive(reader, "late")
            await send(d, "x", "own")
            await receive(reader, "own")
        assert kept(d) == {"late": 1, "own": 1}


async def test_nothing_is_lost_or_doubled_while_gateways_on_the_way_and_the_origin_are_killed(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 4, mode="routed") as chain:
        a, b, _, d = chain.gateways
        async with subscriber(d, "#") as reader:
            await know(chain, d=["#"])
            await send(a, "t", "1")
            await receive(reader, "1")
            b.kill()
            await b.ended()
            await send(a, "t", "2", "3")  # acknowledged, and nobody can have them yet
            a.kill()
            await a.ended()
            await b.start()
            await a.start()
            await receive(reader, "2", "3")
            await send(a, "t", "4")
            await receive(reader, "4")
            b.kill()
            await b.ended()
            await send(a, "u", "5")
            await b.start()
            await receive(reader, "5")
            await send(a, "u", "6")
            await receive(reader, "6")
        assert kept(d) == {str(n): 1 for n in range(1, 7)}
        assert kept(b) == Counter()


async def test_what_a_client_that_is_away_wants_waits_at_its_gateway_though_that_was_killed(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 3, mode="routed") as chain:
        a, _, c = chain.gateways
        async with subscriber(c, "a/+") as reader:
            await know(chain, c=["a/+"])
            await send(a, "a/1", "1")
            await receive(reader, "1")
        await send(a, "a/1", "2")
        c.kill()
        await c.ended()
        await send(a, "a/2", "3")
        await send(a, "b", "4")
        await c.start()
        await know(chain, c=["a/+"])
        await send(a, "a/3", "5")
        async with subscriber(c) as reader:
            await receive(reader, "2", "3", "5")


async def test_retained_messages_and_deletions_reach_all_whoever_wants_them(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 3, mode="routed") as chain:
        a, _, c = chain.gateways
        await know(chain)
        await a.publish({"site/door": b"open", "site/valve": b"shut"})
        await chain.all_retain({"site/door": b"open", "site/valve": b"shut"})
        c.kill()
        await c.ended()
        await a.publish({"site/door": b"", "site/new": b"1"})
        await c.start()
        await chain.all_retain({"site/valve": b"shut", "site/new": b"1"})


async def test_a_collector_gets_everything_that_is_accepted_once_it_is_known(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 2, mode="routed") as chain:
        a, b = chain.gateways
        config, spool = tmp_path / "collector.toml", tmp_path / "spool"
        config.write_text(
            f"""
[collector]
id = "collector"
spool_dir = "{spool}"
[tree]
key_file = "{a.config.parent}/tree.key"
tls = "off"
discovery = false
neighbours = ["127.0.0.1:{a.port}"]
hello_s = {HELLO_S}
mode = "routed"
"""
        )
        collector = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cloud_ingest.collector.command", "--config", str(config))
        )
        try:
            await know(chain, a=[], b=[], collector=["#"])
            await send(b, "x/y", "1", "2")
            await send(a, "z", "3")
            async with asyncio.timeout(CONVERGE_S):
                while kept_in(spool) != {"1": 1, "2": 1, "3": 1}:
                    await asyncio.sleep(0.05)
        finally:
            collector.terminate()
            await collector.wait()

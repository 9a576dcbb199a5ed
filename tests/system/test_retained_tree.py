"""Retained messages in a tree of real gateways: alike everywhere, for newcomers too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from chain import OFTEN_S, Chain, retains
from mqtt_peer import Peer

from gateway.mqtt import PubAck, Publish, Will

pytestmark = pytest.mark.timeout(180)


async def test_what_is_retained_at_one_gateway_is_there_for_a_late_subscriber_at_another(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path) as chain:
        a, _, c = chain.gateways
        await a.publish({"site/door": b"open", "site/valve": b"shut"})
        await chain.all_retain({"site/door": b"open", "site/valve": b"shut"})
        await retains(c, {"site/door": b"open"}, "site/door")


async def test_a_deletion_reaches_all_and_one_that_was_away_and_comes_back(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path) as chain:
        a, b, c = chain.gateways
        await a.publish({"site/door": b"open", "site/valve": b"shut"})
        await chain.all_retain({"site/door": b"open", "site/valve": b"shut"})
        await b.publish({"site/door": b""})
        await chain.all_retain({"site/valve": b"shut"})
        c.kill()
        await c.ended()
        await b.publish({"site/valve": b"", "site/new": b"1"})
        await retains(a, {"site/new": b"1"})
        await c.start()
        await chain.all_retain({"site/new": b"1"})
        for one in chain.gateways:
            one.kill()
            await one.ended()
        await asyncio.gather(*(one.start() for one in chain.gateways))
        await chain.all_retain({"site/new": b"1"})


async def test_what_is_written_on_both_sides_of_a_cut_becomes_one_thing_everywhere(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path) as chain:
        a, b, c = chain.gateways
        before = {"one": b"0", "two": b"0", "three": b"0"}
        await a.publish(before)
        await chain.all_retain(before)
        chain.paths[0].kill()
        await a.publish({"one": b"a", "two": b"a", "three": b""})
        await c.publish({"one": b"", "two": b"c"})
        await retains(b, {"two": b"c", "three": b"0"})
        await a.publish({"one": b"last"})
        await chain.paths[0].start()
        await chain.all_retain({"one": b"last", "two": b"c"})


async def test_a_gateway_with_an_empty_disk_gets_all_that_is_retained_after_logs_were_trimmed(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 2, max_bytes=64 << 10) as chain:
        a, b = chain.gateways
        kept = {f"site/{at}": b"%d" % at * 20 for at in range(40)}
        await a.publish(kept | {"gone": b"x"})
        await b.publish({"gone": b"", "late": b"b"})
        kept["late"] = b"b"
        async with a.client("busy") as busy:
            for _ in range(100):
                assert await busy.publish("noise", bytes(2_000)) == 0
        await chain.all_retain(kept)
        for one in chain.gateways:  # its end makes a checkpoint, and what stands before it may go
            assert await one.stop() == 0
        for one in chain.gateways:
            await one.start()
            async with asyncio.timeout(30):
                while one.log_starts_at == 0:
                    await asyncio.sleep(0.05)
        c = chain.add()
        await c.start()
        await chain.paths[-1].start()
        await retains(c, kept)
        c.kill()
        await c.ended()
        chain.paths[-1].kill()
        await c.start()  # what came from a neighbour outlives a crash as well
        await retains(c, kept)


async def test_who_subscribed_before_a_cut_is_told_once_of_what_the_log_lost_meanwhile(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 2, max_bytes=64 << 10, hello_s=OFTEN_S) as chain:
        a, b = chain.gateways
        await a.publish({"state": b"old", "other": b"same"})
        await chain.all_retain({"state": b"old", "other": b"same"})
        chain.paths[0].kill()
        async with b.client("watcher") as watcher:
            await watcher.subscribe("state")
            assert (await acknowledged(watcher)).payload == b"old"
            await a.publish({"state": b"between"})
            await a.publish({"state": b"new"})
            async with a.client("busy") as busy:
                for _ in range(100):
                    assert await busy.publish("noise", bytes(2_000)) == 0
            assert await a.stop() == 0
            await a.start()
            async with asyncio.timeout(30):
                while a.log_starts_at == 0:
                    await asyncio.sleep(0.05)
            await chain.paths[0].start()
            told = await acknowledged(watcher)
            assert (told.payload, told.retain) == (b"new", False)
            await chain.all_retain({"state": b"new", "other": b"same"})
            await a.publish({"state": b"newest"})
            assert (await acknowledged(watcher)).payload == b"newest"
            await watcher.nothing_came()


async def test_a_will_is_retained_everywhere_like_any_message(tmp_path: Path) -> None:
    async with Chain(tmp_path) as chain:
        a, _, c = chain.gateways
        await a.publish({"status": b"online"})
        await chain.all_retain({"status": b"online"})
        async with c.client("watcher") as watcher:
            await watcher.subscribe("status")
            await acknowledged(watcher)
            async with a.client("device", will=Will("status", b"gone", 1, True, {})) as device:
                device.writer.transport.abort()
            assert (await acknowledged(watcher)).payload == b"gone"
        await chain.all_retain({"status": b"gone"})


async def acknowledged(watcher: Peer) -> Publish:
    """The next message, acknowledged."""
    packet = await watcher.next()
    assert isinstance(packet, Publish), packet
    watcher.send(PubAck(packet.packet_id or 0))
    return packet

"""Topic mode between real gateways in full mesh: short ways, shared overlays, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from chain import CONVERGE_S, HELLO_S, OFTEN_S, TreeGateway
from mqtt_peer import Peer
from test_routed_tree import send, status, subscriber

from gateway.mqtt import PubAck, Publish

pytestmark = pytest.mark.timeout(240)


class Mesh:
    """Gateways ``a``, ``b``, ... each of which dials those before it; ``a`` is the tree's root."""

    def __init__(self, folder: Path, count: int, hello_s: float) -> None:
        self.gateways: list[TreeGateway] = []
        for number in range(count):
            name = chr(ord("a") + number)
            one = TreeGateway(folder / name, name, None, 1 << 20, "topic", hello_s)
            dialled = ", ".join(f'"127.0.0.1:{other.port}"' for other in self.gateways)
            text = one.config.read_text()
            assert "neighbours = []" in text
            one.config.write_text(text.replace("neighbours = []", f"neighbours = [{dialled}]"))
            self.gateways.append(one)

    async def overlay(self, one: TreeGateway, *members: str, topics: int = 1) -> dict[str, Any]:
        """Wait until a gateway uses the overlay of these members; its status."""
        told: dict[str, Any] = {}
        try:
            async with asyncio.timeout(CONVERGE_S):
                while True:
                    told = (await status(one))["routed"]
                    for overlay in told["overlays"]["overlays"]:
                        found = overlay["members"], overlay["topics"], overlay["settled"]
                        if found == (list(members), topics, True):
                            return dict(overlay)
        except TimeoutError:
            raise AssertionError((told, "\n".join(one.lines))) from None


@asynccontextmanager
async def mesh_of(folder: Path, count: int, hello_s: float) -> AsyncIterator[Mesh]:
    mesh = Mesh(folder, count, hello_s)
    await asyncio.gather(*(one.start() for one in mesh.gateways))
    try:
        yield mesh
    finally:
        await asyncio.gather(*(one.stop() for one in mesh.gateways if one.is_running))


async def test_a_message_between_two_members_passes_no_third_gateway(tmp_path: Path) -> None:
    """The common tree is a star around ``a``; the overlay of ``b`` and ``c`` does without it."""
    async with mesh_of(tmp_path, 4, HELLO_S) as mesh:
        _, b, c, _ = mesh.gateways
        async with subscriber(c, "bc/#") as reader:
            await send(b, "bc/1", "advertised")
            await send(b, "bc/2", "too")
            overlay = await mesh.overlay(b, "b", "c", topics=2)
            await mesh.overlay(c, "b", "c", topics=2)
            assert (overlay["root"], overlay["forwarding"]) == ("b", ["c"])
            before = [(await status(one))["routed"]["counters"] for one in mesh.gateways]
            await send(b, "bc/1", "1", "2", "3")
            await send(b, "bc/2", "4")
            # What was published before c was known to want it is not for c.
            await until_received(reader, "1", "2", "3", "4")
            after = [(await status(one))["routed"]["counters"] for one in mesh.gateways]
    carried = [
        now.get("carried", 0) - then.get("carried", 0)
        for now, then in zip(after, before, strict=True)
    ]
    assert carried == [0, 4, 0, 0]


async def test_when_the_root_of_an_overlay_dies_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    async with mesh_of(tmp_path, 4, OFTEN_S) as mesh:
        _, b, c, d = mesh.gateways
        async with subscriber(b, "t"):
            pass  # its session is kept
        async with subscriber(c, "t") as reader:
            await send(d, "t", "advertised")
            for one in (b, c, d):
                assert (await mesh.overlay(one, "b", "c", "d"))["root"] == "b"
            expected = [f"before {n}" for n in range(10)]
            await send(d, "t", *expected)
            b.kill()
            expected += (during := [f"during {n}" for n in range(20)])
            await send(d, "t", *during)
            await b.ended()
            assert (await mesh.overlay(d, "c", "d"))["root"] == "c"
            expected += (after := [f"after {n}" for n in range(10)])
            await send(d, "t", *after)
            await until_received(reader, *expected)
            await b.start()
            assert (await mesh.overlay(d, "b", "c", "d"))["root"] == "b"
            async with subscriber(b) as returned:
                await until_received(returned, *expected)


async def until_received(reader: Peer, *expected: str) -> None:
    """Take these messages in their order, each once; before them some that were only advertised."""
    early = {"advertised", "too"}
    got: list[str] = []
    async with asyncio.timeout(CONVERGE_S):
        while len(got) < len(expected):
            payload = await payload_of(reader)
            if payload not in early or got:
                got.append(payload)
    assert got == list(expected)


async def payload_of(reader: Peer) -> str:
    packet = await reader.next()
    assert isinstance(packet, Publish), packet
    if packet.qos:
        reader.send(PubAck(packet.packet_id))
    return packet.payload.decode()

"""The newest segment of a gateway's log comes back different after a kill; a neighbour is whole.

Real processes. What the log has lost was acknowledged to its publisher and waits for a client that
is away: it comes from the neighbour and reaches that client without another start, in order.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from chain import CONVERGE_S, Chain, TreeGateway
from mqtt_peer import Peer

from gateway.mqtt import PingReq, PingResp, PubAck, Publish

COUNT = 100
LOST_BYTES = 4_096


async def away(one: TreeGateway) -> Peer:
    """A client whose session is kept while it is away."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", one.port), 4)
    assert await peer.connect("away", clean_start=False) == 0
    return peer


async def received(peer: Peer) -> list[str]:
    """Acknowledge what comes up to the answer to a ping; return the payloads."""
    got = []
    peer.send(PingReq())
    while not isinstance(packet := await peer.next(), PingResp):
        assert isinstance(packet, Publish), packet
        got.append(packet.payload.decode())
        peer.send(PubAck(packet.packet_id))
    return got


async def waiting(one: TreeGateway) -> list[str]:
    """All that comes for the client that was away, as soon as it is as much as is to come."""
    got: list[str] = []
    reader = await away(one)
    async with asyncio.timeout(CONVERGE_S):
        while len(got) < COUNT:
            got += await received(reader)
    got += await received(reader)  # and what was acknowledged last is known to be
    reader.close()
    return got


async def kill(one: TreeGateway) -> None:
    one.kill()
    await one.ended()


def newest_segment(one: TreeGateway) -> Path:
    return max((one.state / "log").glob("*.log"), key=lambda path: int(path.stem))


def lose_tail(segment: Path) -> None:
    with segment.open("r+b") as file:
        file.truncate(max(0, segment.stat().st_size - LOST_BYTES))


def zero_page(segment: Path) -> None:
    data = segment.read_bytes()
    begin = (len(data) - 1) // LOST_BYTES * LOST_BYTES
    segment.write_bytes(data[:begin] + bytes(len(data) - begin))


def flip_bit(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[len(data) * 3 // 4] ^= 0x10
    segment.write_bytes(data)


async def test_what_a_damaged_newest_segment_held_comes_from_the_neighbour_without_a_restart(
    tmp_path: Path,
) -> None:
    async with Chain(tmp_path, 2) as chain:
        a, b = chain.gateways
        for one in (a, b):
            reader = await away(one)
            await reader.subscribe("site/#", qos=1)
            reader.close()
        for damage in (lose_tail, zero_page, flip_bit):
            sent = [f"{damage.__name__} {number:03}" for number in range(COUNT)]
            async with a.client("writer", 4) as writer:
                for payload in sent:
                    assert await writer.publish("site/reading", payload.encode()) == 0
            assert await waiting(b) == sent
            await kill(a)
            damage(newest_segment(a))
            await a.start()
            assert await waiting(a) == sent
        await kill(a)
        await a.start()
        reader = await away(a)
        assert await received(reader) == []
        reader.close()

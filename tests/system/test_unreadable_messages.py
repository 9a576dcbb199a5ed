"""Goal: what a member signs that is no message costs an honest gateway that message, and no more.

A stolen gateway logs and sends rows under its own name that no client could have published. The
honest one keeps its link, as it would lose that to another honest one that passes such rows on; its
clients get what is a message, in packets that can be read; it starts again with all of that in its
log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer

from gateway.mqtt import V5, V311, PropertyId, PubAck, Publish
from tree_handler.batch import Flags, Row

RETAINED = 5
"""With QoS 1."""
ROWS: list[Any] = [
    *(
        ("", 1, b""),
        ("a/#", 1, b""),
        ("a\0", 1, b""),
        ("t" * 70_000, 1, b""),
        ("a/" * 9_000, 5, b""),
    ),
    *(("t", bits, b"") for bits in (3, 7, 8, 9, -1, -8, 2**64 - 1, True)),
    *(("t", RETAINED, b"", {2: expiry}) for expiry in ("soon", None, -5, 1e300, 2**32, 2**64 - 1)),
    *(("t", 1, b"", {38: pairs}) for pairs in (5, "ab", [["a"]], [[1, 2]], [["a", b"b"]])),
    *(
        ("t", 1, b"", {one: 1})
        for one in ("a", b"2", None, 2.5, float("nan"), float("inf"), 99, -1)
    ),
    *(("t", 1, b"", {one: value}) for one, value in ((1, 7), (8, "a/#"), (9, "text"), (3, ["a"]))),
    *(("t", 1, b"", {one: 7}) for one in (11, 35)),
]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


async def subscriber(gateway: FleetGateway, client_id: str, version: int) -> Peer:
    port = gateway.process.mqtt_ports["mqtt"]
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), version)
    lasting = {PropertyId.SESSION_EXPIRY_INTERVAL: 1_000} if version == V5 else {}
    assert await peer.connect(client_id, clean_start=False, properties=lasting) == 0
    return peer


async def gets(peer: Peer, payload: bytes) -> None:
    """It gets a message; what it gets before that can be read, too."""
    while True:
        packet = await peer.next()
        assert isinstance(packet, Publish), packet
        if packet.qos:
            peer.send(PubAck(packet.packet_id))
        if packet.payload == payload:
            return


async def test_what_a_member_signs_that_is_no_message_costs_nothing_but_itself(
    fleet: Fleet,
) -> None:
    issued = fleet.authority.issue("gw-x", is_gateway=True)
    honest, stolen = fleet.gateway("gw-a"), fleet.gateway("gw-x", issued=issued)
    went_wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: went_wrong.append(told))
    await honest.start(capability=2.0, repair_interval_s=0.5)
    to_it = [f"127.0.0.1:{honest.port}"]
    await stolen.start(capability=1.0, neighbours=to_it, repair_interval_s=0.5)
    await until(lambda: honest.process.parts.node.locator.reached == {"gw-x"})
    live = [await subscriber(honest, f"live-{version}", version) for version in (V311, V5)]
    for peer in live:
        await peer.subscribe("#")
    for version in (V311, V5):
        absent = await subscriber(honest, f"absent-{version}", version)
        await absent.subscribe("#")
        absent.close()
    (link,) = honest.process.parts.node.links
    for row in ROWS:
        for flags in (Flags.LOGGED, Flags.NONE):
            say(stolen, row, flags)
    say(stolen, ("t", 1, b"that was all"), Flags.LOGGED)
    for peer in live:
        await gets(peer, b"that was all")
    assert list(honest.process.parts.node.links) == [link]
    await honest.stop()
    await honest.start(capability=2.0)
    for version in (V311, V5):
        await gets(await subscriber(honest, f"absent-{version}", version), b"that was all")
    assert not went_wrong


def say(gateway: FleetGateway, row: Row, flags: int) -> None:
    """Log and send a row; nothing looks at what it is."""
    node = gateway.process.parts.node
    node.exchange.take(node.replication.publish([row], flags, 1))

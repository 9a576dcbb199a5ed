"""Gateways say how they are: a subscriber at another one sees it, and a new parent soon."""

from __future__ import annotations

import asyncio
from pathlib import Path

from chain import Chain
from mqtt_peer import Peer

from gateway.mqtt import PubAck, Publish
from record_formats.status_record import StatusRecord, decode

TOPICS = {f"-/-/{name}/$status" for name in "abc"}


async def next_status(peer: Peer) -> tuple[str, StatusRecord]:
    message = await peer.next()
    assert isinstance(message, Publish), message
    if message.packet_id is not None:
        peer.send(PubAck(message.packet_id))
    return message.topic, decode(message.payload)


def is_one_tree(told: dict[str, StatusRecord]) -> bool:
    """Return whether all are told of, with one root, and the middle one is linked to both."""
    return (
        told.keys() == TOPICS
        and len({record.root for record in told.values()}) == 1
        and [record.parent for record in told.values()].count(None) == 1
        and {link.peer for link in told["-/-/b/$status"].links} == {"a", "c"}
    )


async def test_three_gateways_are_told_of_at_another_one_and_a_cut_soon(tmp_path: Path) -> None:
    async with asyncio.timeout(180):
        chain = Chain(tmp_path)
        for one in chain.gateways:
            text = one.config.read_text()
            # So long that what comes sooner was told because of a change.
            own = "status_interval_s = 600\nlatitude = 52.379\nlongitude = -4.5"
            one.config.write_text(text.replace("status_interval_s = 0", own))
        async with chain, chain.gateways[0].client("watch") as watch:
            await watch.subscribe("+/+/+/$status", qos=1)
            told: dict[str, StatusRecord] = {}
            while not is_one_tree(told):
                topic, record = await next_status(watch)
                told[topic] = record
            b = told["-/-/b/$status"]
            assert b.interval_s == 600 and b.up_s > 0 and b.memory_bytes and b.software
            assert "published" in b.counters
            assert (b.latitude, b.longitude) == (52.379, -4.5)
            chain.paths[1].kill()
            await chain.paths[1].start()
            while True:  # who had lost the root was the root of its part, and no longer is
                topic, record = await next_status(watch)
                if record.reconvergences > told[topic].reconvergences + 1:
                    break

"""The end of a turn, where a part of it fails: nobody else pays for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from log_world import LogWorld, publish

from gateway.broker.durability.persistence import Persistence
from gateway.broker.outbound.channel import Channel
from gateway.mqtt import PingResp, PubAck, Publish, Version

V5 = Version.V5
PING = b"\xc0\0"


async def test_a_tree_that_fails_is_counted_and_the_next_turn_is_as_any() -> None:
    fails = False

    def carries() -> bool:
        if fails:
            raise RuntimeError("no tree")
        return True

    world = LogWorld({"carries_unlogged": carries})
    reader, writer = await world.client(V5, ("t", 0)), await world.client(V5)
    fails = True
    world.send(writer, publish(V5, "t", 0, 0, b"1") + publish(V5, "t", 1, 7, b"2") + PING)
    await world.turn()
    assert [one.payload for one in world.written(reader)] == [b"1", b"2"]
    assert world.written(writer) == [PingResp(), PubAck(7)]
    assert world.core.refusals.counts == {"set aside: end of a turn": 1}
    fails = False
    world.send(writer, publish(V5, "t", 1, 8, b"3"))
    await world.turn()
    assert isinstance(world.written(reader)[-1], Publish)
    assert world.written(writer)[-1] == PubAck(8)
    assert world.core.refusals.counts == {"set aside: end of a turn": 1}


async def test_nothing_leaves_while_what_it_stands_on_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(_: Persistence, channels: Sequence[Channel]) -> None:
        if channels:
            raise RuntimeError("no journal")

    world = LogWorld()
    number = await world.client(V5)
    with monkeypatch.context() as patched:
        patched.setattr(Persistence, "hold_back", failing)
        world.send(number, PING)
        await world.turn()
        assert world.written(number) == []
        kind = "set aside: look at what output stands on"
        assert world.core.refusals.counts == {kind: 1}
    await world.turn()
    assert world.written(number) == []
    world.core.sweep()
    await world.turn()
    assert world.written(number) == [PingResp()]


async def test_a_connection_that_cannot_be_written_to_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LogWorld()
    broken, other = await world.client(V5), await world.client(V5)
    channel = world.clients[broken][0].peer.channel

    def failing(data: Any) -> None:
        raise RuntimeError("no socket")

    monkeypatch.setattr(world.clients[broken][1], "write", failing)
    world.send(broken, PING)
    world.send(other, PING)
    await world.turn()
    assert world.written(other) == [PingResp()]
    assert (channel.is_closing, world.clients[broken][1].is_closed) == (True, True)
    assert world.core.refusals.counts == {"set aside: write to a connection": 1}

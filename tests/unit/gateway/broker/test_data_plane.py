"""The end of a turn, where a part of it fails, and the end of all: nobody else pays for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from log_world import LogWorld, Wire, publish

from gateway.broker.durability.persistence import Persistence
from gateway.broker.inbound.connection import Connection
from gateway.broker.outbound.channel import Channel
from gateway.mqtt import (
    Connect,
    Disconnect,
    PingResp,
    PubAck,
    Publish,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)

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


class EndedWire(Wire):
    """Knows how it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[str] = []

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ends.append("eof")

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")


def came(world: LogWorld, client_id: str, **fields: Any) -> tuple[int, EndedWire]:
    connection, wire = Connection(world.core.service), EndedWire()
    connection.connection_made(wire)
    world.clients.append((connection, wire))
    number = len(world.clients) - 1
    if client_id:
        world.send(number, encode(Connect(V5, client_id, **fields), V5))
    return number, wire


async def test_a_stop_tells_all_clients_and_waits_for_none_that_does_not_read_or_close() -> None:
    world = LogWorld()
    ends = {}
    for name in ("reads", "does not read", "was told before"):
        number, ends[name] = came(world, name)
        await world.turn()
        ends[name].written.clear()
        if name == "does not read":
            world.clients[number][0].pause_writing()
        elif name == "was told before":
            session = world.core.sessions.get(name)
            assert session is not None
            world.core.disconnections.disconnect(session, 0x98, linger=True)
            ends[name].written.clear()
    _, ends["said nothing"] = came(world, "")
    world.core.stop()
    assert {name: wire.ends for name, wire in ends.items()} == {
        "reads": ["close"],
        "does not read": ["close", "abort"],
        "was told before": ["eof", "abort"],
        "said nothing": ["close"],
    }
    told = encode(Disconnect(ReasonCode.SERVER_SHUTTING_DOWN), V5)
    written = {name: bytes(wire.written) for name, wire in ends.items() if wire.written}
    assert written == {"reads": told, "does not read": told}
    _, late = came(world, "")
    assert late.ends != []


@pytest.mark.parametrize("may", [True, False, None])
async def test_what_a_member_leaves_another_users_gets_if_it_may_receive_it(
    *, may: bool | None
) -> None:
    """All may where nobody decides on that."""
    allowed = {"anna", "bob"} if may else {"anna"}
    around = {} if may is None else {"may_deliver": lambda client, _: client.username in allowed}
    world = LogWorld(around)
    subscribe = encode(Subscribe(1, [SubscriptionRequest("$share/g/t", 1)], {}), V5)
    anna, _ = came(world, "anna", username="anna")
    world.send(anna, subscribe)
    await world.turn()
    world.send(anna, publish(V5, "t", 1, 7))
    await world.turn()
    bob, wire = came(world, "bob", username="bob")
    world.send(bob, subscribe)
    await world.turn()
    wire.written.clear()
    world.send(anna, encode(Disconnect(0), V5))
    await world.turn()
    got = [one.topic for one in world.written(bob) if isinstance(one, Publish)]
    assert got == ([] if may is False else ["t"])
    assert world.core.budget.dropped == (may is False)

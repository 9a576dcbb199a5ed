"""The clients of a broker as an operator sees them: whole records, the busiest, and their end."""

from __future__ import annotations

from typing import Any

from log_world import LogWorld

from gateway.broker.client_roll import RANKED_S, ClientRoll, KickResult
from gateway.mqtt import (
    Connect,
    Disconnect,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
    encode,
)

V5, V311 = Version.V5, Version.V311
PING = b"\xc0\0"


async def greeted(world: LogWorld, client_id: str, version: Version = V5, **fields: Any) -> int:
    number = world.opened()
    world.send(number, encode(Connect(version, client_id, **fields), version))
    await world.turn()
    world.clients[number][1].written.clear()
    return number


def roll(world: LogWorld) -> ClientRoll:
    """By a clock of the wall that is 1000 s ahead of the loop's."""
    return ClientRoll(world.core, lambda: world.now_s + 1_000)


async def test_one_is_told_with_all_that_is_known_of_it() -> None:
    world = LogWorld()
    world.now_s = 10.0
    lasts = {"properties": {17: 60}, "will": Will("w", b"")}
    number = await greeted(world, "c", username="anna", **lasts)
    requests = [
        SubscriptionRequest("b/#", 1, no_local=True),
        SubscriptionRequest("a", 2, retain_as_published=True),
    ]
    world.send(number, encode(Subscribe(1, requests, {11: [7]}), V5))
    await world.turn()
    world.now_s = 30.0
    clients = roll(world)
    there: dict[str, Any] = {
        "id": "c",
        "user": "anna",
        "address": "?",
        "protocol": "MQTT 5.0",
        "is_connected": True,
        "since_s": 1_010.0,
        "subscriptions": 2,
        "queued": 0,
        "inflight": 0,
        "dropped": 0,
        "by_certificate": False,
        "roles": None,
        "is_bridge": False,
        "expiry_s": 60,
        "will": "w",
        "queued_bytes": 0,
        "inflight_bytes": 0,
        "buffered_bytes": 0,
        "reads": True,
        "unreleased": 0,
        "filters": [
            {"filter": "a", "qos": 2, "no_local": False}
            | {"retain_as_published": True, "identifier": 7},
            {"filter": "b/#", "qos": 1, "no_local": True}
            | {"retain_as_published": False, "identifier": 7},
        ],
    }
    assert clients.one("c") == there
    world.clients[number][0].pause_writing()
    assert clients.one("c") == there | {"reads": False}
    world.send(number, encode(Disconnect(0), V5))
    away = {"is_connected": False, "since_s": 1_030.0, "will": None, "buffered_bytes": 0}
    assert clients.one("c") == there | away | {"reads": None}
    assert clients.one("d") is None


async def test_the_busiest_are_those_that_are_connected_and_send_the_most_since_the_last_look() -> (
    None
):
    world = LogWorld()
    numbers = {name: await greeted(world, name) for name in "abc"}
    gone = await greeted(world, "gone", V311, clean_start=False)
    world.send(gone, PING * 99)
    world.clients[gone][0].connection_lost(None)
    clients = roll(world)

    async def busiest(count: int = 9) -> list[str]:
        found = await clients.busiest(count)
        assert (found["count"], found["connected"]) == (4, 3)
        return [one["id"] for one in found["clients"]]

    for name, pings in {"a": 1, "b": 3, "c": 2}.items():
        world.send(numbers[name], PING * pings)
    await world.turn()
    world.now_s = RANKED_S
    assert await busiest() == ["b", "c", "a"]
    assert await busiest(2) == ["b", "c"], "since then nobody sent: what came before decides"
    world.send(numbers["a"], PING * 2)
    await world.turn()
    world.now_s = 2 * RANKED_S - 0.01
    assert await busiest(1) == ["a"]
    world.now_s = 2 * RANKED_S
    assert await busiest(1) == ["a"], "a look that comes too soon does not begin anew"
    world.send(numbers["c"], PING)
    await world.turn()
    assert await busiest(1) == ["c"]
    one = (await clients.busiest(1))["clients"][0]
    assert (one["packets_read"], one["packets_sent"]) == (4, 4)


async def test_a_client_that_is_disconnected_may_come_back_unless_it_is_to_be_forgotten() -> None:
    world = LogWorld()
    clients = roll(world)
    results = []
    for forget in (False, True):
        number = await greeted(world, "c", clean_start=False, properties={17: 60})
        results.append(clients.kick("c", forget=forget))
        assert world.written(number)[0].reason == 0x98
        world.clients[number][0].connection_lost(None)
        assert len(world.core.sessions) == (not forget)
    assert results == [KickResult(True, False), KickResult(True, True)]
    assert clients.kick("c") is None
    number = await greeted(world, "away", clean_start=False, properties={17: 60})
    world.clients[number][0].connection_lost(None)
    assert clients.kick("away") == KickResult(False, False)
    assert len(world.core.sessions) == 1
    assert clients.kick("away", forget=True) == KickResult(False, True)
    assert len(world.core.sessions) == 0

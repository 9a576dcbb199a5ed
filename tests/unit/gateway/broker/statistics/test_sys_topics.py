"""The numbers below ``$SYS``: of what each one is."""

from __future__ import annotations

import resource
from typing import Any

from log_world import LogWorld, publish

from gateway.broker.statistics.report import report, use_of_limits
from gateway.broker.statistics.sys_topics import PREFIX, SysTopics, counts, loads, resident_bytes
from gateway.mqtt import Connect, Subscribe, SubscriptionRequest, Version, encode

V5 = Version.V5


async def busy() -> LogWorld:
    """A broker with four clients, of which one is away and one is gone for good."""
    world = LogWorld()
    subscribe = encode(Subscribe(1, [SubscriptionRequest("t/#", 1)], {}), V5)
    shared = encode(Subscribe(2, [SubscriptionRequest("$share/g/none", 1)], {}), V5)
    for client_id, expiry_s in (("away", 60), ("reads", 60), ("writes", 0), ("gone", 0)):
        number = world.opened()
        connect = Connect(V5, client_id, False, properties={17: expiry_s})
        world.send(number, encode(connect, V5))
        await world.turn()
    world.send(0, subscribe)
    world.send(1, subscribe + shared)
    await world.turn()
    for number in (0, 3):
        world.clients[number][0].connection_lost(None)
    for packet_id in (1, 2):
        world.send(2, publish(V5, "t/1", 1, packet_id, bytes(100), retain=packet_id == 2))
    world.send(2, publish(V5, "u", 0, 0, b"1"))
    await world.turn()
    world.core.upkeep.sweep(0.0)
    return world


async def test_each_number_is_of_what_its_name_says() -> None:
    world = await busy()
    traffic = world.core.traffic
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = counts(world.core)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert found.pop("heap/maximum") in range(before_kib * 1024, after_kib * 1024 + 1, 1024)
    assert 1 << 20 < found.pop("heap/current") < 2 * after_kib * 1024
    assert resident_bytes() % resource.getpagesize() == 0
    stored_bytes = found.pop("store/messages/bytes")
    assert stored_bytes > 5 * 100
    read, read_bytes = 4 + 3 + 3, traffic.bytes_read
    assert found == {
        "clients/total": 3,
        "clients/maximum": 4,
        "clients/inactive": 1,
        "clients/disconnected": 1,
        "clients/active": 2,
        "clients/connected": 2,
        "clients/expired": 0,
        "messages/stored": 1 + 2 + 2,
        "messages/received": read,
        "messages/sent": 4 + 3 + 2 + 2,
        "messages/inflight": 2,
        "store/messages/count": 5,
        "subscriptions/count": 2,
        "shared_subscriptions/count": 1,
        "retained messages/count": 1,
        "publish/messages/dropped": 0,
        "publish/messages/received": 3,
        "publish/messages/sent": 2,
        "publish/bytes/received": traffic.published_bytes,
        "publish/bytes/sent": traffic.delivered_bytes,
        "bytes/received": read_bytes,
        "bytes/sent": sum(len(wire.written) for _, wire in world.clients),
    }
    assert loads(world.core) == {
        "messages/received": read,
        "messages/sent": found["messages/sent"],
        "publish/dropped": 0,
        "publish/received": 3,
        "publish/sent": 2,
        "bytes/received": read_bytes,
        "bytes/sent": found["bytes/sent"],
        "sockets": 4,
        "connections": 4,
    }


async def test_a_status_tells_the_same_and_how_much_of_each_limit_is_used() -> None:
    world = await busy()
    core = world.core
    told: dict[str, Any] = report(core)
    assert told["clients"] == {"connected": 2, "disconnected": 1, "maximum": 4, "expired": 0}
    assert told["messages"] == {
        "received": 3,
        "sent": 2,
        "dropped": 0,
        "queued": 2,
        "inflight": 2,
        "retained": 1,
    }
    assert told["bytes"] == {
        "received": core.traffic.bytes_read,
        "sent": core.traffic.bytes_sent,
    }
    assert (told["subscriptions"], told["refusals"]) == (3, {})
    used = {name: one["used"] for name, one in told["limits"].items()}
    assert used == use_of_limits(core)
    assert (used["connections"], used["sessions"], used["retained_messages"]) == (2, 3, 1)
    assert used["retained_bytes"] == core.retention.bytes_held > 100
    assert (used["uncommitted_bytes"], used["all_wills_bytes"]) == (0, 0)
    limits = {name: one["limit"] for name, one in told["limits"].items()}
    assert limits == {name: getattr(core.limits, name) for name in limits}


async def test_each_topic_is_published_when_its_text_has_changed_and_not_again() -> None:
    world = LogWorld()
    number = await world.client(V5, ("$SYS/#", 0))
    topics = SysTopics(world.core, 1_000.0)
    for _ in range(3):
        await world.turn()
    topics.stop()
    found = {one.topic: one.payload for one in world.written(number)}
    assert len(found) == len(world.written(number)) == 2 + len(counts(world.core)) + 3 * 9
    assert found[f"{PREFIX}uptime"] == b"0 seconds"
    assert found[f"{PREFIX}version"].startswith(b"hedgerow version ")
    assert found[f"{PREFIX}load/sockets/15min"] == b"0.00"
    assert found[f"{PREFIX}clients/connected"] == b"1"
    assert {topic for topic, _ in world.core.retention.match("$SYS/#")} == set(found)
    assert (len(world.core.retention), world.logged) == (0, [])

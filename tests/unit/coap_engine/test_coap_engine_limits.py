"""What a flood changes for others, and what it takes."""

from __future__ import annotations

import dataclasses
import tracemalloc

from coap_engine import codes
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    CoapPeer,
)
from coap_engine.rates import Rates
from coap_engine.recent_requests import RecentLimits
from coap_engine.shares import Quota, ShareLimits
from tests.unit.coap_engine.coap_world import (
    STRANGER,
    World,
    get,
)


def test_a_stranger_that_asks_too_much_is_told_so_and_others_are_served() -> None:
    requests = Quota(host=2, strangers=3, principal=9, everybody=9, retry_s=5)
    world = World(EngineLimits(shares=dataclasses.replace(ShareLimits(), requests=requests)))
    other = CoapPeer(("192.0.2.2", 5683), "192.0.2.2")
    for message_id in (1, 2):
        world.ask(get(message_id), STRANGER)
    assert world.receive(get(3), STRANGER) == []
    world.ask(get(4), other)
    assert world.receive(get(5), other) == []
    assert [m.code for m in world.sent()] == [
        codes.TOO_MANY_REQUESTS,
        codes.SERVICE_UNAVAILABLE,
    ]
    world.ask(get(6))


def test_a_host_that_floods_is_told_once_a_second_and_not_read_any_more() -> None:
    datagrams = Rates(host=10, strangers=100)
    world = World(EngineLimits(shares=dataclasses.replace(ShareLimits(), datagrams=datagrams)))
    asked = [a for i in range(200) for a in world.receive(get(i), STRANGER)]
    assert len(asked) == 10
    assert [m.code for m in world.sent()] == [codes.TOO_MANY_REQUESTS]
    assert len(world.receive(get(200))) == 1


def test_no_flood_of_strangers_makes_a_request_be_carried_out_twice() -> None:
    recent = RecentLimits(of_peer=4, of_strangers=8, of_principals=8)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    for number in range(100):
        stranger = CoapPeer((f"192.0.2.{number}", 1), f"192.0.2.{number}")
        world.receive(get(number), stranger)
    assert world.receive(get(1)) == []


def test_no_flood_of_one_peer_makes_a_request_of_another_be_carried_out_twice() -> None:
    recent = RecentLimits(of_peer=4, of_strangers=8, of_principals=8)
    valve = CoapPeer(("session", 2), "valve", "valve", is_address_proven=True)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    for number in range(100):
        world.respond(world.ask(get(number), valve))
    assert world.receive(get(1)) == []
    assert world.engine.remembered_requests == 5


def test_what_is_forgotten_of_a_flood_takes_no_memory_behind_what_is_remembered() -> None:
    recent = RecentLimits(of_peer=4, of_strangers=8, of_principals=8)
    valve = CoapPeer(("session", 2), "valve", "valve", is_address_proven=True)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    world.sent()
    tracemalloc.start()
    try:
        for number in range(4_000):
            world.respond(world.ask(get(number), valve))
            world.sent()
            world.wait(0.0)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 100_000

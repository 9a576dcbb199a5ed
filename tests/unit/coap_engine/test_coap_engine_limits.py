"""A flood of one peer takes a bounded room, and other peers are served."""

from __future__ import annotations

import dataclasses
import tracemalloc

import pytest

from coap_engine import codes
from coap_engine.codec import CON, NON, CoapMessage
from coap_engine.errors import UnknownExchangeError
from coap_engine.limits import EngineLimits
from coap_engine.message import CoapPeer, CoapResponse, ExchangeEnded
from coap_engine.rates import Rates
from coap_engine.recent_requests import RecentLimits
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits
from tests.unit.coap_engine.coap_world import PUMP, STRANGER, TEMPERATURE, World, get


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
    recent = RecentLimits(of_host=4, of_strangers=8, of_principals=8)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    for number in range(100):
        stranger = CoapPeer((f"192.0.2.{number}", 1), f"192.0.2.{number}")
        world.receive(get(number), stranger)
    assert world.receive(get(1)) == []


def test_no_flood_of_one_peer_makes_a_request_of_another_be_carried_out_twice() -> None:
    recent = RecentLimits(of_host=4, of_strangers=8, of_principals=8)
    valve = CoapPeer(("session", 2), "valve", "valve", is_address_proven=True)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    for number in range(100):
        world.respond(world.ask(get(number), valve))
    assert world.receive(get(1)) == []
    assert world.engine.remembered_requests == 5


def test_what_is_forgotten_of_a_flood_takes_no_memory_behind_what_is_remembered() -> None:
    recent = RecentLimits(of_host=4, of_strangers=8, of_principals=8)
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


def test_no_flood_of_one_host_from_many_ports_makes_a_request_of_another_be_carried_out_twice() -> (
    None
):
    recent = RecentLimits(of_host=4, of_strangers=8, of_principals=8)
    world = World(EngineLimits(recent=recent))
    world.ask(get(1), STRANGER)
    for port in range(100):
        world.ask(get(1), CoapPeer(("192.0.2.9", port), "192.0.2.9"))
    assert world.receive(get(1), STRANGER) == []
    assert world.engine.remembered_requests == 5


def test_so_many_bytes_of_answers_are_remembered_of_a_host_and_of_all_and_no_more() -> None:
    recent = RecentLimits(host_bytes=5_000, all_bytes=12_000)
    world = World(EngineLimits(recent=recent))
    hosts = [CoapPeer(("session", n), f"valve-{n}", f"valve-{n}", True) for n in range(3)]
    for host in hosts:
        for number in range(20):
            world.respond(world.ask(get(number), host), CoapResponse(codes.CONTENT, (), bytes(900)))
            world.sent()
    remembered = [n for host in hosts for n in range(20) if not world.receive(get(n), host)]
    # What was forgotten is asked for anew here, so only what stood before that can be told.
    assert remembered[-5:] == [15, 16, 17, 18, 19]
    assert 5 <= len(remembered) <= 13


@pytest.mark.parametrize("message_type", [CON, NON])
def test_what_nobody_answers_is_given_up_and_takes_no_share_for_ever(message_type: int) -> None:
    world = World(EngineLimits(answer_s=20.0))
    message = CoapMessage(message_type, codes.GET, 1, b"", TEMPERATURE)
    asked = world.ask(message)
    world.wait(19.0)
    assert world.engine.shares.requests.held == 1
    world.sent()
    world.wait(2.0)
    assert [m.code for m in world.sent()] == [codes.SERVICE_UNAVAILABLE]
    assert [e.exchange for e in world.engine.events() if isinstance(e, ExchangeEnded)] == [
        asked.exchange
    ]
    assert world.engine.shares.requests.held == world.engine.open_exchanges == 0
    with pytest.raises(UnknownExchangeError):
        world.respond(asked)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        *((code, codes.SERVICE_UNAVAILABLE) for code in (codes.GET, codes.FETCH)),
        *((code, codes.GATEWAY_TIMEOUT) for code in (codes.PUT, codes.POST, codes.DELETE)),
    ],
)
def test_of_a_write_that_nobody_answers_it_is_not_said_that_nothing_was_done(
    code: int, told: int
) -> None:
    world = World(EngineLimits(answer_s=20.0))
    world.ask(CoapMessage(NON, code, 1, b"", TEMPERATURE))
    world.wait(21.0)
    assert [m.code for m in world.sent()] == [told]


def test_rfc_7252_section_4_4_message_ids_are_counted_for_each_peer() -> None:
    world = World()
    quiet = [CoapPeer(("session", n), f"valve-{n}", f"valve-{n}", True) for n in range(2, 22)]

    def message_id(number: int, peer: CoapPeer) -> int:
        world.respond(world.ask(CoapMessage(NON, codes.GET, number, b"", TEMPERATURE), peer))
        return world.sent()[0].message_id

    before = message_id(1, PUMP)
    firsts = [message_id(1, peer) for peer in quiet]
    ids = [message_id(number, PUMP) for number in range(2, 50)]
    assert sorted(ids) == ids or 0 in ids
    assert ids[-1] - before & 0xFFFF >= len(ids)
    untouched = [
        peer
        for peer, first in zip(quiet, firsts, strict=True)
        if message_id(2, peer) == first + 1 & 0xFFFF
    ]
    assert len(untouched) >= len(quiet) - 2  # few peers share a counter


def test_a_message_id_that_is_used_again_after_its_time_is_a_request_of_its_own() -> None:
    """A non-confirmable one is not repeated after 145 s (RFC 7252, section 4.8.2)."""
    world = World()
    again = get(2)
    again.type = NON
    world.ask(get(1))
    world.ask(again)
    world.now += 144.9
    assert world.receive(again) == []
    world.now += 0.1
    world.ask(again)
    assert world.engine.remembered_requests == 2
    world.now += 101.9
    assert world.receive(get(1)) == []
    world.now += 0.1
    world.ask(get(1))
    assert world.receive(again) == []
    assert world.engine.remembered_requests == 2

"""Connections are counted by address, in a second and in all, and given back when they close."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.turns import Turns
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.peer import Peer
from gateway.broker.limits import Limits
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.statistics.traffic import Traffic
from gateway.mqtt import PacketError, Scanner

LIMITS = replace(Limits(), connections_per_address=2, connects_per_s=1_000)


class Unread:
    """Handles no packets: none come."""

    def go_on(self) -> None:
        pass

    def fail(self, error: PacketError) -> None:
        pass


class World:
    """Connections, a clock that stands still until a test moves it, and what was refused."""

    def __init__(self, limits: Limits) -> None:
        self.now = 100.0
        self.refusals = CountedLines(logging.getLogger("test"), lambda: self.now)
        self.connections = Connections(limits, self.refusals, lambda: self.now)
        turns = Turns(lambda: False)
        self._output = PendingWrites(turns, limits, self.refusals, Traffic(), lambda: self.now)

    def open(self, address: str) -> Peer:
        """Somebody connects and says nothing."""
        channel = Channel(self._output)
        channel.address = address
        peer = Peer(channel, Scanner(1_000), Unread())
        self.connections.opened(peer)
        return peer

    def is_refused(self, address: str) -> bool:
        peer = self.open(address)
        self.connections.closed(peer)
        return peer.channel.is_closing


async def test_an_address_has_as_many_connections_as_its_limit_and_not_one_more() -> None:
    world = World(LIMITS)
    assert not world.open("192.0.2.1").channel.is_closing
    assert not world.open("192.0.2.1").channel.is_closing
    assert world.is_refused("192.0.2.1")
    assert not world.is_refused("192.0.2.2")
    assert world.refusals.counts == {"connection over the limit of an address": 1}


async def test_a_connection_that_closes_gives_its_place_back_once_however_often_that_is_told() -> (
    None
):
    world = World(LIMITS)
    first, second = world.open("192.0.2.1"), world.open("192.0.2.1")
    world.connections.closed(first)
    world.connections.closed(first)
    assert list(world.connections) == [second]
    assert not world.open("192.0.2.1").channel.is_closing
    assert world.is_refused("192.0.2.1")


async def test_a_connection_that_was_refused_keeps_no_place() -> None:
    world = World(LIMITS)
    peers = [world.open("192.0.2.1") for _ in range(10)]
    for peer in peers:
        world.connections.closed(peer)
    assert len(world.connections) == 0
    assert world.connections.opened_count == 10
    assert not world.is_refused("192.0.2.1")


@pytest.mark.parametrize("addresses", [["192.0.2.1"], ["192.0.2.1", "192.0.2.2", "192.0.2.3"]])
async def test_a_second_takes_as_many_connections_as_its_limit_from_wherever_they_come(
    addresses: list[str],
) -> None:
    world = World(replace(LIMITS, connects_per_s=4))
    refused = [world.is_refused(addresses[at % len(addresses)]) for at in range(5)]
    assert refused == [False] * 4 + [True]
    assert world.refusals.counts == {"connection over the limit of a second": 1}
    world.now += 0.25
    assert [world.is_refused("192.0.2.9") for _ in range(2)] == [False, True]


async def test_a_broker_that_stops_takes_no_connection_and_keeps_those_that_it_has() -> None:
    world = World(LIMITS)
    before = world.open("192.0.2.1")
    world.connections.take_no_more()
    assert world.is_refused("192.0.2.1")
    assert not before.channel.is_closing
    assert world.refusals.counts == {"connection while stopping": 1}


async def test_of_an_address_with_more_silent_connections_than_its_limit_the_oldest_is_closed() -> (
    None
):
    world = World(replace(LIMITS, connections_per_address=100, unaccepted_per_address=2))
    peers = [world.open("192.0.2.1") for _ in range(3)]
    assert [peer.channel.is_closing for peer in peers] == [True, False, False]
    assert world.refusals.counts == {"connection over the limit": 1}


async def test_a_silent_connection_that_closes_makes_room_for_another_of_its_address() -> None:
    world = World(replace(LIMITS, connections_per_address=100, unaccepted_per_address=2))
    stays, goes = world.open("192.0.2.1"), world.open("192.0.2.1")
    world.connections.closed(goes)
    comes = world.open("192.0.2.1")
    assert not stays.channel.is_closing
    assert not comes.channel.is_closing

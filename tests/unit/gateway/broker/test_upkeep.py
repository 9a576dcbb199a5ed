"""Upkeep over time: each limit at its moment, and one that fails keeps no other from its turn."""

from __future__ import annotations

from typing import Any

import pytest
from log_world import LogWorld, Wire

from gateway.broker.hooks import Client
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import (
    NO_LONGER_LOGGED,
    NOT_QUEUED,
    UNRELEASED_WHEN_CROWDED,
    Budget,
    Limits,
)
from gateway.broker.upkeep import LATE_S, SWEEP_S, TURN_S
from gateway.mqtt import Connect, Disconnect, PingReq, Version, encode

V5 = Version.V5


class BrokenSocket(Wire):
    """Can't even be broken off."""

    def abort(self) -> None:
        raise RuntimeError("no such socket")


class WithBuffer(Wire):
    """Holds bytes that its client does not take."""

    held_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.held_bytes


def connected(world: LogWorld, wire: Wire) -> int:
    connection = Connection(world.core.service)
    connection.connection_made(wire)
    world.clients.append((connection, wire))
    return len(world.clients) - 1


async def greeted(world: LogWorld, client_id: str = "c", **fields: Any) -> int:
    number = world.opened()
    world.send(number, encode(Connect(V5, client_id, False, **fields), V5))
    await world.turn()
    assert world.written(number)[0].reason == 0
    world.clients[number][1].written.clear()
    return number


def sweep(world: LogWorld, to_s: float) -> bool:
    """Sweep as often as is due up to then, so that none is late."""
    is_done = True
    while world.now_s < to_s:
        world.now_s = min(to_s, world.now_s + SWEEP_S)
        is_done = world.core.upkeep.sweep(world.now_s)
    return is_done


@pytest.mark.parametrize(("at_s", "is_closed"), [(10.0, False), (10.1, True)])
async def test_a_connection_without_connect_is_closed_behind_its_time(
    at_s: float, *, is_closed: bool
) -> None:
    world = LogWorld(connect_s=10.0)
    number = world.opened()
    world.send(number, b"\x10")
    sweep(world, at_s)
    assert world.clients[number][1].is_closed == is_closed
    assert world.core.refusals.counts == ({"connection without CONNECT": 1} if is_closed else {})


@pytest.mark.parametrize(
    ("keep_alive_s", "at_s", "is_closed"),
    [(10, 15.0, False), (10, 15.1, True), (0, 60.0, False)],
)
async def test_a_client_is_silent_for_one_and_a_half_times_its_keep_alive_at_most(
    keep_alive_s: int, at_s: float, *, is_closed: bool
) -> None:
    """[MQTT-3.1.2-22]; 0 is for any time."""
    world = LogWorld()
    number = await greeted(world, keep_alive_s=keep_alive_s)
    sweep(world, at_s)
    told = world.written(number)
    assert told == ([Disconnect(0x8D, told[0].properties)] if is_closed else [])
    assert world.is_closing(number) == is_closed


@pytest.mark.parametrize(("at_s", "is_closed"), [(29.0, False), (29.1, True)])
async def test_who_speaks_in_time_may_be_silent_for_as_long_again(
    at_s: float, *, is_closed: bool
) -> None:
    world = LogWorld()
    number = await greeted(world, keep_alive_s=10)
    sweep(world, 14.0)
    world.send(number, encode(PingReq(), V5))
    sweep(world, at_s)
    assert world.is_closing(number) == is_closed


@pytest.mark.parametrize(("at_s", "is_closed"), [(55.0, False), (55.1, True)])
async def test_the_time_in_which_the_broker_does_not_read_is_no_silence(
    at_s: float, *, is_closed: bool
) -> None:
    world = LogWorld()
    number = await greeted(world, keep_alive_s=10)
    channel = world.clients[number][0].peer.channel
    channel.stall()
    sweep(world, 40.0)
    channel.resume()
    sweep(world, at_s)
    assert world.is_closing(number) == is_closed


@pytest.mark.parametrize(
    ("late_s", "is_closed"), [(LATE_S, False), (LATE_S - 0.01, True)], ids=["slept", "on time"]
)
async def test_the_time_in_which_nobody_could_be_heard_is_no_silence(
    late_s: float, *, is_closed: bool
) -> None:
    world = LogWorld()
    number = await greeted(world, keep_alive_s=10)
    sweep(world, 14.5)
    world.now_s += SWEEP_S + late_s
    world.core.upkeep.sweep(world.now_s)
    assert world.is_closing(number) == is_closed


@pytest.mark.parametrize(("after_s", "is_closed"), [(5.0, False), (5.1, True)])
async def test_who_does_not_close_after_its_last_packet_is_broken_off(
    after_s: float, *, is_closed: bool
) -> None:
    class Lingering(Wire):
        def can_write_eof(self) -> bool:
            return True

        def write_eof(self) -> None:
            pass

    world = LogWorld(close_s=5.0)
    wire = Lingering()
    number = connected(world, wire)
    sweep(world, 2.0)
    world.clients[number][0].peer.channel.close(linger=True)
    assert not wire.is_closed
    sweep(world, 2.0 + after_s)
    assert wire.is_closed == is_closed


async def test_a_connection_that_cannot_be_looked_at_keeps_no_other_from_its_end() -> None:
    world = LogWorld(connect_s=10.0)
    broken, other = connected(world, BrokenSocket()), world.opened()
    sweep(world, 10.5)
    assert (world.is_closing(broken), world.clients[other][1].is_closed) == (True, True)
    counts = world.core.refusals.counts
    assert counts["set aside: look at a connection"] == 1
    assert counts["connection without CONNECT"] == 2


async def test_sessions_that_end_together_end_for_a_turn_at_a_time() -> None:
    world = LogWorld()
    for name in "abc":
        number = await greeted(world, name, properties={17: 5})
        world.clients[number][0].connection_lost(None)
    world.now_s = 4.9
    assert world.core.upkeep.sweep(world.now_s)
    assert len(world.core.sessions) == 3
    world.now_s = 5.0 + 2 * TURN_S
    assert not world.core.upkeep.sweep(5.0), "the first has taken long"
    assert (len(world.core.sessions), world.core.sessions.expired) == (2, 1)
    assert world.core.upkeep.sweep(world.now_s)
    assert (len(world.core.sessions), world.core.sessions.expired) == (0, 3)


@pytest.mark.parametrize(
    ("held", "closed"), [((40, 30, 30), 0), ((40, 31, 30), 1), ((90, 60, 50), 2)]
)
async def test_of_too_much_in_all_buffers_those_who_hold_the_most_go_first(
    held: tuple[int, ...], closed: int
) -> None:
    world = LogWorld(all_buffers_bytes=100)
    wires = [WithBuffer() for _ in held]
    for wire, size in zip(wires, held, strict=True):
        connected(world, wire)
        wire.held_bytes = size
    world.now_s = 1.0
    world.core.upkeep.sweep(world.now_s)
    assert [wire.is_closed for wire in wires] == [at < closed for at in range(len(held))]
    assert world.core.upkeep.buffers_bytes == sum(held[closed:])
    kind = "connection that held most of too much in buffers"
    assert world.core.refusals.counts[kind] == closed


async def test_what_sessions_dropped_is_counted_once() -> None:
    world = LogWorld()
    world.core.budget.dropped, world.core.budget.trimmed = 3, 4
    for _ in range(2):
        world.core.upkeep.sweep(1.0)
        assert world.core.refusals.counts == {NOT_QUEUED: 3, NO_LONGER_LOGGED: 4}


@pytest.mark.parametrize(
    ("all_together", "of_one", "most"),
    [(500, 1_000, 1_000), (501, 1_000, UNRELEASED_WHEN_CROWDED), (501, 7, 7)],
)
def test_while_all_leave_too_many_unreleased_each_may_leave_a_hundred(
    all_together: int, of_one: int, most: int
) -> None:
    budget = Budget(Limits(all_unreleased_messages=500, unreleased_messages=of_one))
    budget.unreleased = all_together
    assert budget.unreleased_max == most
    assert UNRELEASED_WHEN_CROWDED == 100


async def test_a_listener_that_fails_keeps_no_session_from_its_end() -> None:
    """`each_listener` has it; the session's end is not left half done."""

    class Failing:
        def connected(self, client: Client) -> None:
            pass

        def disconnected(self, client: Client, why: str) -> None:
            raise RuntimeError(why)

        def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
            pass

        def unsubscribed(self, client: Client, topic_filter: str) -> None:
            pass

    world = LogWorld({"events": Failing()})
    number = await greeted(world)
    world.clients[number][0].connection_lost(None)
    assert (len(world.core.sessions), world.core.sessions.connected) == (0, 0)


async def test_while_clients_do_not_read_buffers_are_looked_at_20_times_a_second_at_most() -> None:
    world = LogWorld(all_buffers_bytes=100)
    wire = WithBuffer()
    connected(world, wire)
    world.now_s = 1.0
    world.core.upkeep.sweep(1.0)
    wire.held_bytes = 200
    world.core.upkeep.clients_do_not_read(1.049)
    assert (wire.is_closed, world.core.upkeep.buffers_bytes) == (False, 0)
    world.core.upkeep.clients_do_not_read(1.051)
    assert wire.is_closed


async def test_a_client_that_came_too_often_may_come_again_and_is_forgotten_when_it_rests() -> None:
    world = LogWorld(connects_per_minute_of_client=3)
    client = Client("c", None, "", 5)
    sessions = world.core.sessions
    assert [sessions.comes_too_often(client) for _ in range(4)] == [False, False, False, True]
    assert not sessions.comes_too_often(Client("d", None, "", 5))
    world.now_s = 60.0
    world.core.upkeep.sweep(world.now_s)
    assert [sessions.comes_too_often(client) for _ in range(4)] == [False, False, False, True]

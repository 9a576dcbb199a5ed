"""The socket of one client: what is written when, what waits, what is dropped, how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_clock import Clock
from memory_transport import MemoryTransport

from gateway.base.turns import Turns
from gateway.broker.limits import NOT_TOLD, TOO_LARGE, UNREAD, Limits, counted_refusals
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.statistics.traffic import Traffic
from gateway.mqtt import Publish, Version, encode

HELD = 100
"""`Limits.held_bytes` here."""
PING = b"\xd0\0"


class Calls(MemoryTransport):
    """Notes what is asked of it besides writing."""

    def __init__(
        self, peername: Any = ("192.0.2.7", 50_000), *, ends_one_side: bool = False
    ) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self._peername = peername
        self._ends_one_side = ends_one_side

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peername if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append((high, low))

    def get_write_buffer_size(self) -> int:
        return 7

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def can_write_eof(self) -> bool:
        return self._ends_one_side

    def write_eof(self) -> None:
        self.calls.append("eof")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


class Holding:
    """A session that notes what it is told."""

    def __init__(self, ticket: int = 0) -> None:
        self.ticket = ticket
        self.told: list[Any] = []

    def hold(self) -> None:
        self.told.append("hold")

    def resume(self, now_s: float) -> None:
        self.told.append(now_s)

    def __str__(self) -> str:
        return "the session"


class World:
    """A channel over a transport, with a session, at a time that the test moves."""

    def __init__(self, **transport: Any) -> None:
        self.clock = Clock()
        self.clock.now_s = 50.0
        limits = Limits(held_bytes=HELD, write_buffer_bytes=4_321)
        refusals = counted_refusals(self.clock.time)
        turns = Turns(lambda: False)
        self.output = PendingWrites(turns, limits, refusals, Traffic(), self.clock.time)
        self.counts = refusals.counts
        self.channel = Channel(self.output)
        self.transport = Calls(**transport)
        self.channel.opened(self.transport)
        self.session = Holding()
        self.channel.serve(self.session)
        self.transport.calls.clear()

    def written(self) -> bytes:
        """The bytes that were written since the last call, after the end of a turn."""
        for channel in self.output.dirty:
            channel.write()
        self.output.dirty.clear()
        data = bytes(self.transport.written)
        self.transport.written.clear()
        return data


async def test_a_new_connection_has_counted_nothing_and_was_heard_when_it_was_opened() -> None:
    channel = World().channel
    assert (channel.opened_s, channel.heard_at_s, channel.closing_at_s) == (50.0, 50.0, 0.0)
    assert (channel.bytes_read, channel.bytes_sent, channel.dropped) == (0, 0, 0)
    assert (channel.packets_read, channel.packets_sent, channel.ranked_bytes) == (0, 0, 0)
    assert (channel.held_ticket, channel.unsafe_bytes) == (0, 0)
    assert (channel.is_closing, channel.is_lingering) == (False, False)
    assert (channel.is_answered, channel.is_particular) == (False, False)
    assert (channel.is_paused, channel.is_stalled, channel.is_unread) == (False, False, False)
    assert channel.version == Version.V311
    assert channel.buffered_bytes == 7, "what the transport has"


@pytest.mark.parametrize(
    ("peername", "address"),
    [
        (("192.0.2.7", 50_000), "192.0.2.7"),
        (("2001:db8::7", 50_000, 0, 0), "2001:db8::7"),
        ("/run/socket", "?"),
        ((), "?"),
        (None, "?"),
    ],
)
async def test_a_client_is_known_by_its_address_without_port_until_it_has_a_session(
    peername: Any, address: str
) -> None:
    world = World(peername=peername)
    assert (world.channel.address, str(world.channel)) == (address, "the session")
    world.channel.serve(None)
    assert str(world.channel) == address
    world.channel.opened(world.transport)
    assert world.transport.calls == [(4_321, None)]


async def test_what_gathers_in_a_turn_is_written_at_once_at_its_end_and_counted() -> None:
    world = World()
    world.channel.send(PING)
    world.channel.send_message(b"12345")
    world.channel.offer(b"123")
    assert world.transport.written == b""
    assert world.output.dirty == [world.channel]
    assert world.written() == PING + b"12345" + b"123"
    traffic = world.output.traffic
    assert (traffic.packets_sent, traffic.bytes_sent) == (3, 10)
    assert (traffic.sent_others, traffic.sent_other_bytes) == (1, 2)
    assert (world.channel.packets_sent, world.channel.bytes_sent) == (3, 10)
    assert (traffic.delivered, traffic.delivered_bytes) == (2, 8)


async def test_a_packet_that_a_client_does_not_take_ends_its_connection() -> None:
    """[MQTT-3.1.2-24]: it is not sent, and its client would wait for it."""
    world = World()
    world.channel.packet_bytes_max = 3
    assert world.channel.is_particular
    world.channel.send(b"123")
    assert world.written() == b"123"
    world.channel.send(b"123")
    world.channel.send(b"1234")
    assert world.channel.is_closing
    assert world.counts == {NOT_TOLD: 1}
    assert world.written() == b"\xe0\x01\x95", "DISCONNECT, Packet too large, and nothing before"
    assert world.transport.calls == ["close"]


async def test_a_client_that_takes_no_farewell_so_large_is_told_none() -> None:
    world = World()
    world.channel.packet_bytes_max = 2
    world.channel.send(b"123")
    assert (world.written(), world.transport.calls) == (b"", ["close"])


@pytest.mark.parametrize("length", [5, 6])
async def test_a_qos_0_message_goes_to_whom_takes_one_so_large(length: int) -> None:
    world = World()
    world.channel.packet_bytes_max = 5
    world.channel.offer(bytes(length))
    dropped = length - 5
    assert len(world.written()) == (0 if dropped else 5)
    assert world.channel.dropped == dropped
    assert world.counts == ({TOO_LARGE: 1} if dropped else {})


async def test_while_a_client_does_not_read_messages_wait_and_qos_0_is_dropped_beyond_a_limit() -> (
    None
):
    world = World()
    channel = world.channel
    channel.pause_writing()
    assert channel.is_paused and world.output.is_unread
    assert world.session.told == ["hold"]
    channel.offer(bytes(60))
    channel.offer(bytes(40))
    assert channel.buffered_bytes == HELD + 7
    channel.offer(b"1")
    assert (channel.dropped, world.counts) == (1, {UNREAD: 1})
    assert (world.written(), channel.is_unread, channel.is_stalled) == (b"", False, False)
    world.clock.now_s = 60.0
    channel.resume_writing()
    assert len(world.written()) == HELD
    assert (world.session.told, channel.buffered_bytes) == (["hold", 60.0], 7)


async def test_who_does_not_read_its_answers_is_not_read_from_beyond_the_limit() -> None:
    world = World()
    channel = world.channel
    channel.pause_writing()
    channel.send(bytes(HELD))
    assert (channel.is_unread, channel.is_stalled, world.transport.calls) == (False, False, [])
    channel.send(b"1")
    channel.send(b"1")  # it is paused once
    assert (channel.is_unread, channel.is_stalled, world.transport.calls) == (True, True, ["pause"])
    world.clock.now_s = 60.0
    channel.resume_writing()
    assert (channel.is_unread, channel.is_stalled) == (False, False)
    assert world.transport.calls == ["pause", "resume"]
    assert channel.heard_at_s == 60.0, "the time in which it was not heard does not count"
    assert len(world.written()) == HELD + 2


async def test_of_two_reasons_not_to_write_both_must_end() -> None:
    world = World()
    world.channel.pause_writing()
    world.channel.send(PING)
    world.channel.pause_writing()
    world.channel.resume_writing()
    assert (world.channel.is_paused, world.channel.buffered_bytes) == (True, 2 + 7)
    assert (world.session.told, world.written()) == (["hold"], b"")
    world.channel.resume_writing()
    assert (world.session.told, world.written()) == (["hold", 50.0], PING)


async def test_of_two_reasons_not_to_read_both_must_end() -> None:
    world = World()
    for _ in range(2):
        world.channel.stall()
    world.channel.resume()
    assert (world.channel.is_stalled, world.transport.calls) == (True, ["pause"])
    world.channel.resume()
    assert (world.channel.is_stalled, world.transport.calls) == (False, ["pause", "resume"])


@pytest.mark.parametrize("ticket", [0, 3, 9])
async def test_what_stands_on_the_journal_waits_for_the_later_of_two_frames(ticket: int) -> None:
    world = World()
    world.session.ticket = ticket
    world.channel.held_ticket = 5
    assert world.channel.stands_on() == max(5, ticket)
    world.channel.serve(None)
    assert world.channel.stands_on() == 5


async def test_beyond_a_limit_of_what_is_not_safe_a_client_counts_as_one_that_does_not_read() -> (
    None
):
    world = World()
    channel = world.channel
    channel.send(bytes(HELD))
    first = channel.take(3)
    assert (len(first), channel.held_ticket, channel.unsafe_bytes) == (HELD, 3, HELD)
    assert not channel.is_paused
    channel.send(b"1")
    second = channel.take(4)
    assert (second, channel.held_ticket, channel.is_paused) == (b"1", 4, True)
    channel.send(b"2")
    assert (channel.take(5), channel.held_ticket) == (b"", 4)
    assert world.output.traffic.bytes_sent == 0
    world.clock.now_s = 60.0
    channel.let_go(second)
    assert (channel.is_paused, channel.unsafe_bytes) == (False, HELD)
    assert (channel.is_answered, channel.heard_at_s) == (True, 60.0)
    world.clock.now_s = 70.0
    channel.let_go(first)
    assert (channel.unsafe_bytes, channel.heard_at_s) == (0, 60.0)
    assert world.written() == b"1" + bytes(HELD) + b"2"
    assert world.output.traffic.bytes_sent == channel.bytes_sent == HELD + 2
    assert world.output.traffic.packets_sent == channel.packets_sent == 3


async def test_nothing_is_taken_or_let_go_for_a_client_that_has_gone() -> None:
    world = World()
    world.channel.send(PING)
    packets = world.channel.take(1)
    world.channel.send(PING)
    assert world.channel.gone() is world.transport
    assert (world.channel.transport, world.channel.is_closing) == (None, True)
    assert world.channel.take(2) == b""
    world.channel.let_go(packets)
    assert (world.written(), world.channel.bytes_sent, world.channel.unsafe_bytes) == (b"", 0, 0)
    assert world.channel.buffered_bytes == 0
    assert world.channel.gone() is None


async def test_a_connection_ends_with_what_has_gathered_and_a_farewell_once() -> None:
    world = World()
    world.channel.pause_writing()
    world.channel.send(PING)
    world.clock.now_s = 60.0
    world.channel.close(b"bye")
    world.channel.close(b"bye")
    world.channel.send(PING)
    assert world.written() == PING + b"bye"
    assert (world.channel.closing_at_s, world.channel.is_lingering) == (60.0, False)
    assert world.transport.calls == ["close"]


async def test_what_a_crash_could_take_back_is_not_written_at_the_end() -> None:
    world = World()
    world.channel.send(PING)
    world.channel.close(b"bye", may_leave=False)
    assert world.written() == b"bye"


@pytest.mark.parametrize("is_stalled", [False, True])
async def test_who_is_told_why_may_close_first_and_is_read_until_then(*, is_stalled: bool) -> None:
    world = World(ends_one_side=True)
    if is_stalled:
        world.channel.stall()
    world.channel.close(b"bye", linger=True)
    assert (world.channel.is_lingering, world.written()) == (True, b"bye")
    assert world.transport.calls == (["pause", "eof", "resume"] if is_stalled else ["eof"])


async def test_a_transport_that_cannot_end_one_side_is_closed_at_once() -> None:
    world = World()
    world.channel.close(b"bye", linger=True)
    assert (world.channel.is_lingering, world.transport.calls) == (False, ["close"])
    alone = Channel(world.output)
    alone.close(b"bye")
    assert (alone.is_closing, alone.is_lingering) == (True, False)


async def test_a_connection_that_is_broken_off_sends_nothing_more() -> None:
    world = World()
    world.channel.stall()
    world.channel.send(PING)
    world.channel.abort()
    world.channel.resume()
    assert (world.written(), world.transport.calls) == (b"", ["pause", "abort"])
    world.channel.pause_writing()
    world.channel.resume_writing()
    assert world.session.told == ["hold"], "its messages wait for the next connection"
    Channel(world.output).abort()


async def test_topics_are_shortened_for_whom_allows_it_within_its_maximum_packet_size() -> None:
    world = World()
    world.channel.aliases = OutgoingAliases(1)
    assert world.channel.is_particular
    packets = [
        encode(Publish("a/topic", b"x", qos, False, False, qos or None, {}), Version.V5)
        for qos in (0, 1)
    ]
    world.channel.packet_bytes_max = len(packets[1])
    world.channel.offer(packets[0])
    world.channel.send_message(packets[1])
    with_alias = Publish("a/topic", b"x", 0, False, False, None, {35: 1})
    alone = Publish("", b"x", 1, False, False, 1, {35: 1})
    first = encode(with_alias, Version.V5)
    assert len(first) == len(packets[0]) + 3 > len(packets[1])
    assert world.written() == b"".join(packets), "with the new alias it would be too large"
    world.channel.packet_bytes_max = len(first)
    world.channel.offer(packets[0])
    world.channel.send_message(packets[1])
    assert world.written() == first + encode(alone, Version.V5)


async def test_a_turn_in_which_a_client_ceased_to_read_ends_though_nothing_is_written() -> None:
    """Whoever looks after the buffers of all comes then."""
    ends: list[bool] = []

    def end() -> bool:
        ends.append(output.is_unread)
        return False

    counted = counted_refusals(lambda: 0.0)
    output = PendingWrites(Turns(end), Limits(), counted, Traffic(), lambda: 0.0)
    Channel(output).pause_writing()
    await asyncio.sleep(0)
    assert (ends, output.dirty) == ([True], [])

"""A neighbour that has much to say lets others have their turn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from gateway.node.links import link as link_module
from gateway.node.links import wire
from gateway.node.links.link import LARGE_READ_BYTES, UNREAD_LIMIT_BYTES, Link
from gateway.node.links.link_turns import MAX_DEBT, LinkTurns
from gateway.node.links.wire import LinkPacket

ALL_THE_TIME_S = 60.0
"""A part of a round that no machine uses up with a test's few packets."""


class Transport:
    """A transport as a link needs it; it notes the calls and the bytes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.written = b""
        self.writes = 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing is buffered here."""

    def get_extra_info(self, name: str) -> None:
        """It is no socket."""

    def is_closing(self) -> bool:
        return "abort" in self.calls

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.calls.append("abort")

    def writelines(self, buffers: list[bytes]) -> None:
        self.written += b"".join(buffers)
        self.writes += 1


@pytest.fixture
async def served() -> tuple[Link, Transport, list[LinkPacket]]:
    link, transport, got = Link(), Transport(), []
    link.connection_made(cast(asyncio.Transport, transport))
    turns = LinkTurns(ALL_THE_TIME_S)
    serving = asyncio.create_task(link.serve(lambda _, packet: got.append(packet), turns))
    await asyncio.sleep(0)
    assert not serving.done()
    return link, transport, got


async def test_a_large_read_is_followed_by_a_turn_of_others(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, got = served
    link.data_received(wire.publish(b"t", bytes(LARGE_READ_BYTES // 4)) * 4)
    assert len(got) == 4
    assert transport.calls == ["pause"]
    await asyncio.sleep(0)
    assert transport.calls == ["pause", "resume"]


async def test_a_small_read_is_not(served: tuple[Link, Transport, list[LinkPacket]]) -> None:
    link, transport, _ = served
    link.data_received(wire.ping(1, b""))
    await asyncio.sleep(0)
    assert transport.calls == []


async def test_a_link_that_ends_after_a_large_read_is_not_read_on(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    link.data_received(wire.publish(b"t", bytes(LARGE_READ_BYTES // 4)) * 4)
    link.close()
    await asyncio.sleep(0)
    assert transport.calls == ["pause", "abort"]


async def test_bytes_are_acknowledged_when_they_are_dealt_with(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    link.data_received(wire.publish(b"t", bytes(20_000)))
    await asyncio.sleep(0)
    reader = wire.LinkReader()
    reader.feed(transport.written)
    acknowledgement = reader.next()
    assert acknowledgement is not None
    assert acknowledgement.type is wire.Type.PUBACK
    assert wire.taken(acknowledgement.body) == link.received_bytes


async def test_what_a_turn_has_for_a_neighbour_goes_in_two_writes_the_first_of_it_at_once(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    for number in range(32):
        link.send_control(b"$hedgerow/to", b"%d" % number)
        assert transport.writes == 1
    await asyncio.sleep(0)
    assert transport.writes == 2
    assert transport.written.count(b"$hedgerow/to") == 32


async def between_rounds(got: list[LinkPacket], count: int) -> None:
    """Let rounds pass until so many packets are there; none brings more than one."""
    while len(got) < count:
        before = len(got)
        await asyncio.sleep(0)
        assert len(got) <= before + 1


@pytest.fixture
async def busy() -> AsyncIterator[tuple[list[Link], list[Transport], list[LinkPacket]]]:
    """Two links of a node whose part of a round is enough for one packet."""
    links, transports = [Link(), Link()], [Transport(), Transport()]
    got: list[LinkPacket] = []
    turns = LinkTurns(part_s=1e-9)
    serving = []
    for link, transport in zip(links, transports, strict=True):
        link.connection_made(cast(asyncio.Transport, transport))
        serve = link.serve(lambda _, packet: got.append(packet), turns)
        serving.append(asyncio.create_task(serve))
    await asyncio.sleep(0)
    yield links, transports, got
    for link in links:
        link.close()
    await asyncio.gather(*serving)


async def test_packets_that_make_more_work_than_a_part_of_a_round_wait_and_nothing_is_read(
    busy: tuple[list[Link], list[Transport], list[LinkPacket]],
) -> None:
    (link, _), (transport, _), got = busy
    link.data_received(b"".join(wire.ping(number, b"") for number in range(5)))
    assert len(got) == 1
    assert transport.calls == ["pause"]
    await between_rounds(got, 5)
    assert transport.calls[-1] == "resume"
    assert [wire.split_ping(packet.body)[0] for packet in got] == list(range(5))


async def test_links_take_turns(
    busy: tuple[list[Link], list[Transport], list[LinkPacket]],
) -> None:
    (flooding, other), _, got = busy
    flooding.data_received(wire.ping(1, b"") * 100)
    other.data_received(wire.ping(2, b"") * 2)
    await between_rounds(got, 102)
    at = [at for at, packet in enumerate(got) if wire.split_ping(packet.body)[0] == 2]
    assert at == [2, 4]


async def test_what_came_before_a_connection_went_counts(
    busy: tuple[list[Link], list[Transport], list[LinkPacket]],
) -> None:
    (link, _), _, got = busy
    link.data_received(wire.ping(1, b"") * 4 + wire.disconnect())
    link.connection_lost(None)
    await between_rounds(got, 4)
    while not link.was_left:
        await asyncio.sleep(0)


async def test_a_link_that_ends_while_it_waits_hands_up_no_more(
    busy: tuple[list[Link], list[Transport], list[LinkPacket]],
) -> None:
    (link, other), (transport, _), got = busy
    link.data_received(wire.ping(1, b"") * 4)
    link.close()
    other.data_received(wire.ping(2, b"") * 2)
    await between_rounds(got, 3)
    assert [wire.split_ping(packet.body)[0] for packet in got] == [1, 2, 2]
    assert "resume" not in transport.calls


async def test_a_packet_that_takes_long_takes_the_parts_of_later_rounds() -> None:
    turns, rounds = LinkTurns(part_s=1.0), 0
    turns.took(3.5)
    while turns.left_s() <= 0:
        rounds += 1
        await asyncio.sleep(0)
    assert rounds == 3
    assert turns.left_s() == 0.5
    turns.took(1_000.0)
    while turns.left_s() <= 0:
        rounds += 1
        await asyncio.sleep(0)
    assert rounds <= 3 + MAX_DEBT


@pytest.mark.parametrize("pauses", [True, False])
async def test_a_link_that_is_held_without_a_break_ends_and_one_that_pauses_stays(
    monkeypatch: pytest.MonkeyPatch, *, pauses: bool
) -> None:
    monkeypatch.setattr(link_module, "HELD_MAX_S", 0.0)
    link, seen = Link(), 0
    link.connection_made(cast(asyncio.Transport, Transport()))

    def receive(held: Link, _: LinkPacket) -> None:
        nonlocal seen
        seen += 1
        held.hold(0.002 * (seen % 2 or not pauses))

    serving = asyncio.create_task(link.serve(receive, LinkTurns(ALL_THE_TIME_S)))
    await asyncio.sleep(0)
    link.data_received(wire.ping(1, b"") * 50)
    while not serving.done() and seen < 50:
        await asyncio.sleep(0.001)
    assert serving.done() is not pauses
    link.close()
    assert ("has said more" in await serving) is not pauses


async def test_bytes_that_wait_are_not_acknowledged(
    busy: tuple[list[Link], list[Transport], list[LinkPacket]],
) -> None:
    (link, _), (transport, _), got = busy
    link.data_received(wire.publish(b"t", bytes(20_000)) * 2)
    assert len(got) == 1
    await asyncio.sleep(0)
    reader = wire.LinkReader()
    reader.feed(transport.written)
    taken = []
    while (packet := reader.next()) is not None:
        taken.append(wire.taken(packet.body))
    assert taken[0] == link.received_bytes // 2


async def test_a_neighbour_that_acknowledges_and_reads_nothing_loses_its_link() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    link = Link()
    await loop.create_connection(lambda: link, sock=ours)
    serving = asyncio.create_task(link.serve(lambda _, packet: None))
    await asyncio.sleep(0)
    most_bytes = 0
    while not serving.done():
        link.send_batch(b"t", bytes(30_000))
        link.data_received(wire.puback(link.window.sent))
        most_bytes = max(most_bytes, link.queued_bytes)
        await asyncio.sleep(0)
    assert "does not read" in await serving
    assert most_bytes < 2 * UNREAD_LIMIT_BYTES
    theirs.close()


async def test_what_is_held_after_a_large_read_is_not_read_on_before_its_time() -> None:
    link, transport, got = Link(), Transport(), list[LinkPacket]()
    link.connection_made(cast(asyncio.Transport, transport))

    def receive(held: Link, packet: LinkPacket) -> None:
        got.append(packet)
        if packet.topic == b"":
            held.hold(0.001)

    serving = asyncio.create_task(link.serve(receive, LinkTurns(ALL_THE_TIME_S)))
    await asyncio.sleep(0)
    part = wire.publish(b"t", bytes(LARGE_READ_BYTES // 4))
    link.data_received(part * 4)
    link.data_received(wire.ping(1, b"") + wire.ping(2, b""))
    await asyncio.sleep(0)  # the turn in which the large read would go on
    assert (transport.calls, len(got)) == (["pause", "pause"], 5)
    while "resume" not in transport.calls:
        await asyncio.sleep(0.001)
    assert len(got) == 6
    link.close()
    await serving


async def test_whoever_fails_at_a_packet_that_has_waited_ends_the_link_with_the_reason() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    link, transport = Link(), Transport()
    link.connection_made(cast(asyncio.Transport, transport))
    failure = LookupError("no such thing")

    def receive(_: Link, packet: LinkPacket) -> None:
        if wire.split_ping(packet.body)[0]:
            raise failure

    serving = asyncio.create_task(link.serve(receive, LinkTurns(part_s=1e-9)))
    await asyncio.sleep(0)
    link.data_received(wire.ping(0, b"") + wire.ping(1, b""))
    assert await serving == repr(failure)
    assert failures == [failure]
    assert transport.calls[-1] == "abort"
    assert "resume" not in transport.calls


async def test_a_control_message_goes_among_the_hellos_if_it_is_short_enough_for_that(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    longest = bytes(wire.PIECE_BYTES)
    link.send(wire.ping(1, b""))
    link.send_control(b"c", b"control")
    link.send_ahead(b"a", longest)
    link.send_ahead(b"b", longest + b"x")
    link.send_ahead(b"d", b"")
    for _ in range(3):
        await asyncio.sleep(0)
        link.data_received(wire.puback(link.window.sent))
    reader = wire.LinkReader(wire.MAX_PACKET_BYTES)
    reader.feed(transport.written)
    assembly = wire.Assembly()
    said = [one for packet in iter(reader.next, None) if (one := assembly.add(packet)) is not None]
    assert [(one.topic, len(one.body)) for one in said] == [
        (b"", 4),
        (b"a", len(longest)),
        (b"d", 0),
        (b"c", 7),
        (b"b", len(longest) + 1),
    ]


async def test_a_neighbour_that_does_not_read_loses_its_link_by_its_control_messages() -> None:
    link, transport = Link(), Transport()
    link.connection_made(cast(asyncio.Transport, transport))
    serving = asyncio.create_task(link.serve(lambda _, packet: None))
    await asyncio.sleep(0)
    part = bytes(1 << 20)
    for _ in range(33):
        link.send_control(b"t", part)
        await asyncio.sleep(0)
    assert await serving == "the neighbour does not read: control messages queued over the limit"
    assert transport.calls == ["abort"]
    with pytest.raises(OSError, match="does not read"):
        await link.room()


async def test_a_link_whose_connection_has_gone_is_finished_at_once() -> None:
    link, transport = Link(), Transport()
    link.connection_made(cast(asyncio.Transport, transport))
    link.connection_lost(ConnectionResetError(104, "x"))
    await link.finish()
    assert (transport.written, link.queued_bytes) == (b"", 0)
    never = Link()
    await never.finish()
    assert never.queued_bytes == 0


async def test_those_that_wait_keep_their_order_when_a_round_is_used_up() -> None:
    row, went = LinkTurns(part_s=1.0), list[int]()

    def waiter(number: int, takes_s: float) -> Callable[[], None]:
        def go_on() -> None:
            went.append(number)
            row.took(takes_s)

        return go_on

    for number, takes_s in enumerate((0.5, 0.5, 0.0, 2.5, 0.0)):
        row.wait(waiter(number, takes_s))
    rounds = []
    for _ in range(5):
        await asyncio.sleep(0)
        rounds.append(list(went))
        went.clear()
    assert rounds == [[0, 1], [2, 3], [], [4], []]
